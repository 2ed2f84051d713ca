"""The named sets: sizes, classes and preprocessing, those of the papers on the real files."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from seedscope.core.errors import SeedscopeError
from seedscope.datasets import describe, fetch, load, names
from seedscope.datasets.named import catalogue
from seedscope.datasets.named import downloads as storage

ALWAYS = ("breast-cancer", "digits", "digits-binary", "synthetic")
ON_DEMAND = tuple(name for name in names() if name not in ALWAYS)
MULTIPLICITY = ("credit", "contraception", "mammography", "dermatology")
INTRINSIC = ("mnist-binary", "adult", "forest", "cifar2")


def assert_as_described(name: str) -> None:
    data, entry = load(name), describe(name)
    validation = len(data.validation) if data.validation else 0
    assert (len(data.train), validation, len(data.test)) == entry.rows
    assert data.features.shape[1:] == data.test_features.shape[1:] == entry.features
    assert len(data.feature_names) == len(set(data.feature_names)) == int(np.prod(entry.features))
    assert set(data.labels) == set(data.test_labels) == set(range(data.classes))
    assert np.isfinite(data.features).all()
    assert np.isfinite(data.test_features).all()
    rows = np.concatenate([data.train.rows, data.test.rows, data.validation.rows if data.validation else []])
    assert len(set(rows)) == sum(entry.rows)
    assert data.name == name


@pytest.mark.parametrize("name", ALWAYS)
def test_a_set_that_is_always_there_is_as_described(name: str) -> None:
    assert_as_described(name)
    assert describe(name).where in ("embedded", "generated")


@pytest.mark.parametrize("name", ALWAYS)
def test_a_set_is_the_same_each_time_and_another_with_another_seed(name: str) -> None:
    assert load(name).fingerprint == load(name).fingerprint
    assert load(name).fingerprint != load(name, seed=1).fingerprint


def test_the_synthetic_clouds_have_the_papers_means_and_covariances() -> None:
    data = load("synthetic")
    for label, mean, covariance in ((0, 1.0, 0.5), (1, -1.0, 0.1)):
        points = data.test_features[data.test_labels == label]
        assert len(points) == 10_000
        np.testing.assert_allclose(points.mean(axis=0), mean, atol=0.05)
        np.testing.assert_allclose(np.cov(points.T), [[1, covariance], [covariance, 1]], atol=0.07)


def test_digits_binary_are_the_threes_and_eights_of_digits() -> None:
    two, ten = load("digits-binary"), load("digits")
    whole = np.empty((1797, 64))
    labels = np.empty(1797, int)
    for part in (ten.train, ten.test):
        whole[part.rows], labels[part.rows] = part.features, part.labels
    np.testing.assert_array_equal(two.features, whole[two.train.rows])
    np.testing.assert_array_equal(np.array([3, 8])[two.labels], labels[two.train.rows])


def test_importing_the_data_sets_imports_nothing_slow() -> None:
    slow = ("pandas", "sklearn", "scipy", "pooch", "requests", "rich", "jax")
    code = f"import sys, seedscope.datasets; print([name for name in {slow} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_an_unknown_set_lists_the_known_ones() -> None:
    for call in (load, describe, fetch):
        with pytest.raises(
            SeedscopeError, match=r"unknown data set 'mnits'\. Did you mean 'mnist'\? Known: breast-cancer"
        ):
            call("mnits")


def test_an_unknown_option_lists_the_known_ones() -> None:
    with pytest.raises(SeedscopeError, match=r"unknown option of digits 'features'.* Known: seed"):
        load("digits", features="pca")


def test_what_is_always_there_need_not_be_fetched() -> None:
    with pytest.raises(SeedscopeError, match="'digits' is always there"):
        fetch("digits")


def test_a_folder_that_does_not_exist_is_an_error_not_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEDSCOPE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(SeedscopeError, match=r"SEEDSCOPE_DATA must name a folder, got .*nowhere"):
        load("mnist")


def test_the_data_folder_comes_before_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, folder in (("SEEDSCOPE_DATA", "data"), ("SEEDSCOPE_CACHE", "cache")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / folder))
    assert describe("adult").where == "not fetched"
    (tmp_path / "cache" / "adult.csv.gz").touch()
    assert describe("adult").where == str(tmp_path / "cache" / "adult.csv.gz")
    (tmp_path / "data" / "adult.csv.gz").touch()
    assert describe("adult").where == str(tmp_path / "data" / "adult.csv.gz")


@pytest.mark.parametrize(
    ("name", "file"), [("mnist", "mnist.npz"), ("adult", "adult.csv.gz"), ("heart", "uci/heart-cleveland.csv")]
)
def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str) -> None:
    monkeypatch.setenv("SEEDSCOPE_DATA", str(tmp_path))
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"PK\x03\x04 broken off")
    with pytest.raises(SeedscopeError, match=rf"data file '.*{path.name}' is damaged .* fetch it again"):
        load(name)


def test_an_array_file_with_pickled_objects_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEDSCOPE_DATA", str(tmp_path))
    np.savez(tmp_path / "mnist.npz", x_train=np.array([{}], dtype=object))
    with pytest.raises(SeedscopeError, match="damaged"):
        load("mnist")


def test_a_file_with_too_few_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEDSCOPE_DATA", str(tmp_path))
    images, labels = np.zeros((20, 28, 28), np.uint8), np.arange(20, dtype=np.uint8) % 10
    np.savez(tmp_path / "mnist.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    with pytest.raises(SeedscopeError, match="40 rows where 70000 are expected"):
        load("mnist")


def test_descriptions_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        describe("digits").name = "other"  # type: ignore[misc]


@pytest.mark.paper_data
@pytest.mark.parametrize("name", ON_DEMAND)
def test_a_paper_set_is_as_described(name: str) -> None:
    assert_as_described(name)


@pytest.mark.paper_data
@pytest.mark.parametrize("name", INTRINSIC)
def test_the_intrinsic_papers_sets_have_norm_one_and_spare_their_first_row(name: str) -> None:
    data = load(name)
    assert data.norm_bound == 1.0
    assert data.spare == ("train", 0)
    assert len(data.base) == len(data.train) - 1
    norms = np.linalg.norm(np.concatenate([data.features, data.test_features]), axis=1)
    # Every row of the two image sets is longer than 1 before it is scaled, so here all norms are 1.
    np.testing.assert_allclose(norms, 1, rtol=1e-12)
    if name != "forest":  # forest's training rows are in a random order
        assert data.validation is not None
        assert data.validation.rows.max() < data.train.rows.min()


@pytest.mark.paper_data
def test_forests_rows_are_shuffled() -> None:
    order = load("forest").train.rows
    assert abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) < 0.01


@pytest.mark.paper_data
@pytest.mark.parametrize(("features", "count"), [("random-projection", 50), ("crop", 100)])
def test_the_other_reductions_of_mnist_keep_the_same_rows(features: str, count: int) -> None:
    data, pca = load("mnist-binary", features=features), load("mnist-binary")
    assert data.features.shape == (10_397, count)
    assert np.linalg.norm(data.features, axis=1).max() <= 1 + 1e-12
    np.testing.assert_array_equal(data.train.rows, pca.train.rows)
    np.testing.assert_array_equal(data.labels, pca.labels)
    if features == "crop":  # IP1 D.1: 46 % of the values are zero
        assert np.mean(data.features == 0) == pytest.approx(0.46, abs=0.01)


@pytest.mark.paper_data
def test_unknown_features_list_the_known_ones() -> None:
    for name in ("mnist-binary", "cifar2"):
        with pytest.raises(SeedscopeError, match=f"unknown features of {name} 'pcaa'. Did you mean 'pca'"):
            load(name, features="pcaa")


@pytest.mark.paper_data
def test_images_are_float32_between_zero_and_one() -> None:
    for data in (load("mnist"), load("cifar10-small"), load("cifar2", features="pixels")):
        assert data.features.dtype == np.float32
        assert data.features.min() == 0
        assert data.features.max() == 1
        assert data.norm_bound is None
    assert data.features.shape == (9_000, 32, 32, 3)


@pytest.mark.paper_data
def test_mnist_with_a_validation_part_is_that_of_the_paper() -> None:
    data = load("mnist", validation=True)
    assert data.validation is not None
    assert (len(data.train), len(data.validation), len(data.test)) == (54_000, 6_000, 10_000)


@pytest.mark.paper_data
def test_cifar2_and_cifar10_small_hold_the_same_airplanes() -> None:
    two, ten = load("cifar2", features="pixels"), load("cifar10-small")
    assert two.validation is not None
    images = np.concatenate([two.validation.features, two.features])
    labels = np.concatenate([two.validation.labels, two.labels])
    np.testing.assert_array_equal(images[labels == 0][:1500], ten.features[ten.labels == 0])
    np.testing.assert_array_equal(images[labels == 1][:1500], ten.features[ten.labels == 2])


@pytest.mark.paper_data
def test_adult_is_encoded_as_pandas_would_on_training_rows_alone() -> None:
    data = load("adult")
    frame = pd.read_csv(storage.find("adult.csv.gz"))
    train = frame[frame["split"] == "train"].drop(columns=["split", "income"])
    encoded = pd.get_dummies(train, drop_first=True, prefix_sep="=", dtype=float)
    scaled = (encoded - encoded.min()) / (encoded.max() - encoded.min())
    scaled = scaled.div(np.sqrt((scaled**2).sum(axis=1)), axis=0)
    assert data.feature_names == tuple(encoded.columns)
    np.testing.assert_allclose(data.features, scaled.to_numpy()[3256:], atol=1e-12)
    assert any(name.startswith("workclass=") for name in data.feature_names)
    assert "workclass=?" not in data.feature_names, "`?` is the first level, the one that is dropped"
    assert set(data.groups["sex"]) == {"Female", "Male"}
    assert len(set(data.groups["race"])) == 5
    np.testing.assert_array_equal(frame["sex"][data.test.rows], data.test.groups["sex"])


@pytest.mark.paper_data
@pytest.mark.parametrize("name", MULTIPLICITY)
def test_the_multiplicity_papers_sets_are_standardised_on_all_rows(name: str) -> None:
    data = load(name)
    assert data.spare == ("test", 0)
    whole = np.concatenate([data.features, data.test_features])
    numeric = [place for place, feature in enumerate(data.feature_names) if "=" not in feature]
    np.testing.assert_allclose(whole[:, numeric].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(whole[:, numeric].std(axis=0), 1, atol=1e-12)
    others = np.delete(whole, numeric, axis=1)
    assert np.isin(others, (0.0, 1.0)).all()


@pytest.mark.paper_data
@pytest.mark.parametrize(
    ("name", "positive", "count"),
    [
        ("credit", "+", 296),
        ("contraception", "no use", 629),
        ("mammography", "malignant", 403),
        ("dermatology", "psoriasis", 111),
        ("german-credit", "good", 700),
        ("heart", "present", 137),
    ],
)
def test_the_positive_class_is_the_papers(name: str, positive: str, count: int) -> None:
    data = load(name)
    assert data.class_names[1] == positive
    assert data.labels.sum() + data.test_labels.sum() == count


@pytest.mark.paper_data
def test_both_copies_of_mammography_give_the_same_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = load("mammography")
    path = storage.find("uci/mammo.csv")
    assert path is not None
    lines = path.read_text().splitlines()
    (tmp_path / "uci").mkdir()
    typo = next(place for place, line in enumerate(lines) if line.startswith("5,") and "?" not in line)
    lines[typo] = "5" + lines[typo]
    (tmp_path / "uci" / "mammo.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("SEEDSCOPE_DATA", str(tmp_path))
    assert load("mammography").fingerprint == here.fingerprint


@pytest.mark.paper_data
def test_groups_of_the_medical_and_credit_tables_match_their_rows() -> None:
    for name, women in (("heart", 96), ("german-credit", 310)):
        data = load(name)
        assert sum(np.sum(part.groups["sex"] == "female") for part in (data.train, data.test)) == women


def test_a_new_entry_is_enough_to_add_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = replace(catalogue.CATALOGUE["synthetic"], name="clouds")
    monkeypatch.setitem(catalogue.CATALOGUE, "clouds", entry)
    assert "clouds" in names()
    assert load("clouds").features.shape == (2000, 2)


def test_the_documentation_lists_every_set_with_its_rows_and_features() -> None:
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    for name in names():
        entry = describe(name)
        rows = " / ".join(f"{count:,}" if count else "–" for count in entry.rows)
        features = " × ".join(map(str, entry.features))
        line = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"| {rows} | {features} |" in line
