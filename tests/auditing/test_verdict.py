"""The verdict on planted situations: what must be released is, what must not is not, and the reason is named."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import seedscope as ss
from seedscope.auditing.audit import Audit, audit
from seedscope.auditing.facts import decided_without_privacy, facts, repeated_rows
from seedscope.auditing.judged import judge_report
from seedscope.auditing.policy import Policy, read_policy
from seedscope.auditing.verdict import Case, judge
from seedscope.core import Kind, Number
from seedscope.datasets import from_frame
from seedscope.mechanisms import Guarantee, Mechanism
from seedscope.report import words
from tests.helpers.present import present

HIDDEN: tuple[float, ...] = (0.0,) * 60


@dataclass(frozen=True)
class Situation:
    """Models as they might come out of a training: who is exposed by how much, whose decision hangs on the seed."""

    shifts: tuple[float, ...] = HIDDEN  # of the confidence in each person when they are left out; () nobody attacked
    people: int = 400
    rare: float = 0.5  # share of the second class
    hanging: float = 0.0  # share of people whose decision hangs on the seed
    agreement: float = 0.5  # of the re-trainings about them
    wrong: float = 0.02  # share of people decided wrongly by all
    misses_rare: bool = False  # always decides for the first class
    models: int = 400
    epsilon: float | None = None
    kind: Kind = "proved"
    delta: float = 0.0
    trained_on: int | None = None  # people, as the policy declares; None says nothing

    def ensemble(self) -> ss.Ensemble:
        """Return the models' scores on test people and, with and without them, on the people attacked."""
        draw, count = np.random.default_rng(0), self.people
        labels = np.arange(count) < max(2, round(self.rare * count))
        said = np.zeros(count, bool) if self.misses_rare else labels ^ (draw.random(count) < self.wrong)
        scores = np.where(said, 0.9, 0.1) + draw.uniform(-0.05, 0.05, (self.models, count))
        for person in draw.permutation(count)[: round(self.hanging * count)]:
            scores[:, person] = np.where(draw.random(self.models) < self.agreement, 0.8, 0.2)
        confident = 2 + draw.normal(size=(self.models, len(self.shifts)))
        attacked = [1 / (1 + np.exp(-one)) for one in (confident, confident - np.array(self.shifts))]
        without = np.concatenate([np.full_like(scores, np.nan), attacked[1]], axis=1)
        given = np.concatenate([scores, attacked[0]], axis=1)
        truth = np.concatenate([labels.astype(int), np.ones(len(self.shifts), int)])
        found = ss.Ensemble.from_scores(given, truth, without=without if self.shifts else None, name="planted")
        return with_guarantee(found, self.epsilon, self.kind, self.delta)

    def audit(self) -> Audit:
        """Return the audit of these models."""
        declared = {} if self.trained_on is None else {"people": self.trained_on}
        return audit(self.ensemble(), policy=replace(read_policy(), declared=declared))


@dataclass(frozen=True)
class Levels:
    """A table whose categories have the levels that its rows have: one person may be the only one with a level."""

    lonely: bool = True
    declared: bool = False

    def audit(self) -> Audit:
        """Return the audit of models trained on such a table."""
        import pandas

        draw, count = np.random.default_rng(0), 4000
        frame = pandas.DataFrame({"ill": np.arange(count) % 2, "ward": np.tile(["a", "b", "c", "c"], count // 4)})
        frame["age"] = draw.normal(50, 10, count) + 30 * frame.ill
        frame["test"] = ["train"] * (count - 400) + ["test"] * 400
        frame.loc[7, "ward"] = "d" if self.lonely else "c"
        known: Any = {"levels": {"ward": ["a", "b", "c", "d"]}, "bounds": {"age": (0, 120)}} if self.declared else {}
        data = from_frame(frame, target="ill", test="test", **known)
        return audit(ss.train(data, ss.ObjectivePerturbation(0.19), grid=ss.Grid(400), jobs=1), data=data)


@dataclass(frozen=True)
class Trained:
    """Models that are really trained: on rows that say nothing, or that are there twice."""

    mechanism: Mechanism
    model: Any = None
    rows: int = 120
    copies: int = 1
    shift: float = 0.0  # between the classes
    within: float = 20.0  # a norm that every row keeps to; 1 for none
    seeds: int = 400
    neighbours: int = 0

    def audit(self) -> Audit:
        """Return the audit of models trained on such rows."""
        draw = np.random.default_rng(0)
        labels = np.arange(self.rows) % 2
        features = draw.normal(size=(self.rows, 8)) + self.shift * (2 * labels[:, None] - 1)
        test = draw.normal(size=(400, 8)) + self.shift * (2 * (np.arange(400) % 2)[:, None] - 1)
        every = np.repeat(features, self.copies, axis=0) / self.within, np.repeat(labels, self.copies)
        bound = None if self.within == 1 else 1.0
        data = ss.from_arrays(*every, test / self.within, np.arange(400) % 2, norm_bound=bound)
        grid = ss.Grid(self.seeds, self.neighbours)
        return audit(ss.train(data, self.mechanism, model=self.model, grid=grid, jobs=1), data=data)


def with_guarantee(ensemble: ss.Ensemble, epsilon: float | None, kind: Kind, delta: float) -> ss.Ensemble:
    """Return the ensemble with a guarantee claimed for it."""
    number = None if epsilon is None else Number(epsilon, kind)
    guarantee = Guarantee(ensemble.relation, number, delta, "planted.")
    description = replace(ensemble.description, guarantee=guarantee)
    return ss.Ensemble(ensemble.dataset.assign_attrs(description=description.text()))


def exposed(*shifts: float) -> tuple[float, ...]:
    """Return people of whom the first are exposed by so much."""
    return (*shifts, *HIDDEN[len(shifts) :])


SITUATIONS: dict[str, tuple[Situation | Trained | Levels, str, str]] = {
    "no proof and nobody attacked": (Situation(shifts=()), "talk", "nothing is known about who can be recognised"),
    "a strong proof, nobody attacked": (Situation(shifts=(), epsilon=0.1), "release", "can be released"),
    "everybody attacked and hidden, no proof": (Situation(trained_on=60), "release", "can be released"),
    "sixty attacked and hidden, nobody says of how many": (Situation(), "talk", "how many people were trained on"),
    "sixty attacked and hidden, of a thousand": (Situation(trained_on=1000), "talk", "attack more people first"),
    "one person of sixty at an advantage of .68": (Situation(shifts=exposed(2.0)), "change", "an attacker can tell"),
    "one person exposed, and a weak proof": (
        Situation(shifts=exposed(3.0), epsilon=7.9), "change", "an attacker can tell"),
    "ε = 7.9 and a mean advantage of .4": (
        Situation(shifts=(1.05,) * 60, epsilon=7.9), "change", "an attacker can tell"),
    "99 to 1, none of five positives found": (
        Situation(people=500, rare=0.01, wrong=0.0, misses_rare=True, epsilon=0.1), "talk", "test it on more people"),
    "99 to 1, none of 100 positives found": (
        Situation(people=10_000, rare=0.01, misses_rare=True, epsilon=0.1, models=60, shifts=()), "change",
        "no better than always deciding for the same class"),
    "labels that nothing can be learned about": (
        Situation(people=2000, wrong=0.5, epsilon=0.1), "change", "no better than always deciding"),
    "eight test people": (Situation(people=8, wrong=0.0, epsilon=0.1), "talk", "these are too few"),
    "a third decided by a coin": (
        Situation(hanging=0.35, epsilon=0.1), "change", "close to a coin toss"),
    "a third decided differently, nobody near a coin toss": (
        Situation(hanging=0.35, agreement=0.72, epsilon=0.1), "change", "often decide differently about 140 people"),
    "a few arbitrary decisions": (
        Situation(hanging=0.06, agreement=0.78, epsilon=0.1), "talk", "look at 24 people first"),
    "three re-trainings": (
        Situation(models=3, shifts=(), epsilon=0.1), "talk", "3 re-trainings leave open"),
    "an attack that beats the proof": (Situation(shifts=exposed(6.0), epsilon=0.1), "stop", "the training has a bug"),
    "an ε that presumes public scaling": (
        Situation(shifts=(), epsilon=0.1, kind="estimate"), "talk", "nothing is known"),
    "a δ of one in N": (Situation(epsilon=0.1, delta=1 / 60), "change", "δ times people"),
    "ε = 20, though nobody was recognised": (Situation(epsilon=20.0), "change", "what is proved rules out little"),
    "too few seeds to say that nobody is exposed": (Situation(models=60), "talk", "nobody has shown"),
    "ε = 1 by the proof alone": (Situation(shifts=(), epsilon=1.0), "talk", "nobody has shown"),
    "a network that memorises random labels": (
        Trained(ss.SGD(0.5, 16, 300), ss.mlp(16), rows=60, within=1.0, seeds=40, neighbours=6), "change",
        "an attacker can tell"),
    "everybody's row is there twice": (
        Trained(ss.ObjectivePerturbation(0.19), rows=3000, copies=2, shift=2.0), "talk",
        "rows that are there twice"),
    "one person has a level of a category to themselves": (Levels(), "change", "declare the levels of categories"),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_verdict_on_a_planted_situation_is_right(name: str) -> None:
    situation, tone, words = SITUATIONS[name]
    found = situation.audit().verdict
    assert (found.tone, words in found.headline) == (tone, True), (found.headline, found.sentences)
    assert (found.exit_code == 3) == (tone == "stop")


def test_there_are_twenty_of_them_and_some_more() -> None:
    assert len(SITUATIONS) == 25


def test_without_copies_the_same_training_is_released() -> None:
    once = Trained(ss.ObjectivePerturbation(0.19), rows=6000, shift=2.0).audit().verdict
    assert once.tone == "release", once.sentences


def test_declared_levels_give_nobody_away() -> None:
    known = Levels(declared=True).audit().facts[0]["advantage"]
    assert float(present(known)) < 0.1
    alike = Levels(lonely=False).audit().facts[0]["advantage"]
    assert alike is None or float(alike) < 1


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("people", "many", "must be a number, got 'many'"),
        ("people", math.nan, "must be a number of at least 0, got nan"),
        ("people", True, "must be a number of at least 0, got True"),
        ("people", 59, "must be at least the 60 who were attacked, got 59"),
        ("accuracy_without_privacy", -3, "must be a number of at least 0, got -3"),
    ],
)
def test_a_declared_number_that_is_none_is_one_sentence(name: str, value: Any, rule: str) -> None:
    with pytest.raises(ss.SeedscopeError, match=f"{name}, which the policy declares, {rule}"):
        _ = audit(Situation().ensemble(), policy=Policy("p", (), {name: value})).verdict


def test_rows_that_are_there_twice_are_counted_unless_it_is_known_whose_they_are() -> None:
    rows = np.array([[0.0, 1.0], [0.0, 1.0], [-0.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    data = ss.from_arrays(rows, [0, 0, 1, 1, 1], rows, [0, 1, 0, 1, 0])
    assert float(present(repeated_rows(data))) == pytest.approx(4 / 5)
    owned = replace(data, train=replace(data.train, persons=np.array([0, 0, 1, 2, 2])))
    assert float(present(repeated_rows(owned))) == 0
    assert repeated_rows(None) is None


def test_a_contradiction_among_privacy_losses_stops_the_release_and_takes_epsilon_off_the_public_page() -> None:
    data = ss.load("breast-cancer")
    records = ss.Records(probes=("test",), losses_of="train")
    trained = ss.train(data, ss.ObjectivePerturbation(0.5), grid=ss.Grid(60), records=records, jobs=1)
    wrong = ss.Ensemble(trained.dataset.assign(privacy_losses=trained.dataset["privacy_losses"] + 1.0))
    found = audit(wrong, data=data)
    assert (found.verdict.tone, found.verdict.exit_code) == ("stop", 3)
    assert found.alarms
    public = found.as_dict(public=True)
    assert public["alarms"]
    assert public["levels"][0]["epsilon"] is None


def test_an_advantage_of_68_points_is_what_was_planted() -> None:
    level = audit(Situation(shifts=exposed(2.0)).ensemble()).levels[0]
    assert level.membership is not None
    assert level.membership.advantage[0] == pytest.approx(0.68, abs=0.08)
    four = audit(Situation(shifts=(1.05,) * 60, epsilon=7.9).ensemble()).levels[0].membership
    assert four is not None
    assert float(four.set_advantage) == pytest.approx(0.4, abs=0.03)


def test_the_most_private_level_that_keeps_to_the_policy_is_preferred() -> None:
    def case(epsilon: float, advantage: float, arbitrary: float) -> Case:
        known = facts_of(Situation(shifts=(), epsilon=0.1)) | {
            "epsilon": Number(epsilon, "proved"), "advantage": Number(advantage, "proved", 0.0, advantage),
            "arbitrary": Number(arbitrary, "estimate"),
        }  # fmt: skip
        return Case(f"ε = {epsilon:g}", known)

    found = judge([case(0.1, 0.05, 0.5), case(0.15, 0.07, 0.0), case(0.2, 0.1, 0.0)])
    assert (found.level, found.tone) == (1, "release")
    assert [one.tone for one in found.outcomes] == ["change", "release", "release"]
    assert "the most private that keeps to the policy" in found.sentences[0]
    worse = judge([case(0.1, 0.05, 0.5), case(2.0, 0.9, 0.5)])
    assert (worse.level, worse.tone) == (0, "change")


def facts_of(situation: Situation) -> dict[str, Number | None]:
    """Return what is known of a situation."""
    levels = audit(situation.ensemble()).levels
    return facts(levels[0], levels)


def test_what_privacy_costs_is_against_no_privacy_not_against_the_best_level() -> None:
    data = ss.load("breast-cancer")
    grid, records = ss.Grid(seeds=60), ss.Records(probes=("test",))
    trained = [ss.train(data, ss.ObjectivePerturbation(one), grid=grid, records=records, jobs=1) for one in (0.5, 1.0)]
    found = audit(*trained, data=data)
    plain = decided_without_privacy(data, found.levels[0].tested)
    assert plain is not None
    assert plain.mean() > 0.94
    for level, known in zip(found.levels, found.facts, strict=True):
        cost = known["accuracy_cost"]
        assert cost is not None
        assert cost.value == pytest.approx(plain.mean() - level.right.mean())
        assert "by logistic regression" in cost.note
    declared = Policy("p", read_policy().rules, {"accuracy_without_privacy": 0.99})
    with_claim = replace(found, policy=declared).facts[0]["accuracy_cost"]
    assert with_claim is not None
    assert with_claim.value == pytest.approx(0.99 - found.levels[0].right.mean())


def test_people_chosen_by_name_say_nothing_about_others() -> None:
    draw = np.random.default_rng(1)
    features = draw.normal(size=(240, 3)) + 4 * (np.arange(240) % 2)[:, None]
    data = ss.from_arrays(features, np.arange(240) % 2)

    def unseen(grid: ss.Grid) -> float:
        found = audit(ss.train(data, ss.ObjectivePerturbation(6.0), grid=grid, jobs=1)).facts[0]["unseen"]
        assert found is not None
        return found.value

    assert unseen(ss.Grid(seeds=20, people=[3, 4])) == pytest.approx(1 - 2 / 180)
    assert unseen(ss.Grid(seeds=20, neighbours=30)) == pytest.approx(1 - 0.05 ** (1 / 30))


def test_a_stored_report_is_judged_as_the_audit_was() -> None:
    found = audit(Situation(hanging=0.06, agreement=0.78, epsilon=0.1).ensemble())
    again = judge_report(found.as_dict())
    assert (again.tone, again.headline, again.level) == (
        found.verdict.tone, found.verdict.headline, found.verdict.level)  # fmt: skip
    assert [one.status for one in again.checks] == [one.status for one in found.verdict.checks]


def test_a_rule_that_is_not_kept_is_called_the_same_everywhere() -> None:
    found = audit(Situation(hanging=0.06, agreement=0.78, epsilon=0.1).ensemble()).as_dict()["verdict"]
    named = {f"({words.STATUSES[one['status']]})" for one in found["checks"] if one["status"] != "passed"}
    said = {text[text.rindex("(") :] for one in found["by_level"] for text in one["broken"]}
    assert named == said != set()
