"""A user's own network: an (init, apply) pair, an Equinox module, or a function that makes one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from seedscope.core import SeedscopeError, require, settled
from seedscope.models.base import Model, Network, Shape
from seedscope.models.keys import root_key
from seedscope.models.networks import equinox_network, is_parameter


@dataclass(frozen=True, eq=False)
class Custom(Model):
    """A user's own network: an (init, apply) pair, a function key → Equinox module, or a module.

    Two are equal if they hold the same objects: a module's arrays cannot be hashed.
    """

    make: Any = field(repr=False)
    name: str = "custom"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Custom) and self._objects == other._objects

    def __hash__(self) -> int:
        return hash(self._objects)

    @property
    def _objects(self) -> tuple[int, ...]:
        """The identities of what the user gave."""
        return tuple(id(part) for part in (self.make if isinstance(self.make, tuple) else (self.make,)))

    def network(self, shape: Shape, classes: int) -> Network:
        try:
            network = self._pair()
            parameters = jax.eval_shape(network.init, jax.random.key(0))
            logits = jax.eval_shape(network.apply, parameters, jax.ShapeDtypeStruct((2, *shape), jnp.float32))
        except SeedscopeError:
            raise
        except (TypeError, ValueError, AttributeError) as error:
            reason = str(error).split("\n")[0]
            raise SeedscopeError(f"model {self.name} fails on examples of shape {shape}: {reason}") from error
        _require_trainable(self.name, parameters, logits, classes)
        return network

    def _pair(self) -> Network:
        """Return the (init, apply) pair of what the user gave."""
        if isinstance(self.make, tuple):
            return Network(*self.make)
        if isinstance(self.make, eqx.Module):
            return equinox_network(lambda key: self.make)
        return equinox_network(self.make)

    @property
    def has_one_initial_point(self) -> bool:
        """Whether every seed starts at the same weights, because a finished module was given."""
        return isinstance(self.make, eqx.Module)

    def identity(self, shape: Shape, classes: int) -> str:
        with settled():
            return self._digest(shape, classes)

    def _digest(self, shape: Shape, classes: int) -> str:
        """Return the name with a checksum of what the functions compute and of the weights they begin with."""
        network = self.network(shape, classes)
        key = root_key(0)
        parameters = network.init(key)
        traced = (jax.make_jaxpr(network.init)(key), jax.make_jaxpr(network.apply)(parameters, jnp.zeros((1, *shape))))
        digest = hashlib.sha256("\n".join(map(str, traced)).encode())
        captured = [constant for jaxpr in traced for constant in jaxpr.consts]  # their text shows only shapes
        for leaf in [*jax.tree.leaves(parameters), *captured]:
            digest.update(np.asarray(leaf).tobytes())
        return f"{self.name}:{digest.hexdigest()[:16]}"


def _require_trainable(name: str, parameters: Any, logits: Any, classes: int) -> None:
    """Raise unless a user's parameters are floating-point arrays and the logits have the shape that training needs."""
    floating = all(is_parameter(leaf) for leaf in jax.tree.leaves(parameters))
    require(floating, f"model {name} must have only floating-point parameters; keep others out of what init returns.")
    needed = () if classes == 2 else (classes,)
    given = logits.shape[1:] if isinstance(logits, jax.ShapeDtypeStruct) else type(logits).__name__
    right = given == needed
    require(right, f"model {name} must give each example logits of shape {needed} for {classes} classes, got {given}.")
