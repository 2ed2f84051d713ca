"""Predictive multiplicity: estimators against counting pairs, intervals against simulation, remedies by hand."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import xarray
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import ArrayLike

from seedscope.analyses import multiplicity as mu
from seedscope.core.errors import SeedscopeError
from tests.helpers.present import present

PROPORTIONS = [0.0, 0.003, 0.2, 0.49, 0.5, 0.85, 1.0]


def true_disagreement(p: ArrayLike) -> np.ndarray:
    truth: np.ndarray = 4 * np.asarray(p) * (1 - np.asarray(p))
    return truth


def draw_predictions(probabilities: Sequence[float] | np.ndarray, models: int, seed: int = 0) -> np.ndarray:
    """Independent models that decide 1 with each example's probability."""
    return np.random.default_rng(seed).random((models, len(probabilities))) < probabilities


def slow_pairwise(predictions: np.ndarray) -> np.ndarray:
    """P(f ≠ f') by going over all pairs of models."""
    models = len(predictions)
    pairs = [predictions[i] != predictions[j] for i in range(models) for j in range(i)]
    mean: np.ndarray = np.mean(pairs, axis=0)
    return mean


# --- estimators -----------------------------------------------------------------------------------------------------


@given(arrays(bool, st.tuples(st.integers(2, 9), st.integers(1, 6))))
def test_disagreement_is_twice_the_share_of_pairs_that_differ(predictions: np.ndarray) -> None:
    np.testing.assert_allclose(mu.disagreement(predictions), 2 * slow_pairwise(predictions), atol=1e-12)


@given(arrays(np.int64, st.tuples(st.integers(2, 8), st.integers(1, 5)), elements=st.integers(0, 3)))
def test_multiclass_measures_agree_with_pairs_and_with_each_other(predictions: np.ndarray) -> None:
    pairwise = mu.pairwise_disagreement(predictions, classes=4)
    np.testing.assert_allclose(pairwise, slow_pairwise(predictions), atol=1e-12)
    np.testing.assert_allclose(mu.one_vs_rest_disagreement(predictions, classes=4), 4 / 4 * pairwise, atol=1e-12)
    frequencies = [np.bincount(column).max() / len(predictions) for column in predictions.T]
    np.testing.assert_allclose(mu.top_class_share(predictions), frequencies)


def test_two_classes_are_the_binary_case() -> None:
    predictions = draw_predictions([0.1, 0.5, 0.9], 40)
    np.testing.assert_allclose(2 * mu.pairwise_disagreement(predictions), mu.disagreement(predictions))
    np.testing.assert_allclose(mu.one_vs_rest_disagreement(predictions), mu.disagreement(predictions))


def test_disagreement_is_unbiased() -> None:
    p = np.array([0.03, 0.5, 0.7])
    counts = np.arange(6)
    expectation = [scipy.stats.binom.pmf(counts, 5, one) @ mu.disagreement_from_counts(counts, 5) for one in p]
    np.testing.assert_allclose(expectation, true_disagreement(p), atol=1e-12)


def test_counts_survive_more_models_than_fit_in_a_byte() -> None:
    assert mu.positive_counts(np.ones((1000, 3), bool)).tolist() == [1000, 1000, 1000]
    assert mu.positive_counts(np.ones((256, 1), np.int32)).tolist() == [256]


def test_a_score_at_the_threshold_decides_zero() -> None:
    assert mu.decisions([[0.5, 0.50001]]).tolist() == [[False, True]]
    assert mu.decisions([[[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]]).tolist() == [[1, 0]]


def test_top_disagreement_is_a_percentile_along_the_last_axis() -> None:
    values = np.random.default_rng(0).random((2, 101))
    curve = mu.top_disagreement(values, [0.05, 0.1])
    np.testing.assert_allclose(curve, np.percentile(values, [95, 90], axis=1).T)


def test_ambiguity_and_discrepancy_by_hand() -> None:
    predictions = np.array([[0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    assert mu.ambiguity(predictions, [0, 1, 1, 0]) == 0.5
    assert mu.discrepancy(predictions, [0, 1, 1, 0]) == 0.5
    assert mu.ambiguity(predictions[:1].repeat(2, axis=0), predictions[0]) == 0


# --- how sure -------------------------------------------------------------------------------------------------------


def test_numbers_of_the_paper() -> None:
    assert mu.disagreement_error(5000, 0.95) == pytest.approx(0.0785, abs=5e-5)
    assert mu.models_needed(0.08, 0.95) == 4821


@given(st.floats(0.02, 3), st.floats(0.5, 0.999), st.integers(1, 10**6))
def test_models_needed_is_the_smallest_number_that_keeps_the_error(
    error: float, confidence: float, examples: int
) -> None:
    models = mu.models_needed(error, confidence, examples)
    assert mu.disagreement_error(models, confidence, examples) <= error
    assert models == 2 or mu.disagreement_error(models - 1, confidence, examples) > error


@given(st.floats(0.03, 0.5), st.floats(0.5, 0.99))
def test_models_needed_equals_the_papers_closed_form(error: float, confidence: float) -> None:
    t = np.log(2 / (1 - confidence))
    root = np.sqrt(t * (1 + error) * (2 * t + error))
    closed = 1 + (error + 2 * t * (2 + error) + 2 * np.sqrt(2) * root) / error**2
    assert mu.models_needed(error, confidence) == pytest.approx(closed, rel=1e-2, abs=1)


@pytest.mark.parametrize("p", PROPORTIONS)
@pytest.mark.parametrize("models", [2, 9, 80])
def test_exact_interval_and_the_papers_error_cover_summed_over_all_outcomes(p: float, models: int) -> None:
    counts = np.arange(models + 1)
    chance = scipy.stats.binom.pmf(counts, models, p)
    lower, upper = mu.disagreement_interval(counts, models, 0.9)
    assert chance @ ((lower <= true_disagreement(p)) & (true_disagreement(p) <= upper)) >= 0.9 - 1e-12
    off = np.abs(mu.disagreement_from_counts(counts, models) - true_disagreement(p))
    assert chance @ (off <= mu.disagreement_error(models, 0.9)) >= 0.9 - 1e-12
    clipped = np.abs(np.minimum(mu.disagreement_from_counts(counts, models), 1) - true_disagreement(p))
    assert chance @ (clipped <= mu.interval_error(counts, models, 0.9)) >= 0.9 - 1e-12


def test_simultaneous_interval_covers_all_examples_at_once() -> None:
    p = np.tile(PROPORTIONS, 10)
    covered = 0
    for seed in range(400):
        counts = draw_predictions(p, 60, seed).sum(axis=0)
        lower, upper = mu.disagreement_interval(counts, 60, 0.9, examples=len(p))
        covered += bool(np.all((lower <= true_disagreement(p)) & (true_disagreement(p) <= upper)))
    assert covered / 400 >= 0.9


@pytest.mark.parametrize("p", PROPORTIONS)
def test_anytime_interval_keeps_its_level_when_looked_at_after_every_model(p: float) -> None:
    models = 200
    count, after = np.meshgrid(np.arange(models + 1), np.arange(1, models + 1), indexing="ij")
    lower, upper = mu.disagreement_interval(np.minimum(count, after), after, 0.9, anytime=True)
    wrong = (true_disagreement(p) < lower) | (true_disagreement(p) > upper)
    runs = np.cumsum(np.random.default_rng(1).random((8000, models)) < p, axis=1)
    assert wrong[runs, np.arange(models)].any(axis=1).mean() <= 0.1


def test_anytime_interval_is_wider_but_not_much() -> None:
    counts = np.array([0, 100, 500, 1000])
    exact, anytime = (mu.interval_error(counts, 1000, 0.95, anytime=flag) for flag in (False, True))
    assert np.all(anytime > exact)
    # p is known to less than twice the width; 4p(1−p) squares that factor near ½
    assert np.all(anytime < [2 * exact[0], 2 * exact[1], 4 * exact[2], 2 * exact[3]])


def test_interval_that_contains_a_half_reaches_one() -> None:
    lower, upper = mu.disagreement_interval([45, 50], 100, 0.95)
    assert upper.tolist() == [1, 1]
    low, high = scipy.stats.binomtest(45, 100).proportion_ci(0.95, method="exact")
    assert lower[0] == pytest.approx(min(true_disagreement(low), true_disagreement(high)))


@pytest.mark.parametrize(("error", "examples"), [(0.3, 1), (0.1, 1), (0.1, 1000)])
def test_exact_interval_needs_far_fewer_models_and_that_many_are_enough(error: float, examples: int) -> None:
    models = mu.models_needed_exact(error, 0.95, examples)
    assert mu.interval_error(np.arange(models + 1), models, 0.95, examples).max() <= error
    assert models < mu.models_needed(error, 0.95, examples) / 3


def test_mean_disagreement_covers_also_when_examples_are_copies_of_each_other() -> None:
    p = np.repeat([0.5, 0.1], 20)
    covered = 0
    for seed in range(500):
        shared = np.random.default_rng(seed).random((40, 2)) < [0.5, 0.1]
        number = mu.mean_disagreement(mu.disagreement(shared.repeat(20, axis=1)), 40, 0.9)
        covered += number.lower <= true_disagreement(p).mean() <= number.upper
    assert covered / 500 >= 0.9


# --- scores ---------------------------------------------------------------------------------------------------------


def test_viable_prediction_range_is_max_minus_min() -> None:
    scores = np.random.default_rng(0).random((7, 4, 3))
    np.testing.assert_array_equal(mu.viable_prediction_range(scores), scores.max(axis=0) - scores.min(axis=0))


def test_rashomon_capacity_closed_form_equals_the_iteration() -> None:
    binary = np.random.default_rng(0).random((5, 30)) * np.linspace(0.01, 1, 30)
    as_classes = np.stack([1 - binary, binary], axis=2)
    iterated = mu.rashomon_capacity(as_classes, tolerance=1e-7, iterations=100_000)
    np.testing.assert_allclose(mu.rashomon_capacity(binary), iterated, atol=2e-6)


def test_rashomon_capacity_is_one_for_equal_models_and_the_classes_for_certain_opposites() -> None:
    assert mu.rashomon_capacity(np.full((4, 2), 0.3)).tolist() == [1, 1]
    certain = np.eye(3)[:, None, :]
    assert mu.rashomon_capacity(certain) == pytest.approx(3)
    assert mu.rashomon_capacity([[0.0], [1.0]]) == pytest.approx(2)


def test_rashomon_capacity_of_nearly_equal_scores_is_continuous() -> None:
    middle, gap = 0.3, np.geomspace(1e-8, 1e-2, 200)
    capacity = np.log2(mu.rashomon_capacity(np.stack([middle - gap / 2, middle + gap / 2])))
    visible = gap > 1e-6
    expected = gap**2 / (8 * np.log(2) * middle * (1 - middle))
    np.testing.assert_allclose(capacity[visible], expected[visible], rtol=2e-3)


def test_output_perturbation_in_closed_form_agrees_with_re_training() -> None:
    generator = np.random.default_rng(4)
    features, weights, noise_scale, models = generator.normal(0, 1, (40, 5)), generator.normal(0, 1, 5), 0.8, 4000
    noisy = weights + noise_scale * generator.normal(0, 1, (models, 5))
    counts = mu.positive_counts(noisy @ features.T > 0)
    lower, upper = mu.disagreement_interval(counts, models, 0.999, examples=40)
    norms = np.linalg.norm(features, axis=1)
    closed = mu.output_perturbation_disagreement(features @ weights, norms, noise_scale)
    assert np.all((lower <= closed) & (closed <= upper))


# --- performance ----------------------------------------------------------------------------------------------------


def test_performance_equals_scikit_learns() -> None:
    generator = np.random.default_rng(0)
    scores, labels = generator.integers(0, 20, (6, 80)) / 20, generator.integers(0, 2, 80)  # with ties
    predictions = mu.decisions(scores)
    for model in range(6):
        auc = sklearn.metrics.roc_auc_score(labels, scores[model])
        assert mu.areas_under_curve(scores, labels)[model] == pytest.approx(auc)
        assert mu.f1_scores(predictions, labels)[model] == pytest.approx(
            sklearn.metrics.f1_score(labels, predictions[model])
        )
        assert mu.accuracies(predictions, labels)[model] == np.mean(predictions[model] == labels)


def test_conditioning_on_accuracy_is_selecting_those_models() -> None:
    predictions, labels = draw_predictions(np.linspace(0.1, 0.9, 50), 60), np.arange(50) >= 25
    thresholds = [0.9, 0.0, 0.72, 0.7, 1.0]
    found = mu.accuracy_conditioned_disagreement(predictions, labels, thresholds, share=0.1)
    accuracy = mu.accuracies(predictions, labels)
    for place, threshold in enumerate(thresholds):
        chosen = predictions[accuracy >= threshold]
        assert found.models[place] == len(chosen)
        if len(chosen) >= 2:
            assert found.disagreement[place] == pytest.approx(np.quantile(mu.disagreement(chosen), 0.9))
        else:
            assert np.isnan(found.disagreement[place])
    assert found.models[4] < 2 <= found.models[2]


def test_intervals_of_means_from_pairs_of_models_cover_and_are_several_times_narrower() -> None:
    p = np.random.default_rng(0).beta(0.3, 0.3, 40)
    truth, covered, together = true_disagreement(p).mean(), 0, 0
    for seed in range(200):
        predictions = draw_predictions(p, 400, seed)
        pairs = mu.paired_shares(predictions)
        number = mu.mean_disagreement(mu.disagreement(predictions), 400, 0.8, pairs=pairs)
        covered += present(number.lower) <= truth <= present(number.upper)
        looks = [
            mu.mean_disagreement(mu.disagreement(predictions[:m]), m, 0.8, pairs=pairs[: m // 2], anytime=True)
            for m in (20, 50, 100, 200, 400)
        ]
        together += all(present(one.lower) <= truth <= present(one.upper) for one in looks)
    assert min(covered, together) / 200 >= 0.8
    plain = mu.mean_disagreement(mu.disagreement(predictions), 400, 0.8)
    width, plain_width = (present(one.upper) - present(one.lower) for one in (number, plain))
    assert width < plain_width / 2


def test_after_looking_intervals_are_the_anytime_ones_and_at_the_latest_the_exact_ones() -> None:
    scores = np.random.default_rng(1).random((30, 25))
    counts = mu.positive_counts(mu.decisions(scores))
    for latest, anytime in ((100, True), (30, False)):
        found = mu.multiplicity(scores, latest=latest)
        expected = mu.disagreement_interval(counts, 30, 0.975, examples=25, anytime=anytime)
        np.testing.assert_array_equal((found.lower, found.upper), expected)
    assert present(found.mean.lower) < present(mu.multiplicity(scores).mean.lower)


# --- groups and remedies --------------------------------------------------------------------------------------------


def test_groups_have_their_means_and_a_difference_is_found() -> None:
    p = np.concatenate([np.full(30, 0.5), np.full(50, 0.05)])
    values = mu.disagreement(draw_predictions(p, 500))
    sex = np.repeat(["f", "m"], [30, 50])
    found = mu.compare_groups(values, {"sex": sex}, "sex", models=500)
    assert float(found["f"].disagreement) == pytest.approx(values[:30].mean())
    assert (found["f"].examples, found["m"].examples) == (30, 50)
    assert float(present(found.p_value)) <= 0.01
    unrelated = mu.compare_groups(values, {"sex": np.arange(80) % 2}, "sex", models=500)
    assert float(present(unrelated.p_value)) > 0.05


@pytest.mark.slow
def test_group_intervals_over_re_trainings_hold_together() -> None:
    p, group = np.concatenate([np.full(5, 0.5), np.full(5, 0.02)]), np.repeat([0, 1], 5)
    covered = 0
    for seed in range(100):
        values = mu.disagreement(draw_predictions(p, 60, seed))
        found = mu.compare_groups(values, {"g": group}, "g", models=60, confidence=0.8)
        covered += all(
            found[str(code)].disagreement.lower
            <= true_disagreement(p[group == code]).mean()
            <= found[str(code)].disagreement.upper
            for code in (0, 1)
        )
    assert covered / 100 >= 0.8


def test_population_interval_of_a_group_covers_about_as_often_as_it_says() -> None:
    repetitions, covered = 600, 0
    for seed in range(repetitions):
        people = np.random.default_rng(seed).random(100)  # p uniform: the mean disagreement is 2/3
        values = mu.disagreement(draw_predictions(people, 50, seed + 10_000))
        number = mu.compare_groups(values, {"g": np.zeros(100)}, "g", models=50, confidence=0.9).groups[0].population
        covered += present(present(number).lower) <= 2 / 3 <= present(present(number).upper)
    assert covered / repetitions == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / repetitions))


def test_a_single_group_has_no_test_and_a_single_person_no_population() -> None:
    found = mu.compare_groups([0.4], {"g": ["only"]}, "g", models=10)
    assert found.p_value is None
    assert found["only"].population is None


def test_consensus_and_abstention_by_hand() -> None:
    decision, share = mu.consensus([0, 3, 5, 6, 10], 10)
    assert decision.tolist() == [False, False, False, True, True]
    assert share.tolist() == [1, 0.7, 0.5, 0.6, 1]
    assert mu.self_consistency([0, 0.5, 1]).tolist() == [1, 0.75, 0.5]


@given(st.integers(0, 2**31), st.floats(0.5, 1))
def test_more_abstention_at_higher_levels_and_none_at_the_lowest(seed: int, level: float) -> None:
    generator = np.random.default_rng(seed)
    values, decided, labels = generator.random(30) * 1.02, generator.integers(0, 2, 30), generator.integers(0, 2, 30)
    lowest, found, highest = (mu.abstention(values, decided, labels, one) for one in (0.5, level, 1.0))
    assert float(lowest.abstained) == 0
    assert float(lowest.abstained) <= float(found.abstained) <= float(highest.abstained)
    keep = np.minimum(values, 1) <= 2 - 2 * level
    if found.accuracy is not None:
        assert float(found.accuracy) == pytest.approx(np.mean(decided[keep] == labels[keep]))


def test_abstaining_buys_accuracy_when_confident_models_are_right() -> None:
    p = np.concatenate([np.full(100, 0.99), np.full(100, 0.5)])
    predictions = draw_predictions(p, 101)
    labels = np.concatenate([np.ones(100), np.random.default_rng(9).integers(0, 2, 100)])
    decision, _ = mu.consensus(predictions.sum(axis=0), 101)
    found = mu.abstention(mu.disagreement(predictions), decision, labels, level=0.8)
    assert float(found.abstained) == 0.5
    assert present(present(found.accuracy).lower) > present(found.accuracy_of_all.upper)


# --- the whole result -----------------------------------------------------------------------------------------------


def ensemble_of(scores: np.ndarray, labels: Sequence[int] | np.ndarray) -> Any:
    """An ensemble as the engine lays it out: two neighbours, two inits, two steps, test and neighbour examples."""
    models, examples = scores.shape
    full = np.full((models, 2, 2, 2, examples + 1), 0.5, np.float32)
    full[:, 1, 1, 1, :examples] = scores
    return SimpleNamespace(
        dataset=xarray.Dataset(
            {"scores": (("seed", "neighbour", "init", "step", "example"), full)},
            coords={
                "neighbour": [7, -1],
                "init": ["fixed", "varied"],
                "step": [10, 20],
                "example_part": ("example", ["test"] * examples + ["neighbour"]),
                "example_label": ("example", [*labels, 1]),
            },
        )
    )


def test_result_of_an_ensemble_is_that_of_its_base_models_last_scores_on_the_test_part() -> None:
    scores = np.random.default_rng(0).random((20, 15)).astype(np.float32)
    labels = np.arange(15) % 2
    direct, through = mu.multiplicity(scores, labels), mu.multiplicity(ensemble_of(scores, labels))
    np.testing.assert_array_equal(direct.disagreement, through.disagreement)
    np.testing.assert_array_equal(direct.viable_range, through.viable_range)
    assert direct.accuracy == through.accuracy
    assert mu.multiplicity(ensemble_of(scores, labels), init="fixed").disagreement.max() == 0


def test_result_holds_what_the_single_functions_return() -> None:
    scores = np.random.default_rng(1).random((30, 25))
    labels, sex = np.arange(25) % 2, np.arange(25) % 3
    found = mu.multiplicity(scores, labels, {"sex": sex}, levels=[0.8])
    predictions = mu.decisions(scores)
    counts = mu.positive_counts(predictions)
    np.testing.assert_array_equal(found.disagreement, mu.disagreement(predictions))
    lower, upper = mu.disagreement_interval(counts, 30, 0.95, examples=25)
    np.testing.assert_array_equal((found.lower, found.upper), (lower, upper))
    np.testing.assert_array_equal(found.consensus, mu.consensus(counts, 30)[0])
    np.testing.assert_array_equal(found.consensus_share, mu.consensus(counts, 30)[1])
    assert float(found.ambiguity) == mu.ambiguity(predictions, found.consensus)
    assert found.groups["sex"] == mu.compare_groups(
        found.disagreement, {"sex": sex}, "sex", 30, predictions=predictions
    )
    assert found.abstentions == (mu.abstention(found.disagreement, found.consensus, labels, 0.8),)
    assert float(found.error_bound) == mu.disagreement_error(30, 0.95, 25)
    assert float(found.top[0.05]) == np.quantile(found.disagreement, 0.95)


def test_multiclass_result_covers_and_abstains_by_pairs() -> None:
    truth = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    covered = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        predictions = np.stack([generator.choice(3, 80, p=row) for row in truth], axis=1)
        found = mu.multiplicity(predictions, labels=[0, 0, 1], confidence=0.8, levels=[0.9])
        exact = (4 / 3) * (1 - (truth**2).sum(axis=1))
        covered += bool(np.all((found.lower <= exact) & (exact <= found.upper)))
        assert found.mean.lower <= exact.mean() <= found.mean.upper
        assert float(found.abstentions[0].abstained) == pytest.approx(2 / 3)  # only the second is self-consistent
    assert covered / 200 >= 0.8
    assert found.classes == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mu.disagreement([[0, 1]]), "at least two models"),
        (lambda: mu.multiplicity(np.array([[0.2, 0.3]])), "at least two models"),
        (lambda: mu.viable_prediction_range([[0.2]]), "at least two models"),
        (lambda: mu.multiplicity(np.array([[0.2, 1.3], [0.1, 0.2]])), r"scores must be in \[0, 1\]"),
        (lambda: mu.decisions([[np.nan], [0.1]]), r"scores must be in \[0, 1\]"),
        (lambda: mu.disagreement([[0.2, 0.3], [0.1, 0.2]]), "use `decisions`"),
        (lambda: mu.disagreement([[0, 2], [1, 1]]), "pairwise_disagreement"),
        (lambda: mu.disagreement([0, 1]), r"\[model, example\]"),
        (lambda: mu.compare_groups([0.1], {"sex": ["f"]}, "sexx", 10), "Did you mean 'sex'"),
        (lambda: mu.compare_groups([0.1], {"sex": ["f"]}, "sex", 10)["m"], "unknown group 'm'"),
        (lambda: mu.compare_groups([0.1, 0.2], {"sex": ["f"]}, "sex", 10), "one value per example"),
        (lambda: mu.multiplicity(np.eye(2, dtype=bool), labels=[1, 1]), "at least two classes"),
        (lambda: mu.areas_under_curve([[0.1, 0.2]], [1, 1]), "both 0 and 1"),
        (lambda: mu.multiplicity(np.eye(2, dtype=bool), labels=[1]), "one per example"),
        (lambda: mu.models_needed(0, 0.95), "error must be"),
        (lambda: mu.models_needed(0.1, 1.0), "confidence must be"),
        (lambda: mu.disagreement_error(1, 0.9), "models must be"),
        (lambda: mu.disagreement_interval(3, 2, 0.9), "successes must be"),
        (lambda: mu.output_perturbation_disagreement(1.0, 0.0, 1.0), "norms must be"),
        (lambda: mu.abstention([0.1], [1], [1], level=0.2), "level"),
        (lambda: mu.ambiguity([[0, 1], [1, 1]], [0]), "reference"),
        (lambda: mu.rashomon_capacity(np.full((2, 1, 3), 0.2)), "sum to 1"),
        (lambda: mu.rashomon_capacity(np.array([[[0.9, 0.1, 0.0]], [[0.2, 0.5, 0.3]]]), 1e-12, 1), "did not reach"),
    ],
)
def test_a_mistake_is_named(call: Callable[..., Any], words: str) -> None:
    with pytest.raises(SeedscopeError, match=words):
        call()
