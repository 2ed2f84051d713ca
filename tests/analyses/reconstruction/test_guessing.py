"""The best attacker among a few candidates: against the density by its definition, against models trained with each
candidate, and never above what the guarantee allows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import seedscope as ss
from seedscope.auditing.sensitive import told
from seedscope.core import SeedscopeError
from seedscope.datasets import Dataset
from tests.analyses.reconstruction.test_tilted_information import Law, log_density, with_bias

rc = ss.reconstruction


MODELS = (ss.logistic(), ss.mlp(4), ss.mlp((4, 3), "tanh"))


def survey(rows: int = 60, seed: int = 0) -> Dataset:
    """A sex, a smoking habit of three levels and an age, one of which the label depends on; public scaling."""
    draw = np.random.default_rng(seed)
    sex, smokes, age = draw.integers(0, 2, rows), draw.integers(0, 3, rows), draw.normal(0, 1, rows)
    features = np.column_stack([sex == 0, sex == 1, smokes == 1, smokes == 2, age]).astype(float)
    labels = (age + sex + draw.normal(size=rows) > 0.5).astype(int)
    labels[:4] = 0, 1, 0, 1
    features[:, 4] = np.clip(age, -1.4, 1.4)
    names = ("sex=f", "sex=m", "smokes=some", "smokes=much", "age")
    return ss.from_arrays(features, labels, feature_names=names, norm_bound=2.0)


def trained(data: Dataset, mechanism: Any, seeds: int, model: Any = None, **options: Any) -> ss.Ensemble:
    records, grid = ss.Records(probes=("test",)), ss.Grid(seeds, **options)
    return ss.train(data, mechanism, model=model or ss.logistic(), grid=grid, records=records, jobs=1)


# --- candidates -----------------------------------------------------------------------------------------------------


def test_candidates_of_a_category_change_its_columns_only_and_hold_the_truth() -> None:
    data = survey()
    found = rc.candidates_for(data, "smokes")
    rows = np.asarray(data.base.features)
    assert found.rows.shape == (len(rows), 3, 5)
    np.testing.assert_allclose(found.rows[np.arange(len(rows)), found.truth][:, [0, 1, 4]], rows[:, [0, 1, 4]])
    assert np.all(found.rows[:, 0, 2:4] == 0)  # the level without a column
    np.testing.assert_allclose(found.prior.sum(axis=1), 1)
    shares = np.bincount(found.truth, minlength=3) / len(rows)
    np.testing.assert_allclose(found.prior[0], shares)
    assert found.chance[0] == shares.max()


def test_rows_that_were_scaled_to_one_norm_are_scaled_again_with_another_level() -> None:
    raw = np.column_stack([np.arange(40) % 2, 1 - np.arange(40) % 2, np.linspace(0.1, 3, 40)])
    rows = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    data = ss.from_arrays(rows, np.arange(40) // 2 % 2, feature_names=("sex=f", "sex=m", "age"), norm_bound=1.0)
    found = rc.candidates_for(data, "sex")
    np.testing.assert_allclose(np.linalg.norm(found.rows, axis=2), 1)
    everyone = np.arange(len(found.people))
    np.testing.assert_allclose(found.rows[everyone, found.truth], data.base.features, atol=1e-12)
    np.testing.assert_allclose(found.rows[everyone, 1 - found.truth][:, 2], data.base.features[:, 2])  # same norm


def test_numbers_and_records_have_the_truth_first_and_others_beside_it() -> None:
    data = survey()
    numbers, records = rc.candidates_for(data, "age", count=4), rc.candidates_for(data, "record", count=5)
    np.testing.assert_allclose(numbers.rows[:, 0], data.base.features)
    assert np.all(numbers.rows[:, 1:, 4] != numbers.rows[:, :1, 4])
    np.testing.assert_allclose(numbers.rows[:, :, :4], np.repeat(data.base.features[:, None, :4], 4, axis=1))
    np.testing.assert_allclose(records.rows[:, 0], data.base.features)
    assert np.all(records.prior == 0.2)


def test_of_images_the_whole_image_or_its_label_can_be_asked() -> None:
    draw = np.random.default_rng(0)
    data = ss.from_arrays(draw.random((30, 4, 4, 1)), np.arange(30) % 3)
    records, labels = rc.candidates_for(data, "record", count=3), rc.candidates_for(data, "label")
    assert records.rows.shape == (len(data.base), 3, 4, 4, 1)
    np.testing.assert_array_equal(records.rows[:, 0], np.asarray(data.base.features, float))
    assert labels.labels[0].tolist() == [0, 1, 2]
    with pytest.raises(SeedscopeError, match="unknown sensitive column of images"):
        rc.candidates_for(data, "x0")


@pytest.mark.parametrize(
    ("column", "count", "message"),
    [
        ("smoke", 10, "Did you mean 'smokes'"),
        ("sex=f", 10, "unknown sensitive column"),
        ("age", 1, "candidates must be"),
        ("constant", 10, "the prior of 'constant' has one value only"),
        ("record", 10_000, "candidates must be at most"),
    ],
)
def test_columns_that_cannot_be_guessed_are_refused_in_a_sentence(column: str, count: int, message: str) -> None:
    data = survey()
    if column == "constant":
        rows = np.column_stack([data.base.features[:, 4], np.ones(len(data.base))])
        data = ss.from_arrays(rows, data.base.labels, feature_names=("age", "constant"))
    with pytest.raises(SeedscopeError, match=message):
        rc.candidates_for(data, column, count=count)


# --- objective perturbation: by the density -------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["gamma", "gaussian"])
def test_ratios_are_those_of_the_density_with_the_record_exchanged(law: Law) -> None:
    draw = np.random.default_rng(0)
    rows, labels = with_bias(draw.normal(size=(8, 2))), np.arange(8) % 2
    weights = draw.normal(size=(3, 3))
    possible, classes = draw.normal(size=(2, 3, 3)), np.array([[0, 1, 1], [1, 0, 1]])
    found = rc.tilted_candidate_ratios(rows, labels, weights, 0.7, law, 1.5, [2, 5], possible, classes)
    for m, w in enumerate(weights):
        for p, person in enumerate((2, 5)):
            for k in range(3):
                other, known = rows.copy(), labels.copy()
                other[person], known[person] = possible[p, k], classes[p, k]
                slow = log_density(other, known, w, 0.7, law, 1.5) - log_density(rows, labels, w, 0.7, law, 1.5)
                assert found[m, p, k] == pytest.approx(slow, abs=1e-9)


def test_success_from_the_true_records_models_is_that_of_attacks_on_models_trained_with_each_candidate() -> None:
    """Person 3's sex is drawn, a model trained with it, and guessed by the density: counted, not weighted."""
    data, person, mechanism = survey(40), 3, ss.ObjectivePerturbation(4.0)
    ensemble = trained(data, mechanism, 400)
    found = told(ensemble, data, "sex")
    asked = rc.candidates_for(data, "sex", [person])
    objective = mechanism.noisy_objective(ensemble.description.conditions)
    assert objective is not None
    right, per = 0, 300
    for k in range(2):
        features = np.array(data.base.features)
        features[person] = asked.rows[0, k]
        other = ss.from_arrays(
            features, data.base.labels, data.test.features, data.test.labels,
            feature_names=data.feature_names, norm_bound=2.0,
        )  # fmt: skip
        models = trained(other, mechanism, per, root_seed=9).dataset["weights"].values.reshape(per, -1)
        ratios = rc.tilted_candidate_ratios(
            with_bias(features), data.base.labels, models, objective.penalties(6), objective.law, objective.scale,
            [person], np.concatenate([asked.rows, np.ones((1, 2, 1))], axis=2), asked.labels,
        )  # fmt: skip
        with np.errstate(divide="ignore"):
            guesses = (ratios[:, 0] + np.log(asked.prior[0])).argmax(axis=1)
        right += asked.prior[0, k] * float((guesses == k).mean())
    assert found.chance[person] - 0.05 <= right
    assert right == pytest.approx(found.success[person], abs=0.08)
    assert found.success_lower[person] <= found.success[person] <= found.success_upper[person]


@pytest.mark.parametrize("epsilon", [0.8, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("column", ["sex", "smokes", "age", "label"])
def test_no_attack_on_objective_perturbation_beats_the_ceiling(epsilon: float, column: str) -> None:
    """Twenty settings; the tilt is Gaussian in those of smaller ε."""
    small = epsilon <= 1
    mechanism = ss.GaussianObjectivePerturbation(epsilon, 1e-5) if small else ss.ObjectivePerturbation(epsilon)
    data = survey(80)
    found = told(trained(data, mechanism, 60), data, column, candidates=4)
    assert found.beats_ceiling.size == 0
    assert np.all(found.success_lower <= found.ceiling)
    assert np.all(found.chance <= found.ceiling)
    assert np.all((found.success_lower <= found.success_upper) & (found.success_upper <= 1))


# --- DP-SGD: runs with the candidate drawn --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "epsilon"),
    [(ss.mlp(4), 6.0), *(pytest.param(*one, marks=pytest.mark.slow) for one in product(MODELS, (1.0, 3.0, 12.0)))],
)
def test_no_attack_on_dpsgd_beats_the_ceiling(epsilon: float, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seedscope.auditing.sensitive.RELEASES", 60)
    data = survey(60)
    mechanism = ss.DPSGD.calibrated(epsilon, 1e-5, examples=len(data.base), batch_size=15, steps=12)
    ensemble = trained(data, mechanism, 2, model)
    for column in ("sex", "record"):
        found = told(ensemble, data, column, candidates=3)
        assert found.kind == "statistical"
        assert found.releases == 60
        assert found.beats_ceiling.size == 0
        assert np.all(found.chance <= found.ceiling)


@pytest.mark.slow
def test_large_networks_are_asked_about_fewer_people_and_then_about_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    data = survey(60)
    ensemble = trained(data, ss.DPSGD(batch_size=15, steps=2, noise_multiplier=3.0), 2)
    monkeypatch.setattr("seedscope.auditing.sensitive.RELEASES", 2)
    steps = 2 * 2 * 3 * (15 + 2 * 2)  # releases, steps, passes, rows and candidates
    monkeypatch.setattr("seedscope.auditing.sensitive.MOST_OPERATIONS", 3.5 * steps * 11)  # of 5 products, sums, a bias
    assert len(told(ensemble, data, "sex", candidates=2).people) == 3
    monkeypatch.setattr("seedscope.auditing.sensitive.MOST_OPERATIONS", 1.0)
    with pytest.raises(SeedscopeError, match="the network is too large: 2 releases"):
        told(ensemble, data, "sex")


def test_what_has_no_known_law_is_refused() -> None:
    data = survey(40)
    with pytest.raises(SeedscopeError, match="no ceiling is proved"):
        told(trained(data, ss.SGD(steps=5, batch_size=5), 2), data, "sex")
    with pytest.raises(SeedscopeError, match="it is for objective perturbation"):
        told(trained(data, ss.OutputPerturbation(noise_scale=0.1), 2), data, "sex")
    limited = ss.DPSGD(batch_size=8, steps=3, noise_multiplier=2.0, personal_budget=1.0)
    with pytest.raises(SeedscopeError, match="leave out personal_budget"):
        told(trained(data, limited, 2), data, "sex")
    with pytest.raises(SeedscopeError, match="give data"):
        ss.audit(trained(data, ss.ObjectivePerturbation(1.0), 20), sensitive=["sex"])
