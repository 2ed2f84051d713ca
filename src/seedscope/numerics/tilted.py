"""How much likelier a released minimiser of a tilted objective is with a person than without: for everybody at once.

`w` minimises the sum of logistic losses + ½ Σ penalty_j w_j² + b·w. So b is a function of w and of the data D,
`b_D(w) = −(Σ r_j x_j + penalty ⊙ w)`, one to one, and w has the density `p(b_D(w))·|det H_D(w)|`. Without person i (or
with x_0 in their place) the tilt must have been `b_D + r_i x_i − r_0 x_0`, and the determinant changes by a
rank of 1 or 2.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import expit

TiltLaw = Literal["gamma", "gaussian"]
Spare = tuple[np.ndarray, float]  # a row, the bias included, and its label


def tilted_log_ratios(
    rows: np.ndarray,
    labels: np.ndarray,
    penalties: np.ndarray,
    weights: np.ndarray,
    law: TiltLaw,
    scale: float,
    spare: Spare | None = None,
) -> np.ndarray:
    """Return ln p_D(w)/p_{D_i}(w) [model, person] at released weights.

    Args:
        rows, labels: [person, feature], the bias included, and 0 or 1.
        penalties: [feature], of the *sum* of losses.
        weights: [model, feature].
        law: of the tilt; "gamma" has a density ∝ exp(−‖b‖/scale), "gaussian" ∝ exp(−‖b‖²/2·scale²).
        spare: the row that stands in for the person; None takes the person out.

    >>> rows, labels = np.array([[1.0, 1.0], [-1.0, 1.0]]), np.array([1.0, 0.0])
    >>> tilted_log_ratios(rows, labels, np.ones(2), np.zeros((1, 2)), "gaussian", 2.0).round(4)
    array([[0.343, 0.343]])

    Chaudhuri et al. 2011 and Kifer et al. 2012 bound this; here it is evaluated.
    """
    return np.stack([_of_model(rows, labels, penalties, w, law, scale, spare) for w in weights])


def _of_model(
    rows: np.ndarray,
    labels: np.ndarray,
    penalties: np.ndarray,
    w: np.ndarray,
    law: TiltLaw,
    scale: float,
    spare: Spare | None,
) -> np.ndarray:
    """Return one model's log-ratios [person]."""
    scores = expit(rows @ w)
    residuals, curvatures = scores - labels, scores * (1 - scores)
    tilt = -(residuals @ rows + penalties * w)
    hessian = (rows * curvatures[:, None]).T @ rows + np.diag(penalties)
    if spare is None:
        out, back, pull = 0.0, 0.0, np.zeros_like(w)
    else:
        score = float(expit(spare[0] @ w))
        out, back, pull = score - spare[1], score * (1 - score), spare[0]
    # ‖b_D + r_i x_i − r_0 x_0‖² − ‖b_D‖², everybody's by three products
    moved = residuals * (2 * (rows @ tilt) + residuals * np.einsum("ij,ij->i", rows, rows))
    moved += -2 * out * (pull @ tilt) + out**2 * (pull @ pull) - 2 * residuals * out * (rows @ pull)
    by_density, by_volume = (
        density_ratio(tilt, moved, law, scale),
        _log_determinant(rows, curvatures, hessian, pull, back),
    )
    ratios: np.ndarray = by_density - by_volume
    return ratios


def density_ratio(tilt: np.ndarray, moved: np.ndarray, law: TiltLaw, scale: float) -> np.ndarray:
    """Return ln p(b) − ln p(b') where ‖b'‖² = ‖b‖² + moved."""
    if law == "gaussian":
        exponents: np.ndarray = moved / (2 * scale**2)
        return exponents
    norm = float(np.linalg.norm(tilt))
    moved_norm = np.sqrt(np.maximum(norm**2 + moved, 0.0))
    ratio: np.ndarray = moved / (np.maximum(norm + moved_norm, 1e-300) * scale)
    return ratio


def _log_determinant(
    rows: np.ndarray, curvatures: np.ndarray, hessian: np.ndarray, pull: np.ndarray, back: float
) -> np.ndarray:
    """Return ln det(H_{D_i} H_D⁻¹) [person]: out goes h_i x_i x_iᵀ, in comes h_0 x_0 x_0ᵀ."""
    inverse = np.linalg.inv(hessian)
    solved = rows @ inverse
    own = np.einsum("ij,ij->i", solved, rows)
    spare, cross = float(pull @ inverse @ pull), solved @ pull
    change: np.ndarray = np.log((1 - curvatures * own) * (1 + back * spare) + curvatures * back * cross**2)
    return change
