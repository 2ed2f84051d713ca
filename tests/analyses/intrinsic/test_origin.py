"""Where the seed's noise comes from: planted shares come back, and the true law's ε equals slow integration."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import seedscope as ss
from seedscope.analyses import intrinsic
from seedscope.core import SeedscopeError


def planted(seeds: int = 500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return initial and final weights: four fifths of each initial one are left, and Gaussian noise is added."""
    rng = np.random.default_rng(0)
    initial = rng.uniform(-1, 1, size=(seeds, 3)) * np.array([1, 1, 0])
    return initial, 0.8 * initial + 0.05 * rng.normal(size=(seeds, 3)), 0.05 * rng.normal(size=(seeds, 3))


def test_planted_noise_is_taken_apart() -> None:
    found = intrinsic.noise_origin(*planted())
    np.testing.assert_allclose(found.map, np.diag([0.8, 0.8, 0]), atol=0.02)
    assert found.residual_deviation == pytest.approx(0.05, rel=0.05)
    assert found.deviation_fixed == pytest.approx(0.05, rel=0.05)
    variance = (2 * 0.8**2 / 3 + 3 * 0.05**2) / 3
    assert found.share_of_initial_point == pytest.approx(1 - 0.05**2 / variance, abs=0.01)
    assert found.rejected_share == pytest.approx(2 / 3)
    assert found.residual_rejected_share == 0


def excess_by_integration(epsilon: float, shift: float, half_width: float, noise_scale: float) -> float:
    """Return ∫(p(x) − e^ε p(x + shift))₊ dx for one uniform and one Gaussian part, slowly."""

    def density(x: float) -> float:
        ends = norm.cdf((x + half_width) / noise_scale) - norm.cdf((x - half_width) / noise_scale)
        return float(ends / (2 * half_width))

    reach = half_width + shift + 9 * noise_scale
    places = np.linspace(-reach, reach, 41)

    def gap(x: float) -> float:
        return max(0.0, density(x) - float(np.exp(epsilon)) * density(x + shift))

    return float(sum(quad(gap, low, high, epsabs=1e-12)[0] for low, high in itertools.pairwise(places)))


@pytest.mark.parametrize(("half_width", "delta"), [(1.0, 1e-3), (3.0, 0.01), (0.2, 1e-6)])
def test_epsilon_of_uniform_and_gaussian_noise_equals_slow_integration(half_width: float, delta: float) -> None:
    found = intrinsic.uniform_and_gaussian_epsilon(0.7, [half_width], 0.5, delta)
    assert excess_by_integration(found, 0.7, half_width, 0.5) == pytest.approx(delta, rel=0.02)


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
def test_without_a_uniform_part_it_is_the_gaussian_mechanism(delta: float) -> None:
    found = intrinsic.uniform_and_gaussian_epsilon(1.5, [], 0.9, delta)
    assert found == pytest.approx(float(ss.accounting.gaussian_epsilon(1.5, 0.9, delta)), rel=1e-3)


def test_noise_without_tails_hides_less_than_a_gaussian_of_its_size_says() -> None:
    spread = float(np.sqrt(1 / 3 + 0.1**2))
    by_law = intrinsic.uniform_and_gaussian_epsilon(0.2, [1.0], 0.1, 1e-8)
    assert by_law > 1.5 * float(ss.accounting.gaussian_epsilon(0.2, spread, 1e-8))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"noise_scale": 0.0}, "noise_scale"), ({"delta": 1e-12}, "rounding decides"), ({"delta": 2.0}, "delta")],
)
def test_bad_input_is_one_sentence(wrong: dict[str, float], said: str) -> None:
    given = {"shift": 1.0, "half_widths": [1.0], "noise_scale": 1.0, "delta": 1e-5} | wrong
    with pytest.raises(SeedscopeError, match=said):
        intrinsic.uniform_and_gaussian_epsilon(**given)  # type: ignore[arg-type]
    with pytest.raises(SeedscopeError, match="needs more seeds"):
        intrinsic.noise_origin(*(one[:5] for one in planted()))


def test_the_initial_point_is_recorded_as_step_0() -> None:
    grid = ss.Grid(seeds=5, init="both", checkpoints=(0, 10))
    mechanism = ss.SGD(learning_rate=0.5, batch_size=32, steps=10)
    ensemble = ss.train(ss.load("breast-cancer"), mechanism, grid=grid, jobs=1)
    first = {init: intrinsic.checkpoint_weights(ensemble, init=init, step=0)[:, 0] for init in ("fixed", "varied")}
    assert np.ptp(first["fixed"], axis=0).max() == 0
    bound = np.sqrt(6 / 31)  # Glorot's: 30 features in, one logit out; biases begin at 0
    assert np.abs(first["varied"]).max() <= bound
    assert (np.ptp(first["varied"], axis=0) == 0).sum() == 1


def test_a_narrow_gaussian_part_is_resolved_or_refused() -> None:
    narrow = intrinsic.uniform_and_gaussian_epsilon(0.001, [5.0], 0.0005, 5e-5)
    assert excess_by_steps(narrow, 0.001, 5.0, 0.0005) == pytest.approx(5e-5, rel=0.05)
    with pytest.raises(SeedscopeError, match="deviations of the Gaussian part wide"):
        intrinsic.uniform_and_gaussian_epsilon(0.001, [500.0], 0.0005, 1e-6)


def excess_by_steps(epsilon: float, shift: float, half_width: float, noise_scale: float) -> float:
    """Return ∫(p(x) − e^ε p(x + shift))₊ dx by fine steps around both ends, where alone it is not 0."""
    near = np.linspace(-12 * noise_scale - shift, 12 * noise_scale + shift, 400_001)
    total = 0.0
    for end in (-half_width, half_width):
        x = end + near
        laws = [
            norm.cdf((y + half_width) / noise_scale) - norm.cdf((y - half_width) / noise_scale) for y in (x, x + shift)
        ]
        total += float(
            np.maximum(0.0, laws[0] - np.exp(epsilon) * laws[1]).sum() * (near[1] - near[0]) / (2 * half_width)
        )
    return total
