"""Bounds person by person: against refitted models, in the features' own units, and what is refused."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.special

import seedscope as ss
from seedscope.analyses import reconstruction as rc
from seedscope.analyses.reconstruction.stepped_columns import Refits
from seedscope.core.errors import SeedscopeError
from seedscope.datasets import Dataset, FittedScaling, Part, Scaling, default_scaling, from_arrays
from seedscope.datasets.categories import few_valued
from seedscope.mechanisms import Mechanism
from seedscope.mechanisms.guarantees import Conditions
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


def test_the_record_bound_is_the_mean_of_its_features_bounds_in_units_of_the_spreads() -> None:
    data = patients()
    found = bounds_of(data, ss.OutputPerturbation(noise_scale=NOISE, l2=L2), private=["age", "income"])
    spreads = data.base.features[:, :2].std(axis=0)
    slow = [sum((row / spreads) ** 2) / 2 for row in found.feature_error_lower]  # all hold at once: BR Theorem 1
    np.testing.assert_allclose(found.error_lower, slow)
    assert found.worst.value == found.error_lower.min()


def test_rows_with_a_bound_of_their_own_agree_with_the_closed_form() -> None:
    data = table(40, norm_bound=1.0)
    found = bounds_of(data, ss.OutputPerturbation(noise_scale=NOISE, l2=L2))
    rows = data.base.features
    weights = minimiser(np.column_stack([rows, np.ones(len(rows))]), data.base.labels)
    closed = rc.logistic_dfil(rows, data.base.labels, weights, L2, NOISE)
    np.testing.assert_allclose((1 / found.feature_error_lower**2).mean(axis=1), closed)
    assert np.all(found.error_lower >= 1 / closed)
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


# --- values on a grid -----------------------------------------------------------------------------------------------


def counted(seed: int, rows: int = 24) -> Dataset:
    """A count of children and a measurement, with public ranges."""
    draw = np.random.default_rng(seed)
    kids, height = draw.integers(0, draw.integers(1, 9) + 1, rows), draw.normal(170, 10, rows)
    kids[:2] = 0, 1  # both occur
    labels = (kids + (height - 170) / 10 + draw.normal(size=rows) > 1).astype(int)
    labels[:4] = 0, 1, 0, 1
    part = Part(np.column_stack([kids, height]).astype(float), labels, np.arange(rows), np.arange(rows))
    return Dataset("counted", part, part.take(slice(4)), ("kids", "height"), ("0", "1"), "drawn")


def least_variance(shifts: np.ndarray, moves: np.ndarray) -> float:
    """The variance of the best guess that is unbiased at the truth and these other values (Barankin: attained).

    shifts [value]: how much larger than the truth; moves [value, weight]: how far they move the released mean, over σ.
    """
    gram = np.expm1(moves @ moves.T)
    return float(shifts @ np.linalg.solve(gram, shifts))


@pytest.mark.parametrize("block", range(4))
def test_no_exactly_unbiased_guess_of_a_count_beats_what_is_proved(block: int) -> None:
    """200 tables in all: guesses that are unbiased at a count and at the next ones, which Cramér–Rao does not cover."""
    scaling = ss.Standardised(mean=(1.0, 170.0), deviation=(1.0, 10.0))
    beaten, tightness = 0, []
    for seed in range(50 * block, 50 * block + 50):
        data = counted(seed)
        noise = float(np.random.default_rng(seed).choice([0.05, 0.1, 0.3]))
        mechanism = ss.OutputPerturbation(noise_scale=noise, l2=L2)
        fitted = scaling.fit(data)
        regression = mechanism.regression(data, fitted)
        assert regression is not None
        found = (
            rc.record_bounds(data, mechanism, scaling, private=["kids"], regression=regression)
            if not few_valued(data.base.features)[0]
            else None
        )
        known = np.unique(data.base.features[:, 0])
        refits = Refits.of(
            np.column_stack([fitted.apply(data.base.features), np.ones(24)]), data.base.labels.astype(float),
            regression.weights, np.full(3, L2),
        )  # fmt: skip
        record = seed % 24
        truth, others, moves = data.base.features[record, 0], [], []
        for value in (*known[known < truth][-1:], *known[known > truth][:1]):  # the next ones that occur
            moved = data.base.features.copy()
            moved[record, 0] = value
            w = minimiser(np.column_stack([fitted.apply(moved), np.ones(24)]), data.base.labels)
            others.append(value - truth)
            moves.append((w - regression.weights) / noise)
        exact = least_variance(np.array(others), np.array(moves))
        for k in range(len(others)):
            moved = data.base.features.copy()
            moved[:, 0] += others[k]
            far = refits.distances(np.column_stack([fitted.apply(moved), np.ones(24)]))[record]
            true = np.linalg.norm(moves[k]) * noise
            assert true * (1 - 1e-6) <= far
            tightness.append(far / true)
            proved = rc.grid_error_lower(abs(others[k]), np.array([far]), noise)[0] ** 2
            assert proved <= exact * (1 + 1e-9)
        if found is not None:
            assert found.feature_error_lower[record, 0] ** 2 <= exact * (1 + 1e-9)
            assert found.kind == "proved"
            assert found.information is not None
            beaten += bool(1 / found.information.value[record, 0] > exact)
    assert np.median(tightness) < 1.2
    assert beaten > 0 or block  # Cramér–Rao, which was called proved, is beaten


ON_A_GRID = (0.0, 1.0, 2.0, 20.0, 50.0, 90.0)
ON_NONE = (0.0, 1.0, np.e, 20.1, 16 * np.pi, 90.0)


def with_gaps(possible: tuple[float, ...] = ON_A_GRID, rows: int = 36) -> Dataset:
    """An amount that is one of six, and a measurement."""
    draw = np.random.default_rng(0)
    amount, other = np.array(possible)[np.arange(rows) % 6], draw.normal(size=rows)
    labels = (amount / 40 + other + draw.normal(size=rows) > 0.7).astype(int)
    part = Part(np.column_stack([amount, other]), labels, np.arange(rows), np.arange(rows))
    return Dataset("gaps", part, part.take(slice(4)), ("amount", "other"), ("0", "1"), "drawn")


@pytest.mark.parametrize("possible", [ON_A_GRID, ON_NONE])
def test_no_guess_that_is_unbiased_at_the_values_that_occur_beats_what_is_proved_of_a_column_with_gaps(
    possible: tuple[float, ...],
) -> None:
    """Nobody can have 3 or 49, so an attacker need not be unbiased there, though the grid of step 1 has them."""
    data, scaling, noise = with_gaps(possible), ss.Standardised(mean=(20.0, 0.0), deviation=(20.0, 1.0)), 0.03
    found = bounds_of(data, ss.OutputPerturbation(noise_scale=noise, l2=L2), scaling, private=["amount"])
    shares, fitted = [], scaling.fit(data)
    for record, amount in enumerate(data.base.features[:, 0]):
        others = np.array([value for value in possible if value != amount])
        rows = np.repeat(data.base.features[None], 6, axis=0)
        rows[1:, record, 0] = others
        fits = np.array(
            [minimiser(np.column_stack([fitted.apply(one), np.ones(36)]), data.base.labels) for one in rows]
        )
        exact = least_variance(others - amount, (fits[1:] - fits[0]) / noise)
        shares.append(found.feature_error_lower[record, 0] / np.sqrt(exact))
    assert found.kind == "proved"
    assert max(shares) <= 1 + 1e-9
    assert np.median(shares) > 0.5


@pytest.mark.parametrize(("end", "length"), [(200.0, 200.0), (200.5, 90.0)])
def test_a_range_whose_end_is_on_no_grid_counts_as_the_values_that_occur(end: float, length: float) -> None:
    """The grid's values between the last that occurs and such an end need not be possible; one on it is declared."""
    found = bounds_of(with_gaps(), ss.ObjectivePerturbation(0.5), private=["amount"], ranges=(0.0, end))
    expected = rc.rdp_feature_error_lower(np.log(2 * np.cosh(0.5) - 1), length)
    np.testing.assert_allclose(found.feature_error_lower, float(expected))


def test_the_step_of_a_column_is_its_coarsest_grid() -> None:
    draw = np.random.default_rng(0)
    assert rc.value_step(np.array([10.0, 30.0, 70.0])) == 20
    assert rc.value_step(draw.integers(0, 9, 100) / 8) == pytest.approx(1 / 8)
    standardised = (draw.integers(0, 20, 100) - 9.3) / 5.77
    assert rc.value_step(standardised) == pytest.approx(1 / 5.77)
    assert rc.value_step(draw.normal(size=100)) == 0
    assert rc.value_step(np.append(draw.normal(size=90), np.zeros(10))) == 0  # one value occurs often, the others once
    assert rc.value_step(np.repeat(ON_NONE, 2)) == 1.0
    assert rc.value_step(np.ones(5)) == 0


def test_on_a_fine_grid_the_next_value_says_what_the_derivative_says() -> None:
    data = patients(40)
    rounded = np.round(data.base.features, 3)
    fine = Dataset("fine", Part(rounded, *(getattr(data.base, one) for one in ("labels", "ids", "rows"))), data.test,
                   NAMES, ("0", "1"), "drawn")  # fmt: skip
    mechanism, scaling = ss.OutputPerturbation(noise_scale=NOISE, l2=L2), ss.Standardised()
    found = bounds_of(fine, mechanism, scaling, private=["age"])
    assert found.information is not None
    assert found.steps is not None
    assert found.steps[0] == pytest.approx(1e-3)
    derivative = 1 / np.sqrt(found.information.value)
    assert np.median(np.abs(found.feature_error_lower / derivative - 1)) < 0.02


def test_categories_are_known_from_their_encoder_also_after_rows_are_scaled() -> None:
    draw = np.random.default_rng(0)
    sex, age = np.arange(80) % 2, draw.normal(2, 0.5, 80)
    rows = np.column_stack([sex, 1 - sex, age])
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    data = from_arrays(rows, np.arange(80) // 2 % 2, feature_names=("sex=f", "sex=m", "age"), norm_bound=1.0)
    assert len(np.unique(rows[:, 0])) > 30
    found = bounds_of(data, ss.ObjectivePerturbation(1.0))
    assert found.features == ("age",)
    assert "2 of 3 features left out: categories" in found.note
    assert "units are not the columns' own" in found.note
    with pytest.raises(SeedscopeError, match="feature 'sex=f' is a category"):
        bounds_of(data, ss.ObjectivePerturbation(1.0), private=["sex=f"])


def test_preprocessing_learned_from_the_rows_is_a_condition_also_with_public_ranges() -> None:
    ranges = {"age": (-50.0, 150.0), "income": (-1e5, 2e5)}
    found = bounds_of(patients(), ss.ObjectivePerturbation(0.5), ranges=ranges)
    assert found.kind == "estimate"
    assert "proved only if the scaling were public" in found.note
    public = ss.Standardised(mean=(50.0, 3e4, 0.5), deviation=(12.0, 9e3, 0.5))
    assert bounds_of(patients(), ss.ObjectivePerturbation(0.5), public, ranges=ranges).kind == "proved"


def test_private_scaling_makes_an_estimate_of_what_fisher_information_proves() -> None:
    """At this ε the scaling's noisy sums alone tell a record's age better than the bound about the model allows."""
    private = ss.PrivateMoments((0.0, 0.0, 0.0), (100.0, 1e5, 1.0), epsilon=1e6, delta=1e-6)
    found = bounds_of(patients(), ss.OutputPerturbation(noise_scale=0.1, l2=L2), private, private=["age"])
    by_scaling = 50.0 * private.noise_scale  # a sum less everybody else's values: unbiased, in half ranges
    assert by_scaling < found.feature_error_lower.min()
    assert found.kind == "estimate"
    assert "what the private scaling tells of a record is not counted" in found.note


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
