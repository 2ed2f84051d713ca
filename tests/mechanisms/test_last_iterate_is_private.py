"""Is the ε of DP-SGD's last weights true? In one dimension their law is computed, step by step, and not sampled.

Weights are on a grid; a step carries their density along (a quadratic penalty and clipped logistic gradients of every
possible batch) and adds the noise. Neighbours' densities then give δ(ε) in both directions.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from seedscope import DPSGD, Grid, Momentum, Records, audit, train
from seedscope.accounting import dpsgd_epsilon, gaussian_delta, last_iterate_epsilon
from seedscope.accounting.last_iterate import kept_steps
from seedscope.auditing.levels import examine
from seedscope.core import SeedscopeError
from seedscope.mechanisms import Conditions
from seedscope.planning import make_plan
from seedscope.report import render_page
from seedscope.storage import Ensemble
from seedscope.training import SystemDraws
from seedscope.training.convex import minimiser
from tests.helpers.command_line import run
from tests.helpers.present import present
from tests.helpers.small_data import given_scaling, table

Rows = tuple[np.ndarray, np.ndarray]  # rows of one number, and labels
DELTA = 1e-3


def subsets(size: int, rate: float) -> Iterator[tuple[np.ndarray, float]]:
    """Yield every batch of rows with its probability."""
    for count in range(size + 1):
        chance = rate**count * (1 - rate) ** (size - count)
        if chance > 0:
            yield from ((np.array(batch, int), chance) for batch in combinations(range(size), count))


def law(data: Rows, mechanism: DPSGD, rate: float, grid: np.ndarray) -> np.ndarray:
    """Return the probabilities of the last weights on a grid, from a start that is normal."""
    rows, labels = data
    rate_of_steps, width = float(mechanism.learning_rate), grid[1] - grid[0]  # type: ignore[arg-type]
    step, kept = rate_of_steps / mechanism.batch_size, 1 - rate_of_steps * mechanism.l2
    pulls = (expit(grid[:, None] * rows) - labels) * rows
    pulls = np.clip(pulls, -mechanism.clipping_norm, mechanism.clipping_norm)
    carried, found = np.zeros((len(grid), len(grid))), norm.pdf(grid) * width
    for batch, chance in subsets(len(rows), rate):
        means = kept * grid - step * pulls[:, batch].sum(1)
        carried += chance * width * norm.pdf(grid, means[:, None], step * mechanism.noise_scale)
    for _ in range(mechanism.steps):
        found = found @ carried
    assert found.sum() == pytest.approx(1, abs=1e-6)
    return np.asarray(found)


def deltas(one: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    """Return the δ at an ε, the larger of both directions."""
    sides = (np.maximum(first - np.exp(epsilon) * second, 0).sum() for first, second in ((one, other), (other, one)))
    return float(max(sides))


@pytest.mark.parametrize("bound", [1.0, 5.0, 20.0])
@pytest.mark.parametrize("batch", [3, 2])
def test_no_neighbours_on_a_line_exceed_the_last_weights_epsilon(bound: float, batch: int) -> None:
    bend = 3 * bound**2 / (4 * batch)  # the largest curvature of a step
    mechanism = DPSGD(1.6 / (1.2 * bend), batch, 12, 1.5, 0.7 * bound, DELTA, l2=0.2 * bend)
    setting = Conditions(3, bound, width=1)
    epsilon, every = (
        float(present(present(one).epsilon)) for one in (mechanism.last_iterate(setting), mechanism.guarantee(setting))
    )
    assert epsilon < 0.9 * every
    step = float(mechanism.learning_rate) / batch * mechanism.noise_scale  # type: ignore[arg-type]
    grid, tight = np.linspace(-1, 1, 601) * max(10 * step, 6.0), False
    for others in ((1.0, 1.0), (-1.0, -1.0), (0.0, 0.1)):
        data = bound * np.array([1.0, *others]), np.array([0.0, 1.0, 1.0])
        laws = [law((data[0][k:], data[1][k:]), mechanism, batch / 3, grid) for k in (0, 1)]
        assert deltas(laws[0], laws[1], epsilon) <= DELTA
        tight |= deltas(laws[0], laws[1], 0.7 * epsilon) > DELTA
    assert tight or batch == 2  # Rényi divergences of sampled noise are not


def test_descent_on_quadratics_reaches_the_epsilon_and_exceeds_that_of_a_smaller_contraction() -> None:
    contraction, steps, noise = 0.9, 40, 6.0
    epsilon = last_iterate_epsilon(noise, 1.0, steps, contraction, 1e-5)
    fading = contraction ** np.arange(steps)
    moved, deviation = fading.sum(), noise * np.sqrt((fading**2).sum())  # each step: w ← c·w + person + noise
    assert gaussian_delta(moved, deviation, epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert gaussian_delta(moved, deviation, epsilon) <= 1e-5
    assert gaussian_delta(moved, deviation, last_iterate_epsilon(noise, 1.0, steps, 0.95 * contraction, 1e-5)) > 1e-5


@pytest.mark.parametrize(("rate", "contraction"), [(0.5, 0.5), (0.2, 0.8), (0.9, 0.3)])
def test_sampled_descent_on_quadratics_stays_within_the_epsilon(rate: float, contraction: float) -> None:
    """The law is a mixture over all ways in which a person can be drawn."""
    steps, noise, delta = 10, 1.0, 1e-4
    epsilon = last_iterate_epsilon(noise, rate, steps, contraction, delta)
    assert epsilon <= float(dpsgd_epsilon(noise, rate, steps, delta))
    fading = contraction ** np.arange(steps)
    deviation, grid = noise * np.sqrt((fading**2).sum()), np.linspace(-12, 16, 4001)
    with_person, width = np.zeros_like(grid), grid[1] - grid[0]
    for drawn in product((0, 1), repeat=steps):
        chance = rate ** sum(drawn) * (1 - rate) ** (steps - sum(drawn))
        with_person += chance * norm.pdf(grid, fading @ drawn, deviation)
    without = norm.pdf(grid, 0, deviation)
    assert deltas(with_person * width, without * width, epsilon) <= delta


def test_the_epsilon_grows_with_the_contraction_up_to_that_of_every_step() -> None:
    for rate in (0.3, 1.0):
        found = [last_iterate_epsilon(4.0, rate, 300, one, 1e-5) for one in (0.0, 0.5, 0.9, 0.99, 1.0)]
        assert (np.diff(found) >= 0).all()
        assert found[-1] <= float(dpsgd_epsilon(4.0, rate, 300, 1e-5))
    forever = [last_iterate_epsilon(4.0, 1.0, steps, 0.9, 1e-5) for steps in (10**3, 10**6)]
    assert forever[0] == pytest.approx(forever[1], rel=1e-6)
    assert kept_steps(50, 1 - 1e-9) == pytest.approx(50, rel=1e-5)


CONTRACTING = DPSGD(0.5, 40, 100, 8.0, 0.5, 1e-5, l2=0.1)
SETTING = Conditions(40, np.sqrt(2), width=4)


@pytest.mark.parametrize(
    ("mechanism", "setting", "words"),
    [
        (replace(CONTRACTING, momentum=Momentum(0.9)), SETTING, "plain steps"),
        (CONTRACTING.smooth(), SETTING, "flatly clipped"),
        (replace(CONTRACTING, public_size=50), SETTING, "public size"),
        (replace(CONTRACTING, noise_multiplier=0.0), SETTING, "without noise"),
        (replace(CONTRACTING, rule="mean"), SETTING, "true batch size"),
        (CONTRACTING, replace(SETTING, classes=3), "two classes"),
        (CONTRACTING, replace(SETTING, convex=False), "logistic regression"),
        (CONTRACTING, replace(SETTING, norm_bound=None), "bounded norm"),
        (replace(CONTRACTING, learning_rate=5.0), SETTING, r"up to a learning rate of 3\.333, it is 5"),
    ],
)
def test_where_steps_do_not_contract_nothing_is_claimed(mechanism: DPSGD, setting: Conditions, words: str) -> None:
    last = present(mechanism.last_iterate(setting))
    assert last.epsilon is None
    assert re.search(words, last.reason)
    assert present(CONTRACTING.last_iterate(SETTING)).is_proved
    assert replace(CONTRACTING, l2=0.0).last_iterate(SETTING) is None


def test_what_is_learned_or_shared_counts_in_the_second_guarantee_too() -> None:
    learned = present(CONTRACTING.last_iterate(replace(SETTING, scaling_learned=True)))
    assert present(learned.epsilon).kind == "estimate"
    alone, both = (present(CONTRACTING.last_iterate(replace(SETTING, rows_per_person=rows))) for rows in (1, 2))
    assert float(present(both.epsilon)) == pytest.approx(2 * float(present(alone.epsilon)))


def test_a_negative_l2_is_refused() -> None:
    with pytest.raises(SeedscopeError, match="l2 must be a finite number of at least 0"):
        DPSGD(l2=-0.1)


def test_without_noise_the_steps_end_at_the_penalised_minimiser() -> None:
    data = table()
    quiet = DPSGD(1.0, len(data.base), 400, 0.0, np.inf, l2=0.1)
    scaling = given_scaling(data)
    trained = train(data, quiet, grid=Grid(2), records=Records(probes=()), scaling=scaling, jobs=1)
    best = minimiser(scaling.fit(data).apply(data.base.features), data.base.labels, 0.1)
    np.testing.assert_allclose(trained.weights.values[:, 0, 0, 0], np.tile(best, (2, 1)), atol=1e-4)


def test_a_published_run_ends_near_the_penalised_minimiser_too() -> None:
    data, scaling = table(norm_bound=1.0), given_scaling(table())
    faint = DPSGD(1.0, len(data.base), 100, 1e-3, 10.0, l2=0.1)
    plan = make_plan(data, faint, None, Grid(2), Records(probes=()), scaling)
    found = faint.published(plan.job, SystemDraws(), 0.0)
    best = minimiser(scaling.fit(data).apply(data.base.features), data.base.labels, 0.1)
    np.testing.assert_allclose(found, best, atol=0.02)


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    return train(table(norm_bound=1.0), CONTRACTING, grid=Grid(30), jobs=1)


def test_a_level_has_the_second_guarantee_or_the_reason_why_not(trained: Ensemble) -> None:
    level = examine(trained)
    expected = present(CONTRACTING.last_iterate(trained.description.conditions))
    assert present(level.epsilon_last).value == float(present(expected.epsilon))
    assert present(level.epsilon_last).kind == "proved"
    assert present(level.epsilon_last).value < present(level.claimed_epsilon)
    asked = "ε of the last weights alone"
    assert asked not in {one.analysis for one in level.left_out}
    for mechanism, words in (
        (replace(CONTRACTING, learning_rate=5.0), "up to a learning rate of 3"),
        (replace(CONTRACTING, batch_size=20, steps=10), "too slowly"),
    ):
        without = examine(train(table(norm_bound=1.0), mechanism, grid=Grid(30), jobs=1))
        assert without.epsilon_last is None
        assert words in {one.analysis: one.reason for one in without.left_out}[asked]


@pytest.mark.slow
def test_the_page_shows_the_second_guarantee_beside_the_first(trained: Ensemble) -> None:
    document = audit(trained, data=table(norm_bound=1.0)).as_dict()
    assert document["levels"][0]["epsilon_last"]["kind"] == "proved"
    page = render_page(document)
    assert "Guaranteed ε of the last weights alone" in page
    document["levels"][0]["epsilon_last"] = None
    assert "Guaranteed ε of the last weights alone" not in render_page(document)


@pytest.mark.slow
def test_the_command_says_why_there_is_no_second_guarantee_to_who_asked_for_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--mechanism", "dpsgd", "--epsilon", "2", "--models", "20", "--neighbours", "0", "--l2", "0.05")
    run("audit", "breast-cancer", *options, "--store", str(tmp_path / "store"), "--out", str(out), "--quiet")
    report = json.loads((out / "report.json").read_text())
    assert report["levels"][0]["epsilon_last"] is None
    assert "steps bring models nearer up to a learning rate of" in json.dumps(report, ensure_ascii=False)
    assert report["levels"][0]["guarantee"]["epsilon"]["value"] <= 2.0


def test_the_noise_for_the_last_weights_is_the_least() -> None:
    found = DPSGD.for_last_weights(SETTING, 0.7, 1e-5)
    assert 0.7 * (1 - 1e-5) < float(present(present(found.last_iterate(SETTING)).epsilon)) <= 0.7
    with pytest.raises(SeedscopeError, match="nothing to aim at: the last weights alone have a proof for logistic"):
        DPSGD.for_last_weights(replace(SETTING, classes=4), 0.7)
    with pytest.raises(SeedscopeError, match="public norm bound"):
        DPSGD.for_last_weights(replace(SETTING, norm_bound=None), 0.7)
