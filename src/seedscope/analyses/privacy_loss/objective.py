"""Losses of objective perturbation, from released weights: by the density of what is released."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import require, require_count, require_positive
from seedscope.numerics import TiltLaw, softmax_log_ratios, tilted_log_ratios


def objective_perturbation(
    features: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    *,
    l2: ArrayLike,
    scale: float,
    law: TiltLaw = "gamma",
    spare: tuple[ArrayLike, float] | None = None,
    classes: int = 2,
) -> np.ndarray:
    """Return everybody's privacy losses [model, person] at weights that objective perturbation released.

    Hand them to `from_losses`. A pure ε means that none exceeds ε: a test of anybody's calibration.

    Args:
        features, labels: [person, feature], a column of ones for the bias where there is one, and 0 … classes − 1.
        weights: [model, feature], minimisers of Σ losses + ½ Σ l2_j w_j² + b·w; of more than two classes [model,
            class · feature], adding up to 0 over the classes.
        l2: one penalty of the *sum* of losses, or one for each feature.
        scale, law: of the tilt b: "gamma" has a density ∝ exp(−‖b‖/scale), "gaussian" ∝ exp(−‖b‖²/2·scale²).
        spare: (row, label) that stands in for each person; None takes the person out.

    >>> rows, labels = np.array([[1.0, 1.0], [-1.0, 1.0]]), [1.0, 0.0]
    >>> objective_perturbation(rows, labels, np.zeros((1, 2)), l2=1.0, scale=2.0, law="gaussian").round(4)
    array([[0.343, 0.343]])
    """
    rows, y, w = np.asarray(features, float), np.asarray(labels, float), np.atleast_2d(np.asarray(weights, float))
    require(rows.ndim == 2 and len(rows) == len(y), "features must be [person, feature], with a label for each person.")
    require_count("classes", classes, at_least=2)
    columns = rows.shape[1] * (1 if classes == 2 else classes)
    require(w.shape[-1] == columns, f"weights must have {columns} columns, got {w.shape[-1]}.")
    require(np.isin(y, np.arange(classes)), f"labels must be {'0 or 1' if classes == 2 else f'0 … {classes - 1}'}.")
    require_positive("scale", scale)
    penalties = np.broadcast_to(np.asarray(l2, float), rows.shape[1])
    other = None if spare is None else (np.asarray(spare[0], float), float(spare[1]))
    if classes == 2:
        return tilted_log_ratios(rows, y, penalties, w, law, scale, other)
    return softmax_log_ratios(rows, y, classes, penalties, w, law, scale, other)
