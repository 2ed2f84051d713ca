"""The intrinsic epsilon: of mechanisms whose answer is known, of ensembles, of bad input."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from seedscope import DPSGD, SGD
from seedscope.accounting import classical_gaussian_epsilon, gaussian_epsilon
from seedscope.analyses import intrinsic
from seedscope.core.errors import SeedscopeError
from seedscope.core.number import Number
from seedscope.planning import Description
from seedscope.storage import Ensemble
from tests.helpers.descriptions import described
from tests.helpers.present import present


def gaussian_mechanism(
    seeds: int = 400, parameters: int = 3, shift: float = 0.05, noise_scale: float = 0.1, seed: int = 0
) -> np.ndarray:
    """Return weights of a mechanism that moves by ±shift with one person and adds the seed's Gaussian noise."""
    noise = np.random.default_rng(seed).normal(scale=noise_scale, size=(seeds, 1, parameters))
    moved = np.zeros((3, parameters))
    moved[1, 0], moved[2, 0] = shift, -shift
    return noise + moved


WEIGHTS = np.random.default_rng(0).normal(size=(5, 3, 2, 2, 2)).astype(np.float32)


def ensemble_of(
    weights: np.ndarray,
    *,
    inits: Sequence[str] = ("fixed", "varied"),
    steps: Sequence[int] = (50, 100),
    neighbours: Sequence[int] = (3, -1, 7),
    description: Description | None = None,
) -> Any:
    """Return what an ensemble shows to an analysis, from weights [seed, neighbour, init, step, parameter]."""
    coordinates = {
        "seed": 10 + np.arange(len(weights)),
        "neighbour": list(neighbours),
        "init": list(inits),
        "step": list(steps),
    }
    dims = ("seed", "neighbour", "init", "step", "parameter")
    data = xr.Dataset({"weights": (dims, weights)}, coords=coordinates)
    known = description or described(SGD(learning_rate=0.5, batch_size=10, steps=steps[-1]))
    return described_as(data, known)


def described_as(records: xr.Dataset, description: Description) -> Ensemble:
    """Return an ensemble of records whose description is given, not read beside them."""
    ensemble = Ensemble(records)
    ensemble.__dict__["description"] = description  # what a cached property would keep
    return ensemble


@pytest.fixture
def ensemble() -> Any:
    """An ensemble of 5 seeds, base and 2 neighbours, both initialisations, two checkpoints, 2 parameters."""
    return ensemble_of(WEIGHTS.copy())


def test_epsilon_of_a_gaussian_mechanism_is_recovered() -> None:
    found = intrinsic.intrinsic_privacy_from_weights(gaussian_mechanism(seeds=20_000), examples=1000)
    assert found.sensitivity_strict.value == pytest.approx(0.05)
    assert found.sensitivity_all_pairs.value == pytest.approx(0.10)
    for name in ("flat", "min", "max", "eigen"):
        assert getattr(found, f"variability_{name}").value == pytest.approx(0.1, rel=0.02)
    assert present(found.epsilon_strict).value == pytest.approx(float(gaussian_epsilon(0.05, 0.1, 1e-6)), rel=0.02)


NOISE_LAWS: dict[str, Any] = {
    "Gaussian": lambda draw, shape: draw.normal(size=shape),
    "uniform and Gaussian": lambda draw, shape: draw.uniform(-3, 3, size=shape) + 0.3 * draw.normal(size=shape),
    "Laplace": lambda draw, shape: draw.laplace(size=shape),
}


@pytest.mark.parametrize("law", NOISE_LAWS)
def test_the_verdict_on_normality_is_that_of_the_law_that_was_drawn(law: str) -> None:
    noise = NOISE_LAWS[law](np.random.default_rng(0), (800, 1, 4))
    found = intrinsic.intrinsic_privacy_from_weights(noise + np.array([0.0, 0.1])[:, None], 1000)
    assert found.gaussian_is_plausible == (law == "Gaussian")
    assert ("not Gaussian" in present(found.epsilon_strict).note) == (law != "Gaussian")


def test_the_papers_mnist_example_gives_both_formulas() -> None:
    seeds = np.array([-1.0, 1.0, -1.0, 1.0]) * 0.085  # standard deviation exactly .085
    weights = seeds[:, None, None] + np.array([0.0, 0.059])[None, :, None]
    found = intrinsic.intrinsic_privacy_from_weights(weights, examples=10397)
    assert found.delta == pytest.approx(9.25e-9, rel=1e-3)
    assert present(found.epsilon_all_pairs_classical).value == pytest.approx(4.25, abs=0.005)
    assert present(found.epsilon_all_pairs).value == pytest.approx(3.87, abs=0.005)


def test_every_combination_of_sensitivity_and_variability_has_its_epsilon() -> None:
    bound = Number(0.4, "proved")
    found = intrinsic.intrinsic_privacy_from_weights(gaussian_mechanism(50), 1000, sensitivity_bound=bound)
    for sensitivity in ("bound", "strict", "all_pairs"):
        for spread in ("flat", "min", "max", "eigen"):
            size, noise = (
                float(getattr(found, name)) for name in (f"sensitivity_{sensitivity}", f"variability_{spread}")
            )
            assert found.epsilon(sensitivity, spread).value == pytest.approx(float(gaussian_epsilon(size, noise, 1e-6)))
            classical = float(classical_gaussian_epsilon(size, noise, 1e-6))
            assert found.epsilon(sensitivity, spread, "classical").value == pytest.approx(classical)
            assert found.epsilon(sensitivity, spread).kind == "estimate"
    assert found.epsilon_bound == found.epsilon("bound", "flat")


@pytest.mark.parametrize("name", ["flat", "min", "eigen"])
def test_the_variability_asked_for_is_used(name: Any) -> None:
    found = intrinsic.intrinsic_privacy_from_weights(gaussian_mechanism(30), 1000, variability_used=name)
    assert found.epsilon_all_pairs == found.epsilon("all_pairs", name)


def test_identical_neighbours_have_epsilon_zero() -> None:
    weights = np.repeat(np.random.default_rng(0).normal(size=(5, 1, 2)), 3, axis=1)
    found = intrinsic.intrinsic_privacy_from_weights(weights, 100)
    assert found.sensitivity_strict.value == found.sensitivity_all_pairs.value == 0
    strict, classical = present(found.epsilon_strict), present(found.epsilon_all_pairs_classical)
    assert strict.value == classical.value == 0


def test_without_any_noise_epsilon_is_infinite() -> None:
    weights = np.zeros((4, 2, 1))
    weights[:, 1] = 1
    found = intrinsic.intrinsic_privacy_from_weights(weights, 100)
    assert found.variability_flat.value == 0
    assert present(found.epsilon_strict).value == np.inf


def test_a_refused_number_is_none_with_its_reason() -> None:
    found = intrinsic.intrinsic_privacy_from_weights(
        np.random.default_rng(0).normal(size=(4, 3, 9)),
        examples=100,
        sensitivity_bound=intrinsic.Refused("not convex."),
        variability_used="eigen",
    )
    assert found.sensitivity_bound is found.variability_eigen is found.epsilon_bound is found.epsilon_strict is None
    assert found.refused["sensitivity_bound"] == "not convex."
    assert "got 4 seeds and 9 parameters" in found.refused["variability_eigen"]
    assert "at least 20 neighbours" in found.refused["sensitivity_extrapolated"]
    assert set(found.refused) >= {"epsilon_bound", "epsilon_strict", "epsilon_all_pairs"}
    with pytest.raises(SeedscopeError, match="not convex"):
        found.epsilon("bound", "flat")
    with pytest.raises(SeedscopeError, match="Did you mean 'strict'"):
        found.epsilon("strct", "flat")


def test_extrapolation_stops_at_a_proved_bound() -> None:
    weights = np.random.default_rng(0).exponential(size=(3, 60, 1))
    seen = intrinsic.intrinsic_privacy_from_weights(weights, 10**6).sensitivity_strict.value
    bound = Number(seen * 1.01, "proved")
    found = intrinsic.intrinsic_privacy_from_weights(weights, 10**6, sensitivity_bound=bound)
    assert present(found.sensitivity_extrapolated).value == bound.value


def test_people_chosen_by_name_are_not_extrapolated() -> None:
    weights = np.random.default_rng(0).normal(size=(3, 60, 1))
    found = intrinsic.intrinsic_privacy_from_weights(weights, 1000, neighbours_are_random=False)
    assert found.sensitivity_extrapolated is None
    assert "by name" in found.refused["sensitivity_extrapolated"]


def test_a_diverged_run_is_named_and_left_out_only_on_request() -> None:
    weights = gaussian_mechanism(6)
    weights[4, 1, 0] = np.inf
    names = [f"s{i}" for i in range(6)]
    with pytest.raises(SeedscopeError, match=r"1 of 6 seeds .* seed s4; .* drop_diverged=True"):
        intrinsic.intrinsic_privacy_from_weights(weights, 100, seed_names=names)
    found = intrinsic.intrinsic_privacy_from_weights(weights, 100, drop_diverged=True)
    kept = intrinsic.intrinsic_privacy_from_weights(np.delete(weights, 4, axis=0), 100)
    assert found.seeds == 5
    assert found.epsilon_strict == kept.epsilon_strict


def test_too_few_seeds_remain_when_diverged_runs_are_left_out() -> None:
    weights = gaussian_mechanism(3)
    weights[0] = np.nan
    with pytest.raises(SeedscopeError, match="at least 3 seeds, got 2"):
        intrinsic.intrinsic_privacy_from_weights(weights, 100, drop_diverged=True)


def test_stability_is_the_range_over_data_sets() -> None:
    weights = np.random.default_rng(0).normal(size=(20, 6, 2))
    found = intrinsic.intrinsic_privacy_from_weights(weights, 100)
    flat = intrinsic.variability(weights).flat
    assert found.stability["flat"] == (flat.min(), flat.max())
    assert found.variability_flat.value == flat.min()


def test_result_is_json() -> None:
    found = intrinsic.intrinsic_privacy_from_weights(gaussian_mechanism(5), 100)
    again = json.loads(json.dumps(found.as_dict()))
    assert again["epsilon_strict"]["kind"] == "estimate"
    assert again["sensitivity_bound"] is None
    assert again["refused"]["sensitivity_bound"] == "no theoretical bound was given."
    assert len(again["epsilons"]) == 2 * 4 * 2


def test_pairwise_epsilon_has_its_maximum_at_the_strict_sensitivity() -> None:
    weights = gaussian_mechanism(20)
    found = intrinsic.intrinsic_privacy_from_weights(weights, 1000)
    every = intrinsic.pairwise_epsilon(weights, found.variability_flat.value, 1e-6)
    assert every.shape == (20, 2)
    assert every.max() == pytest.approx(present(found.epsilon_strict).value)


def test_an_ensemble_is_read_with_its_base_first(ensemble: Any) -> None:
    weights = intrinsic.checkpoint_weights(ensemble, init="fixed", step=50)
    np.testing.assert_array_equal(weights, ensemble.dataset["weights"].values[:, [1, 0, 2], 0, 0])


def test_an_ensemble_is_analysed_at_its_last_step_with_varied_initialisation(ensemble: Any) -> None:
    found = intrinsic.intrinsic_privacy(ensemble)
    last = ensemble.dataset["weights"].values[:, [1, 0, 2], 1, 1]
    assert (found.init, found.step, found.relation) == ("varied", 100, "replace_one")
    assert found.sensitivity_strict.value == pytest.approx(intrinsic.empirical_sensitivity(last).strict)
    bound = intrinsic.sgd_sensitivity_bound(100, 200, 10, 0.5, 2**0.5)
    assert present(found.sensitivity_bound).value == pytest.approx(float(bound))
    assert present(found.sensitivity_bound).kind == "proved"
    assert present(found.epsilon_bound).kind == "estimate"


def test_every_checkpoint_and_initialisation_is_analysed(ensemble: Any) -> None:
    found = intrinsic.intrinsic_privacy_along_training(ensemble)
    assert [(one.init, one.step) for one in found] == [("fixed", 50), ("fixed", 100), ("varied", 50), ("varied", 100)]
    assert present(found[0].sensitivity_bound).value < present(found[1].sensitivity_bound).value
    assert found[2].variability_flat != found[3].variability_flat


def test_distances_are_given_at_every_checkpoint(ensemble: Any) -> None:
    found = intrinsic.distances_along_training(ensemble)
    assert list(found) == [("fixed", 50), ("fixed", 100), ("varied", 50), ("varied", 100)]
    weights = intrinsic.checkpoint_weights(ensemble, init="varied", step=50)
    assert found["varied", 50].seed.maximum == intrinsic.seed_distances(weights).maximum
    assert found["varied", 50].both_all_pairs is None
    assert found["varied", 100].both_all_pairs is not None


def test_checkpoints_read_in_several_parts_are_the_same(ensemble: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from seedscope.analyses.intrinsic import from_ensemble

    whole = {(init, step): weights for init, step, weights in intrinsic.checkpoints(ensemble)}
    monkeypatch.setattr(from_ensemble, "READ_BYTES", 1)
    for init, step, weights in intrinsic.checkpoints(ensemble):
        np.testing.assert_array_equal(weights, whole[init, step])


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        (described(convex=False), "convex loss"),
        (described(norm_bound=None), "bound on the rows' norm"),
        (described(SGD(learning_rate=4.5, batch_size=10, steps=9)), "learning_rate ≤ 2/β = 4"),
        (described(DPSGD(batch_size=10, steps=9)), "trained by DPSGD"),
    ],
)
def test_the_bound_is_refused_where_a_condition_fails(description: Description, reason: str) -> None:
    found = intrinsic.intrinsic_privacy(ensemble_of(WEIGHTS, description=description))
    assert found.sensitivity_bound is None
    assert reason in found.refused["sensitivity_bound"]
    assert found.epsilon_strict is not None


@pytest.mark.parametrize(
    ("fitted", "named"),
    [
        ({"learned": True}, "the scaling"),
        ({"also_learned": ("the principal components",)}, "the principal components"),
        ({"spent": (0.5, 0.0)}, "the noisy scaling"),
        ({"learned": True, "also_learned": ("the columns' ranges",)}, "the scaling and the columns' ranges"),
    ],
)
def test_a_bound_on_features_fitted_on_the_rows_is_an_estimate_that_says_so(fitted: Any, named: str) -> None:
    known = described()
    public = intrinsic.sensitivity_bound_of(known, 100)
    found = intrinsic.sensitivity_bound_of(replace(known, preprocessing=replace(known.preprocessing, **fitted)), 100)
    assert isinstance(public, Number)
    assert isinstance(found, Number)
    assert (public.kind, public.note) == ("proved", "")
    assert (found.kind, found.value) == ("estimate", public.value)
    assert found.note == f"given public preprocessing, and {named} came from these rows"


def test_the_bound_halves_where_examples_are_removed(ensemble: Any) -> None:
    replaced = present(intrinsic.intrinsic_privacy(ensemble).sensitivity_bound).value
    removed = described(SGD(learning_rate=0.5, batch_size=10, steps=100), relation="add_or_remove")
    found = intrinsic.intrinsic_privacy(ensemble_of(WEIGHTS, description=removed))
    assert present(found.sensitivity_bound).value == replaced / 2
    assert found.relation == "add_or_remove"


def test_a_diverged_seed_of_an_ensemble_is_named_by_its_coordinate(ensemble: Any) -> None:
    ensemble.dataset["weights"].values[3, 0, 1, 1, 0] = np.nan
    with pytest.raises(SeedscopeError, match="seed 13;"):
        intrinsic.intrinsic_privacy(ensemble)
    assert intrinsic.intrinsic_privacy(ensemble, drop_diverged=True).seeds == 4
    assert intrinsic.intrinsic_privacy(ensemble, init="fixed").seeds == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 75}, r"one of \[50, 100\], got 75"),
        ({"init": "vared"}, "Did you mean 'varied'"),
        ({"delta": 1.5}, r"delta must be in \(0, 1\), got 1.5"),
        ({"variability_used": "flatt"}, "Did you mean 'flat'"),
    ],
)
def test_wrong_options_are_refused(ensemble: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        intrinsic.intrinsic_privacy(ensemble, **options)


def test_an_ensemble_without_base_or_weights_is_refused(ensemble: Any) -> None:
    no_base: Any = described_as(ensemble.dataset.isel(neighbour=[0, 2]), ensemble.description)
    with pytest.raises(SeedscopeError, match="no models of the base"):
        intrinsic.intrinsic_privacy(no_base)
    no_weights: Any = described_as(xr.Dataset(coords={"seed": [0], "neighbour": [-1]}), described())
    with pytest.raises(SeedscopeError, match="needs recorded weights"):
        intrinsic.intrinsic_privacy(no_weights)
