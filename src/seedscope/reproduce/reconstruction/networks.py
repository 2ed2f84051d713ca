"""BR Figures 5 and 6: convolutional networks by DP-SGD, accuracy against the error bounds over a grid of settings.

Batches are Poisson batches, which the accounting needs; the authors shuffle. A run keeps its checkpoints, so one run
serves all numbers of steps. At the paper's scale every setting has a store of its own and goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import seedscope as ss
from seedscope.analyses.reconstruction import Leakage
from seedscope.datasets import Dataset
from seedscope.progress import model_progress

MOMENTUM, DELTA = 0.5, 1e-5
PUBLISHED_CLIPPING = 1.115


@dataclass(frozen=True)
class Sweep:
    """The settings of one data set: every combination of noise, clipping norm and learning rate is trained once."""

    data: str
    rows: int | None  # the first so many training rows; None: all
    batch_size: int
    checkpoints: tuple[int, ...]
    noises: tuple[float, ...]
    clipping_norms: tuple[float, ...]
    rates: tuple[float, ...]
    seeds: int

    @property
    def settings(self) -> list[tuple[float, float, float]]:
        """All (noise multiplier, clipping norm, learning rate)."""
        return list(product(self.noises, self.clipping_norms, self.rates))


SWEEPS = {
    ("mnist", "small"): Sweep("mnist", None, 600, (50, 100, 200), (0.5, 2.0, 5.0), (1.0, 4.0), (0.1,), 2),
    ("mnist", "paper"): Sweep(
        "mnist", None, 600, (1000, 2000, 3000, 5000), (0.2, 0.5, 1.0, 2.0, 5.0, 10.0), (1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
        (0.01, 0.03, 0.1), 10,
    ),
    ("cifar10-small", "small"): Sweep("cifar10-small", 1500, 100, (60,), (0.5,), (1.0,), (0.1,), 2),
    ("cifar10-small", "paper"): Sweep("cifar10-small", None, 200, (5000,), (0.5,), (1.0,), (0.1,), 10),
}  # fmt: skip
MODELS = {"mnist": ss.tanh_cnn, "cifar10-small": ss.tanh_vgg}


@dataclass(frozen=True, eq=False)
class NetworkOutcome:
    """One setting after so many steps: test accuracy, ε₂ in two versions, and the records' leakage by factor κ."""

    data: str
    noise: float
    clipping_norm: float
    rate: float
    steps: int
    accuracy: float
    printed_rdp: float
    corrected_rdp: float
    leakage: dict[str, Leakage]

    @property
    def setting(self) -> str:
        """The setting in words."""
        return f"σ={self.noise:g}, C={self.clipping_norm:g}, ρ={self.rate:g}, T={self.steps}"

    @property
    def bounds(self) -> dict[str, float]:
        """The least mean squared error by each way to bound it, pixels between 0 and 1."""
        rdp = ss.reconstruction.rdp_error_lower
        return {
            "RDP as printed": float(rdp(self.printed_rdp, 1.0)),
            "RDP corrected": float(rdp(self.corrected_rdp, 1.0)),
            "dFIL, worst record, κ of the paper": self.leakage["estimate"].worst.value,
            "dFIL, worst record, κ proved": self.leakage["proved"].worst.value,
            "dFIL, median record, κ of the paper": self.leakage["estimate"].typical.value,
        }


def network_outcomes(sweep: Sweep, out: Path, jobs: int | None, quiet: bool) -> Iterator[NetworkOutcome]:
    """Yield the outcomes of all settings and checkpoints, training what its store lacks."""
    data = first_rows(ss.load(sweep.data), sweep.rows)
    for k, (noise, norm, rate) in enumerate(sweep.settings, 1):
        mechanism = ss.DPSGD(
            rate, sweep.batch_size, sweep.checkpoints[-1], noise, norm, DELTA, momentum=ss.Momentum(MOMENTUM),
            clipping=ss.SmoothClipping(),
        )  # fmt: skip
        with model_progress(f"{sweep.data} {k}/{len(sweep.settings)}", quiet) as progress:
            ensemble = ss.train(
                data,
                mechanism,
                model=MODELS[sweep.data](),
                grid=ss.Grid(sweep.seeds, checkpoints=sweep.checkpoints),
                records=ss.Records(("test",), scores_at_checkpoints=True, fisher_traces="train"),
                store=out / "stores" / f"{sweep.data}-{noise:g}-{norm:g}-{rate:g}",
                jobs=jobs,
                progress=progress,
            )
        for steps in sweep.checkpoints:
            yield _outcome(sweep.data, mechanism, ensemble, steps)


def first_rows(data: Dataset, rows: int | None) -> Dataset:
    """Return the data with only the first training rows, all test rows, and a test row as spare example."""
    spare = replace(data, spare=("test", 0))
    return spare if rows is None else replace(spare, train=data.train.take(slice(rows)))


def _outcome(data: str, mechanism: Any, ensemble: Any, steps: int) -> NetworkOutcome:
    """Return the outcome after so many steps."""
    examples = ensemble.description["data"]["examples"]
    noise, rate = mechanism.noise_multiplier, mechanism.sampling_probability(examples)
    # BR §7.3 takes the accountant for adding or removing a record, with noise σ/1.115.
    printed = steps * ss.accounting.sampled_gaussian_rdp(PUBLISHED_CLIPPING, noise, rate, 2)
    corrected = ss.reconstruction.dpsgd_rdp(noise, rate, steps, smooth_clipping=True)
    leakage = {
        name: ss.reconstruction.training_leakage(ensemble, name, step=steps) for name in ("none", "proved", "estimate")
    }
    return NetworkOutcome(
        data, noise, mechanism.clipping_norm, mechanism.learning_rate, steps, mean_test_accuracy(ensemble, steps),
        float(printed), float(corrected), leakage,
    )  # fmt: skip


def mean_test_accuracy(ensemble: Any, steps: int) -> float:
    """Return the mean test accuracy after so many steps, in percent."""
    scores = ensemble.on("test")["scores"].sel(neighbour=-1, step=steps).values
    labels = ensemble.on("test")["example_label"].values
    return 100 * float((scores.argmax(-1) == labels).mean())
