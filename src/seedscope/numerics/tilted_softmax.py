"""The log-ratios of `tilted` for more than two classes: how much likelier released weights are with a person.

Weights, tilts and gradients are [class, feature] and add up to 0 over the classes; densities are on that subspace. A
person's part in the Hessian is A ⊗ x xᵀ, `A = diag(s) − s sᵀ`, so determinants change by a rank of K − 1, and of twice
that where another person comes in.
"""

from __future__ import annotations

import numpy as np

from seedscope.numerics.softmax import zero_sum_basis
from seedscope.numerics.tilted import Spare, TiltLaw, density_ratio


def softmax_log_ratios(
    rows: np.ndarray,
    labels: np.ndarray,
    classes: int,
    penalties: np.ndarray,
    weights: np.ndarray,
    law: TiltLaw,
    scale: float,
    spare: Spare | None = None,
) -> np.ndarray:
    """Return ln p_D(w)/p_{D_i}(w) [model, person] at released weights.

    Args:
        rows, labels: [person, feature], the bias included, and 0 … classes − 1.
        penalties: [feature], of the *sum* of losses, the same for every class.
        weights: [model, class · feature].
        law, scale, spare: as `tilted_log_ratios` has them.

    >>> rows, labels = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, 1.0]]), np.array([0, 1, 2])
    >>> softmax_log_ratios(rows, labels, 3, np.ones(2), np.zeros((1, 6)), "gaussian", 2.0).round(4)
    array([[0.8302, 0.8302, 0.448 ]])
    """
    return np.stack([_of_model(rows, labels, classes, penalties, w, law, scale, spare) for w in weights])


def _of_model(
    rows: np.ndarray, labels: np.ndarray, classes: int, penalties: np.ndarray, w: np.ndarray, law: TiltLaw,
    scale: float, spare: Spare | None,
) -> np.ndarray:  # fmt: skip
    """Return one model's log-ratios [person]."""
    W = w.reshape(classes, -1)
    scores = class_scores(rows @ W.T)
    residuals = scores - np.eye(classes)[np.asarray(labels, int)]
    tilt = -(residuals.T @ rows + penalties * W)
    moved = 2 * np.einsum("nk,nk->n", residuals, rows @ tilt.T)
    moved += (residuals**2).sum(1) * np.einsum("ij,ij->i", rows, rows)
    basis = zero_sum_basis(classes)
    bends = free_bends(scores, basis)
    inverse = inverse_hessian(rows, bends, penalties)
    if spare is None:
        alone: np.ndarray = density_ratio(tilt, moved, law, scale) - _log_determinant_without(rows, bends, inverse)
        return alone
    row, score = spare[0], class_scores((W @ spare[0])[None])
    pull = score[0] - np.eye(classes)[int(spare[1])]
    moved += -2 * pull @ tilt @ row + (pull @ pull) * (row @ row) - 2 * (residuals @ pull) * (rows @ row)
    volume = _log_determinant_replaced(rows, bends, inverse, row, free_bends(score, basis)[0])
    ratios: np.ndarray = density_ratio(tilt, moved, law, scale) - volume
    return ratios


def class_scores(logits: np.ndarray) -> np.ndarray:
    """Return probabilities [row, class]."""
    scores = np.exp(logits - logits.max(1, keepdims=True))
    probabilities: np.ndarray = scores / scores.sum(1, keepdims=True)
    return probabilities


def free_bends(scores: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return each row's diag(s) − s sᵀ in coordinates of the subspace, [row, K − 1, K − 1]."""
    means = scores @ basis
    bends: np.ndarray = np.einsum("nk,ka,kb->nab", scores, basis, basis) - means[:, :, None] * means[:, None, :]
    return bends


def inverse_hessian(rows: np.ndarray, bends: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Return the inverse Hessian of the sum [K − 1, feature, K − 1, feature] on the subspace."""
    free, width = bends.shape[1], rows.shape[1]
    hessian = np.empty((free, width, free, width))
    for a in range(free):
        for b in range(a + 1):
            block = (rows * bends[:, a, b, None]).T @ rows
            hessian[a, :, b], hessian[b, :, a] = block, block
        hessian[a, :, a] += np.diag(penalties)
    return np.linalg.inv(hessian.reshape(free * width, -1)).reshape(hessian.shape)


def quadratic_forms(rows: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Return x_iᵀ M_ab x_i [row, K − 1, K − 1] for the blocks M_ab of a symmetric matrix."""
    free = inverse.shape[0]
    forms = np.empty((len(rows), free, free))
    for a in range(free):
        for b in range(a + 1):
            forms[:, a, b] = forms[:, b, a] = np.einsum("ij,ij->i", rows @ inverse[a, :, b], rows)
    return forms


def _log_determinant_without(rows: np.ndarray, bends: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Return ln det(H_{D_i} H_D⁻¹) [person] where the person's part goes: det(I − A Q), Q = Uᵀ H⁻¹ U, U = I ⊗ x."""
    change: np.ndarray = np.linalg.slogdet(np.eye(bends.shape[1]) - bends @ quadratic_forms(rows, inverse))[1]
    return change


def _log_determinant_replaced(
    rows: np.ndarray, bends: np.ndarray, inverse: np.ndarray, row: np.ndarray, bend: np.ndarray
) -> np.ndarray:
    """Return ln det(H_{D_i} H_D⁻¹) [person] where another's part comes in the person's place."""
    free = len(bend)
    spare = np.einsum("aibj,i,j->ab", inverse, row, row)
    cross = np.einsum("ni,aib->nab", rows, inverse @ row)
    out, back = np.empty((len(rows), 2 * free, 2 * free)), np.broadcast_to(bend, bends.shape)
    out[:, :free, :free], out[:, :free, free:] = -bends @ quadratic_forms(rows, inverse), -bends @ cross
    out[:, free:, :free], out[:, free:, free:] = back @ cross.transpose(0, 2, 1), bend @ spare
    change: np.ndarray = np.linalg.slogdet(np.eye(2 * free) + out)[1]
    return change
