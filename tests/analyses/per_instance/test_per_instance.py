"""Per-instance privacy: formulas against slow twins in many digits, bounds against brute force, bad input."""

from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from math import comb
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seedscope import SeedscopeError
from seedscope import per_instance as pi
from seedscope.accounting import bin_edges, binned_up, gaussian_epsilon, sampled_gaussian_rdp
from seedscope.analyses.per_instance.everybody import binned_divergences
from tests.helpers.present import present


def step_divergence(s: Any, sigma: Any, q: Any, alpha: Any) -> Any:
    """Return D_α of (1−q)N(0,σ²) + qN(s,σ²) from N(0,σ²) by integration in 30 digits."""
    with mpmath.workdps(30):
        s, sigma, q, alpha = (mpmath.mpf(one) for one in (s, sigma, q, alpha))

        def integrand(x: Any) -> Any:
            ratio = 1 - q + q * mpmath.exp((2 * x * s - s**2) / (2 * sigma**2))
            return ratio**alpha * mpmath.npdf(x, 0, sigma)

        middle = alpha * s
        area = mpmath.quad(integrand, [-12 * sigma, 0, middle, middle + 12 * sigma])
        return mpmath.log(area) / (alpha - 1)


def theorem(sensitivities: np.ndarray, sigma: float, q: float, alpha: Any, p: Any) -> Any:
    """Return Theorem 3.3 as its proof recurses: peel off the last step, raise the order, take the (p−1)/p-th power."""
    alpha, p = mpmath.mpf(alpha), mpmath.mpf(p)

    def log_integral(steps: int, order: Any) -> Any:
        """Return a bound on ln ∫ X^order Y^(1−order) of the first `steps` steps."""
        if steps == 0:
            return mpmath.mpf(0)
        divergences = [step_divergence(s, sigma, q, order) for s in sensitivities[:, steps - 1]]
        mean = mpmath.fsum(mpmath.exp(p * (order - 1) * one) for one in divergences) / len(divergences)
        raised = p / (p - 1) * order - 1 / (p - 1)
        return (p - 1) / p * log_integral(steps - 1, raised) + mpmath.log(mean) / p

    return log_integral(sensitivities.shape[1], alpha) / (alpha - 1)


class TestStep:
    @pytest.mark.parametrize(
        ("s", "sigma", "q", "alpha"), [(0.3, 1.0, 0.1, 4), (1.0, 0.7, 0.02, 2), (0.5, 2.0, 0.5, 9)]
    )
    def test_equals_the_papers_sum_at_integer_orders(self, s: float, sigma: float, q: float, alpha: int) -> None:
        terms = [
            mpmath.binomial(alpha, k) * (1 - q) ** (alpha - k) * q**k * mpmath.exp(s**2 * (k * k - k) / (2 * sigma**2))
            for k in range(alpha + 1)
        ]
        assert float(pi.step_rdp(s, sigma, q, alpha)) == pytest.approx(
            float(mpmath.log(mpmath.fsum(terms)) / (alpha - 1))
        )

    def test_a_person_without_influence_loses_nothing(self) -> None:
        assert pi.step_rdp(0.0, 1.0, 0.1, 8) == 0
        assert pi.step_epsilon(0.0, 1.0, 0.1, 1e-5) == pytest.approx(0.0, abs=2e-3)

    def test_a_share_is_one_at_the_clipping_norm_and_beyond(self) -> None:
        shares = pi.step_share(
            [0.0, 0.5, 2.0, 30.0], clipping_norm=2.0, noise_multiplier=1.0, sampling_probability=0.05, order=8
        )
        np.testing.assert_allclose(shares[[0, 2, 3]], [0, 1, 1])
        assert 0 < shares[1] < 0.1

    @pytest.mark.parametrize("q", [0.01, 0.3, 1.0])
    def test_epsilon_of_a_constant_sensitivity_tends_to_the_amplified_gaussian_one(self, q: float) -> None:
        s, sigma, delta = 0.8, 1.5, 1e-5
        near = pi.step_epsilon(s, sigma, q, delta, holder=1e9)
        limit = np.log(q * np.exp(gaussian_epsilon(s, sigma, delta / (2 * q))) + 1 - q)
        assert near == pytest.approx(limit, rel=1e-6)

    def test_epsilon_equals_the_corollary_written_out(self) -> None:
        s, sigma, q, delta, p = np.array([0.1, 0.4, 0.9]), 1.0, 0.05, 1e-4, 50.0
        each = [mpmath.mpf(float(gaussian_epsilon(one, sigma, delta / (2 * q)))) for one in s]
        a = q * (mpmath.fsum(mpmath.exp(p * one) for one in each) / 3) ** (1 / p)
        expected = mpmath.log(a ** (p / (p - 1)) * (delta / 2) ** (-1 / (p - 1)) + 1 - q)
        assert float(pi.step_epsilon(s, sigma, q, delta, holder=p)) == pytest.approx(float(expected), rel=1e-9)

    def test_epsilon_survives_sensitivities_whose_exponential_overflows(self) -> None:
        assert np.isfinite(pi.step_epsilon([5.0, 40.0], 0.5, 0.1, 1e-5))

    def test_the_worst_epsilon_is_that_of_the_clipping_norm(self) -> None:
        assert pi.step_epsilon_worst(1.0, 1.0, 1.0, 1e-5) == pytest.approx(float(gaussian_epsilon(1, 1, 1e-5)))

    def test_delta_above_the_sampling_probability_needs_no_noise(self) -> None:
        assert pi.step_epsilon(1.0, 1.0, 1e-7, 1e-5) == pytest.approx(0.0, abs=1e-9)


class TestComposition:
    draw = np.random.default_rng(0)
    norms = draw.uniform(0.05, 1.0, size=(3, 4))

    @pytest.mark.parametrize(("order", "holder"), [(2.0, 5.0), (4.5, 12.0), (1.3, 40.0)])
    def test_equals_the_recursion_of_the_theorem_in_many_digits(self, order: float, holder: float) -> None:
        composed = pi.compose_expected(self.norms, 1.3, 0.1, order, holder)
        assert float(composed.total) == pytest.approx(float(theorem(self.norms, 1.3, 0.1, order, holder)), rel=1e-8)

    def test_constant_sensitivities_give_the_sum_over_the_inflated_orders(self) -> None:
        composed = pi.compose_expected(np.full((6, 30), 0.4), 1.0, 0.05, 3.0, 45.0)
        inflated = [1 + (45 / 44) ** i * 2 for i in range(30)]
        np.testing.assert_allclose(composed.step_orders[::-1], inflated)
        expected = [float(sampled_gaussian_rdp(0.4, 1.0, 0.05, one)) for one in inflated]
        np.testing.assert_allclose(composed.contributions[::-1], expected, rtol=1e-12)

    def test_a_growing_holder_constant_tends_to_the_worst_run_at_every_step(self) -> None:
        worst = sampled_gaussian_rdp(self.norms.max(0), 1.0, 0.1, 4.0).sum()
        distances = [
            abs(float(pi.compose_expected(self.norms, 1.0, 0.1, 4.0, p).total) - worst) for p in (1e3, 1e5, 1e7)
        ]
        assert distances[0] > distances[1] > distances[2]
        assert distances[2] < 1e-4 * worst
        assert float(pi.compose_expected(self.norms, 1.0, 0.1, 4.0, np.inf).total) == pytest.approx(worst, rel=1e-12)

    def test_the_last_step_keeps_the_order_and_the_default_is_three_times_the_steps(self) -> None:
        composed = pi.compose_expected(self.norms, 1.0, 0.1, 4.0)
        assert composed.holder == 12.0
        assert composed.step_orders[-1] == pytest.approx(4.0)
        assert np.all(np.diff(composed.step_orders) < 0)

    def test_at_three_times_the_steps_no_order_doubles(self) -> None:
        assert pi.step_orders(8.0, pi.default_holder(5000), 5000)[0] < 16.0

    def test_a_total_is_never_above_the_data_independent_one(self) -> None:
        composed = pi.compose_expected(np.ones((2, 50)), 1.0, 0.1, 8.0, clipping_norm=1.0)
        assert composed.contributions.sum() > float(present(composed.baseline))  # larger orders cost something
        assert float(composed.total) == float(present(composed.baseline))
        assert present(composed.baseline).kind == "proved"

    def test_larger_norms_never_give_a_smaller_total(self) -> None:
        smaller = float(pi.compose_expected(self.norms, 1.0, 0.1, 4.0).total)
        assert float(pi.compose_expected(self.norms * 1.01, 1.0, 0.1, 4.0).total) > smaller

    def test_many_people_at_once_equal_one_after_another(self) -> None:
        norms = self.draw.uniform(0, 1, size=(5, 3, 4))
        together = pi.expected_contributions(norms, 1.0, 0.1, 4.0, 12.0)
        for person, contributions in zip(norms, together, strict=True):
            np.testing.assert_allclose(contributions, pi.compose_expected(person, 1.0, 0.1, 4.0, 12.0).contributions)

    def test_constants_that_leave_no_possible_order_are_refused(self) -> None:
        with pytest.raises(SeedscopeError, match="holders_per_step must leave orders below 1e6"):
            pi.best_holder(np.full((2, 200), 0.5), 2.0, 0.05, 2.0, holders_per_step=[1e-3])

    def test_the_best_holder_constant_beats_the_default(self) -> None:
        norms = np.concatenate([np.full((19, 40), 0.05), np.full((1, 40), 0.6)])
        best = pi.best_holder(norms, 2.0, 0.05, 2.0)
        totals = [float(pi.compose_expected(norms, 2.0, 0.05, 2.0, p).total) for p in (best, None, 10.0)]
        assert totals[0] <= min(totals)


class TestStatisticalBound:
    def test_it_holds_as_often_as_promised(self) -> None:
        """Runs with random norms: the bound from few runs exceeds the expectation, and is below the worst case."""
        order, holder, noise, q, steps = 1.5, 12.0, 4.0, 0.02, 4
        draw = np.random.default_rng(1)
        many = pi.expected_contributions(draw.beta(1, 4, size=(40_000, steps)), noise, q, order, holder)
        worst = sampled_gaussian_rdp(1.0, noise, q, pi.step_orders(order, holder, steps))
        held = []
        for _ in range(60):
            few = draw.beta(1, 4, size=(400, steps))
            bound = pi.statistical_contributions(few, noise, q, order, holder, 1.0, confidence=0.9)
            assert np.all(bound < worst)
            held.append(np.all(bound >= many))
        assert np.mean(held) >= 0.9

    def test_it_equals_its_formula(self) -> None:
        norms, order, holder, noise, q = np.array([[0.2, 0.1], [0.5, 0.3], [0.1, 0.2]]), 2.0, 6.0, 3.0, 0.1
        bound = pi.statistical_contributions(norms, noise, q, order, holder, 1.0, 0.95, people=7)
        for step, alpha in enumerate(pi.step_orders(order, holder, 2)):
            t = holder * (alpha - 1)
            f = np.exp(t * sampled_gaussian_rdp(norms[:, step], noise, q, alpha))
            worst = float(sampled_gaussian_rdp(1.0, noise, q, alpha))
            eta = np.sqrt(np.log(2 * 2 * 7 / 0.05) / (2 * 3))
            expected = min(worst, np.log(f.mean() + (np.exp(t * worst) - 1) * eta) / t)
            assert bound[step] == pytest.approx(expected, rel=1e-9)

    def test_it_lies_between_the_estimate_and_the_worst_case(self) -> None:
        norms = np.random.default_rng(2).uniform(0, 0.5, size=(2000, 20))
        composed = pi.compose_expected(norms, 8.0, 0.02, 1.5, clipping_norm=1.0, confidence=0.95)
        assert float(composed.total) < float(present(composed.statistical)) < float(present(composed.baseline))
        assert (present(composed.statistical).kind, present(composed.statistical).confidence) == ("statistical", 0.95)
        assert composed.total.kind == "estimate"


class TestEverybody:
    draw = np.random.default_rng(3)

    @pytest.mark.parametrize("runs", [1, 4])
    @pytest.mark.parametrize("holder", [60.0, 500.0, np.inf])
    def test_never_below_one_person_at_a_time_and_at_most_two_percent_above(self, runs: int, holder: float) -> None:
        norms, orders = self.draw.exponential(0.1, size=(runs, 60, 3)), [1.25, 2.0, 8.0]
        together = pi.everybodys_rdp(norms, 2.0, 0.02, orders, holder, clipping_norm=0.5)
        for person, order in np.ndindex(3, 3):
            s = pi.clipped(norms[:, :, person], 0.5)
            one = pi.compose_expected(s, 1.0, 0.02, orders[order], holder, clipping_norm=0.5)
            assert float(one.total) <= together[person, order] <= 1.02 * float(one.total)

    def test_huge_temperatures_do_not_overflow(self) -> None:
        norms = self.draw.uniform(0, 1, size=(3, 20, 2))
        together = pi.everybodys_rdp(norms, 0.3, 0.5, [16.0], 1e4)
        one = pi.compose_expected(norms[:, :, 0], 0.3, 0.5, 16.0, 1e4, clipping_norm=1.0)
        assert float(one.total) <= together[0, 0] <= 1.02 * float(one.total)

    def test_a_state_stands_for_the_steps_until_the_next(self) -> None:
        norms = self.draw.uniform(0, 0.3, size=(2, 5, 3))
        repeated = np.repeat(norms, 4, axis=1)[:, :18]
        sparse = pi.everybodys_rdp(norms, 1.0, 0.01, [2.0], every=4, steps=18)
        np.testing.assert_allclose(sparse, pi.everybodys_rdp(repeated, 1.0, 0.01, [2.0]), rtol=1e-12)

    def test_the_bound_with_a_confidence_equals_that_of_one_person(self) -> None:
        norms = self.draw.uniform(0, 0.5, size=(500, 6, 2))
        together = pi.everybodys_rdp(norms, 8.0, 0.02, [1.5], 18.0, confidence=0.95, covered=5)
        one = pi.statistical_contributions(norms[:, :, 1], 8.0, 0.02, 1.5, 18.0, 1.0, 0.95, people=5).sum()
        assert one <= together[1, 0] <= 1.02 * one

    @given(st.lists(st.floats(0, 3, width=32), min_size=1, max_size=30), st.sampled_from([0.1, 1.0, 3.7]))
    def test_a_bin_ends_at_or_above_the_norms_in_it(self, values: list[float], clipping_norm: float) -> None:
        norms = np.array(values, np.float32)
        relative = np.minimum(norms.astype(float) / clipping_norm, 1.0)
        ends = bin_edges()[binned_up(norms, clipping_norm)]
        assert np.all(ends >= relative * (1 - 1e-15))
        assert np.all(ends <= np.maximum(relative * (1 + 2.0**-8 + 1e-6), 2.0**-14))

    @settings(max_examples=30, deadline=None)
    @given(st.floats(1.001, 60), st.sampled_from([(0.5, 0.3), (1.0, 0.01), (1.0, 1e-4), (5.0, 0.001)]))
    def test_interpolated_orders_are_upper_bounds_and_near(self, order: float, setting: tuple[float, ...]) -> None:
        noise, q = setting
        some = slice(500, None, 300)
        exact = sampled_gaussian_rdp(bin_edges()[some], noise, q, order)
        found = binned_divergences(noise, q, order)[some]
        assert np.all(found >= exact * (1 - 1e-12))
        assert np.all(found <= exact * 1.15)  # near order 1, and where a divergence takes off
        assert np.median(found / exact) < (1.1 if order < 1.06 else 1.001)

    def test_half_precision_norms_are_read_as_they_are(self) -> None:
        norms = np.array([[[0.25, np.inf]]], np.float16)
        assert pi.everybodys_rdp(norms, 1.0, 0.1, [2.0]).ravel() == pytest.approx(
            sampled_gaussian_rdp([0.25, 1.0], 1.0, 0.1, 2.0), rel=0.02
        )


class TestAgainstBruteForce:
    """Two steps on one weight and two people, the other of whom is always there: all densities on a grid."""

    sigma, q, rate, clip = 1.0, 0.4, 0.8, 1.0
    weights = np.linspace(-12, 12, 1201)

    def gradient(self, w: np.ndarray | float, target: float) -> np.ndarray:
        """Return the clipped gradient of a person who pulls the weight to a target."""
        return np.clip(w - target, -self.clip, self.clip)

    def step_density(self, before: float, people: Sequence[float]) -> np.ndarray:
        """Return the density after one step from the weight `before`, a mixture over who is drawn."""
        density = np.zeros_like(self.weights)
        for size in range(len(people) + 1):
            for drawn in combinations(people, size):
                probability = self.q**size * (1 - self.q) ** (len(people) - size)
                mean = before - self.rate * sum(self.gradient(before, one) for one in drawn)
                density += probability * stats.norm.pdf(self.weights, mean, self.rate * self.sigma)
        return density

    def final_density(self, people: Sequence[float], steps: int) -> np.ndarray:
        """Return the density of the final weight, from 0."""
        width = self.weights[1] - self.weights[0]
        density = self.step_density(0.0, people)
        for _ in range(steps - 1):
            kernel = np.stack([self.step_density(w, people) for w in self.weights])
            density = density @ kernel * width
        return density

    def runs(self, people: Sequence[float], steps: int, count: int = 4000) -> np.ndarray:
        """Return weights [run, step] before each step."""
        draw, w = np.random.default_rng(0), np.zeros(count)
        states = []
        for _ in range(steps):
            states.append(w)
            total = sum((draw.random(count) < self.q) * self.gradient(w, one) for one in people)
            w = w - self.rate * (total + self.sigma * draw.normal(size=count))
        return np.stack(states, axis=1)

    @pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
    def test_the_true_divergence_of_the_final_model_lies_below_the_bound(self, order: float) -> None:
        target, others, steps = 0.6, (-0.5,), 2
        sides = {"with": (*others, target), "without": others}
        densities = {name: self.final_density(people, steps) for name, people in sides.items()}
        width = self.weights[1] - self.weights[0]
        for first, second in permutations(sides):
            numerator, denominator = densities[first], densities[second]
            keep = (numerator > 1e-30) & (denominator > 1e-30)
            integral = np.sum(numerator[keep] ** order * denominator[keep] ** (1 - order)) * width
            true = np.log(integral) / (order - 1)
            norms = np.abs(self.gradient(self.runs(sides[first], steps), target))
            bound = pi.compose_expected(norms, self.sigma, self.q, order, clipping_norm=self.clip)
            assert 0 < true < float(bound.total)
            assert float(bound.total) < 0.8 * float(present(bound.baseline))  # it says more than the clipping norm does


class TestGeneralRules:
    def slow(self, u: np.ndarray, v: np.ndarray, sigma: float, order: int) -> float:
        """Return the theorem with the average over all ordered tuples of distinct samples."""
        logs = []
        for one in v:
            exponents = []
            for chosen in permutations(range(len(u)), order):
                shifted = u[list(chosen)] - one
                products = shifted @ shifted.T
                exponents.append((products.sum() - np.trace(products)) / (2 * sigma**2))
            logs.append(np.log(np.mean(np.exp(exponents))))
        return float(np.mean(logs)) / (order - 1)

    @pytest.mark.parametrize("order", [2, 3, 4])
    def test_equals_the_average_over_all_tuples(self, order: int) -> None:
        draw = np.random.default_rng(0)
        u, v = draw.normal(size=(6, 3)), draw.normal(size=(4, 3)) + 0.3
        assert pi.general_step_rdp(u, v, 2.0, order) == pytest.approx(max(0, self.slow(u, v, 2.0, order)), rel=1e-9)

    def test_the_paper_writes_the_same_exponent(self) -> None:
        """−(Σ‖u_i‖² − (α−1)‖v‖² − ‖Σu_i − (α−1)v‖²) = Σ_{i≠j}(u_i − v)(u_j − v)."""
        draw = np.random.default_rng(1)
        u, v, alpha = draw.normal(size=(5, 4)), draw.normal(size=4), 5
        paper = -(np.sum(u**2) - (alpha - 1) * np.sum(v**2) - np.sum((u.sum(0) - (alpha - 1) * v) ** 2))
        shifted = (u - v) @ (u - v).T
        assert paper == pytest.approx(shifted.sum() - np.trace(shifted))

    def test_updates_without_randomness_give_the_gaussian_mechanism(self) -> None:
        u, v = np.tile([0.6, 0.8], (70, 1)), np.zeros((5, 2))
        orders = np.array([2, 8, 64])
        np.testing.assert_allclose(pi.general_step_rdp(u, v, 2.0, orders), orders / 8, rtol=1e-12)

    def test_equals_the_sum_rule_where_only_the_person_varies(self) -> None:
        """With nobody else in the data the two theorems are the same; tuples of distinct samples cost a little."""
        without, drawn = np.zeros((3, 1)), (np.arange(100) < 30)[:, None] * 0.5
        found = pi.general_step_rdp(drawn, without, 1.0, 2, tuples=5000)
        assert found == pytest.approx(float(pi.step_rdp(0.5, 1.0, 0.3, 2)), rel=0.03)

    def test_random_tuples_agree_with_all_of_them(self) -> None:
        draw = np.random.default_rng(3)
        u, v = draw.normal(size=(16, 2)) * 0.3, draw.normal(size=(8, 2)) * 0.3
        every, some = (pi.general_step_rdp(u, v, 1.0, 5, tuples=count) for count in (10_000, 2_000))
        assert some == pytest.approx(every, rel=0.1)

    def test_both_directions_come_with_their_spread(self) -> None:
        draw = np.random.default_rng(4)
        step = pi.general_step(draw.normal(size=(30, 2)) + 0.5, draw.normal(size=(30, 2)), 3.0, 4)
        assert float(step.rdp) == max(float(step.with_without), float(step.without_with))
        for one in (step.with_without, step.without_with):
            assert one.kind == "estimate"
            assert present(one.lower) < float(one) < present(one.upper)


class TestSampledStep:
    """Batches whose updates are normal around those of the others: every mean over tuples is a Gaussian integral."""

    noise, spread, q, dimensions = 1.0, 0.03, 0.02, 30

    def log_mean(self, order: int, drawn: int, moved: np.ndarray, v: np.ndarray) -> float:
        """Return ln E exp(½ Σ_{i≠j} (u_i − v)·(u_j − v)), u_i normal, the first `drawn` of them moved."""
        products = np.ones((order, order)) - np.eye(order)
        narrowed = np.eye(order) - self.spread**2 * products
        mean = (np.arange(order) < drawn)[:, None] * moved - v
        tilted = np.linalg.solve(narrowed, products)
        return float(np.einsum("id,ij,jd->", mean, tilted, mean) - len(v) * np.linalg.slogdet(narrowed)[1]) / 2

    def exact(self, order: int, moved: np.ndarray, v: np.ndarray) -> tuple[float, float]:
        """Return both directions for updates v [sample, parameter] of the denominator."""
        drawn = np.arange(order + 1)
        counts = np.log([float(comb(order, j)) for j in drawn])
        chances = counts + drawn * np.log(self.q) + (order - drawn) * np.log1p(-self.q)
        each = [[c + self.log_mean(order, j, moved, one) for j, c in enumerate(chances)] for one in v]
        outside, inside = (np.mean([self.log_mean(order, 0, moved, one + shift) for one in v]) for shift in (0, moved))
        both = np.mean(np.logaddexp.reduce(each, axis=1)), (1 - self.q) * outside + self.q * inside
        return float(both[0]) / (order - 1), float(both[1]) / (order - 1)

    @pytest.mark.parametrize("order", [2, 8, 32, 64])
    def test_it_is_near_the_exact_bound_up_to_order_64(self, order: int) -> None:
        draw, moved = np.random.default_rng(order), np.zeros(self.dimensions)
        moved[0] = 0.25
        truth = self.exact(order, moved, self.spread * draw.normal(size=(12, self.dimensions)))
        found = []
        for seed in range(3):
            batches = self.spread * draw.normal(size=(100, self.dimensions))
            found.append(pi.sampled_step_rdp(batches, batches + moved, self.noise, self.q, order, seed=seed))
        np.testing.assert_allclose(np.mean(found, axis=0), truth, rtol=0.2)

    def test_a_person_who_is_rarely_drawn_counts_where_a_few_batches_would_not_see_them(self) -> None:
        nobody, person, orders = np.zeros((70, 1)), np.ones((70, 1)), [8, 32, 64]
        found = pi.sampled_step_rdp(nobody, person, 1.0, 0.002, orders)[0]
        np.testing.assert_allclose(found, pi.step_rdp(1.0, 1.0, 0.002, np.array(orders)), rtol=0.02)
        unseen = pi.general_step_rdp(np.zeros((20, 1)), np.zeros((20, 1)), 1.0, 8)  # in none of 20 batches
        assert unseen == 0 < found[0]

    def test_a_person_who_is_never_drawn_costs_what_batches_differ_by(self) -> None:
        batches = self.spread * np.random.default_rng(1).normal(size=(30, 3))
        found = pi.sampled_step_rdp(batches, batches + 5.0, 1.0, 0.0, 4)
        assert found[0] == pytest.approx(found[1], rel=0.05)

    def test_it_needs_more_batches_than_the_order(self) -> None:
        with pytest.raises(SeedscopeError, match="order 8 needs at least as many sampled updates, got 7"):
            pi.sampled_step_rdp(np.zeros((8, 1)), np.ones((8, 1)), 1.0, 0.1, 8)


class TestMeaning:
    orders = np.concatenate([1 + np.geomspace(0.01, 1, 20), np.geomspace(2.1, 200, 40)])

    @pytest.mark.parametrize("mu", [0.1, 0.7, 2.0])
    def test_rates_lie_above_and_near_the_exact_ones_of_gaussian_noise(self, mu: float) -> None:
        rates = np.array([0.001, 0.05, 0.3, 0.9])
        bound = pi.true_positive_rate(self.orders * mu**2 / 2, self.orders, rates)
        exact = pi.gaussian_true_positive_rate(mu, rates)
        assert np.all(bound >= exact)
        assert np.all(bound <= np.minimum(1, 2.5 * exact))
        advantage = pi.membership_advantage(self.orders * mu**2 / 2, self.orders)
        assert 2 * stats.norm.cdf(mu / 2) - 1 <= advantage <= 1.6 * (2 * stats.norm.cdf(mu / 2) - 1)

    def test_no_divergence_allows_no_attack(self) -> None:
        np.testing.assert_allclose(pi.true_positive_rate(np.zeros(1), [1e6], [0.0, 0.2, 1.0]), [0, 0.2, 1], rtol=1e-5)
        assert pi.membership_advantage(np.zeros(1), [2.0]) == 0
        assert pi.epsilon_advantage(0.0) == 0

    @given(st.floats(0, 30), st.floats(0, 1))
    def test_epsilon_advantage_is_the_largest_gap_of_the_rates(self, epsilon: float, delta: float) -> None:
        rates = np.linspace(0, 1, 2001)
        gap = np.max(pi.epsilon_true_positive_rate(epsilon, delta, rates) - rates)
        assert gap <= pi.epsilon_advantage(epsilon, delta) + 1e-12

    def test_memorisation_is_bounded_by_what_is_left_to_learn(self) -> None:
        accuracy = np.linspace(0, 1, 11)
        found = pi.memorisation(np.array([50.0]), [2.0], accuracy)
        assert np.all((found >= 0) & (found <= 1 - accuracy + 1e-12))

    def test_rates_rise_with_the_divergence(self) -> None:
        low, high = (pi.true_positive_rate(scale * self.orders, self.orders, 0.01) for scale in (0.01, 0.1))
        assert low < high


class TestUnlearning:
    def curve(self, slope: float, orders: np.ndarray | None = None) -> pi.Divergence:
        """Return a divergence that grows with the order like Gaussian noise."""
        orders = np.array([1.5, 3.0, 7.0, 15.0, 31.0, 63.0]) if orders is None else orders
        return pi.Divergence(orders, slope * orders)

    def test_it_equals_the_best_of_the_recursion_written_out(self) -> None:
        """Three requests: the smallest over a grid of both free orders, by loops."""
        alpha, curves = 2.0, [self.gaussian(0.01), self.gaussian(0.02), self.gaussian(0.005)]
        schedule = pi.UnlearningSchedule(alpha, budget=100.0)
        for person, curve in enumerate(curves):
            decision, schedule = schedule.request(person, curve)
        best = np.inf
        for outer in np.geomspace(1.05, 6, 60) * alpha:
            for inner in np.geomspace(1.05, 6, 60) * outer:
                first = curves[0].at(inner)
                second = outer * (inner - 1) / (inner * (outer - 1)) * first
                second += curves[1].at(outer * (inner - 1) / (inner - outer))
                third = alpha * (outer - 1) / (outer * (alpha - 1)) * second
                best = min(best, third + curves[2].at(alpha * (outer - 1) / (outer - alpha)))
        assert float(decision.divergence) == pytest.approx(best, rel=0.02)

    def test_the_first_request_costs_its_own_divergence_at_the_order(self) -> None:
        decision, _ = pi.UnlearningSchedule(2.0, 1.0).request("x", self.curve(0.05))
        assert float(decision.divergence) == 0.05 * 3.0  # the next order known
        decision, _ = pi.UnlearningSchedule(3.0, 1.0).request("x", self.curve(0.05))
        assert float(decision.divergence) == 0.05 * 3.0

    def gaussian(self, slope: float) -> pi.Divergence:
        """Return the divergence α·slope of Gaussians at fine orders."""
        orders = np.geomspace(1.5, 200, 1500)
        return pi.Divergence(orders, slope * orders)

    def test_the_triangle_inequality_holds_for_gaussians_and_is_nearly_tight(self) -> None:
        """Models N(m, 1) whose mean moves at each request: the bound is above the true divergence α·m²/2."""
        shift, order = 0.06, 2.0
        schedule = pi.UnlearningSchedule(order, budget=1e9)
        for request in range(1, 7):
            decision, schedule = schedule.request(request, self.gaussian(shift**2 / 2))
            truth = order * (request * shift) ** 2 / 2
            assert truth <= float(decision.divergence) <= 1.06 * truth

    def test_five_requests_cost_a_quarter_of_what_doubled_orders_cost(self) -> None:
        curve, order = self.gaussian(0.0019), 2.0

        def doubled(requests: int, alpha: float) -> float:
            before = (2 * alpha - 1) / (2 * alpha - 2) * doubled(requests - 1, 2 * alpha) if requests > 1 else 0.0
            return before + curve.at(2 * alpha - 1)

        schedule = pi.UnlearningSchedule(order, budget=1e9)
        for request in range(5):
            decision, schedule = schedule.request(request, curve)
        assert float(decision.divergence) == pytest.approx(0.0952, abs=2e-4)
        assert float(decision.divergence) <= 0.25 * doubled(5, order)

    def test_training_again_starts_afresh(self) -> None:
        decisions = pi.unlearning_decisions([(k, self.gaussian(0.05)) for k in range(6)], order=2.0, budget=0.35)
        kept = [one.kept for one in decisions]
        assert kept == [True, False, True, False, True, False]
        assert present(decisions[1].refused) > 0.35
        assert float(decisions[1].divergence) == 0

    def test_someone_without_influence_never_costs_a_training(self) -> None:
        free = pi.Divergence([1e6], [0.0])
        assert all(one.kept for one in pi.unlearning_decisions([(k, free) for k in range(10)], 2.0, 1e-9))

    def test_an_order_beyond_those_known_is_refused_not_guessed(self) -> None:
        decision, _ = pi.UnlearningSchedule(70.0, 1e9).request("x", self.curve(1e-9))
        assert not decision.kept
        assert decision.refused == np.inf

    def test_a_curve_that_falls_is_read_as_its_running_maximum(self) -> None:
        assert pi.Divergence([2.0, 3.0], [0.5, 0.1]).at(3.0) == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pi.compose_expected([[0.1]], 1.0, 1.1, 2.0), "sampling_probability must be in"),
        (lambda: pi.compose_expected([[0.1]], 0.0, 0.1, 2.0), "noise_scale must be"),
        (lambda: pi.compose_expected([[0.1]], 1.0, 0.1, 1.0), "order must be a finite number above 1"),
        (lambda: pi.compose_expected([[0.1]], 1.0, 0.1, 2.0, 1.0), "holder must be above 1"),
        (lambda: pi.compose_expected(np.zeros((2, 900)), 1.0, 0.1, 2.0, 2.0), "too small for 900 steps"),
        (lambda: pi.compose_expected([0.1], 1.0, 0.1, 2.0), r"must be \[run, step\]"),
        (lambda: pi.compose_expected([[0.1]], 1.0, 0.1, 2.0, confidence=0.9), "needs clipping_norm"),
        (lambda: pi.compose_expected([[3.0]], 1.0, 0.1, 2.0, clipping_norm=1.0), "clip them first"),
        (lambda: pi.compose_expected([[-0.1]], 1.0, 0.1, 2.0), "sensitivity must be"),
        (lambda: pi.compose_expected([[np.nan]], 1.0, 0.1, 2.0), "sensitivity must be"),
        (lambda: pi.step_epsilon(0.1, 1.0, 0.1, 1.0), "delta must be in"),
        (lambda: pi.step_epsilon(0.1, 1.0, 0.0, 0.1), "sampling_probability must be above 0"),
        (lambda: pi.step_epsilon(0.1, -1.0, 0.1, 0.1), "noise_scale must be"),
        (lambda: pi.step_epsilon(0.1, 1.0, 0.1, 0.1, holder=1.0), "holder must be"),
        (lambda: pi.general_step_rdp(np.zeros((4, 2)), np.zeros((4, 2)), 1.0, 5), "needs at least as many"),
        (lambda: pi.general_step_rdp(np.zeros((4, 2)), np.zeros((4, 3)), 1.0, 2), "same parameters"),
        (lambda: pi.general_step_rdp(np.zeros((4, 2)), np.zeros((4, 2)), 1.0, 2.5), "whole number"),
        (lambda: pi.everybodys_rdp(np.full((1, 2, 1), np.nan), 1.0, 0.1, [2.0]), "not NaN"),
        (lambda: pi.everybodys_rdp(np.zeros((1, 2, 1)), 1.0, 0.1, [2.0], steps=3), "need 3 recorded states"),
        (lambda: pi.everybodys_rdp(np.zeros((1, 2, 1)), 1.0, 0.1, [1.0]), "numbers above 1"),
        (lambda: pi.true_positive_rate([0.1], [2.0], 1.5), "false_positive_rate must be in"),
        (lambda: pi.true_positive_rate([-0.1], [2.0], 0.5), "at least 0"),
        (lambda: pi.UnlearningSchedule(1.0, 1.0), "order must be"),
        (lambda: pi.UnlearningSchedule(2.0, 0.0), "budget must be"),
        (lambda: pi.Divergence([3.0, 2.0], [0.1, 0.2]), "orders must rise"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        call()
