"""Losses of DP-SGD from few runs: noise and batches drawn anew along the gradient norms that were recorded.

A step's loss depends on the person's clipped gradient by its norm alone: ⟨ξ, g⟩ is normal with deviation σ‖g‖. So every
recorded run gives as many losses as one likes. They are of runs that go on as recorded whatever the noise is, while
true states depend on it: an *estimate*, for networks whose runs are too expensive to have many.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import TradeOff
from seedscope.analyses.privacy_loss.sampled import ALARM, SampledLoss, from_losses
from seedscope.core import Relation, require, require_count, require_positive, require_probability

REDRAWS = 400  # losses of a person in all, over the runs there are


def redrawn(
    norms: ArrayLike,
    *,
    noise_scale: float,
    sampling_probability: float,
    every: int = 1,
    redraws: int = REDRAWS,
    confidence: float = 0.95,
    seed: int = 0,
    people: ArrayLike | None = None,
    curve: TradeOff | None = None,
    relation: Relation | None = None,
    attacker: str = "",
) -> SampledLoss:
    """Return everybody's privacy, estimated, from their clipped gradients' norms along few runs of DP-SGD.

    Args:
        norms: [run, state, person], after clipping, before steps 0, every, 2·every, …
        noise_scale: the noise's standard deviation on the sum.
        sampling_probability: of a row to be in a batch.
        every: how many steps each state stands for.
        redraws: losses of each person, shared out among the runs.
        seed: of the noise and batches drawn anew.
        people, curve, relation, attacker, confidence: as `from_losses` has them. Intervals are about the drawing alone.

    >>> found = redrawn(np.ones((2, 50, 1)), noise_scale=2.0, sampling_probability=0.1)
    >>> found.kind, bool(0.05 < found.advantage[0] < 0.2)
    ('estimate', True)
    """
    values = np.asarray(norms, float)
    require(values.ndim == 3 and values.size > 0, f"norms must be [run, state, person], got shape {values.shape}.")
    require_positive("noise_scale", noise_scale)
    require_probability("sampling_probability", sampling_probability, closed=True)
    require_count("every", every)
    require_count("redraws", redraws)
    draw, times = np.random.default_rng(seed), -(-redraws // len(values))
    losses = [_losses(run / noise_scale, sampling_probability, every, times, draw) for run in values]
    redrawn = from_losses(
        np.concatenate(losses), confidence, people=people, relation=relation, kind="estimate", attacker=attacker
    )
    return replace(redrawn, alarms=() if curve is None else _alarms(redrawn, curve))


def _alarms(losses: SampledLoss, curve: TradeOff) -> tuple[str, ...]:
    """Return whether somebody's advantage is surely beyond the curve, at the confidence of alarms over all people."""
    surely = losses.alone(1 - (1 - ALARM) / len(losses.people)).lower
    beyond = bool(np.any(surely > float(curve.advantage)))
    return ("Gradients that were recorded are longer than the guarantee allows: clipping is off.",) if beyond else ()


def _losses(ratios: np.ndarray, q: float, every: int, times: int, draw: np.random.Generator) -> np.ndarray:
    """Return losses [time, person] of one run, from norms [state, person] in the noise's standard deviations."""
    total = np.zeros((times, ratios.shape[1]))
    for ratio in np.repeat(ratios, every, axis=0):
        inside = draw.random(total.shape) < q
        exponents = ratio * draw.standard_normal(total.shape) + np.where(inside, 0.5, -0.5) * ratio**2
        total += np.logaddexp(np.log1p(-q) if q < 1 else -np.inf, np.log(q) + exponents)
    return total
