"""Log-ratios of objective perturbation's densities with and without a person of several rows.

As for one row (`tilted`), but all of a person's rows P go at once, and |P| copies of the spare row come. The tilt moves
by Σ_{j∈P} r_j x_j − |P| r_0 x_0, and the volume changes by det(H_{D∖P} H_D⁻¹) = det(I + S U H_D⁻¹ Uᵀ), where U has the
rows of P and the spare one, and S their curvatures: −h_j of those that go, |P| h_0 of the one that comes.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from seedscope.numerics.tilted import Spare, TiltLaw, density_ratio


def person_log_ratios(
    rows: np.ndarray,
    labels: np.ndarray,
    penalties: np.ndarray,
    weights: np.ndarray,
    law: TiltLaw,
    scale: float,
    spare: Spare | None,
    owners: np.ndarray,
) -> np.ndarray:
    """Return ln p_D(w)/p_{D without the row's owner}(w) [model, row] at released weights: a person's rows have one.

    Args:
        rows, labels, penalties, weights, law, scale, spare: as of `tilted_log_ratios`.
        owners: whose each row is.

    >>> rows, labels = np.array([[1.0, 1.0], [-1.0, 1.0], [0.5, 1.0]]), np.array([1.0, 0.0, 1.0])
    >>> owners = np.array([7, 7, 8])
    >>> person_log_ratios(rows, labels, np.ones(2), np.zeros((1, 2)), "gaussian", 2.0, None, owners).round(4)
    array([[0.5407, 0.5407, 0.0877]])
    """
    groups = by_size(owners)
    ratios = np.empty((len(weights), len(rows)))
    for of_model, w in zip(ratios, weights, strict=True):
        _fill(of_model, rows, labels, penalties, w, law, scale, spare, groups)
    return ratios


def by_size(owners: np.ndarray) -> list[np.ndarray]:
    """Return everybody's rows [person, row], people of equally many rows together."""
    order = np.argsort(owners, kind="stable")
    _, counts = np.unique(owners, return_counts=True)
    rows_of_each = np.split(order, np.cumsum(counts)[:-1])
    return [np.stack([rows for rows in rows_of_each if len(rows) == size]) for size in np.unique(counts)]


def _fill(
    ratios: np.ndarray, rows: np.ndarray, labels: np.ndarray, penalties: np.ndarray, w: np.ndarray, law: TiltLaw,
    scale: float, spare: Spare | None, groups: list[np.ndarray],
) -> None:  # fmt: skip
    """Write one model's log-ratios to everybody's rows."""
    scores = expit(rows @ w)
    residuals, curvatures = scores - labels, scores * (1 - scores)
    tilt = -(residuals @ rows + penalties * w)
    inverse = np.linalg.inv((rows * curvatures[:, None]).T @ rows + np.diag(penalties))
    stand_in = None if spare is None else (spare[0], float(expit(spare[0] @ w)), spare[1])
    for own in groups:
        shifts = np.einsum("pk,pkd->pd", residuals[own], rows[own])
        changing, bends = rows[own], -curvatures[own]
        if stand_in is not None:
            pull, score, label = stand_in
            size = own.shape[1]
            shifts = shifts - size * (score - label) * pull
            changing = np.concatenate([changing, np.broadcast_to(pull, (len(own), 1, len(pull)))], axis=1)
            bends = np.concatenate([bends, np.full((len(own), 1), size * score * (1 - score))], axis=1)
        moved = 2 * (shifts @ tilt) + np.einsum("pd,pd->p", shifts, shifts)
        inner = np.eye(changing.shape[1]) + bends[:, :, None] * (changing @ inverse @ changing.transpose(0, 2, 1))
        ratios[own] = (density_ratio(tilt, moved, law, scale) - np.linalg.slogdet(inner)[1])[:, None]
