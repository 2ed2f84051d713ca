"""Plain SGD on a block of models side by side; loads JAX."""

from seedscope.training.gradient.losses import careful_log_loss, log_loss
from seedscope.training.gradient.sgd import (
    PlainSteps,
    Probes,
    Records,
    flat,
    initial_parameters,
    noisy_sgd_trainer,
    observe,
    score_block,
    sgd_trainer,
    starting_points,
    structured,
    take,
    train_sgd,
)

__all__ = [
    "PlainSteps",
    "Probes",
    "Records",
    "careful_log_loss",
    "flat",
    "initial_parameters",
    "log_loss",
    "noisy_sgd_trainer",
    "observe",
    "score_block",
    "sgd_trainer",
    "starting_points",
    "structured",
    "take",
    "train_sgd",
]
