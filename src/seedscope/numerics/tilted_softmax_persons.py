"""The log-ratios of `tilted_softmax` where a person has several rows: all of them go at once.

The tilt moves by Σ_{j∈P} r_j ⊗ x_j − |P| r_0 ⊗ x_0, and the volume changes by det(I + S U H⁻¹ Uᵀ): for each row that
goes, and for the one that comes |P| times, U has K − 1 rows (free class ⊗ row), and S a block ∓(diag(s) − s sᵀ).
"""

from __future__ import annotations

import numpy as np

from seedscope.numerics.softmax import zero_sum_basis
from seedscope.numerics.tilted import Spare, TiltLaw, density_ratio
from seedscope.numerics.tilted_persons import by_size
from seedscope.numerics.tilted_softmax import class_scores, free_bends, inverse_hessian


def softmax_person_log_ratios(
    rows: np.ndarray,
    labels: np.ndarray,
    classes: int,
    penalties: np.ndarray,
    weights: np.ndarray,
    law: TiltLaw,
    scale: float,
    spare: Spare | None,
    owners: np.ndarray,
) -> np.ndarray:
    """Return ln p_D(w)/p_{D without the row's owner}(w) [model, row] at released weights: a person's rows have one.

    Args:
        rows, labels, classes, penalties, weights, law, scale, spare: as of `softmax_log_ratios`.
        owners: whose each row is.

    >>> rows, labels = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, 1.0]]), np.array([0, 1, 2])
    >>> owners = np.array([4, 4, 9])
    >>> softmax_person_log_ratios(rows, labels, 3, np.ones(2), np.zeros((1, 6)), "gaussian", 2.0, None, owners).round(4)
    array([[1.6659, 1.6659, 0.448 ]])
    """
    groups, ratios = by_size(owners), np.empty((len(weights), len(rows)))
    for of_model, w in zip(ratios, weights, strict=True):
        W = w.reshape(classes, -1)
        for own in groups:
            of_model[own] = _of_people(own, rows, labels, penalties, W, law, scale, spare)[:, None]
    return ratios


def _of_people(
    own: np.ndarray, rows: np.ndarray, labels: np.ndarray, penalties: np.ndarray, W: np.ndarray, law: TiltLaw,
    scale: float, spare: Spare | None,
) -> np.ndarray:  # fmt: skip
    """Return one model's log-ratios of people with equally many rows, own [person, row]."""
    unit, basis = np.eye(len(W)), zero_sum_basis(len(W))
    scores = class_scores(rows @ W.T)
    residuals, bends = scores - unit[np.asarray(labels, int)], free_bends(scores, basis)
    tilt = -(residuals.T @ rows + penalties * W)
    shifts = np.einsum("pjk,pjd->pkd", residuals[own], rows[own])
    changing, blocks = rows[own], -bends[own]
    if spare is not None:
        score, size = class_scores((W @ spare[0])[None]), own.shape[1]
        shifts -= size * np.outer(score[0] - unit[int(spare[1])], spare[0])
        coming = np.broadcast_to(spare[0], (len(own), 1, len(spare[0])))
        block = np.broadcast_to(size * free_bends(score, basis), (len(own), 1, *bends.shape[1:]))
        changing, blocks = np.concatenate([changing, coming], axis=1), np.concatenate([blocks, block], axis=1)
    moved = 2 * np.einsum("pkd,kd->p", shifts, tilt) + np.einsum("pkd,pkd->p", shifts, shifts)
    volume = _log_determinants(changing, blocks, inverse_hessian(rows, bends, penalties))
    ratios: np.ndarray = density_ratio(tilt, moved, law, scale) - volume
    return ratios


def _log_determinants(changing: np.ndarray, blocks: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Return ln det(I + S U H⁻¹ Uᵀ) [person] for rows [person, row, feature] and their parts of the Hessian."""
    people, count, free = blocks.shape[:3]
    forms = np.einsum("pji,aibk,plk->pjalb", changing, inverse, changing, optimize=True)
    inner = np.einsum("pjac,pjclb->pjalb", blocks, forms).reshape(people, count * free, count * free)
    change: np.ndarray = np.linalg.slogdet(np.eye(count * free) + inner)[1]
    return change
