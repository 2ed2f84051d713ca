"""The options that say which model is trained."""

from __future__ import annotations

from typing import Any

from seedscope.core import model_progress as model_progress
from seedscope.core import unknown_name

MODELS = ("logistic", "mlp", "lenet5", "small-cnn", "small-vgg")


def make_model(name: str, hidden: int = 10, activation: str = "relu") -> Any:
    """Return the model of that name."""
    from seedscope import models  # start-up

    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    makers = {
        "logistic": models.logistic,
        "mlp": lambda: models.mlp(hidden, activation),
        "lenet5": models.lenet5,
        "small-cnn": models.small_cnn,
        "small-vgg": models.small_vgg,
    }
    return makers[name]()
