"""Bounds person by person: against refitted models, in the features' own units, and what is refused."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.special

import seedscope as ss
from seedscope.analyses import reconstruction as rc
from seedscope.core.errors import SeedscopeError
from seedscope.datasets import Dataset, FittedScaling, Part, Scaling, default_scaling, from_arrays
from seedscope.datasets.categories import few_valued
from seedscope.mechanisms import Mechanism
from seedscope.mechanisms.base import Conditions
from tests.helpers.small_data import images, table

L2, NOISE = 0.05, 0.01
NAMES = ("age", "income", "smoker")


def patients(rows: int = 60, seed: int = 0) -> Dataset:
    """Two measurements in very different units and a yes/no column; the label depends on all three."""
    draw = np.random.default_rng(seed)
    age, income, smoker = draw.normal(50, 12, rows), draw.normal(3e4, 9e3, rows), np.arange(rows) % 3 == 0
    labels = ((age - 50) / 12 - (income - 3e4) / 9e3 + smoker + draw.normal(size=rows) > 0).astype(int)
    features = np.column_stack([age, income, smoker]).astype(float)
    whole = Part(features, labels, np.array([f"p{i}" for i in range(rows)]), np.arange(rows))
    held = slice(rows - 10, rows)
    return Dataset("patients", whole.take(slice(rows - 10)), whole.take(held), NAMES, ("0", "1"), "drawn")


def bounds_of(data: Dataset, mechanism: Mechanism, scaling: Scaling | None = None, **options: Any) -> rc.RecordBounds:
    """Return the bounds as the audit has them: with the fitted regression of a mechanism that releases one."""
    fitted = (scaling or default_scaling(data)).fit(data)
    return rc.record_bounds(data, mechanism, scaling, regression=mechanism.regression(data, fitted), **options)


def minimiser(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The minimiser of the mean log-loss with penalty, by plain Newton steps to the last digits."""
    w = np.zeros(rows.shape[1])
    for _ in range(30):
        s = scipy.special.expit(rows @ w)
        hessian = (rows * (s * (1 - s))[:, None]).T @ rows / len(rows) + L2 * np.eye(len(w))
        w = w - np.linalg.solve(hessian, (s - labels) @ rows / len(rows) + L2 * w)
    return w


def refitted_errors(data: Dataset, fitted: FittedScaling, columns: Sequence[int]) -> np.ndarray:
    """σ/‖∂w/∂z_j‖ of every record and feature, by moving the raw feature, scaling, shortening and fitting again."""
    found = np.empty((len(data.base), len(columns)))
    for record in range(len(data.base)):
        for k, column in enumerate(columns):
            step, ends = 1e-5 * data.base.features[:, column].std(), []
            for sign in (1, -1):
                moved = data.base.features.copy()
                moved[record, column] += sign * step
                scaled = fitted.apply(moved)
                ends.append(minimiser(np.column_stack([scaled, np.ones(len(scaled))]), data.base.labels))
            found[record, k] = NOISE / np.linalg.norm((ends[0] - ends[1]) / (2 * step))
    return found


# --- output perturbation, record by record -------------------------------------------------------------------------


def test_errors_in_own_units_equal_those_of_models_refitted_with_the_raw_feature_moved() -> None:
    """Also for the rows that scaling shortens, where moving one feature moves all."""
    data, scaling = patients(40), ss.Standardised()
    found = bounds_of(data, ss.OutputPerturbation(noise_scale=NOISE, l2=L2), scaling, private=["age", "income"])
    fitted = scaling.fit(data)
    lengths = np.linalg.norm((data.base.features - fitted.mean) / fitted.deviation, axis=1)
    assert 5 < (lengths > 1).sum() < 25
    slow = refitted_errors(data, fitted, [0, 1])
    np.testing.assert_allclose(found.feature_error_lower, slow, rtol=1e-5)
    assert found.kind == "estimate"  # the scaling is learned
    assert found.features == ("age", "income")


def test_the_record_bound_is_the_reciprocal_of_the_dfil_in_units_of_the_spreads() -> None:
    data = patients()
    found = bounds_of(data, ss.OutputPerturbation(noise_scale=NOISE, l2=L2), private=["age", "income"])
    spreads = data.base.features[:, :2].std(axis=0)
    slow = [2 / sum((spreads / row) ** 2) for row in found.feature_error_lower]
    np.testing.assert_allclose(found.error_lower, slow)
    assert found.worst.value == found.error_lower.min()


def test_rows_with_a_bound_of_their_own_agree_with_the_closed_form() -> None:
    data = table(40, norm_bound=1.0)
    found = bounds_of(data, ss.OutputPerturbation(noise_scale=NOISE, l2=L2))
    rows = data.base.features
    weights = minimiser(np.column_stack([rows, np.ones(len(rows))]), data.base.labels)
    np.testing.assert_allclose(found.error_lower, 1 / rc.logistic_dfil(rows, data.base.labels, weights, L2, NOISE))
    assert found.note == ""


def test_images_are_flattened_and_have_pixel_bounds() -> None:
    data = images(60, 4, classes=2)
    found = bounds_of(data, ss.OutputPerturbation(noise_scale=NOISE, l2=L2))
    assert found.feature_error_lower.shape == (len(data.base), 16)


def test_the_sentence_says_how_far_off_everybody_must_be() -> None:
    data, mechanism = patients(), ss.OutputPerturbation(noise_scale=1e-3, l2=L2)
    found = bounds_of(data, mechanism)
    record = int(found.feature_error_lower[:, 0].argmin())
    said = found.sentence(record, "age")
    assert said.startswith(f"No unbiased attacker can know age of record p{record} to better than ±")
    assert f"±{found.of(record, 'age').value:.2g} on average" in said
    assert "(estimate, " in said  # the scaling is learned
    quiet = bounds_of(data, ss.OutputPerturbation(noise_scale=10.0, l2=L2)).sentence(record, "age")
    assert quiet.startswith("The model helps no unbiased attacker to know age")


# --- from the mechanism alone --------------------------------------------------------------------------------------


def test_objective_perturbation_bounds_everybody_alike_by_its_pure_epsilon() -> None:
    data = patients()
    ranges = {"age": (-50.0, 150.0), "income": (-1e5, 2e5)}
    found = bounds_of(data, ss.ObjectivePerturbation(epsilon=0.5), ranges=ranges)
    divergence = np.log(2 * np.cosh(0.5) - 1)
    expected = np.array([200.0, 3e5]) / 2 / np.sqrt(np.expm1(divergence))
    np.testing.assert_allclose(found.feature_error_lower, np.tile(expected, (50, 1)))
    assert found.kind == "estimate"  # the scaling is learned


def test_ranges_taken_from_the_data_make_an_estimate_of_it() -> None:
    data = patients()
    found = bounds_of(data, ss.DPSGD(batch_size=10, steps=5, noise_multiplier=4.0))
    assert found.kind == "estimate"
    assert "ranges of the features taken from the data" in found.note
    assert "1 of 3 features left out: categories" in found.note
    span = np.ptp(data.base.features[:, 0])
    rdp = rc.dpsgd_rdp(4.0, 0.2, 5)
    assert found.of(3, "age").value == pytest.approx(float(rc.rdp_feature_error_lower(rdp, span)))


def test_smooth_clipping_costs_its_larger_norm_here_too() -> None:
    setting = Conditions(100, None)
    smooth = ss.DPSGD(batch_size=10, steps=5, clipping=ss.SmoothClipping())
    assert rc.replace_one_rdp(smooth, setting) == pytest.approx(float(rc.dpsgd_rdp(1.0, 0.1, 5, smooth_clipping=True)))


def test_public_ranges_can_only_raise_what_fisher_information_proves() -> None:
    data, mechanism = patients(), ss.OutputPerturbation(epsilon=0.05, delta=1e-4, l2=1.0)
    alone = bounds_of(data, mechanism, private=["age"])
    with_ranges = bounds_of(data, mechanism, private=["age"], ranges=(-1e4, 1e4))
    assert np.all(with_ranges.feature_error_lower >= alone.feature_error_lower)
    setting = Conditions.of(data, ss.Standardised().fit(data))
    by_divergence = rc.rdp_feature_error_lower(rc.replace_one_rdp(mechanism, setting), 2e4)
    assert with_ranges.feature_error_lower.min() >= by_divergence


# --- the chance of a right guess ------------------------------------------------------------------------------------


def test_pure_epsilon_limits_a_guess_by_randomised_response() -> None:
    """Randomised response among k values reaches it: P(right) = e^ε/(e^ε + k − 1) from a prior of 1/k, for k = 2."""
    epsilon = 0.7
    found = rc.mechanism_success_upper(0.5, ss.ObjectivePerturbation(epsilon), Conditions(100, 1.0))
    assert found >= np.exp(epsilon) / (np.exp(epsilon) + 1)
    assert rc.mechanism_success_upper(0.0, ss.ObjectivePerturbation(epsilon), Conditions(100, 1.0)) == 0
    assert rc.mechanism_success_upper(1.0, ss.ObjectivePerturbation(epsilon), Conditions(100, 1.0)) == 1


def test_output_perturbation_and_dpsgd_pass_on_their_noise_and_rate() -> None:
    setting = Conditions(100, 1.0)
    output = ss.OutputPerturbation(noise_scale=0.4, l2=0.1)
    exact = rc.reconstruction_success_upper(0.1, 0.4 / 0.2)  # of an exact minimiser; a solver leaves a little
    assert exact <= rc.mechanism_success_upper(0.1, output, setting) == pytest.approx(exact, rel=1e-5)
    private = ss.DPSGD(batch_size=10, steps=20, clipping=ss.SmoothClipping())
    expected = rc.reconstruction_success_upper(0.1, 1 / 1.1153, 0.1, 20)
    assert rc.mechanism_success_upper(0.1, private, setting) == expected


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (ss.SGD(), "SGD bounds no reconstruction"),
        (ss.OutputPerturbation(noise_scale=0.0), "above 0, got 0"),
        (ss.DPSGD(batch_size=10, noise_multiplier=0.0), "without noise"),
        (ss.DPSGD(batch_size=10, sampling=ss.Shuffled()), "Poisson"),
        (ss.ObjectivePerturbation(float("inf")), "without noise"),
    ],
)
def test_mechanisms_without_a_bound_are_refused(mechanism: Mechanism, message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        bounds_of(patients(), mechanism)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"private": ["smoker"]}, "feature 'smoker' has only the values 0, 1"),
        ({"private": ["agee"]}, "Did you mean 'age'"),
        ({"private": [7]}, "between 0 and 2"),
        ({"private": []}, "at least one"),
        ({"private": ["age", 0]}, "once"),
        ({"ranges": {"age": (49.0, 51.0)}}, "must hold all its values"),
        ({"ranges": {"smoker": (0, 1)}}, "not private"),
    ],
)
def test_mistakes_about_features_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        bounds_of(patients(), ss.ObjectivePerturbation(), **options)


def test_more_classes_and_unknown_features_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="two classes"):
        bounds_of(table(classes=3), ss.OutputPerturbation(noise_scale=0.1))
    with pytest.raises(SeedscopeError, match="unknown private feature"):
        bounds_of(patients(), ss.ObjectivePerturbation()).of(0, "smoker")
    categories = from_arrays(*(np.arange(40)[:, None] % 2.0, np.arange(40) % 2) * 2)
    with pytest.raises(SeedscopeError, match="no feature is continuous"):
        bounds_of(categories, ss.ObjectivePerturbation())


def test_few_values_are_a_category_unless_they_are_rare_or_the_rows_are_few() -> None:
    rows = np.arange(1000)
    columns = np.column_stack([rows, rows % 2, rows % 5, rows % 6, rows == 3, np.zeros(1000)])
    assert few_valued(columns).tolist() == [False, True, True, False, False, False]
    assert few_valued(columns, least_share=0.0).tolist() == [False, True, True, False, True, False]
    assert not few_valued(np.array([[1.0], [2.0], [2.0], [1.0]])).any()


def test_lengths_below_the_norms_are_refused() -> None:
    data = table(30, norm_bound=1.0)
    weights = minimiser(np.column_stack([data.base.features, np.ones(30)]), data.base.labels)
    arguments = (data.base.features, data.base.labels, weights, L2, NOISE)
    with pytest.raises(SeedscopeError, match="only ever shortened"):
        rc.logistic_feature_information(*arguments, lengths=np.full(30, 1e-3))
    with pytest.raises(SeedscopeError, match="one per record"):
        rc.logistic_feature_information(*arguments, lengths=np.ones(3))
