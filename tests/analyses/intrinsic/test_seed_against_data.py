"""Do models group by seed or by data: clusters, maps and trajectories of weights with known groups."""

import os
import sys

import numpy as np
import pytest

from seedscope.analyses import intrinsic
from seedscope.analyses.intrinsic.seed_against_data import Control
from seedscope.core.errors import SeedscopeError


def grouped(by_seed: float, by_data: float, seeds: int = 6, datasets: int = 7, parameters: int = 5) -> np.ndarray:
    """Return weights whose seed and whose data move them by these amounts."""
    rng = np.random.default_rng(0)
    weights = 1e-3 * rng.normal(size=(seeds, datasets, parameters))
    weights += by_seed * rng.normal(size=(seeds, 1, parameters))
    return weights + by_data * rng.normal(size=(1, datasets, parameters))


def test_models_that_the_seed_moves_cluster_by_seed() -> None:
    found = intrinsic.cluster_models(grouped(by_seed=1, by_data=0))
    assert found.clusters == 6
    assert found.purity_by_seed == found.single_seed_share == found.adjusted_rand_by_seed == 1
    assert found.purity_by_dataset == pytest.approx(1 / 7)
    assert found.single_dataset_share == 0


def test_models_that_the_data_move_cluster_by_data() -> None:
    found = intrinsic.cluster_models(grouped(by_seed=0, by_data=1), clusters=7)
    assert found.purity_by_dataset == found.adjusted_rand_by_dataset == 1
    assert found.purity_by_seed == pytest.approx(1 / 6)


def test_models_without_groups_agree_with_neither_beyond_chance() -> None:
    found = intrinsic.cluster_models(grouped(by_seed=0, by_data=0, seeds=12, datasets=12))
    assert abs(found.adjusted_rand_by_seed) < 0.1
    assert abs(found.adjusted_rand_by_dataset) < 0.1


def test_with_more_clusters_than_seeds_no_cluster_holds_two_seeds() -> None:
    assert intrinsic.cluster_models(grouped(by_seed=1, by_data=0), clusters=12).single_seed_share == 1


def test_more_clusters_than_models_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="at most the 42 models, got 43"):
        intrinsic.cluster_models(grouped(1, 0), clusters=43)


def test_shuffled_weights_keep_each_model_s_values_and_lose_the_groups() -> None:
    weights = grouped(by_seed=1, by_data=0, parameters=30)
    shuffled = intrinsic.controlled_weights(weights, "shuffled")
    np.testing.assert_array_equal(np.sort(shuffled, axis=2), np.sort(weights, axis=2))
    assert intrinsic.cluster_models(shuffled).adjusted_rand_by_seed < 0.2
    assert intrinsic.cluster_models(intrinsic.controlled_weights(weights, "binarised")).adjusted_rand_by_seed > 0.9
    assert intrinsic.cluster_models(intrinsic.controlled_weights(weights, "synthetic")).adjusted_rand_by_seed == 1


def test_without_umap_the_map_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(SeedscopeError, match=r"pip install 'seedscope\[umap\]'"):
        intrinsic.weight_map(grouped(1, 0))


def test_an_unknown_control_is_refused() -> None:
    with pytest.raises(SeedscopeError, match="Did you mean 'shuffled'"):
        intrinsic.weight_map(grouped(1, 0), control="shufled")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("SEEDSCOPE_SLOW"), reason="the first map compiles for half a minute")
@pytest.mark.parametrize(("control", "grouped_by_seed"), [("none", True), ("shuffled", False)])
def test_the_map_keeps_seeds_together_unless_weights_are_shuffled(control: Control, grouped_by_seed: bool) -> None:
    pytest.importorskip("umap")
    weights = grouped(by_seed=1, by_data=0, parameters=30)
    found = intrinsic.weight_map(weights, control=control, neighbours=6)
    assert found.coordinates.shape == (6, 7, 2)
    assert (intrinsic.cluster_models(found.coordinates).adjusted_rand_by_seed > 0.9) == grouped_by_seed


def test_trajectories_pick_the_weights_that_differ_most() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(8, 3, 4)) * [0.1, 5.0, 0.1, 3.0]
    found = intrinsic.weight_trajectories(weights, [10, 20, 30])
    assert found.parameters.tolist() == [1, 3]
    np.testing.assert_array_equal(found.values, weights[:5][:, :, [1, 3]])


def test_trajectories_of_chosen_weights_and_seeds() -> None:
    weights = np.arange(24.0).reshape(2, 3, 4)
    found = intrinsic.weight_trajectories(weights, [1, 2, 3], parameters=[3], seeds=[1])
    assert found.values.ravel().tolist() == [15, 19, 23]
    with pytest.raises(SeedscopeError, match="parameters must be between 0 and 3, got"):
        intrinsic.weight_trajectories(weights, [1, 2, 3], parameters=[4])
    with pytest.raises(SeedscopeError, match="with 2 steps"):
        intrinsic.weight_trajectories(weights, [1, 2])


def test_principal_components_keep_the_distances_of_models_in_a_plane() -> None:
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(4, 5, 2)) @ np.linalg.qr(rng.normal(size=(6, 2)))[0].T + 3.0
    found = intrinsic.weight_map(plane, projection="principal components")
    assert found.projection == "principal components"
    flat, mapped = plane.reshape(-1, 6), found.coordinates.reshape(-1, 2)
    np.testing.assert_allclose(
        intrinsic.pairwise_distances(mapped), intrinsic.pairwise_distances(flat), rtol=1e-8, atol=1e-8
    )


def test_models_of_one_weight_lie_on_a_line() -> None:
    found = intrinsic.weight_map(np.arange(12.0).reshape(4, 3, 1), projection="principal components")
    assert np.ptp(found.coordinates[..., 0]) == pytest.approx(11)
    assert not found.coordinates[..., 1].any()


def test_an_unknown_projection_is_refused() -> None:
    with pytest.raises(SeedscopeError, match="principal components"):
        intrinsic.weight_map(grouped(1, 0), projection="tsne")  # type: ignore[arg-type]
