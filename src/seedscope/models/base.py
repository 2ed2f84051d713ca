"""Networks as (init, apply) pairs that `vmap` can train by the thousand.

A model is frozen data; `model.network(shape, classes)` gives the pair for examples of that shape:

    init(key)                → parameters, a pytree of arrays (Glorot-uniform weights, zero biases)
    apply(parameters, batch) → logits [example] for two classes, [example, class] for more

A binary network has one logit: it trains four times faster than with two. Networks must treat examples one by one; what
mixes them (batch normalisation) or draws random numbers of its own (a user's dropout) is refused by name; our own
dropout (`mlp(10, dropout=0.2)`) has a mask for each example, drawn from the seed. Convolutions are written
as patches times a matrix, which inside a compiled loop on a CPU is several times faster than the library's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from seedscope.core import require

if TYPE_CHECKING:
    import equinox as eqx
    import jax

Shape = tuple[int, ...]
Parameters: TypeAlias = Any  # a pytree of arrays
Init: TypeAlias = "Callable[[jax.Array], Parameters]"
ACTIVATIONS = ("relu", "tanh", "sigmoid")


class Network(NamedTuple):
    """A pair of pure functions: `init(key)` and `apply(parameters, batch)`.

    `module(parameters)`, where there is one, is the Equinox module that maps one example to its logits: from its layers
    per-example gradients are computed without holding them all (see `per_example`). `takes_rows` says that its first
    layer is dense and takes the example itself. `while_training(parameters, batch, key)`, where there is one, are the
    logits that training sees: with masks drawn from the key, one for each example.
    """

    init: Init
    apply: Callable[[Parameters, jax.Array], jax.Array]
    module: Callable[[Any], eqx.Module] | None = None
    takes_rows: bool = False
    while_training: Callable[[Parameters, jax.Array, jax.Array], jax.Array] | None = None


@dataclass(frozen=True)
class Model:
    """Base of the models: frozen data that knows how to make a network for given examples."""

    @property
    def convex(self) -> bool:
        """Whether it is logistic regression, whose loss is convex and bends as known: no other model may say so."""
        return False

    @property
    def draws_masks(self) -> bool:
        """Whether training leaves out units at random."""
        return False

    def network(self, shape: Shape, classes: int) -> Network:
        """Return the (init, apply) pair for examples of this shape."""
        raise NotImplementedError

    def parameters(self, shape: Shape, classes: int) -> int:
        """Return how many parameters the network for such examples has."""
        import jax

        shapes = jax.eval_shape(network_of(self, shape, classes).init, jax.random.key(0))
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))

    def identity(self, shape: Shape, classes: int) -> str:
        """Return a text that is equal for two models exactly if they train alike."""
        return repr(self)


@lru_cache(maxsize=32)
def network_of(model: Model, shape: Shape, classes: int) -> Network:
    """Return the model's network, the same pair of functions each time: what is compiled for it is then used again."""
    return model.network(shape, classes)


def parameter_count(model: Model, shape: Shape, classes: int) -> int:
    """Return how many parameters the model has for such examples."""
    return model.parameters(shape, classes)


def require_activation(name: str) -> None:
    """Raise unless the activation is known."""
    require(name in ACTIVATIONS, f"activation must be one of {', '.join(ACTIVATIONS)}, got {name!r}.")
