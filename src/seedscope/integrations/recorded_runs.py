"""Runs of somebody else's DP-SGD that were recorded while they trained, and the ensemble that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import require
from seedscope.mechanisms import DPSGD, Guarantee
from seedscope.planning import Description, ModelFacts
from seedscope.storage import Ensemble
from seedscope.training import Poisson, Shuffled

LARGE = 30.0  # an exponent from which on 1 − q + q·e^z is q·e^z


class Doubt(Enum):
    """Why a run's numbers are estimates, in words that follow "an estimate for"; or why nothing is guaranteed."""

    INSECURE = "the noise as it is computed (secure mode is off)"
    FLOATING_POINT = "noise in floating point (secure mode hinders attacks on it but proves nothing)"
    DIVISOR = "the divisor of the gradients"
    RANDOM_LAYERS = "gradients whose dropout was drawn again"
    PREPROCESSING = "preprocessing that is not known to be public"
    MIXES_PEOPLE = "batch normalisation, which mixes examples so that nothing is bounded"
    NOISE_VARIED = "noise or clipping that changed between steps and is not accounted for"
    EMPTY_LEFT_OUT = "empty batches that were left out, so that a missing step tells who was not there"

    @property
    def forbids(self) -> bool:
        """Whether it leaves nothing to guarantee."""
        return self in (Doubt.MIXES_PEOPLE, Doubt.NOISE_VARIED, Doubt.EMPTY_LEFT_OUT)


@dataclass(frozen=True)
class Settings:
    """What an optimizer and its loader do: read from them, and equal in all runs of an ensemble."""

    model: str
    parameters: int
    rate: float  # the chance of an example to be in a batch
    batch_size: int  # by which sums are divided
    noise_multiplier: float
    clipping_norm: float
    learning_rate: float
    poisson: bool
    secure: bool
    mixes_people: bool
    examples: int

    def mechanism(self, steps: int, delta: float) -> DPSGD:
        """Return the mechanism; its chance of an example is never below the loader's."""
        size = max(1, round(self.batch_size))
        public = max(size, int(size / self.rate * (1 + 1e-12)))
        return DPSGD(
            self.learning_rate, size, steps, self.noise_multiplier, self.clipping_norm, delta,
            sampling=Poisson() if self.poisson else Shuffled(), public_size=public if self.poisson else None,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Run:
    """One run. `norms`, `projections` (noise along the clipped gradient), `members` (in the batch) and `correct` (the
    model's decision) are [kept step, person].

    Every `every`-th step is kept, the first among them; `losses` [person] are of all steps, None without Poisson
    batches or noise. `train` and `test` are (scores, labels) of the trained model. Where noise or clipping changed,
    the settings have the least noise and the largest clipping norm.
    """

    settings: Settings
    steps: int
    every: int
    people: np.ndarray
    norms: np.ndarray
    projections: np.ndarray
    members: np.ndarray
    correct: np.ndarray
    losses: np.ndarray | None
    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def log_mixture(exponents: np.ndarray, rate: float) -> np.ndarray:
    """Return ln(1 − q + q·e^z), the privacy loss of a step.

    >>> log_mixture(np.array([0.0, 700.0]), 0.5).round(3).tolist()
    [0.0, 699.307]
    """
    small = np.log1p(rate * np.expm1(np.minimum(exponents, LARGE)))
    losses: np.ndarray = np.where(exponents > LARGE, np.log(rate) + exponents, small)
    return losses


def ensemble_of_runs(
    runs: Sequence[Run], *, groups: Mapping[str, ArrayLike] | None, delta: float, name: str
) -> Ensemble:
    """Return the ensemble of runs of one training: training examples first, then those of the test part."""
    require(len(runs) >= 2, f"an ensemble needs at least two runs, got {len(runs)}; train again with other seeds.")
    _require_alike(runs)
    first = runs[0]
    scores = np.stack([np.concatenate([run.train[0], run.test[0]]) for run in runs])
    labels = np.concatenate([first.train[1], first.test[1]])
    training = np.arange(len(labels)) < len(first.train[1])
    plain = Ensemble.from_scores(
        scores, labels, groups=groups, name=name, source="recorded from Opacus", training=training
    )
    dataset = plain.dataset.assign(_records(runs)).assign_coords(_coordinates(first))
    mechanism = first.settings.mechanism(first.steps, delta)
    text = _described(plain.description, first.settings, mechanism, runs).text()
    return Ensemble(dataset.assign_attrs(description=text))


def _require_alike(runs: Sequence[Run]) -> None:
    """Raise unless all runs are of one training: the same settings, steps, people and examples."""
    first = runs[0]
    for number, other in enumerate(runs):
        same = (
            other.settings == first.settings
            and other.steps == first.steps
            and np.array_equal(other.people, first.people)
        )
        about = f"run {number} has {other.steps} steps of {other.settings}, the first {first.steps} of {first.settings}"
        require(same, f"runs must be of one training with other random numbers: {about}.")
        shapes = [part[0].shape for run in (other, first) for part in (run.train, run.test)]
        require(shapes[:2] == shapes[2:], f"run {number} has scores of shapes {shapes[:2]}, the first {shapes[2:]}.")


def _records(runs: Sequence[Run]) -> dict[str, Any]:
    """Return gradient norms, decisions, and privacy losses, with the axes that an ensemble has."""
    axes = ("seed", "neighbour", "init", "norm_step", "watched")
    norms, correct = (
        np.stack(series)[:, None, None] for series in zip(*((r.norms, r.correct) for r in runs), strict=True)
    )
    records: dict[str, Any] = {"gradient_norms": (axes, norms), "correct": (axes, correct.astype(np.float16))}
    if runs[0].losses is not None:
        losses = np.stack([run.losses for run in runs if run.losses is not None])[:, None, None].astype(np.float32)
        records["privacy_losses"] = (("seed", "neighbour", "init", "loser"), losses)
    return records


def _coordinates(run: Run) -> dict[str, Any]:
    """Return whose norms and losses were recorded, and at which steps."""
    people, labels = run.people, run.train[1][run.people]
    return {
        "norm_step": ("norm_step", run.every * np.arange(len(run.norms))),
        "watched_part": ("watched", np.repeat(["train"], len(people))),
        "watched_row": ("watched", people),
        "watched_label": ("watched", np.searchsorted(np.unique(run.train[1]), labels)),
        "watched_person": ("watched", people),
        "loser_row": ("loser", people),
        "loser_person": ("loser", people),
    }


def _described(plain: Description, settings: Settings, mechanism: DPSGD, runs: Sequence[Run]) -> Description:
    """Return what is known of the runs: DP-SGD with what its optimizer said, and what that guarantees."""
    doubts = [doubt for doubt in Doubt if any(doubt in run.doubts for run in runs)]
    described = replace(
        plain,
        described_mechanism=mechanism.describe(),
        model=ModelFacts(settings.model, settings.parameters, convex=False),
        grid=replace(plain.grid, checkpoints=(mechanism.steps,)),
        records={
            **plain.records,
            "norms": {"of": "train", "every": runs[0].every},
            "losses_of": "train",
            "assumed": [doubt.value for doubt in doubts],
        },
    )
    return replace(described, guarantee=_guarantee(mechanism.guarantee(described.conditions), doubts))


def _guarantee(guarantee: Guarantee, doubts: Sequence[Doubt]) -> Guarantee:
    """Return what is guaranteed: nothing where a doubt forbids it, an estimate where there is any."""
    forbidding = [doubt.value for doubt in doubts if doubt.forbids]
    if forbidding:
        return Guarantee.none(
            guarantee.relation, guarantee.delta, f"nothing is guaranteed with {' and '.join(forbidding)}."
        )
    assumed = tuple(doubt.value for doubt in doubts)
    if guarantee.epsilon is None or not assumed:
        return guarantee
    note = f"an estimate for {' and '.join(assumed)}"
    epsilon = replace(guarantee.epsilon, kind="estimate", note=note)
    return replace(guarantee, epsilon=epsilon, assumes=assumed, reason=f"{guarantee.reason.removesuffix('.')}; {note}.")
