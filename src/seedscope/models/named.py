"""A model from its name: what a store says was trained, as something that can be trained again."""

from __future__ import annotations

import ast
from typing import Any

from seedscope.core import SeedscopeError
from seedscope.models.base import Model
from seedscope.models.convolutional import CNN, ConvolutionLayer, StridedLayer
from seedscope.models.dense import MLP, Logistic
from seedscope.models.residual import ResNet

KNOWN = {kind.__name__: kind for kind in (Logistic, MLP, CNN, ResNet, ConvolutionLayer, StridedLayer)}


def model_named(name: str) -> Model:
    """Return the library's own model of which this is the `repr`; a user's own network cannot be made from its name.

    >>> model_named("MLP(hidden=(8,), activation='tanh')").hidden
    (8,)
    """
    try:
        made = _made(ast.parse(name, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, KeyError):
        made = None
    if not isinstance(made, Model):
        own = ", ".join(kind.__name__ for kind in KNOWN.values() if issubclass(kind, Model))
        raise SeedscopeError(f"the model must be one of the library's ({own}) to be trained anew, it is {name}.")
    return made


def _made(node: ast.expr) -> Any:
    """Return the value of a call of something known, a tuple of such, or a literal; nothing else is evaluated."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return KNOWN[node.func.id](**{str(argument.arg): _made(argument.value) for argument in node.keywords})
    if isinstance(node, ast.Tuple):
        return tuple(_made(element) for element in node.elts)
    return ast.literal_eval(node)
