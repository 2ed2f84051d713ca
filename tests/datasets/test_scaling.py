"""Scaled rows keep a stated bound, learned from the training part only."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from seedscope.core.errors import SeedscopeError
from seedscope.datasets import from_arrays
from seedscope.datasets.scaling import Standardised, Unscaled, clip_rows, default_scaling
from tests.helpers.small_data import images, table

ROWS = arrays(float, (6, 4), elements=st.floats(-1e6, 1e6))


@given(rows=ROWS, bound=st.floats(1e-3, 1e3))
def test_clipping_shortens_long_rows_and_only_those(rows: np.ndarray, bound: float) -> None:
    clipped, norms = clip_rows(rows, bound), np.linalg.norm(rows, axis=1)
    assert (np.linalg.norm(clipped, axis=1) <= bound * (1 + 1e-12)).all()
    np.testing.assert_array_equal(clipped[norms <= bound], rows[norms <= bound])
    np.testing.assert_allclose(clipped * np.maximum(norms, bound)[:, None], rows * bound, rtol=1e-9, atol=1e-250)


def test_standardised_columns_have_mean_zero_and_variance_one_over_columns() -> None:
    data = table(rows=300, columns=5)
    scaled = Standardised(norm_bound=1e9).fit(data).apply(data.base.features)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.var(0), 1 / 5, rtol=1e-9)


@pytest.mark.parametrize("bound", [0.3, 1.0, 2.5])
def test_every_part_is_clipped_to_the_bound(bound: float) -> None:
    data = table(rows=100)
    fitted = Standardised(bound).fit(data)
    for part in (data.train, data.test, data.spare_example):
        far = fitted.apply(part.features * 1000)
        assert np.linalg.norm(far, axis=1).max() <= bound * (1 + 1e-12)
    assert fitted.norm_bound == bound


def test_the_spare_and_test_rows_do_not_influence_the_scaling() -> None:
    data = replace(table(), spare=("train", 4))
    features = data.train.features.copy()
    features[4] = 1e6
    other = replace(
        data, train=replace(data.train, features=features), test=replace(data.test, features=data.test_features + 9)
    )
    np.testing.assert_array_equal(Standardised().fit(data).mean, Standardised().fit(other).mean)
    np.testing.assert_array_equal(Standardised().fit(data).deviation, Standardised().fit(other).deviation)


def test_a_constant_column_becomes_zero_instead_of_nan() -> None:
    features = np.column_stack([np.arange(10.0), np.full(10, 3.3)])
    data = from_arrays(features, np.arange(10) % 2, features, np.arange(10) % 2)
    np.testing.assert_array_equal(Standardised().fit(data).apply(features)[:, 1], 0)


def test_unscaled_changes_nothing_but_rows_beyond_the_data_sets_bound() -> None:
    data = table()
    np.testing.assert_array_equal(Unscaled().fit(data).apply(data.features), data.features)
    bounded = Unscaled().fit(replace(data, norm_bound=0.5)).apply(data.features)
    assert np.linalg.norm(bounded, axis=1).max() == pytest.approx(0.5)


def test_only_learned_scaling_says_so() -> None:
    data = table(norm_bound=1.0)
    assert Standardised().fit(data).learned
    assert not Unscaled().fit(data).learned
    assert Standardised(2.0).fit(data).describe() == {"norm_bound": 2.0, "learned_from_training_part": True}


def test_the_default_standardises_tables_without_a_bound() -> None:
    assert default_scaling(table()) == Standardised(1.0)
    assert default_scaling(table(norm_bound=1.0)) == Unscaled()
    assert default_scaling(images()) == Unscaled()


def test_images_pass_unchanged() -> None:
    data = images()
    assert Unscaled().fit(data).apply(data.features) is data.features


def test_standardising_images_is_refused() -> None:
    with pytest.raises(
        SeedscopeError, match=r"Standardised\(\) is for tables; train images with scaling=Unscaled\(\)\."
    ):
        Standardised().fit(images())


@pytest.mark.parametrize("bound", [0, -1.0, np.inf])
def test_a_bound_that_bounds_nothing_is_refused(bound: float) -> None:
    with pytest.raises(SeedscopeError, match="norm_bound must be a finite number above 0"):
        Standardised(bound)
