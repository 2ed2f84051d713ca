"""What every mechanism promises, and the calibrations that the promises rest on."""

import json
import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedscope import (
    DPSGD,
    SGD,
    AugmentedOutputPerturbation,
    Chaudhuri,
    Dataset,
    Diffprivlib062,
    Ensemble,
    GaussianObjectivePerturbation,
    Grid,
    ObjectivePerturbation,
    OutputPerturbation,
    Poisson,
    Records,
    Shuffled,
    Standardised,
    Unscaled,
    WithoutReplacement,
    mlp,
    train,
)
from seedscope.accounting import dpsgd_epsilon, gaussian_delta, gaussian_epsilon, gaussian_noise_scale
from seedscope.core.errors import SeedscopeError
from seedscope.core.relations import RELATIONS
from seedscope.mechanisms import Mechanism
from seedscope.mechanisms.guarantees import Conditions, Guarantee
from seedscope.models import MLP
from tests.helpers.present import present
from tests.helpers.small_data import given_scaling, images, table

SMALL_SGD = SGD(learning_rate=0.5, batch_size=8, steps=12)
MECHANISMS: dict[str, Any] = {
    "sgd": SMALL_SGD,
    "dpsgd": DPSGD(learning_rate=0.5, batch_size=8, steps=12),
    "output": OutputPerturbation(epsilon=1.0),
    "output, noise given": OutputPerturbation(noise_scale=2.0),
    "objective": ObjectivePerturbation(epsilon=1.0),
    "objective, published": ObjectivePerturbation(epsilon=1.0, calibration=Chaudhuri()),
    "objective, added or removed": ObjectivePerturbation(epsilon=1.0, relation="add_or_remove"),
    "Gaussian objective": GaussianObjectivePerturbation(epsilon=1.0, delta=1e-5),
    "Gaussian objective, added or removed": GaussianObjectivePerturbation(1.0, relation="add_or_remove"),
    "objective, diffprivlib": ObjectivePerturbation(epsilon=1.0, calibration=Diffprivlib062()),
    "augmented": AugmentedOutputPerturbation(SMALL_SGD, 1.0, 1e-4, sensitivity=0.1, intrinsic_noise=0.01),
}
SETTING = Conditions(examples=500, norm_bound=math.sqrt(2), width=4)
EPSILONS = st.floats(1e-3, 50)
SETTINGS = st.builds(Conditions, st.integers(2, 10**6), st.floats(0.1, 10))


@cache
def small_ensemble(name: str) -> Ensemble:
    """Return what a mechanism trains on a small grid."""
    records = Records(probes=("test", "spare", "train", "neighbours"))
    grid = Grid(seeds=5, neighbours=3, people=[2])
    return train(table(), MECHANISMS[name], grid=grid, records=records, scaling=given_scaling(table()))


@pytest.mark.parametrize("name", MECHANISMS)
class TestDescription:
    def test_is_frozen_data(self, name: str) -> None:
        mechanism = MECHANISMS[name]
        with pytest.raises(FrozenInstanceError):
            mechanism.epsilon = 7
        assert replace(mechanism) == mechanism
        assert hash(replace(mechanism)) == hash(mechanism)

    def test_says_its_relation_and_sampling(self, name: str) -> None:
        assert MECHANISMS[name].relation in RELATIONS
        assert isinstance(MECHANISMS[name].sampling, Poisson | WithoutReplacement | Shuffled | None)

    def test_promises_a_proved_epsilon_or_says_why_not(self, name: str) -> None:
        guarantee = MECHANISMS[name].guarantee(SETTING)
        assert isinstance(guarantee, Guarantee)
        assert guarantee.relation == MECHANISMS[name].relation
        assert 0 <= guarantee.delta < 1
        assert guarantee.reason.endswith(".")
        if guarantee.epsilon is not None:
            assert guarantee.epsilon.kind == "proved"
            assert float(guarantee.epsilon) > 0

    def test_is_written_down_as_plain_values_that_tell_it_apart(self, name: str) -> None:
        written = {other: json.dumps(one.describe()) for other, one in MECHANISMS.items()}
        assert json.loads(written[name])["type"] == type(MECHANISMS[name]).__name__
        assert list(written.values()).count(written[name]) == 1


@pytest.mark.parametrize("name", MECHANISMS)
class TestTraining:
    def test_gives_one_kind_of_ensemble(self, name: str) -> None:
        found = small_ensemble(name).dataset
        assert found.weights.dims == ("seed", "neighbour", "init", "step", "parameter")
        assert found.scores.dims == found.losses.dims == ("seed", "neighbour", "init", "example")
        assert found.weights.shape == (5, 5, 1, 1, 4)
        assert found.sizes["example"] == 8 + 1 + 40 + 4
        assert {str(found[variable].dtype) for variable in ("weights", "scores", "losses")} == {"float32"}
        np.testing.assert_array_equal(found.seed, np.arange(5))
        np.testing.assert_array_equal(found.neighbour[:2], [-1, 2])
        np.testing.assert_array_equal(found.neighbour_drawn, [False, False, True, True, True])

    def test_every_record_is_a_number(self, name: str) -> None:
        found = small_ensemble(name).dataset
        assert all(np.isfinite(found[variable]).all() for variable in found.data_vars)
        assert ((found.scores >= 0) & (found.scores <= 1)).all()
        assert (found.losses >= 0).all()

    def test_scores_and_losses_are_those_of_the_released_weights(self, name: str) -> None:
        data, found = table(), small_ensemble(name).dataset
        rows = Standardised().fit(data).apply(data.test_features)
        weights = found.weights.values[:, :, :, -1].astype(float)
        logits = weights[..., :-1] @ rows.T + weights[..., -1:]
        chances, signed = 1 / (1 + np.exp(-logits)), np.where(data.test_labels == 1, logits, -logits)
        np.testing.assert_allclose(found.scores[..., :8], chances, atol=1e-5)
        np.testing.assert_allclose(found.losses[..., :8], np.logaddexp(0, -signed), rtol=1e-4, atol=1e-4)

    def test_seeds_and_neighbours_matter(self, name: str) -> None:
        weights = small_ensemble(name).weights.values[:, :, 0, 0]
        assert np.abs(np.diff(weights[:, 0], axis=0)).max(1).min() > 1e-4
        assert np.abs(weights[:, 1:] - weights[:, :1]).max((0, 2)).min() > 1e-6

    def test_a_seed_draws_the_same_on_every_neighbour(self, name: str) -> None:
        weights = small_ensemble(name).weights.values[:, :, 0, 0]
        same_seed = np.linalg.norm(weights[:, 1:] - weights[:, :1], axis=-1).mean()
        other_seed = np.linalg.norm(np.roll(weights, 1, axis=0)[:, 1:] - weights[:, :1], axis=-1).mean()
        assert same_seed < other_seed / 2

    def test_says_how_it_was_made(self, name: str) -> None:
        description = small_ensemble(name).description
        named = {"data", "mechanism", "guarantee", "model", "grid", "preprocessing", "records", "versions"}
        assert named == description.to_json().keys()
        assert description.mechanism == MECHANISMS[name]
        assert description.guarantee.relation == MECHANISMS[name].relation
        assert description.grid.relation == MECHANISMS[name].relation

    def test_a_learned_scaling_is_said_beside_a_proved_guarantee(self, name: str) -> None:
        guarantee = train(table(), MECHANISMS[name], grid=Grid(seeds=1), records=Records(probes=())).guarantee
        assert ("proved only if the scaling were public" in guarantee.reason) == (guarantee.epsilon is not None)
        assert guarantee.epsilon is None or guarantee.epsilon.kind == "estimate"

    def test_the_other_relation_can_be_asked_for(self, name: str) -> None:
        other = RELATIONS[1 - RELATIONS.index(MECHANISMS[name].relation)]
        grid = Grid(seeds=2, neighbours=2, relation=other)
        ensemble = train(
            table(), MECHANISMS[name], grid=grid, records=Records(probes=()), scaling=given_scaling(table())
        )
        usual = small_ensemble(name).weights.sel(seed=[0, 1])
        np.testing.assert_allclose(ensemble.weights.sel(neighbour=-1), usual.sel(neighbour=-1), atol=1e-5)
        shared = ensemble.dataset.neighbour.values[1:]
        assert float(np.abs(ensemble.weights.sel(neighbour=shared) - usual.sel(neighbour=shared)).max()) > 1e-5


def test_sgd_says_why_nothing_is_proved() -> None:
    guarantee = SGD().guarantee(SETTING)
    assert guarantee.epsilon is None
    assert guarantee.reason == (
        "SGD adds no noise on purpose: what its random order and initial weights hide is only estimated."
    )


def test_dpsgd_is_accounted_for_poisson_batches_only() -> None:
    poisson = DPSGD(batch_size=50, steps=200, noise_multiplier=1.5, delta=1e-5)
    guarantee = poisson.guarantee(SETTING)
    assert guarantee.relation == "add_or_remove"
    assert float(present(guarantee.epsilon)) == pytest.approx(float(dpsgd_epsilon(1.5, 0.1, 200, 1e-5)))
    for sampling in (Shuffled(), WithoutReplacement()):
        refused = replace(poisson, sampling=sampling).guarantee(SETTING)
        assert refused.epsilon is None
        assert "Poisson" in refused.reason


@settings(deadline=None)
@given(epsilon=EPSILONS, setting=SETTINGS, l2=st.floats(1e-4, 10))
def test_calibrated_output_noise_gives_exactly_the_epsilon(epsilon: float, setting: Conditions, l2: float) -> None:
    mechanism = OutputPerturbation(epsilon=epsilon, l2=l2)
    sensitivity = 2 * present(setting.norm_bound) / (setting.examples * l2)
    assert sensitivity < mechanism.sensitivity(setting) == pytest.approx(sensitivity, rel=1e-5)
    found = gaussian_epsilon(mechanism.sensitivity(setting), mechanism.noise(setting), setting.examples**-2.0)
    assert found == pytest.approx(epsilon, rel=1e-6)
    assert float(present(mechanism.guarantee(setting).epsilon)) == epsilon
    assert mechanism.guarantee(setting).delta == setting.examples**-2


@given(noise=st.floats(1e-2, 10), delta=st.floats(1e-9, 0.1))
def test_given_output_noise_has_the_analytic_epsilon(noise: float, delta: float) -> None:
    mechanism = OutputPerturbation(noise_scale=noise, delta=delta)
    guarantee = mechanism.guarantee(SETTING)
    assert mechanism.noise(SETTING) == noise
    assert gaussian_delta(mechanism.sensitivity(SETTING), noise, float(present(guarantee.epsilon))) <= delta * (
        1 + 1e-6
    )
    assert guarantee.delta == delta


def test_what_the_solver_may_leave_is_in_the_sensitivity() -> None:
    mechanism = OutputPerturbation(epsilon=1.0, delta=1e-5, l2=0.1)
    exact = 2 * math.sqrt(2) / (500 * 0.1)
    left = 1e-6 * math.sqrt(2) / 500  # of the gradient, so the solution is at most left / l2 away
    assert mechanism.sensitivity(SETTING) == pytest.approx(exact + 2 * left / 0.1, rel=1e-12)


@pytest.mark.parametrize(
    "mechanism",
    [OutputPerturbation(noise_scale=0), OutputPerturbation(epsilon=math.inf), ObjectivePerturbation(math.inf)],
)
def test_without_noise_nothing_is_proved(mechanism: Mechanism) -> None:
    assert mechanism.guarantee(SETTING).epsilon is None
    assert "without noise" in mechanism.guarantee(SETTING).reason


@given(epsilon=EPSILONS, setting=SETTINGS, share=st.floats(1e-3, 1e3))
def test_the_objectives_tilt_is_chaudhuris(epsilon: float, setting: Conditions, share: float) -> None:
    N, R, c = setting.examples, present(setting.norm_bound), 0.25
    l2 = share * c * R**2 / N
    tilt = ObjectivePerturbation(epsilon=epsilon, l2=l2, calibration=Chaudhuri()).tilt(setting)
    left = epsilon - 2 * math.log(1 + c * R**2 / (N * l2))
    if left > 0:
        assert tilt.penalty == l2
        assert tilt.scale == pytest.approx(2 * R / left)
    else:
        assert tilt.penalty == pytest.approx(c * R**2 / (N * (math.exp(epsilon / 4) - 1)), rel=1e-6)
        assert tilt.penalty > l2
        assert tilt.scale == pytest.approx(2 * R / (epsilon / 2))
    assert tilt.bias_penalty == tilt.penalty


def test_both_branches_of_the_tilt_are_reached() -> None:
    setting = Conditions(examples=100, norm_bound=1.0)
    high, low = (ObjectivePerturbation(epsilon, 0.01, Chaudhuri()).tilt(setting) for epsilon in (10.0, 0.1))
    assert high.penalty == 0.01
    assert low.penalty > 0.05


def test_the_objectives_smallest_regularisation_is_one_over_n() -> None:
    assert ObjectivePerturbation(epsilon=100.0, calibration=Chaudhuri()).tilt(SETTING).penalty == 1 / 500


def test_an_infinite_epsilon_has_no_tilt() -> None:
    tilt = ObjectivePerturbation(epsilon=math.inf, l2=0.3).tilt(SETTING)
    assert (tilt.penalty, tilt.bias_penalty, tilt.scale) == (0.3, 0.3, 0.0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5, 8.0])
def test_the_tilt_of_diffprivlib_062_is_that_of_its_source(epsilon: float) -> None:
    N, R, c = 500, math.sqrt(2), 0.25
    tilt = ObjectivePerturbation(epsilon, calibration=Diffprivlib062()).tilt(SETTING)
    left, extra = epsilon - 2 * math.log(1 + c * R / 0.5), 0.0  # its alpha is 1 / C = 1
    if left <= 0:
        left, extra = epsilon / 2, c * R / (math.exp(epsilon / 4) - 1) - 0.5
    assert tilt.scale == pytest.approx(2 * R / left)
    assert tilt.penalty == pytest.approx((1 + extra) / N)
    assert tilt.bias_penalty == pytest.approx(extra / N, abs=1e-15)


def test_the_calibration_of_diffprivlib_proves_nothing() -> None:
    guarantee = ObjectivePerturbation(calibration=Diffprivlib062()).guarantee(SETTING)
    assert guarantee.epsilon is None
    assert "R²" in guarantee.reason


@pytest.mark.parametrize("mechanism", [OutputPerturbation(epsilon=1.0), ObjectivePerturbation(), DPSGD()])
def test_guarantees_are_conditional_on_learned_scaling_only(mechanism: Mechanism) -> None:
    public, learned = (mechanism.guarantee(replace(SETTING, scaling_learned=one)) for one in (False, True))
    assert public.is_proved
    assert not learned.is_proved
    assert "proved only if" not in public.reason
    assert "proved only if the scaling were public, and here it was learned from the training rows" in learned.reason


@pytest.mark.parametrize("mechanism", [OutputPerturbation(epsilon=1.0), ObjectivePerturbation()])
def test_rows_without_a_public_bound_get_no_noise_calibrated(
    mechanism: OutputPerturbation | ObjectivePerturbation,
) -> None:
    with pytest.raises(
        SeedscopeError, match=r"needs rows with a public norm bound; train with scaling=Standardised\(\)"
    ):
        mechanism.guarantee(Conditions(100, None)) if isinstance(mechanism, OutputPerturbation) else mechanism.tilt(
            Conditions(100, None)
        )
    with pytest.raises(SeedscopeError, match="needs rows with a public norm bound"):
        train(table(), mechanism, grid=Grid(seeds=1), scaling=Unscaled())


@given(intrinsic=st.floats(0, 10))
def test_augmentation_adds_the_variance_that_is_lacking(intrinsic: float) -> None:
    mechanism = AugmentedOutputPerturbation(SMALL_SGD, 1.0, 1e-5, sensitivity=0.5, intrinsic_noise=intrinsic)
    target = float(gaussian_noise_scale(0.5, 1.0, 1e-5))
    assert mechanism.target_noise() == pytest.approx(target)
    assert mechanism.added_noise() ** 2 == pytest.approx(max(0, target**2 - intrinsic**2), abs=1e-12)


def test_augmentation_can_use_the_papers_classical_noise() -> None:
    mechanism = AugmentedOutputPerturbation(SMALL_SGD, 0.5, 1e-5, 0.1, 0.0, classical=True)
    assert mechanism.target_noise() == pytest.approx(0.1 * math.sqrt(2 * math.log(1.25e5)) / 0.5)


def test_augmentation_only_aims_at_its_epsilon() -> None:
    guarantee = MECHANISMS["augmented"].guarantee(SETTING)
    assert guarantee.epsilon is None
    assert "aims at ε = 1" in guarantee.reason


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SGD(learning_rate=0), "learning_rate must be a finite number above 0, got 0"),
        (lambda: SGD(batch_size=0), "batch_size must be a whole number of at least 1, got 0"),
        (lambda: SGD(steps=1.5), "steps must be a whole number"),  # type: ignore[arg-type]
        (lambda: SGD(sampling=Poisson()), r"sampling must be Shuffled\(\), got Poisson\(\)"),  # type: ignore[arg-type]
        (lambda: DPSGD(sampling="poisson"), r"sampling must be Poisson\(\), .*, got 'poisson'"),  # type: ignore[arg-type]
        (lambda: DPSGD(sampling=Poisson), "got the class Poisson; write"),  # type: ignore[arg-type]
        (lambda: DPSGD(momentum=0.9), r"momentum must be Momentum\(0\.9\) or None"),  # type: ignore[arg-type]
        (lambda: DPSGD(noise_multiplier=-1), "noise_multiplier must be"),
        (lambda: DPSGD(clipping_norm=0), "clipping_norm must be"),
        (lambda: DPSGD(delta=1.5), r"delta must be in \(0, 1\), got 1\.5"),
        (lambda: DPSGD(batch_size=501).guarantee(SETTING), "batch_size must be at most the 500 training rows, got 501"),
        (lambda: OutputPerturbation(), "either epsilon or noise_scale"),
        (lambda: OutputPerturbation(epsilon=1, noise_scale=1), "either epsilon or noise_scale"),
        (lambda: OutputPerturbation(epsilon=0), "epsilon must be above 0, got 0"),
        (lambda: OutputPerturbation(epsilon=math.nan), "epsilon must be above 0, got nan"),
        (lambda: OutputPerturbation(epsilon=1, delta=0), r"delta must be in \(0, 1\)"),
        (lambda: OutputPerturbation(epsilon=1, l2=0), "l2 must be a finite number above 0"),
        (lambda: OutputPerturbation(noise_scale=-1), "noise_scale must be a finite number of at least 0, got -1"),
        (lambda: ObjectivePerturbation(epsilon=-1), "epsilon must be above 0, got -1"),
        (lambda: ObjectivePerturbation(l2=-1), "l2 must be a finite number above 0"),
        (lambda: ObjectivePerturbation(l2=1, calibration=Diffprivlib062()), "l2 must be left out"),
        (lambda: AugmentedOutputPerturbation(DPSGD(), 1, 1e-5, 1, 1), "sgd must be SGD"),  # type: ignore[arg-type]
        (lambda: AugmentedOutputPerturbation(SGD(), 0, 1e-5, 1, 1), "epsilon must be a finite number above 0"),
        (lambda: AugmentedOutputPerturbation(SGD(), 1, 1e-5, 1, -1), "intrinsic_noise must be a finite number"),
    ],
)
def test_a_mechanism_that_cannot_be_is_refused(make: Callable[..., Any], sentence: str) -> None:
    with pytest.raises(SeedscopeError, match=sentence):
        make()


@pytest.mark.parametrize("mechanism", [OutputPerturbation(epsilon=1.0), ObjectivePerturbation()])
@pytest.mark.parametrize(
    ("data", "model", "sentence"),
    [
        (table(), mlp(3), r"needs model=logistic\(\), got MLP"),
        (images(classes=2), None, "needs a table of features, the data are images"),
    ],
)
def test_convex_mechanisms_are_for_logistic_regression_on_tables(
    mechanism: Mechanism, data: Dataset, model: MLP | None, sentence: str
) -> None:
    with pytest.raises(SeedscopeError, match=sentence):
        train(data, mechanism, model=model, grid=Grid(seeds=1))
