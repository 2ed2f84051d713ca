"""One Hölder step for a whole run: above exact divergences and near them; statistical bounds keep their level."""

import mpmath
import numpy as np
import pytest

from seedscope import SeedscopeError
from seedscope import per_instance as pi
from seedscope.accounting import rdp_to_epsilon, sampled_gaussian_rdp
from seedscope.analyses.per_instance.composition import mean_exponential
from seedscope.analyses.per_instance.paths import chance_beyond, path_bounds, temperature
from tests.helpers.exact_paths import ORDERS, PROBLEMS, RATIOS, Problem

NAMES = [one.name for one in PROBLEMS]
BESIDE = PROBLEMS[NAMES.index("beside")]


def best_bounds(problem: Problem, order: float, with_person: bool) -> tuple[list[float], list[float]]:
    """Return the bounds by paths and by steps with exact expectations."""
    paths = [problem.by_paths(order, 1 + ratio * (order - 1), with_person) for ratio in RATIOS]
    steps = [problem.by_steps(order, share * problem.steps, with_person) for share in (2.0, 10.0, 100.0)]
    return paths, steps


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS, ids=NAMES)
def test_every_bound_is_above_the_exact_divergence_and_the_best_within_two_and_a_half_times(problem: Problem) -> None:
    for order in ORDERS:
        found = []
        for with_person in (True, False):
            paths, steps = best_bounds(problem, order, with_person)
            truth = problem.truth(order, with_person)
            assert min(*paths, *steps, problem.baseline(order)) >= truth
            found.append((truth, min(*paths, *steps, problem.baseline(order))))
        truth, best = (max(values) for values in zip(*found, strict=True))
        assert best <= 2.5 * truth


@pytest.mark.parametrize("with_person", [True, False])
def test_paths_are_nearer_to_the_truth_than_steps_for_somebody_whose_gradient_varies(with_person: bool) -> None:
    truth = BESIDE.truth(2.0, with_person)
    paths = BESIDE.by_paths(2.0, 2.1, with_person)
    steps = BESIDE.by_steps(2.0, 3.0 * BESIDE.steps, with_person)
    assert truth <= paths < 0.95 * steps
    assert paths <= 1.25 * truth


def test_the_mean_over_simulated_runs_tends_to_the_exact_expectation() -> None:
    norms = BESIDE.runs((1, 20_000), with_person=True, seed=1)
    sums = pi.path_sums(np.moveaxis(norms, 2, 0), BESIDE.sigma, BESIDE.q, [2.2])
    found = float(pi.compose_paths(sums[:, 0], 2.0, [2.2]).total)
    assert found == pytest.approx(BESIDE.by_paths(2.0, 2.2, True), rel=0.01)


def test_it_equals_the_formula_in_many_digits_and_the_smallest_path_order_counts() -> None:
    sums, order, path_orders = np.random.default_rng(0).exponential(0.2, (7, 3)), 2.5, [2.0, 3.0, 6.0]
    each = []
    for place, path_order in list(enumerate(path_orders))[1:]:
        r = (path_order - 1) / (order - 1)
        t = mpmath.mpf(r / (r - 1) * (order - 1))
        mean = mpmath.fsum(mpmath.exp(t * mpmath.mpf(one)) for one in sums[:, place]) / 7
        each.append(float(mpmath.log(mean) / t))
        assert float(t) == pytest.approx(temperature(order, path_order))
    found = pi.compose_paths(sums, order, path_orders)
    assert float(found.total) == pytest.approx(min(each), rel=1e-11)
    assert found.path_order == path_orders[1 + int(np.argmin(each))]
    assert np.isinf(path_bounds(sums[:, None], np.array(path_orders), order)[0, 0])


def test_runs_that_agree_cost_their_sum_at_an_order_hardly_above() -> None:
    steps = 50 * float(sampled_gaussian_rdp(0.4, 1.0, 0.1, 2.001))
    found = pi.compose_paths(np.full((3, 1), steps), 2.0, [2.001])
    assert float(found.total) == pytest.approx(50 * float(sampled_gaussian_rdp(0.4, 1.0, 0.1, 2.0)), rel=2e-3)


def test_tiny_divergences_keep_their_digits_and_never_turn_negative() -> None:
    draw = np.random.default_rng(3)
    for _ in range(100):
        values = 10.0 ** draw.uniform(-22, -14, 5) * draw.random(5)
        t = 10.0 ** draw.uniform(-1, 3)
        found = float(mean_exponential(values, np.asarray(t), axis=0))
        with mpmath.workdps(60):
            exact = mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(t) * mpmath.mpf(one)) for one in values) / 5) / t
        assert found == pytest.approx(float(exact), rel=1e-12)
        assert found > 0


def test_everybody_at_once_is_one_person_at_a_time() -> None:
    sums = np.random.default_rng(1).exponential(0.1, (6, 4, 3))
    alphas, orders = [1.5, 3.0, 8.0], [1.2, 2.0]
    found = pi.paths_rdp(sums, alphas, orders)
    worst = np.full(3, 2.0)
    upper = pi.paths_rdp_upper(sums, alphas, orders, worst, 0.9)
    for person in range(4):
        for k, order in enumerate(orders):
            one = pi.compose_paths(sums[:, person], order, alphas, worst=worst, confidence=0.9, people=4)
            assert found[person, k] == pytest.approx(float(one.total))
            assert one.statistical is not None
            assert upper[person, k] == pytest.approx(float(one.statistical))
            assert found[person, k] <= upper[person, k] <= 2.0


@pytest.mark.parametrize("runs", [2, 10, 100])
def test_statistical_bounds_fail_in_at_most_their_level(runs: int) -> None:
    """1,000 repetitions: the bound on E exp(tS), and the chance beyond the largest run, at 90 % confidence."""
    problem, alphas, order, repetitions = BESIDE, np.array([1.2, 1.5, 2.0]), 1.1, 1000
    norms = problem.runs((repetitions, runs), with_person=True, seed=7 + runs)
    sums = pi.path_sums(np.moveaxis(norms, 2, 0), problem.sigma, problem.q, alphas)  # [run, repetition, order]
    worst = np.array([problem.baseline(alpha) for alpha in alphas])
    upper = pi.paths_rdp_upper(sums, alphas, [order], worst, 0.9, people=1)[:, 0]
    exact = min(problem.by_paths(order, alpha, True) for alpha in alphas)
    level = 0.1 + 3 * np.sqrt(0.1 * 0.9 / repetitions)
    assert np.mean(upper < exact) <= level
    assert np.mean(upper < problem.truth(order, True)) <= level
    many = problem.runs((1, 40_000), with_person=True, seed=1)
    law = pi.path_sums(np.moveaxis(many, 2, 0), problem.sigma, problem.q, alphas)[:, 0]
    chance = chance_beyond(runs, 0, 0.1)
    largest = sums.max(axis=0)[:, 0]
    true_chances = 1 - np.searchsorted(np.sort(law[:, 0]), largest, side="right") / len(law)
    assert np.mean(true_chances > chance) <= level
    assert np.mean(true_chances > chance) >= 0.05  # and no wider than it must be


def test_with_many_runs_the_statistical_bound_is_below_the_guarantee() -> None:
    problem, order = PROBLEMS[NAMES.index("logistic")], 1.1
    norms = problem.runs((1, 3000), with_person=True, seed=2)
    sums = pi.path_sums(np.moveaxis(norms, 2, 0), problem.sigma, problem.q, [1.3])
    found = pi.compose_paths(sums[:, 0], order, [1.3], worst=[problem.baseline(1.3)], confidence=0.95)
    assert found.statistical is not None
    assert problem.truth(order, True) <= float(found.statistical) <= 0.5 * problem.baseline(order)


@pytest.mark.parametrize(("runs", "share"), [(2, 0.65), (10, 0.5), (100, 0.25)])
def test_plug_in_estimates_of_few_runs_are_often_below_what_they_estimate(runs: int, share: float) -> None:
    problem, order = PROBLEMS[NAMES.index("rare")], 2.0
    norms = problem.runs((400, runs), with_person=True, seed=runs)
    sums = pi.path_sums(np.moveaxis(norms, 2, 0), problem.sigma, problem.q, [2.4])
    below = np.mean(pi.paths_rdp(sums, [2.4], [order])[:, 0] < problem.truth(order, True))
    assert below == pytest.approx(share, abs=0.1)


class TestCutOff:
    sums = np.random.default_rng(5).exponential(0.01, (400, 3, 2))
    alphas = np.array([2.0, 8.0])

    def test_it_is_the_filter_at_the_largest_sum_plus_the_chance_beyond(self) -> None:
        found = pi.cut_off(self.sums, self.alphas, 0.95)
        chance = 1 - (0.05 / 6) ** (1 / 400)
        assert found.chance == pytest.approx(chance)
        largest = self.sums.max(axis=0)
        np.testing.assert_allclose(found.epsilon(0.1), rdp_to_epsilon(largest, self.alphas, 0.1 - chance), rtol=1e-9)
        np.testing.assert_allclose(
            found.membership_advantage(), pi.membership_advantage(largest, self.alphas) + chance, rtol=1e-9
        )
        assert found.true_positive_rate([0.01, 0.1]).shape == (3, 2)

    def test_a_delta_below_the_chance_is_refused_with_infinity(self) -> None:
        assert np.isinf(pi.cut_off(self.sums, self.alphas).epsilon(1e-5)).all()

    def test_letting_runs_exceed_lowers_the_cut_off_and_raises_the_chance(self) -> None:
        none, some = (pi.cut_off(self.sums, self.alphas, exceeding=k) for k in (0, 5))
        assert np.all(some.sums < none.sums)
        assert some.chance > none.chance
        np.testing.assert_allclose(some.sums, np.sort(self.sums, axis=0)[-6], rtol=1e-9)

    def test_an_events_true_chance_is_below_the_bound(self) -> None:
        """The best attack on a true pair: P(E) against e^ε Q(E) + δ for E = {privacy loss > ε}."""
        problem, order = BESIDE, 3.0
        norms = problem.runs((1, 20_000), with_person=True, seed=3)
        found = pi.cut_off(pi.path_sums(np.moveaxis(norms, 2, 0), problem.sigma, problem.q, [order]), [order])
        delta = 0.01
        epsilon = float(found.epsilon(delta)[0])
        draw = np.random.default_rng(9)
        x, loss = np.full(20_000, problem.start), np.zeros(20_000)
        for _ in range(problem.steps):
            g = problem.gradient(x)
            y = (draw.random(len(x)) < problem.q) * g + problem.sigma * draw.standard_normal(len(x))
            loss += np.log1p(problem.q * np.expm1((2 * y * g - g**2) / (2 * problem.sigma**2)))
            x = x - problem.rate * (problem.pull * np.clip(x, -1, 1) + y)
        assert np.mean(np.maximum(1 - np.exp(epsilon - loss), 0)) <= delta


def test_the_number_of_runs_that_the_fact_asks_for() -> None:
    step = sampled_gaussian_rdp(1.0, 4.0, 0.05, [2.0, 4.0])
    epsilon, doubled = (200 * float(one) for one in step)
    expected = np.log(2 / 0.1) / (2 * 0.5**2) * np.exp(6 * 3 * doubled - 6 * epsilon)
    assert pi.runs_needed(2.0, epsilon, doubled, error=0.5, failure=0.1) == pytest.approx(expected)
    assert np.isinf(pi.runs_needed(8.0, 1.0, 1e3, error=0.1, failure=0.1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pi.compose_paths([[0.1]], 2.0, [1.5]), "path_orders must have one above the order 2"),
        (lambda: pi.compose_paths([[0.1]], 1.0, [1.5]), "order must be a finite number above 1"),
        (lambda: pi.compose_paths([[0.1, 0.2]], 1.2, [1.5]), "1 path orders last"),
        (lambda: pi.compose_paths([[-0.1]], 1.2, [1.5]), "at least 0"),
        (lambda: pi.compose_paths([[0.1]], 1.2, [1.5], confidence=0.9), "needs worst"),
        (lambda: pi.cut_off([[[0.1]]], [2.0], exceeding=1), "exceeding must be a number of runs below 1"),
        (lambda: pi.cut_off([[[0.1]]], [1.0]), "path_orders must be"),
        (lambda: pi.path_sums(np.zeros((1, 2, 1)), 1.0, 0.1, [2.0], steps=3), "need 3 recorded states"),
        (lambda: pi.runs_needed(2.0, 1.0, 2.0, error=0.0, failure=0.1), "error must be"),
    ],
)
def test_bad_input_is_refused_by_name(call: object, message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        call()  # type: ignore[operator]
