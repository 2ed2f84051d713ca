"""The log-loss, its derivative written out, and probabilities."""

from __future__ import annotations

import jax
import jax.numpy as jnp


@jax.custom_jvp
def binary_loss(logit: jax.Array, label: jax.Array) -> jax.Array:
    """Return the log-loss of one-logit predictions; its derivative is written out, which halves a step's time."""
    return jax.nn.softplus(logit) - label * logit


@binary_loss.defjvp
def _binary_loss_derivative(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (logit, label), (logit_tangent, _) = primals, tangents
    probability = 0.5 + 0.5 * jnp.tanh(0.5 * logit)
    return binary_loss(logit, label), (probability - label) * logit_tangent


def log_loss(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Return each example's log-loss: logits [example] for two classes or [example, class] for more."""
    if logits.ndim == 1:
        return binary_loss(logits, labels)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None].astype(int), axis=1)[:, 0]


def probabilities(logits: jax.Array) -> jax.Array:
    """Return the probability of class 1 for two classes, of every class for more."""
    return jax.nn.sigmoid(logits) if logits.ndim == 1 else jax.nn.softmax(logits)
