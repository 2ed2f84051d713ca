"""What the page, the commands and the docs say in words is true: each sentence beside its mathematics."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

import seedscope as ss
from seedscope.analyses.membership import MembershipTests, likelihood_ratio_tests
from seedscope.analyses.reconstruction import record_bounds
from seedscope.auditing.audit import audit
from seedscope.auditing.groups import group_accuracy
from seedscope.auditing.judged import membership_sentence
from seedscope.auditing.records import personal_error, standardised_error
from seedscope.auditing.sandwich import make_sandwich
from seedscope.auditing.words import GLOSSARY, guarantee_meaning
from tests.helpers.present import present

ROOT = Path(__file__).parents[2]
GONE = (
    "odds of any outcome",
    "but for a chance of {delta",
    "helps no more than the average",
    "points of accuracy (mean",
    "of the best membership attack: 0 is guessing",
    "the best attack proves",
    "chance that is left out",
    "privacy loss is at most this",
    "likelier because of one person",
)


def test_no_sentence_that_was_found_wrong_is_said_anywhere() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.j2"), *(ROOT / "docs").rglob("*.md")]
    found = [(path.name, words) for path in files for words in GONE if words in " ".join(path.read_text().split())]
    assert found == []


def test_probability_and_not_odds_grows_by_the_factor() -> None:
    epsilon = 1.0
    without = 0.5 / math.exp(epsilon)  # an outcome that ε allows to become e^ε times as probable
    with_person = math.exp(epsilon) * without
    odds = with_person / (1 - with_person) / (without / (1 - without))
    assert odds > 1.2 * math.exp(epsilon)
    assert "probable" in guarantee_meaning(epsilon, 0.0)
    assert "odds that they are there" in guarantee_meaning(epsilon, 0.0)
    assert "odds" not in guarantee_meaning(epsilon, 1e-5)
    assert "plus 1e-05" in guarantee_meaning(epsilon, 1e-5)


def test_a_loss_above_epsilon_is_several_times_as_probable_as_delta() -> None:
    noise_scale, delta = 1.0, 1e-5
    epsilon = float(ss.accounting.gaussian_epsilon(1.0, noise_scale, delta))
    beyond = ndtr(-(epsilon - 0.5))  # the loss is N(1/2, 1) for sensitivity 1 and σ = 1
    assert beyond > 4 * delta
    assert "not the chance that the promise fails" in GLOSSARY["δ (delta)"]


def test_a_guess_that_starts_from_the_average_beats_the_bound_on_unbiased_guesses() -> None:
    draw = np.random.default_rng(0)
    prior, noise = 1.0, 1.5  # a feature of deviation 1, seen with noise: I = 1/1.5²
    truth = draw.normal(0, prior, 200_000)
    seen = truth + draw.normal(0, noise, truth.size)
    unbiased, bayes = np.mean((seen - truth) ** 2), np.mean((seen / (1 + noise**2) - truth) ** 2)
    assert unbiased > 1 > bayes
    assert bayes == pytest.approx(1 / (1 / noise**2 + 1), rel=0.02)


def test_the_share_left_is_van_trees_and_below_the_unbiased_bound() -> None:
    data, mechanism = ss.load("breast-cancer"), ss.OutputPerturbation(noise_scale=0.002)
    regression = mechanism.regression(data, ss.Standardised().fit(data))
    bounds = record_bounds(data, mechanism, ss.Standardised(), regression=regression)
    assert bounds.left is not None
    assert bounds.information is not None
    left = bounds.left[0]
    assert ((left > 0) & (left < 1)).all()
    assert (left <= personal_error(bounds)).all()  # unbiased, by the same information
    assert (left <= standardised_error(bounds)).mean() > 0.99  # proved, so weak for values that are far from all others
    slow = [[1 / (s**2 * i + 1) for s, i in zip(bounds.spreads, row, strict=True)] for row in
            bounds.information.value[:3]]  # fmt: skip
    np.testing.assert_allclose(left[:3], np.mean(slow, axis=1))


@pytest.mark.parametrize(("people", "accuracy"), [(10, 0.95), (10, 0.7), (25, 0.9), (60, 0.55)])
def test_a_groups_accuracy_is_covered_as_often_as_stated(people: int, accuracy: float) -> None:
    draw, covered = np.random.default_rng(people), 0
    for _ in range(400):
        sure = draw.random(people) < 0.8  # most people are settled, the others hang on the seed
        right = np.where(sure, draw.random(people) < accuracy, draw.binomial(30, accuracy, people) / 30)
        found = group_accuracy(right, 0.95)
        assert found is not None
        covered += present(found.lower) <= accuracy <= present(found.upper)
    assert covered >= 0.95 * 400 - 13  # three standard errors


def test_group_accuracy_is_of_single_models_not_of_their_majority() -> None:
    found = group_accuracy(np.full(20, 0.6), 0.95)  # the majority would be right about everybody
    assert float(present(found)) == pytest.approx(0.6)


def test_a_disagreement_above_one_is_shown_as_one() -> None:
    data = ss.from_arrays(*coin_tosses())
    found = audit(ss.train(data, ss.ObjectivePerturbation(0.3), grid=ss.Grid(seeds=9, neighbours=2), jobs=1))
    assert found.levels[0].multiplicity.disagreement.max() > 1  # unbiased, for means
    assert found.individuals["disagreement"].max() == 1


def coin_tosses() -> tuple[np.ndarray, np.ndarray]:
    """Return features that say nothing about the labels."""
    draw = np.random.default_rng(3)
    return draw.normal(size=(80, 2)), draw.integers(0, 2, 80)


def attacks_on(people: int, seeds: int, shift: float, seed: int) -> tuple[MembershipTests, float]:
    """Return attacks on people whose loss falls by a shift when they are in, and the shift's true advantage."""
    draw = np.random.default_rng(seed)
    common = draw.normal(size=(seeds, people))
    logit = common + draw.normal(size=(seeds, people)) * 0.5
    other = common + draw.normal(size=(seeds, people)) * 0.5 - shift
    found = likelihood_ratio_tests(np.log1p(np.exp(-logit)), np.log1p(np.exp(-other)))
    return found, float(2 * ndtr(shift / math.sqrt(1.25) / 2) - 1)


def test_what_is_shown_of_people_holds_for_all_of_them_at_once() -> None:
    found, _ = attacks_on(people=30, seeds=60, shift=2.0, seed=0)
    assert (found.epsilon_lower_together <= found.epsilon_lower).all()
    lower, upper = found.advantage_bounds
    assert (lower <= found.advantage).all()
    assert (found.advantage <= upper).all()


@pytest.mark.parametrize(("shift", "undecided"), [(0.0, True), (6.0, False)])
def test_an_attack_that_shows_nothing_is_called_undecided(shift: float, undecided: bool) -> None:
    tests, _ = attacks_on(people=5, seeds=60, shift=shift, seed=0)
    sentence = membership_sentence(tests)
    assert ("undecided" in sentence) == undecided
    assert ("proves" in sentence) != undecided


def test_bounds_on_advantages_hold_for_all_people_at_once_as_often_as_stated() -> None:
    missed = 0
    for seed in range(120):
        found, most = attacks_on(people=8, seeds=60, shift=0.8, seed=seed)
        lower, upper = found.advantage_bounds
        missed += bool((lower > most).any())  # the attack that was fitted is at most as good as the best
        assert (upper - lower < 1.2).all()
    assert missed <= 12


def test_bounds_on_the_advantage_of_a_fixed_attack_cover_the_truth() -> None:
    draw, missed, seeds, people = np.random.default_rng(1), 0, 60, 8
    for _ in range(300):
        only_with, only_without = draw.binomial(seeds, 0.15, people), draw.binomial(seeds, 0.05, people)
        blank = np.zeros(people)
        found = MembershipTests(
            0.95, seeds, blank, blank, blank, blank, ss.Number(0, "estimate"), ss.Number(0, "estimate"), 0.0, blank,
            blank, only_with, only_without,
        )  # fmt: skip
        lower, upper = found.advantage_bounds
        missed += bool(((lower > 0.1) | (upper < 0.1)).any())
    assert missed <= 15


def test_false_alarms_add_up_as_stated() -> None:
    found, _ = attacks_on(people=3, seeds=40, shift=0.1, seed=2)
    alone = make_sandwich(found, 1.0, None, np.arange(3), "replace-one")
    nothing = make_sandwich(found, None, None, np.arange(3), "replace-one")
    assert alone.false_alarm == pytest.approx(0.05)
    assert nothing.false_alarm == 0
    page = " ".join((ROOT / "docs" / "audit.md").read_text().split())
    assert "5 % at each level by the proof, and 10 % by people's own bounds" in page


def test_who_attacks_is_said_beside_what_the_attack_reaches() -> None:
    data, records = ss.load("breast-cancer"), ss.Records(probes=("test",), losses_of="train")
    mechanism = ss.DPSGD(batch_size=100, steps=5, noise_multiplier=4.0, delta=1e-6)
    found = audit(ss.train(data, mechanism, grid=ss.Grid(30), records=records, jobs=1), data=data)
    declared = {entry["name"]: entry["value"] for entry in found.as_dict()["verdict"]["declared"]}
    assert "by one who sees every step of training" in present(found.facts[0]["advantage"]).note
    assert "every step of training" in declared["Attacker"]
    alone = audit(ss.train(data, ss.ObjectivePerturbation(1.0), grid=ss.Grid(30), records=records, jobs=1), data=data)
    assert "by one who sees the released model" in present(alone.facts[0]["advantage"]).note
    said = next(one["value"] for one in alone.as_dict()["verdict"]["declared"] if one["name"] == "Attacker")
    assert said.endswith("sees the final model")
