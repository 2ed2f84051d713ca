"""More than two classes: densities and refits written out beside what everybody gets at once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from seedscope import (
    GaussianObjectivePerturbation,
    Grid,
    ObjectivePerturbation,
    OutputPerturbation,
    Records,
    SeedscopeError,
    privacy_loss,
    train,
)
from seedscope.analyses.privacy_loss import objective_perturbation, output_perturbation
from seedscope.numerics import (
    SoftmaxProblem,
    softmax_log_ratios,
    softmax_person_log_ratios,
    tilted_log_ratios,
    zero_sum_basis,
)
from tests.helpers.small_data import table

CLASSES, WIDTH, PEOPLE = 3, 3, 30
DRAW = np.random.default_rng(0)
ROWS = np.column_stack([DRAW.normal(size=(PEOPLE, WIDTH - 1)), np.ones(PEOPLE)])
LABELS = DRAW.integers(0, CLASSES, PEOPLE)
SPARE = (np.array([0.5, -0.3, 1.0]), 2.0)
BASIS = zero_sum_basis(CLASSES)


def without(person: int, replaced: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the data without a person."""
    rows, labels = np.delete(ROWS, person, 0), np.delete(LABELS, person)
    return (np.vstack([rows, SPARE[0]]), np.append(labels, int(SPARE[1]))) if replaced else (rows, labels)


def log_density(free: np.ndarray, rows: np.ndarray, labels: np.ndarray, l2: float, law: str, scale: float) -> float:
    """Return ln of the density of released weights in free coordinates, up to a constant, by numerical derivatives."""

    def tilt(at: np.ndarray) -> np.ndarray:
        weights = BASIS @ at.reshape(CLASSES - 1, WIDTH)
        scores = softmax(rows @ weights.T, axis=1) - np.eye(CLASSES)[labels]
        pulled: np.ndarray = -(BASIS.T @ (scores.T @ rows + l2 * weights)).ravel()
        return pulled

    steps = 1e-5 * np.eye(free.size)
    jacobian = np.array([(tilt(free + one) - tilt(free - one)) / 2e-5 for one in steps])
    norm = float(np.linalg.norm(tilt(free))) / scale
    return -(norm**2 / 2 if law == "gaussian" else norm) + float(np.linalg.slogdet(jacobian)[1])


@pytest.mark.parametrize("law", ["gamma", "gaussian"])
@pytest.mark.parametrize("replaced", [True, False])
def test_losses_are_the_log_ratios_of_densities_written_out(law: Any, replaced: bool) -> None:
    free = DRAW.normal(size=(2, (CLASSES - 1) * WIDTH))
    weights = np.einsum("ka,maj->mkj", BASIS, free.reshape(2, CLASSES - 1, WIDTH)).reshape(2, -1)
    spare = SPARE if replaced else None
    options: dict[str, Any] = {"l2": 0.4, "scale": 1.5, "law": law, "spare": spare, "classes": CLASSES}
    found = objective_perturbation(ROWS, LABELS, weights, **options)
    for person in range(0, PEOPLE, 5):
        other = without(person, replaced)
        exact = [log_density(w, ROWS, LABELS, 0.4, law, 1.5) - log_density(w, *other, 0.4, law, 1.5) for w in free]
        np.testing.assert_allclose(found[:, person], exact, atol=1e-6)


def test_two_classes_as_a_softmax_are_the_logistic_losses() -> None:
    labels, w, spare = (LABELS > 0).astype(float), DRAW.normal(size=(3, WIDTH)), (SPARE[0], 1.0)
    # logit = (W_1 − W_0)x: w = √2·free, so tilts are √2 smaller and a penalty on free counts twice
    two = np.concatenate([-w / 2, w / 2], axis=1)
    binary = tilted_log_ratios(ROWS, labels, np.full(WIDTH, 0.5), w, "gamma", 1.0, spare)
    several = softmax_log_ratios(ROWS, labels, 2, np.ones(WIDTH), two, "gamma", np.sqrt(2.0), spare)
    np.testing.assert_allclose(several, binary, atol=1e-10)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_everybodys_move_is_that_of_a_true_refit(relation: Any) -> None:
    l2, noise = 0.05, 0.3
    found = output_perturbation(ROWS, LABELS, l2, noise, relation=relation, spare=SPARE, classes=CLASSES)
    problem = SoftmaxProblem(ROWS, LABELS, np.full(WIDTH, l2), CLASSES)
    problem.__dict__["tolerance"] = 1e-12
    theta = problem.minimise(np.zeros(problem.width)).weights[0]
    for person in range(PEOPLE):
        row, label = SPARE if relation == "replace_one" else (np.zeros(WIDTH), 0.0)
        other = problem.with_row(person, row, label)
        other.__dict__["tolerance"] = 1e-12
        moved = np.linalg.norm(other.minimise(np.zeros(problem.width)).weights[0] - theta)
        assert found.mu.value[person] == pytest.approx(moved / noise, rel=1e-6)
    assert found.error.max() < 1e-6
    assert found.kind == "proved"


@pytest.mark.parametrize("mechanism", [ObjectivePerturbation(8.0), GaussianObjectivePerturbation(8.0, 1e-5)])
def test_an_ensemble_of_several_classes_passes_its_self_test(mechanism: Any) -> None:
    ensemble = train(table(120, classes=3), mechanism, grid=Grid(seeds=40), records=Records(losses_of="train"), jobs=1)
    found = privacy_loss.everybody(ensemble)
    assert found.alarms == ()
    assert found.advantage.max() > 0


def test_output_perturbation_of_several_classes_is_within_its_sensitivity() -> None:
    data = table(120, classes=3)
    ensemble = train(data, OutputPerturbation(8.0, 1e-5), grid=Grid(seeds=2), jobs=1)
    found = privacy_loss.everybody(ensemble, data=data)
    limit = ensemble.mechanism.trade_off(ensemble.description.conditions)
    assert limit is not None
    assert 0 < float(found.largest) <= float(limit.advantage)


def test_labels_beyond_the_classes_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="labels must be 0 … 2"):
        output_perturbation(ROWS, LABELS + 1, 0.1, 1.0, classes=3)
    with pytest.raises(SeedscopeError, match="weights must have 9 columns"):
        objective_perturbation(ROWS, LABELS, np.zeros((1, 3)), l2=1.0, scale=1.0, classes=3)


OWNERS = np.repeat([7, 3, 9, 1, 5, 2], 5)[np.random.default_rng(3).permutation(PEOPLE)]


def without_person(owner: Any, replaced: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the data without all rows of a person, as many copies of the spare row in their place."""
    rows, labels = ROWS[owner != OWNERS], LABELS[owner != OWNERS]
    if not replaced:
        return rows, labels
    count = int((owner == OWNERS).sum())
    return np.vstack([rows, *[SPARE[0][None]] * count]), np.append(labels, [int(SPARE[1])] * count)


@pytest.mark.parametrize("law", ["gamma", "gaussian"])
@pytest.mark.parametrize("replaced", [True, False])
def test_losses_of_people_with_several_rows_are_those_written_out(law: Any, replaced: bool) -> None:
    free = np.random.default_rng(8).normal(size=(2, (CLASSES - 1) * WIDTH))
    weights = np.einsum("ka,maj->mkj", BASIS, free.reshape(2, CLASSES - 1, WIDTH)).reshape(2, -1)
    spare, l2 = SPARE if replaced else None, np.full(WIDTH, 0.4)
    found = softmax_person_log_ratios(ROWS, LABELS, CLASSES, l2, weights, law, 1.5, spare, OWNERS)
    for owner in np.unique(OWNERS):
        rows, labels = without_person(owner, replaced)
        exact = [
            log_density(one, ROWS, LABELS, 0.4, law, 1.5) - log_density(one, rows, labels, 0.4, law, 1.5)
            for one in free
        ]
        np.testing.assert_allclose(found[:, owner == OWNERS], np.repeat(exact, 5).reshape(2, 5), atol=1e-5)


def test_a_person_of_one_row_of_several_classes_has_the_loss_of_the_row() -> None:
    free = np.random.default_rng(9).normal(size=(2, CLASSES - 1, WIDTH))
    weights = np.einsum("ka,maj->mkj", BASIS, free).reshape(2, -1)
    l2, people = np.full(WIDTH, 0.4), np.arange(PEOPLE)
    alone = softmax_person_log_ratios(ROWS, LABELS, CLASSES, l2, weights, "gamma", 1.5, SPARE, people)
    rows = softmax_log_ratios(ROWS, LABELS, CLASSES, l2, weights, "gamma", 1.5, SPARE)
    np.testing.assert_allclose(alone, rows, atol=1e-9)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_a_person_of_several_rows_moves_the_minimiser_as_a_true_refit_does(relation: Any) -> None:
    found = output_perturbation(ROWS, LABELS, 0.1, 0.5, relation=relation, spare=SPARE, classes=CLASSES, owners=OWNERS)
    whole = SoftmaxProblem(ROWS, LABELS, np.full(WIDTH, 0.1), CLASSES).minimise(np.zeros(CLASSES * WIDTH)).weights[0]
    for place, owner in enumerate(dict.fromkeys(OWNERS.tolist())):
        rows, labels = ROWS.copy(), LABELS.copy()
        rows[owner == OWNERS], labels[owner == OWNERS] = (0.0, 0) if relation == "add_or_remove" else (
            SPARE[0], int(SPARE[1]))  # fmt: skip
        apart = SoftmaxProblem(rows, labels, np.full(WIDTH, 0.1), CLASSES).minimise(np.zeros(CLASSES * WIDTH))
        moved = np.linalg.norm(whole - apart.weights[0]) / 0.5
        assert found.ratio[place] == pytest.approx(moved, abs=1e-5)
    assert found.error.max() < 1e-6


@pytest.mark.parametrize(
    "mechanism", [ObjectivePerturbation(20.0), GaussianObjectivePerturbation(8.0, 1e-6), OutputPerturbation(8.0, 1e-6)]
)
def test_an_audit_of_several_classes_has_losses_of_people(mechanism: Any) -> None:
    data = table(120, classes=3, norm_bound=1.0)
    data = replace(data, train=replace(data.train, persons=np.arange(len(data.train)) // 3), rows_per_person=3)
    records = Records(losses_of=None if mechanism.regression_released else "train")
    found = privacy_loss.everybody(train(data, mechanism, grid=Grid(40), records=records, jobs=1), data=data)
    assert len(found.people) == data.base.people
    assert found.alarms == ()
