"""Privacy losses of people with several rows: all of a person's rows go at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import seedscope as ss
from seedscope.analyses.privacy_loss import output_perturbation
from seedscope.numerics import LogisticProblem, person_log_ratios, tilted_log_ratios

OWNERS = np.array([3, 3, 5, 3, 9, 5, 1, 1, 9, 2, 4, 4])


def drawn(seed: int = 4) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, float]]:
    """Return rows, labels and a spare row."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(len(OWNERS), 3))
    return rows, draw.integers(0, 2, len(OWNERS)).astype(float), (draw.normal(size=3), 0.0)


def log_density(w: np.ndarray, x: np.ndarray, y: np.ndarray, l2: np.ndarray, law: str, scale: float) -> float:
    """Return the released weights' log-density up to a constant, written out."""
    s = expit(x @ w)
    norm = np.linalg.norm((s - y) @ x + l2 * w)
    hessian = (x * (s * (1 - s))[:, None]).T @ x + np.diag(l2)
    return float((-norm / scale if law == "gamma" else -(norm**2) / (2 * scale**2)) + np.linalg.slogdet(hessian)[1])


@pytest.mark.parametrize("law", ["gamma", "gaussian"])
@pytest.mark.parametrize("replaced", [True, False])
def test_losses_of_persons_are_the_log_ratios_of_densities_written_out(law: Any, replaced: bool) -> None:
    rows, labels, spare = drawn()
    l2, w = np.array([0.3, 0.4, 0.2]), np.random.default_rng(1).normal(size=(4, 3))
    found = person_log_ratios(rows, labels, l2, w, law, 2.0, spare if replaced else None, OWNERS)
    for place, owner in enumerate(OWNERS):
        own = owner == OWNERS
        x, y = (rows.copy(), labels.copy()) if replaced else (rows[~own], labels[~own])
        if replaced:
            x[own], y[own] = spare
        exact = [log_density(one, rows, labels, l2, law, 2.0) - log_density(one, x, y, l2, law, 2.0) for one in w]
        np.testing.assert_allclose(found[:, place], exact, atol=1e-9)


@pytest.mark.parametrize("replaced", [True, False])
def test_a_person_of_one_row_has_the_loss_of_the_row(replaced: bool) -> None:
    rows, labels, spare = drawn()
    l2, w, other = np.full(3, 0.5), np.random.default_rng(2).normal(size=(5, 3)), spare if replaced else None
    alone = person_log_ratios(rows, labels, l2, w, "gamma", 1.5, other, np.arange(len(rows)))
    np.testing.assert_allclose(alone, tilted_log_ratios(rows, labels, l2, w, "gamma", 1.5, other), atol=1e-9)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_a_persons_move_is_that_of_a_true_refit(relation: Any) -> None:
    rows, labels, spare = drawn()
    found = output_perturbation(rows, labels, 0.1, 0.5, relation=relation, spare=spare, owners=OWNERS)
    whole = LogisticProblem(rows, labels, np.full(3, 0.1)).minimise(np.zeros(3)).weights[0]
    people = list(dict.fromkeys(OWNERS.tolist()))
    for place, owner in enumerate(people):
        x, y = rows.copy(), labels.copy()
        x[owner == OWNERS], y[owner == OWNERS] = (0.0, 0.0) if relation == "add_or_remove" else spare
        without = LogisticProblem(x, y, np.full(3, 0.1)).minimise(np.zeros(3)).weights[0]
        assert found.ratio[place] == pytest.approx(np.linalg.norm(whole - without) / 0.5, abs=1e-6)
    assert found.error.max() < 1e-6


def by_person(rows: int = 3) -> ss.Dataset:
    """Return tumours of people with several rows each, at most this many by public knowledge."""
    data = ss.load("breast-cancer")
    train = replace(data.train, persons=np.arange(len(data.train)) // rows)
    return replace(data, train=train, rows_per_person=rows)


@pytest.mark.parametrize("mechanism", [ss.ObjectivePerturbation(1.0), ss.GaussianObjectivePerturbation(1.0, 1e-6)])
def test_recorded_losses_of_persons_pass_their_self_test_and_stay_within_the_guarantee(mechanism: Any) -> None:
    data = by_person()
    ensemble = ss.train(data, mechanism, grid=ss.Grid(seeds=60), records=ss.Records(losses_of="train"))
    found = ss.privacy_loss.everybody(ensemble)
    assert len(found.people) == data.base.people == ensemble.description.data.people
    assert found.alarms == ()
    rows = ss.train(
        replace(ss.load("breast-cancer")), mechanism, grid=ss.Grid(seeds=60), records=ss.Records(losses_of="train")
    )
    assert np.median(found.advantage) > 1.5 * np.median(ss.privacy_loss.everybody(rows).advantage)


def test_an_audit_of_persons_shows_the_best_possible_attack_on_each() -> None:
    data = by_person()
    ensemble = ss.train(data, ss.OutputPerturbation(1.0, 1e-6), grid=ss.Grid(seeds=30, neighbours=2))
    level = ss.audit(ensemble, data=data).levels[0]
    assert level.privacy_loss is not None
    assert level.privacy_loss.kind == "proved"
    assert len(level.privacy_loss.people) == data.base.people
