"""Plain SGD: shuffled epochs; random order and initial weights, no proved guarantee."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from seedscope.core import Relation, require_count, require_positive
from seedscope.mechanisms.guarantees import Conditions, Guarantee
from seedscope.mechanisms.released import PlainSteps
from seedscope.mechanisms.steps import StepMechanism
from seedscope.training import ChunkTrainer, Job, Shuffled


@dataclass(frozen=True)
class SGD(StepMechanism):
    """Plain stochastic gradient descent with a fixed learning rate (METHODS of IP1 and IP2)."""

    learning_rate: float = 0.5
    batch_size: int = 32
    steps: int = 1000
    sampling: Shuffled = field(default=Shuffled())

    relation: ClassVar[Relation] = "replace_one"
    adds_noise: ClassVar[bool] = False
    takes_masks: ClassVar[bool] = True
    written: ClassVar[tuple[str, ...]] = ("SGD(learning_rate=0.5)",)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("learning_rate", self.learning_rate)
        require_count("batch_size", self.batch_size)
        require_count("steps", self.steps)

    @property
    def last_step(self) -> int:
        return self.steps

    def trainer(self, job: Job) -> ChunkTrainer:
        from seedscope.training.gradient import sgd_trainer  # JAX

        return sgd_trainer(job, self)

    def plain_steps(self) -> PlainSteps:
        return PlainSteps(self.learning_rate, self.batch_size)

    def guarantee(self, conditions: Conditions) -> Guarantee:
        """Return that none is proved: the seed's randomness is measured, not guaranteed."""
        reason = "SGD adds no noise on purpose: what its random order and initial weights hide is only estimated."
        return Guarantee.none(self.relation, 0.0, reason)

    def words(self) -> str:
        rate = f"{self.learning_rate:g}"
        return f"plain stochastic gradient descent, {self.steps:,} steps of {self.batch_size} rows at rate {rate}"

    def public_words(self) -> str:
        return "plain stochastic gradient descent"
