"""What a person's divergence means for that person: what any attack on the released model can achieve at most.

For every event E and every order, `P(E) ≤ (e^{D_α} Q(E))^{(α−1)/α}`. An attack says "member" on an event, so this
bounds its true-positive rate by its false-positive rate; a model's being right about a person is an event too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import (
    epsilon_advantage,
    epsilon_true_positive_rate,
    gaussian_true_positive_rate,
    membership_advantage,
    true_positive_rate,
)

__all__ = [
    "epsilon_advantage",
    "epsilon_true_positive_rate",
    "gaussian_true_positive_rate",
    "membership_advantage",
    "memorisation",
    "true_positive_rate",
]


def memorisation(rdp: ArrayLike, orders: ArrayLike, accuracy_without: ArrayLike) -> np.ndarray:
    """Return how much likelier a model is at most right about a person because it was trained on them.

    The difference of the two accuracies over the randomness of training (Feldman 2020), given the accuracy of models
    that were trained without the person.

    >>> float(memorisation([0.02, 0.05], [2.0, 8.0], accuracy_without=0.6).round(4))
    0.0662

    GLA §5.4.
    """
    accuracy = np.asarray(accuracy_without, float)
    memorised: np.ndarray = np.maximum(true_positive_rate(rdp, orders, accuracy) - accuracy, 0.0)[()]
    return memorised
