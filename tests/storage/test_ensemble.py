"""An ensemble's records with named axes, opened from a store or made in memory."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from seedscope import SGD, Ensemble, Grid, ObjectivePerturbation, Records, train
from seedscope.core import SeedscopeError
from seedscope.planning.description import Description, ModelFacts
from tests.helpers.small_data import table

GRID = Grid(seeds=6, neighbours=2)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the records of a small grid."""
    path = tmp_path_factory.mktemp("stores") / "store"
    train(table(), ObjectivePerturbation(epsilon=5.0), grid=GRID, store=path)
    return path


@pytest.fixture(scope="module")
def ensemble(path: Path) -> Ensemble:
    return Ensemble.open(path)


def test_an_opened_ensemble_is_the_one_that_was_trained(ensemble: Ensemble, path: Path) -> None:
    again = train(table(), ObjectivePerturbation(epsilon=5.0), grid=GRID, store=path)
    assert ensemble.dataset.identical(again.dataset)
    assert ensemble.path == again.path == path


def test_a_store_and_memory_hold_the_same(ensemble: Ensemble) -> None:
    in_memory = train(table(), ObjectivePerturbation(epsilon=5.0), grid=GRID)
    assert in_memory.path is None
    assert set(in_memory.dataset.coords) == set(ensemble.dataset.coords)
    assert set(in_memory.dataset.data_vars) == set(ensemble.dataset.data_vars)
    for name in ensemble.dataset.variables:
        np.testing.assert_array_equal(in_memory.dataset[name], ensemble.dataset[name])
        assert in_memory.dataset[name].dims == ensemble.dataset[name].dims
    assert in_memory.description == ensemble.description


def test_records_can_be_taken_by_part(ensemble: Ensemble) -> None:
    assert ensemble.on("test").sizes["example"] == 8
    assert ensemble.on("spare").sizes["example"] == 1
    on_neighbours = ensemble.on("neighbour")
    np.testing.assert_array_equal(on_neighbours.example_row, ensemble.dataset.neighbour[1:])
    np.testing.assert_array_equal(on_neighbours.example_label, table().labels[on_neighbours.example_row])


def test_a_part_that_was_not_recorded_is_one_sentence(ensemble: Ensemble) -> None:
    with pytest.raises(SeedscopeError, match=r"no scores were recorded on 'train'; add it to Records\(probes=…\)"):
        ensemble.on("train")


def test_accuracy_is_the_share_of_right_decisions_of_the_base_models(ensemble: Ensemble) -> None:
    scores, labels = ensemble.base_scores(), table().test_labels
    assert scores.shape == (6, 8)
    by_hand = [np.mean([(score > 0.5) == label for score, label in zip(row, labels, strict=True)]) for row in scores]
    np.testing.assert_allclose(ensemble.accuracy(), by_hand)


def test_accuracy_of_many_classes_at_checkpoints_is_that_of_the_last() -> None:
    records = Records(probes=("test",), scores_at_checkpoints=True)
    grid = Grid(seeds=3, init="both", checkpoints=[1])
    ensemble = train(table(classes=3), SGD(batch_size=8, steps=40), grid=grid, records=records)
    assert ensemble.scores.dims == ("seed", "neighbour", "init", "step", "example", "class")
    np.testing.assert_allclose(ensemble.scores.sum("class"), 1, atol=1e-5)
    last = ensemble.scores.values[:, 0, :, -1].reshape(6, 8, 3)
    np.testing.assert_array_equal(ensemble.base_scores(), last)
    np.testing.assert_allclose(ensemble.accuracy(), (last.argmax(-1) == table(classes=3).test_labels).mean(1))


def test_the_description_says_how_the_ensemble_was_made(ensemble: Ensemble) -> None:
    description = ensemble.description
    assert description.data.name == "arrays"
    assert description.data.examples == 40
    assert description.data.fingerprint == table().fingerprint
    assert ensemble.mechanism == ObjectivePerturbation(5.0)
    epsilon = ensemble.guarantee.epsilon
    assert epsilon is not None
    assert (epsilon.value, epsilon.kind) == (5.0, "estimate")  # the scaling is learned
    assert ensemble.relation == "replace_one"
    assert description.model == ModelFacts("Logistic()", 4, True)
    assert description.grid.seeds == 6
    assert description.preprocessing.learned
    assert {"python", "jax", "numpy", "zarr", "seedscope"} <= description.versions.keys()
    assert Description.from_json(json.loads(description.text())) == description


def test_an_ensemble_shows_its_data_mechanism_and_sizes(ensemble: Ensemble) -> None:
    assert repr(ensemble).startswith("Ensemble('arrays', ObjectivePerturbation: ")
    assert "seed 6" in repr(ensemble)


def test_no_ensemble_at_a_path_is_one_sentence(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SeedscopeError, match=r"no ensemble at .*; name the folder that was given as store"):
            Ensemble.open(path)


def test_an_unfinished_ensemble_is_refused(path: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(path, tmp_path / "copy")
    (copy / "done" / "0-0.json").unlink()
    with pytest.raises(
        SeedscopeError, match="lacks 1 of its chunks, first 0-0; run the same training again to finish it"
    ):
        Ensemble.open(copy)


@pytest.mark.parametrize("damage", ["metadata", "description"])
def test_a_damaged_ensemble_is_one_sentence(path: Path, tmp_path: Path, damage: str) -> None:
    copy = shutil.copytree(path, tmp_path / "copy")
    metadata = copy / "models.zarr" / "zarr.json"
    content = json.loads(metadata.read_text())
    content["attributes"]["description"] = "{"
    metadata.write_text("{" if damage == "metadata" else json.dumps(content))
    with pytest.raises(SeedscopeError, match=r"the metadata of the store .* is not what was written"):
        Ensemble.open(copy)
