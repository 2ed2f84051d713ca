"""SGD plus only the noise that its own randomness lacks (IP1 Alg. 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from seedscope.accounting import classical_gaussian_noise_scale, gaussian_noise_scale
from seedscope.core import Relation, require_positive, require_probability
from seedscope.mechanisms.base import require_not_negative
from seedscope.mechanisms.guarantees import Conditions, Guarantee
from seedscope.mechanisms.sgd import SGD
from seedscope.mechanisms.steps import StepMechanism
from seedscope.training import NOISE_STREAM, ChunkTrainer, Job, Shuffled


@dataclass(frozen=True)
class AugmentedOutputPerturbation(StepMechanism):
    """SGD whose released weights get only the noise that the seed's own randomness lacks (IP1 Alg. 1).

    `sensitivity` and `intrinsic_noise` are measured by the intrinsic analysis, so the privacy is an estimate. The
    target noise is the Gaussian mechanism's for (epsilon, delta): analytic, or the papers' classical one.
    """

    sgd: SGD
    epsilon: float
    delta: float
    sensitivity: float
    intrinsic_noise: float
    classical: bool = False

    relation: ClassVar[Relation] = SGD.relation
    takes_masks: ClassVar[bool] = True
    noise_stream: ClassVar[int | None] = NOISE_STREAM

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("epsilon", "sensitivity"):
            require_positive(name, getattr(self, name))
        require_probability("delta", self.delta)
        require_not_negative("intrinsic_noise", self.intrinsic_noise)

    @property
    def sampling(self) -> Shuffled:
        """The sampling of the SGD beneath."""
        return self.sgd.sampling

    @property
    def last_step(self) -> int:
        return self.sgd.steps

    @property
    def batch_size(self) -> int:
        return self.sgd.batch_size

    def target_noise(self) -> float:
        """Return the noise that (epsilon, delta) needs without any help of the seed."""
        scale = classical_gaussian_noise_scale if self.classical else gaussian_noise_scale
        return float(scale(self.sensitivity, self.epsilon, self.delta))

    def added_noise(self) -> float:
        """Return the noise that is added: √max(0, target² − intrinsic²)."""
        return math.sqrt(max(0.0, self.target_noise() ** 2 - self.intrinsic_noise**2))

    def trainer(self, job: Job) -> ChunkTrainer:
        from seedscope.training.gradient import noisy_sgd_trainer  # JAX

        return noisy_sgd_trainer(job, self.sgd, self.added_noise())

    def guarantee(self, conditions: Conditions) -> Guarantee:
        """Return that none is proved: sensitivity and intrinsic noise are estimates."""
        reason = f"it aims at ε = {self.epsilon:g}, from an estimated sensitivity and an estimated intrinsic noise."
        return Guarantee.none(self.relation, self.delta, reason)

    def words(self) -> str:
        return "SGD plus the noise that its own randomness lacks"
