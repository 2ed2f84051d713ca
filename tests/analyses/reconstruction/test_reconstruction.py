"""Reconstruction: bounds against closed forms and refitted models, the attack against a loop."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import seedscope as ss
from seedscope.accounting import gaussian_delta
from seedscope.analyses import reconstruction as rc
from seedscope.core.errors import SeedscopeError
from seedscope.core.number import Number
from seedscope.numerics import LogisticProblem
from seedscope.numerics.statistics import spearman
from tests.helpers.present import present

L2, NOISE = 0.05, 0.1


def minimiser(rows: np.ndarray, labels: np.ndarray, l2: float = L2) -> np.ndarray:
    """The minimiser of the mean log-loss with penalty, to the last digits: one more Newton step after the solver's."""
    w: np.ndarray = (
        LogisticProblem(rows, labels, np.full(rows.shape[1], l2)).minimise(np.zeros(rows.shape[1])).weights[0]
    )
    for _ in range(2):
        s = scipy.special.expit(rows @ w)
        hessian = (rows * (s * (1 - s))[:, None]).T @ rows / len(rows) + l2 * np.eye(len(w))
        w = w - np.linalg.solve(hessian, (s - labels) @ rows / len(rows) + l2 * w)
    return w


def with_ones(features: np.ndarray) -> np.ndarray:
    return np.column_stack([features, np.ones(len(features))])


@pytest.fixture(scope="module")
def records() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and the minimiser with its bias."""
    draw = np.random.default_rng(0)
    features = draw.normal(size=(25, 4))
    labels = (features @ [1.0, -2.0, 0.5, 0.0] + draw.normal(size=25) > 0).astype(float)
    return features, labels, minimiser(with_ones(features), labels)


# --- bounds from Rényi divergence -----------------------------------------------------------------------------------


def test_the_papers_example_of_an_age() -> None:
    assert rc.rdp_error_lower(2.0, [100.0]) == pytest.approx(391.3, abs=0.05)
    assert rc.rdp_feature_error_lower(2.0, 100.0) == pytest.approx(math.sqrt(391.3), abs=0.01)


def test_no_divergence_leaves_no_attack_and_much_divergence_no_bound() -> None:
    assert rc.rdp_error_lower(0.0, 1.0) == np.inf
    assert 0 < rc.rdp_error_lower(736.0, 1.0) < 1e-300
    assert rc.rdp_error_lower(5000.0, 1.0) == 0
    assert rc.rdp_error_lower(0.0, 1.0, response=0.0, bias=0.5) == pytest.approx(0.25)  # a constant guess


@given(st.floats(1e-3, 50), st.lists(st.floats(0, 10), min_size=1, max_size=6), st.floats(0, 2), st.floats(-3, 3))
def test_biased_bound_is_the_theorem_summed_coordinate_by_coordinate(
    epsilon: float, diameters: list[float], response: float, bias: float
) -> None:
    d = len(diameters)
    slow = sum(response**2 * one**2 / (4 * d) for one in diameters) / math.expm1(epsilon) + bias**2
    assert rc.rdp_error_lower(epsilon, diameters, response, bias) == pytest.approx(slow, rel=1e-12, abs=1e-300)
    assert rc.rdp_error_lower(epsilon, diameters, response, bias) <= slow * (1 + 1e-15)


@given(st.floats(0.2, 5), st.floats(0.01, 5))
def test_noise_on_the_record_itself_keeps_the_bound_within_its_known_slack(noise: float, length: float) -> None:
    """h = z + N(0, σ²) on [0, M]: ε₂ = (M/σ)², the error is σ², and the bound tends to σ²/4 as M → 0."""
    bound = rc.rdp_error_lower(rc.gaussian_rdp(length, noise), length)
    assert bound <= noise**2 / 4
    assert rc.rdp_error_lower(rc.gaussian_rdp(1e-4 * noise, noise), 1e-4 * noise) == pytest.approx(noise**2 / 4)


def test_shapes_broadcast_over_divergences_and_average_over_coordinates() -> None:
    assert rc.rdp_error_lower([0.5, 1.0, 2.0], [1.0, 3.0]).shape == (3,)
    assert rc.rdp_error_lower(0.5, [1.0, 3.0]) == pytest.approx(5 / 4 / math.expm1(0.5))
    assert rc.rdp_error_lower([[0.5], [1.0]], [[1.0, 3.0], [2.0, 2.0]]).shape == (2, 2)


@pytest.mark.parametrize(("q", "noise"), [(0.01, 1.0), (0.2, 0.7), (0.5, 3.0)])
def test_replace_one_divergence_of_a_step_equals_quadrature(q: float, noise: float) -> None:
    def density(x: np.ndarray, shift: float) -> np.ndarray:
        normal = scipy.stats.norm.pdf
        mixed: np.ndarray = (1 - q) * normal(x, 0, noise) + q * normal(x, shift, noise)
        return mixed

    moment, _ = scipy.integrate.quad(
        lambda x: density(x, 1) ** 2 / density(x, -1),
        -12 * noise - 3,
        12 * noise + 5,
        epsabs=0,
        epsrel=1e-12,
        limit=500,
    )
    assert rc.dpsgd_rdp(noise, q, 7) == pytest.approx(7 * math.log(moment), rel=1e-8)


def test_replacing_reveals_more_than_adding_which_the_paper_used() -> None:
    assert rc.dpsgd_rdp(1.0, 0.01, 1) == pytest.approx(4.5755e-4, rel=1e-4)
    added = ss.accounting.sampled_gaussian_rdp(1.0, 1.0, 0.01, 2)
    assert rc.rdp_error_lower(rc.dpsgd_rdp(1.0, 0.01, 1), 1.0) < rc.rdp_error_lower(added, 1.0) / 2


def test_smooth_clipping_costs_its_larger_norm() -> None:
    assert rc.dpsgd_rdp(1.0, 0.1, 5, smooth_clipping=True) == pytest.approx(rc.dpsgd_rdp(1 / 1.1153, 0.1, 5))
    x = np.linspace(0, 10, 1_000_001)
    norms = x / ((x - 1) * scipy.special.ndtr(x - 1) + 1)
    assert norms.max() == pytest.approx(1.1152189, abs=1e-7)  # ours; the authors' GELU by tanh reaches 1.11524
    assert norms.max() <= rc.SMOOTH_CLIPPING_BOUND < norms.max() + 1e-4


@given(st.floats(0, 600))
def test_pure_epsilon_is_attained_by_randomised_response(epsilon: float) -> None:
    p, q = scipy.special.expit(epsilon), scipy.special.expit(-epsilon)
    attained = math.log(p * (p / q) + q * (q / p)) if epsilon < 300 else epsilon
    assert rc.pure_epsilon_rdp(epsilon) == pytest.approx(attained, rel=1e-9, abs=1e-14)


def test_small_pure_epsilon_keeps_its_digits() -> None:
    assert rc.pure_epsilon_rdp(1e-6) == pytest.approx(1e-12, rel=1e-6)


def test_output_perturbation_of_the_paper_has_an_enormous_divergence() -> None:
    """BR has 2/(nλσ) = 1.58; with the square, and the images' own norm, it is (2R/(nλσ))²."""
    assert rc.gaussian_rdp(2 * 17.2 / (12_665 * 0.01), 0.01) == pytest.approx(737.7, abs=0.1)


# --- bounds from Fisher information ---------------------------------------------------------------------------------


@given(st.floats(0.1, 10), st.floats(0.1, 10))
def test_in_one_dimension_an_unbiased_linear_estimator_attains_the_bound(slope: float, noise: float) -> None:
    """h = a·z + N(0, σ²) and ẑ = h/a: variance σ²/a², information a²/σ²."""
    information = slope**2 / noise**2
    attained = noise**2 / slope**2
    assert rc.fisher_error_lower(information, 1) == pytest.approx(attained, rel=1e-12)
    assert rc.fisher_matrix_error_lower([[information]]) == pytest.approx(attained, rel=1e-12)
    assert rc.feature_error_lower([information], 3.0) == pytest.approx(3 * math.sqrt(attained), rel=1e-12)


def test_least_squares_attains_the_matrix_bound_and_stays_above_the_trace_bound() -> None:
    jacobian = np.random.default_rng(0).normal(size=(7, 3))
    information = jacobian.T @ jacobian / NOISE**2
    variance = np.diag(np.linalg.inv(jacobian.T @ jacobian)) * NOISE**2  # of ẑ = J⁺h
    assert rc.fisher_matrix_error_lower(information) == pytest.approx(variance.mean(), rel=1e-9)
    assert rc.fisher_error_lower(np.trace(information), 3) < variance.mean()
    assert np.all(rc.feature_error_lower(np.diag(information)) <= np.sqrt(variance))


def test_a_shrinking_estimator_attains_the_biased_bound() -> None:
    """ẑ = c·h of h = z + N(0, σ²I): error c²σ² + (1−c)²z² per coordinate."""
    z, c = np.array([1.0, -2.0]), 0.3
    attained = c**2 * NOISE**2 + ((c - 1) ** 2 * z**2).mean()
    bound = rc.fisher_matrix_error_lower(np.eye(2) / NOISE**2, response=c * np.eye(2), bias=(c - 1) * z)
    assert bound == pytest.approx(attained, rel=1e-12)


def test_singular_information_forbids_every_attack_that_follows_the_silent_direction() -> None:
    information = np.diag([4.0, 0.0])
    assert rc.fisher_matrix_error_lower(information) == np.inf
    assert rc.fisher_matrix_error_lower(information, response=np.diag([1.0, 0.0])) == pytest.approx(0.125)
    assert rc.fisher_error_lower(0.0, 5) == np.inf


def test_traces_are_averaged_first_and_inverted_then() -> None:
    traces = np.array([[1.0, 5.0], [3.0, 5.0], [5.0, 5.0]])
    found = rc.average_traces(traces, dimension=2)
    np.testing.assert_allclose(found.error_lower, [2 / 3, 2 / 5])
    np.testing.assert_allclose(found.dfil, [1.5, 2.5])
    assert found.worst.value == pytest.approx(0.4)
    assert found.typical.value == pytest.approx(0.4)
    first = found.of(0)
    assert first.kind == "estimate"
    assert present(first.lower) < first.value < present(first.upper)
    reach = scipy.stats.t.ppf(0.975, 2) * traces[:, 0].std(ddof=1) / math.sqrt(3) / 3.0  # of the mean's logarithm
    unseen = math.log(2 / 0.05) / 3 * 5.0  # as large as the largest, as often as none of three runs may show
    assert first.lower == pytest.approx(2 / (3.0 * math.exp(reach) + unseen))
    assert first.upper == pytest.approx(2 / (3.0 * math.exp(-reach)))


def test_the_amplification_factor_multiplies_the_traces_and_its_kind_is_said() -> None:
    plain = rc.average_traces([[4.0]], 1)
    halved = rc.average_traces([[4.0]], 1, Number(0.5, "estimate"))
    assert halved.error_lower == pytest.approx(2 * plain.error_lower)
    assert halved.worst.lower is None
    assert "κ is an estimate" in halved.note
    assert "κ" not in plain.note


# --- logistic regression --------------------------------------------------------------------------------------------


def finite_difference_traces(
    features: np.ndarray,
    labels: np.ndarray,
    private: Iterable[int],
    label_private: bool,
    bias: bool = True,
    step: float = 1e-5,
) -> np.ndarray:
    """Tr I(z) of each record by refitting the model with each private coordinate moved up and down."""
    rows = with_ones(features) if bias else features
    found = []
    for record in range(len(rows)):
        columns = []
        coordinates: list[Any] = [*private, *(["label"] if label_private else [])]
        for column in coordinates:
            ends = []
            for sign in (1, -1):
                moved, moved_labels = rows.copy(), labels.copy()
                if column == "label":
                    moved_labels[record] += sign * step
                else:
                    moved[record, column] += sign * step
                ends.append(minimiser(moved, moved_labels))
            columns.append((ends[0] - ends[1]) / (2 * step))
        found.append(np.square(columns).sum() / NOISE**2)
    return np.array(found)


@pytest.mark.parametrize(
    ("private", "label_private", "bias"),
    [([0, 1, 2, 3], False, True), ([0, 2], False, True), ([1, 3], True, True), ([0, 1, 2, 3], False, False)],
)
def test_closed_form_leakage_equals_finite_differences_of_the_refitted_model(
    records: tuple[np.ndarray, np.ndarray, np.ndarray], private: list[int], label_private: bool, bias: bool
) -> None:
    features, labels, weights = records
    features, labels = features[:9], labels[:9]
    weights = minimiser(with_ones(features) if bias else features, labels)
    found = rc.logistic_dfil(features, labels, weights, L2, NOISE, private, label_private)
    slow = finite_difference_traces(features, labels, private, label_private, bias)
    np.testing.assert_allclose(found * (len(private) + label_private), slow, rtol=2e-6)


@pytest.mark.parametrize("label_private", [False, True])
@pytest.mark.parametrize("private", [None, [2, 0]])
def test_matrix_trace_diagonal_and_spectral_norm_belong_together(
    records: tuple[np.ndarray, np.ndarray, np.ndarray], private: list[int] | None, label_private: bool
) -> None:
    features, labels, weights = records
    arguments = (features, labels, weights, L2, NOISE)
    matrices = rc.logistic_fisher_information(*arguments, np.arange(25), private, label_private)
    traces = np.trace(matrices, axis1=1, axis2=2)
    np.testing.assert_allclose(
        rc.logistic_dfil(*arguments, private, label_private) * matrices.shape[1], traces, rtol=1e-9
    )
    norms = rc.logistic_spectral_norm(*arguments, private, label_private)
    largest = np.linalg.eigvalsh(matrices)[:, -1]
    np.testing.assert_allclose(norms, largest, rtol=1e-7)
    assert np.all(norms >= largest * (1 - 1e-12))
    columns = np.diagonal(matrices, axis1=1, axis2=2)[:, : 4 if private is None else 2]
    np.testing.assert_allclose(rc.logistic_feature_information(*arguments, private), columns, rtol=1e-9)


def test_a_mask_names_columns_and_a_penalty_may_differ_by_weight(
    records: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    features, labels, weights = records
    by_mask = rc.logistic_dfil(features, labels, weights, L2, NOISE, [True, False, True, False])
    np.testing.assert_array_equal(by_mask, rc.logistic_dfil(features, labels, weights, np.full(5, L2), NOISE, [0, 2]))


def test_four_times_the_noise_variance_allows_a_fourth_of_the_information(
    records: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    features, labels, weights = records
    once, twice = (rc.logistic_dfil(features, labels, weights, L2, noise) for noise in (NOISE, 2 * NOISE))
    np.testing.assert_allclose(once, 4 * twice)


def test_leakage_is_proved_at_the_minimiser_and_refused_elsewhere(
    records: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    features, labels, weights = records
    found = rc.logistic_leakage(features, labels, weights, L2, NOISE)
    assert found.kind == found.worst.kind == "proved"
    np.testing.assert_allclose(found.error_lower, 1 / rc.logistic_dfil(features, labels, weights, L2, NOISE))
    with pytest.raises(SeedscopeError, match="minimise the regularised loss"):
        rc.logistic_leakage(features, labels, weights + 1e-3, L2, NOISE)


# --- amplification by sampling --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "q"), [(1.0, 0.01), (2.0, 0.1), (6.0, 0.004)])
def test_proved_factor_is_the_minimum_of_its_formula(noise: float, q: float) -> None:
    def factor(logs: np.ndarray) -> float:
        epsilon, gap = np.exp(logs)
        spill = 3 * gaussian_delta(rc.SMOOTH_CLIPPING_BOUND, noise, epsilon) / -math.expm1(-gap)
        return q / (q + (1 - q) * math.exp(-epsilon - gap)) + math.sqrt(spill)

    starts = [(a, b) for a in np.linspace(-2, 3, 6) for b in np.linspace(-4, 2, 6)]
    least = min(scipy.optimize.minimize(factor, start, method="Nelder-Mead").fun for start in starts)
    assert least * (1 - 1e-9) <= rc.amplification_proved(noise, q) <= least * (1 + 1e-3)


@pytest.mark.parametrize(("noise", "q"), [(0.7, 0.01), (2.0, 0.1), (6.0, 0.004), (20.0, 0.5)])
def test_proved_factor_covers_the_true_information_of_a_sampled_step(noise: float, q: float) -> None:
    """y = b·θ + N(0, σ²), b drawn with chance q, θ at the largest norm: information about θ by quadrature."""
    theta = rc.SMOOTH_CLIPPING_BOUND

    def information(y: float) -> float:
        with_it, without = scipy.stats.norm.pdf(y, theta, noise), scipy.stats.norm.pdf(y, 0, noise)
        found: float = (q * with_it * (y - theta) / noise**2) ** 2 / (q * with_it + (1 - q) * without)
        return found

    true, _ = scipy.integrate.quad(information, theta - 12 * noise, theta + 12 * noise, limit=500)
    kappa = rc.amplification_proved(noise, q)
    assert true <= kappa * q / noise**2
    assert kappa <= 1


def test_factors_fall_with_noise_and_a_subset_batch_hides_less_than_a_poisson_batch() -> None:
    noises = np.array([0.5, 1.0, 2.0, 5.0, 20.0, 1000.0])
    for kind in ("poisson", "subset"):
        assert np.all(np.diff(rc.amplification_proved(noises, 0.01, kind)) <= 1e-12)
    assert np.all(rc.amplification_proved(noises, 0.01) <= rc.amplification_proved(noises, 0.01, "subset") + 1e-12)
    assert rc.amplification_proved(1e4, 0.01) == pytest.approx(0.01, rel=0.1)
    assert rc.amplification_proved(0.05, 0.01) == 1
    assert rc.amplification_proved(1.0, 1.0) == 1


def test_factors_have_names_and_kinds_and_the_papers_is_an_estimate() -> None:
    found = rc.amplification_factors(5.0, 0.01, 1e-5, "subset")
    assert [(name, one.kind) for name, one in found.items()] == [
        ("none", "proved"),
        ("exact", "proved"),
        ("proved", "proved"),
        ("estimate", "estimate"),
    ]
    assert found["exact"].value < found["estimate"].value < found["proved"].value < found["none"].value == 1
    epsilon = 2 * 1.115 * math.sqrt(2 * math.log(1.25e5)) / 5  # BR Algorithm 1
    paper = rc.amplification_estimate(5.0, 0.01, 1e-5, "subset", classical=True)
    assert paper == pytest.approx(0.01 / (0.01 + 0.99 * math.exp(-epsilon)))


# --- the attack -----------------------------------------------------------------------------------------------------


def slow_errors(
    features: np.ndarray, labels: np.ndarray, weights: np.ndarray, noise: np.ndarray, private: list[int]
) -> np.ndarray:
    """Errors [trial, record], one trial and one record at a time, from what the adversary knows."""
    rows, n = with_ones(features), len(features)
    found = np.empty((len(noise), n))
    for trial, one in enumerate(weights + noise):
        residuals = scipy.special.expit(rows @ one) - labels
        for record in range(n):
            others = np.delete(np.arange(n), record)
            left = residuals[others] @ rows[others] + n * L2 * one
            guess = left[private] / left[-1]
            found[trial, record] = ((guess - features[record, private]) ** 2).mean()
    return found


def test_attack_reconstructs_exactly_without_noise(records: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    features, labels, weights = records
    found = rc.attack_errors(features, labels, weights, L2, 0.0, 3, np.random.default_rng(0))
    assert max(found.mean.max(), found.median.max(), found.clipped.max()) < 1e-12
    guesses = rc.attack_reconstructions(features, labels, weights, L2, [4, 20])
    np.testing.assert_allclose(guesses, features[[4, 20]], atol=1e-9)


@pytest.mark.parametrize("noise_scale", [1e-6, 1e-3, 0.3])
def test_blocked_products_equal_a_loop_over_trials_and_records(
    records: tuple[np.ndarray, np.ndarray, np.ndarray], noise_scale: float
) -> None:
    features, labels, weights = records
    private = [0, 3]
    found = rc.attack_errors(features, labels, weights, L2, noise_scale, 50, np.random.default_rng(1), private)
    noise = noise_scale * np.random.default_rng(1).standard_normal((50, 5), np.float32)
    slow = slow_errors(features, labels, weights, noise.astype(float), private)
    np.testing.assert_allclose(found.median, np.median(slow, axis=0), rtol=2e-3)
    z = features[:, private]
    farthest = (np.maximum(z - z.min(0), z.max(0) - z) ** 2).mean(1)
    np.testing.assert_allclose(found.clipped, np.minimum(slow, farthest).mean(0), rtol=2e-3)
    steady = slow.max(axis=0) < 100 * np.median(slow, axis=0)  # elsewhere one near-zero denominator is all of the mean
    assert steady.sum() >= 3
    np.testing.assert_allclose(found.mean[steady], slow.mean(0)[steady], rtol=5e-3)


def test_attack_finds_the_bias_among_the_features(records: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    features, labels, weights = records
    beside = rc.attack_errors(features, labels, weights, L2, 1e-3, 20, np.random.default_rng(2))
    within = rc.attack_errors(
        with_ones(features), labels, weights, L2, 1e-3, 20, np.random.default_rng(2), private=[0, 1, 2, 3]
    )
    np.testing.assert_allclose(within.median, beside.median, rtol=1e-5)


def test_small_noise_attack_stays_above_the_fisher_bound_which_ranks_it(
    records: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """To first order the guess is unbiased and linear in the noise, so its error cannot be below the bound."""
    features, labels, weights = records
    errors = rc.attack_errors(features, labels, weights, L2, 1e-7, 4000, np.random.default_rng(3)).mean
    bound = 1 / rc.logistic_dfil(features, labels, weights, L2, 1e-7)
    assert np.all(errors > 0.95 * bound)
    assert spearman(errors, bound)[0] > 0.8


@pytest.mark.paper_data
def test_on_mnist_zeros_and_ones_the_bound_holds_and_ranks_the_attack() -> None:
    data = ss.load("mnist")
    two = data.labels < 2
    features, labels = data.features[two].reshape(two.sum(), -1), data.labels[two]
    weights = minimiser(with_ones(features.astype(float)), labels, 1e-2)
    bound = 1 / rc.logistic_dfil(features, labels, weights, 1e-2, 1e-5)
    attack = rc.attack_errors(features, labels, weights, 1e-2, 1e-5, 300, np.random.default_rng(0), box=(0, 1))
    vulnerable = bound < 1
    assert vulnerable.sum() > 5000
    assert np.sum(attack.mean[vulnerable] < bound[vulnerable]) == 0
    assert -spearman(1 / bound, attack.median)[0] >= 0.8
    assert np.all(1e6 * bound > 1)  # at σ = 1e-2 every bound is above 1 (BR Figure 2)


# --- mistakes -------------------------------------------------------------------------------------------------------


def test_attack_without_a_bias_is_refused(records: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    features, labels, weights = records
    with pytest.raises(SeedscopeError, match="bias column"):
        rc.attack_errors(features, labels, weights[:-1], L2, 0.1, 10, np.random.default_rng(0))
    with pytest.raises(SeedscopeError, match="bias column"):
        rc.attack_reconstructions(features, labels, weights[:-1], L2, [0])


def test_no_noise_has_no_fisher_information(records: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    with pytest.raises(SeedscopeError, match=r"noise_scale .* above 0, got 0"):
        rc.logistic_dfil(*records, L2, 0.0)
    with pytest.raises(SeedscopeError, match="noise_multiplier"):
        rc.dpsgd_rdp(0.0, 0.1, 5)


def test_categories_declared_continuous_are_refused(records: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    features, labels, weights = records
    features = features.copy()
    features[:, 2] = np.arange(25) % 2
    with pytest.raises(SeedscopeError, match=r"continuous, but column .*2.* only the values 0, 1"):
        rc.logistic_dfil(features, labels, weights, L2, NOISE)
    assert rc.logistic_dfil(features, labels, weights, L2, NOISE, private=[0, 1, 3]).shape == (25,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.full(25, -1.0)}, "labels must be 0 or 1"),
        ({"labels": np.zeros(3)}, "one per record"),
        ({"weights": np.zeros(7)}, "weights must have"),
        ({"l2": 0.0}, "l2"),
        ({"private": [4]}, "between 0 and 3"),
        ({"private": []}, "at least one"),
        ({"private": [1, 1]}, "once"),
        ({"features": np.full((25, 4), np.nan)}, "finite"),
        ({"features": np.zeros(25)}, r"\[record, feature\]"),
    ],
)
def test_mistakes_in_a_regression_are_named(
    records: tuple[np.ndarray, np.ndarray, np.ndarray], change: dict[str, Any], message: str
) -> None:
    features, labels, weights = records
    arguments: dict[str, Any] = {
        "features": features,
        "labels": labels,
        "weights": weights,
        "l2": L2,
        "noise_scale": NOISE,
    }
    with pytest.raises(SeedscopeError, match=message):
        rc.logistic_dfil(**(arguments | change))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rc.rdp_error_lower(-1.0, 1.0), "rdp_epsilon"),
        (lambda: rc.rdp_error_lower(1.0, [np.inf]), "diameters"),
        (lambda: rc.fisher_error_lower(-1.0, 2), "fisher_trace"),
        (lambda: rc.fisher_error_lower(1.0, 0), "dimension"),
        (lambda: rc.fisher_matrix_error_lower([1.0, 2.0]), "square"),
        (lambda: rc.feature_error_lower([1.0], 0.0), "scale"),
        (lambda: rc.average_traces([1.0], 2), r"\[run, record\]"),
        (lambda: rc.average_traces([[-1.0]], 2), "at least 0"),
        (lambda: rc.amplification_proved(1.0, 0.1, "shuffled"), "poisson"),  # type: ignore[arg-type]
        (lambda: rc.reconstruction_success_upper(1.5, 1.0), "prior"),
        (lambda: rc.pure_epsilon_rdp(-1.0), "epsilon"),
        (lambda: rc.dpsgd_rdp(1.0, 0.1, 0), "steps"),
    ],
)
def test_mistakes_in_numbers_are_named(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        call()


def test_a_box_that_misses_a_record_is_refused(records: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    with pytest.raises(SeedscopeError, match="box must contain"):
        rc.attack_errors(*records, L2, 0.1, 2, np.random.default_rng(0), box=(0, 1))


@given(st.floats(1e-3, 20.0))
def test_the_share_left_by_a_divergence_is_the_best_over_all_steps(epsilon: float) -> None:
    steps = np.geomspace(1e-6, 1.0, 20_001)
    best = (steps / np.expm1(epsilon + steps)).max()
    assert rc.rdp_uncertainty_left(epsilon) == pytest.approx(best, rel=1e-5)
    assert rc.rdp_uncertainty_left(epsilon) == pytest.approx(-scipy.special.lambertw(-np.exp(-1 - epsilon)).real)


def test_no_divergence_leaves_all_and_much_of_it_nothing() -> None:
    np.testing.assert_array_equal(rc.rdp_uncertainty_left([0.0, 1e4]), [1.0, 0.0])
    assert rc.rdp_uncertainty_left(1e-14) == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(SeedscopeError, match="at least 0"):
        rc.rdp_uncertainty_left(-1.0)


@pytest.mark.parametrize("noise", [1.0, 2.0, 5.0, 20.0])
@pytest.mark.parametrize("spread", [0.3, 1.0, 4.0])
def test_the_posterior_of_a_clipped_and_noisy_value_keeps_the_share_left(noise: float, spread: float) -> None:
    """clip(θ, −1, 1) + noise has ε₂ = (2/noise)²; the posterior's mean error for a normal prior is an integral."""
    theta = np.linspace(-9 * spread, 9 * spread, 2001)
    seen = np.linspace(-1 - 8 * noise, 1 + 8 * noise, 1001)
    prior = scipy.stats.norm.pdf(theta, scale=spread)
    prior /= prior.sum()
    joint = prior * scipy.stats.norm.pdf(seen[:, None], theta.clip(-1, 1), noise)
    mean = joint @ theta / joint.sum(axis=1)
    explained = (mean**2 * joint.sum(axis=1)).sum() / joint.sum()
    share = 1 - explained / (prior @ theta**2)
    bound = rc.rdp_uncertainty_left((2 / noise) ** 2)
    assert bound <= share
    assert bound >= 0.4 * share or noise < 5  # and says something where the noise is large
