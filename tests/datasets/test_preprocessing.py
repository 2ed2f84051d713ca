"""The papers' preprocessing against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.decomposition import PCA
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from seedscope.core.errors import SeedscopeError
from seedscope.datasets.preprocessing import (
    central_crop,
    principal_components,
    random_directions,
    rows_on_sphere,
    rows_within_ball,
    standardised,
    unit_range,
)

RNG = np.random.default_rng(1)
ROWS = RNG.normal(size=(200, 30)) @ RNG.normal(size=(30, 30)) + 3
TABLES = arrays(np.float64, (6, 3), elements=st.floats(-1e3, 1e3))


def test_principal_components_are_scikit_learns_up_to_sign() -> None:
    mean, axes = principal_components(ROWS, 7)
    theirs = PCA(7, svd_solver="full").fit(ROWS)
    np.testing.assert_allclose(mean, theirs.mean_)
    np.testing.assert_allclose(np.abs(axes.T), np.abs(theirs.components_), atol=1e-10)


def test_the_sign_of_an_axis_does_not_depend_on_the_order_of_rows() -> None:
    _, axes = principal_components(ROWS, 7)
    _, other = principal_components(ROWS[::-1], 7)
    np.testing.assert_allclose(axes, other, atol=1e-10)
    assert np.all(axes[np.abs(axes).argmax(axis=0), np.arange(7)] > 0)


def test_more_components_than_features_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="components must be from 1 to 29"):
        principal_components(ROWS, 30)


def test_a_random_projection_keeps_squared_lengths_on_average() -> None:
    row = RNG.normal(size=784)
    lengths = [np.sum((row @ random_directions(784, 50, seed)) ** 2) for seed in range(200)]
    # Each is ‖x‖² χ²(50)/50: relative deviation 0.2, of the mean of 200 0.014.
    assert np.mean(lengths) / np.sum(row**2) == pytest.approx(1, abs=0.06)


def test_the_crop_is_the_middle() -> None:
    images = np.arange(28 * 28).reshape(1, 28, 28)
    np.testing.assert_array_equal(central_crop(images, 10)[0], images[0, 9:19, 9:19])


def test_min_max_scaling_is_scikit_learns_without_constant_columns() -> None:
    rows = ROWS.copy()
    rows[:, 4] = 2.0
    varying, low, span = unit_range(rows[:150])
    scaled = (rows[:, varying] - low) / span
    theirs = MinMaxScaler().fit(rows[:150]).transform(rows)
    np.testing.assert_allclose(scaled, np.delete(theirs, 4, axis=1), atol=1e-12)


def test_standardising_is_scikit_learns() -> None:
    np.testing.assert_allclose(standardised(ROWS), StandardScaler().fit_transform(ROWS), atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(TABLES)
def test_rows_end_in_the_ball_or_on_the_sphere_and_keep_their_direction(rows: np.ndarray) -> None:
    inside, on = rows_within_ball(rows), rows_on_sphere(rows)
    norms = np.linalg.norm(rows, axis=1)
    assert np.all(np.linalg.norm(inside, axis=1) <= 1 + 1e-12)
    np.testing.assert_array_equal(inside[norms <= 1], rows[norms <= 1])
    usable = norms > 1e-150  # squares of smaller numbers underflow
    np.testing.assert_allclose(np.linalg.norm(on[usable], axis=1), 1)
    np.testing.assert_allclose(on * norms[:, None], np.where(usable[:, None], rows, on * norms[:, None]), atol=1e-9)
