"""The options that say which model is trained."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from seedscope.core import require, unknown_name

MODELS = ("logistic", "mlp", "lenet5", "small-cnn", "small-vgg")
Name = Annotated[str, typer.Option(help=f"One of {', '.join(MODELS)}.")]
Hidden = Annotated[int, typer.Option(help="Hidden units of the mlp.")]


def make_model(name: str, hidden: int = 10, activation: str = "relu", dropout: float = 0.0) -> Any:
    """Return the model of that name."""
    from seedscope import models  # start-up

    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    require(name == "mlp" or not dropout, f"--dropout is for the mlp, and the model is {name}; leave it out.")
    if name == "mlp":
        return models.mlp(hidden, activation, dropout)
    return getattr(models, name.replace("-", "_"))()  # only this one: convolutions load JAX
