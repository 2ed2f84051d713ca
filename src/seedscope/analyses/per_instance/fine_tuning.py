"""Unlearning by noisy fine-tuning: how many steps without a person restore a guarantee, in the place of training again.

P is the law of the released weights, Q that of training without the person. Both go on with the same noisy gradient
steps w ← φ(w) + N(0, σ²I) on what is left, and what is bounded is D_α(P_k‖Q_k) after k of them. It is proved where φ is
a contraction, ‖φ(v) − φ(w)‖ ≤ c‖v − w‖ with c < 1: whole-batch gradient steps of an objective that is strongly convex
and smooth, as L2-regularised logistic regression is. Three bounds, each valid; the smallest counts:

- nothing that is done to both makes them easier to tell apart: D_α(P_k‖Q_k) ≤ D_α(P‖Q);
- *by iteration*: weights at most z apart (both projected onto a ball of radius z/2) forget where they began;
- *by the spread of Q*, where Q satisfies a log-Sobolev inequality: the person's own divergence falls geometrically.

Feldman, Mironov, Talwar & Thakurta 2018; Vempala & Wibisono 2019; Chourasia & Shah 2023; Chien et al. 2024;
Sepahvand et al. 2025, who begin from a person's own divergence.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from seedscope.core import require, require_positive

MOST_DOUBLINGS = 18


@dataclass(frozen=True)
class FineTuning:
    """Whole-batch noisy gradient steps of `mean log-loss + (l2/2)‖w‖²`, from weights projected onto a ball.

    The learning rate is the one that contracts most, 2/(2·l2 + s), where s bounds the curvature of the mean log-loss:
    row_norm²/4 with two classes, row_norm²/2 with more. It is proved if no row (its bias column included) is longer
    than `row_norm`, the bias is regularised, and gradients are not clipped (at row_norm they never would be with two
    classes).

    >>> tuning = FineTuning(l2=0.1, row_norm=1.0, noise_scale=0.05, radius=5.0)
    >>> round(tuning.learning_rate, 2), round(tuning.contraction, 3), tuning.steps_needed(order=2.0, wanted=0.1)
    (4.44, 0.556, 11)
    """

    l2: float
    row_norm: float
    noise_scale: float
    radius: float
    classes: int = 2

    def __post_init__(self) -> None:
        for name in ("l2", "row_norm", "noise_scale", "radius"):
            require_positive(name, getattr(self, name))
        require(self.classes >= 2, f"classes must be at least 2, got {self.classes}.")

    @property
    def smoothness(self) -> float:
        """The largest curvature of the mean log-loss."""
        return self.row_norm**2 / (4 if self.classes == 2 else 2)

    @property
    def learning_rate(self) -> float:
        """The learning rate whose steps contract most."""
        return 2 / (2 * self.l2 + self.smoothness)

    @property
    def contraction(self) -> float:
        """By which factor a step brings any two weights together."""
        return gradient_contraction(self.learning_rate, self.l2, self.smoothness)

    def divergence(self, steps: int, order: float) -> float:
        """Return the bound on D_α between fine-tuning the released and the re-trained weights: whatever they are."""
        return iteration_rdp(2 * self.radius, self.contraction, self.noise_scale, steps, order)

    def steps_needed(self, order: float, wanted: float) -> int:
        """Return how many steps bring that divergence to the wanted one."""
        return fine_tuning_steps(
            math.inf, wanted, order, self.contraction, self.noise_scale, distance=2 * self.radius
        )  # fmt: skip


def gradient_contraction(learning_rate: float, l2: float, smoothness: float) -> float:
    """Return the factor c by which a gradient step of a loss of curvature 0 to `smoothness` plus L2 contracts.

    max |1 − ηh| over curvatures h from l2 to l2 + smoothness: the mean-value theorem for gradients.

    >>> gradient_contraction(1.0, 0.5, 0.25)
    0.5
    """
    require_positive("learning_rate", learning_rate)
    return max(abs(1 - learning_rate * l2), abs(1 - learning_rate * (l2 + smoothness)))


def iteration_rdp(distance: float, contraction: float, noise_scale: float, steps: int, order: float) -> float:
    """Return the bound on D_α(P_k‖Q_k) after k noisy contractions of weights that were at most `distance` apart.

    `α z² c^{2k} / (2σ² Σ_{i<k} c^{2i})`. Privacy amplification by iteration (Feldman et al. 2018, shift and contraction
    reduction): a contraction brings a shift from z to cz, noise takes a of it away at the price of αa²/(2σ²), and
    Σ_t c^{k−t} a_t = c^k z costs least with a_t in proportion to c^{k−t} (Cauchy–Schwarz). Linear steps
    reach it: it is tight.

    >>> iteration_rdp(1.0, 0.5, 1.0, 1, order=2.0), iteration_rdp(1.0, 0.5, 1.0, 0, order=2.0)
    (0.25, inf)
    """
    _require_contraction(contraction)
    if steps == 0:
        return math.inf
    kept = contraction ** (2 * steps)
    spread = math.fsum(contraction ** (2 * i) for i in range(min(steps, 10_000)))  # fewer terms: a larger bound
    return order * distance**2 * kept / (2 * noise_scale**2 * spread)


def spread_rdp(
    divergence: float, spread: float, contraction: float, noise_scale: float, steps: int, order: float
) -> float:
    """Return the bound on D_α(P_k‖Q_k) that begins from D_α(P‖Q), where Q satisfies a log-Sobolev inequality.

    With the inequality's constant 1/s², s the `spread` (a Gaussian's standard deviation): a contraction makes s² at
    most c²s², noise adds σ² to it, and while it is added D_α falls at the rate 1/(α s²) (Vempala & Wibisono 2019).
    So a step multiplies D_α by `(c²s²/(c²s² + σ²))^{1/α}`. Training by the same noisy steps from one point has s² ≤
    σ²/(1 − c²). Poisson batches mix many laws, and no spread is proved for them.

    >>> round(spread_rdp(1.0, 1.0, 0.5, 1.0, steps=2, order=2.0), 4)
    0.2182
    """
    _require_contraction(contraction)
    variance, left = spread**2, divergence
    for _ in range(steps):
        moved = contraction**2 * variance
        variance = moved + noise_scale**2
        left *= 1.0 if math.isinf(moved) else (moved / variance) ** (1 / order)
    return left


def fine_tuning_steps(
    divergence: float,
    wanted: float,
    order: float,
    contraction: float,
    noise_scale: float,
    *,
    distance: float = math.inf,
    spread: float = math.inf,
) -> int:
    """Return the smallest number of noisy steps after which one of the bounds on D_α is at most the wanted one.

    Args:
        divergence: D_α(released‖trained without the person); where it is small enough no step is needed. If it is an
            estimate so is the answer, unless the iteration alone gives it.
        wanted: the divergence to reach.
        order: α.
        contraction: c of a step, see `gradient_contraction`.
        noise_scale: σ, the standard deviation of the noise that a step adds to the weights.
        distance: how far apart the weights can be at most: twice the radius of a ball onto which they are projected.
        spread: of training without the person, see `spread_rdp`; unknown by default.

    >>> fine_tuning_steps(0.05, 0.1, 2.0, 0.5, 1.0), fine_tuning_steps(1.0, 0.1, 2.0, 0.5, 1.0, distance=1.0)
    (0, 2)
    """
    require(1 < order < math.inf, f"order must be a finite number above 1, got {order}.")
    require_positive("wanted", wanted)
    require_positive("noise_scale", noise_scale)
    require(divergence >= 0, f"divergence must be at least 0, got {divergence}.")
    finite = math.isfinite(distance) or (math.isfinite(spread) and math.isfinite(divergence))
    require(finite or divergence <= wanted, "steps are proved with a finite distance, or a spread and a divergence.")

    def enough(steps: int) -> bool:
        """Whether this many steps reach the wanted divergence."""
        by_spread = spread_rdp(divergence, spread, contraction, noise_scale, steps, order)
        by_iteration = iteration_rdp(distance, contraction, noise_scale, steps, order)
        return min(by_spread, by_iteration) <= wanted

    return _smallest(enough)


def _smallest(enough: Callable[[int], bool]) -> int:
    """Return the smallest count that is enough, where every larger one is too."""
    high = next((count for count in (0, *(2**k for k in range(MOST_DOUBLINGS))) if enough(count)), None)
    require(high is not None, f"more than {2 ** (MOST_DOUBLINGS - 1):,} steps would be needed; add more noise.")
    assert high is not None
    return bisect_left(range(high), True, key=enough)


def _require_contraction(contraction: float) -> None:
    """Raise unless steps contract."""
    require(0 < contraction < 1, f"contraction must be in (0, 1), got {contraction}; take a smaller learning rate.")
