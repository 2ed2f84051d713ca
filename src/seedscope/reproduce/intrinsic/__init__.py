"""Hyland & Tople, *An Empirical Study on the Intrinsic Privacy of SGD*, first (IP1) and second version (IP2).

All tables and figures of both but a few, which `contents` names with the reason.

    settings    what the papers trained, and how much of it
    grids       trains a grid and computes what they show of it
    tables      rows of their tables, ours beside theirs
    figures, weight_figures     their figures
    curves      losses along training, and where validation stops it
    noise       what the seed's noise is, where it comes from, and what it hides of each person; with pictures
    attack      the membership attack with the seed known or hidden
    contents    every table, figure and claim of both papers, and where it is here
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seedscope.core import require, unknown_name
from seedscope.datasets import describe
from seedscope.reproduce.comparison import Comparison, Run, Study
from seedscope.reproduce.intrinsic import curves, figures, noise_figures, tables, weight_figures
from seedscope.reproduce.intrinsic.attack import study_attack
from seedscope.reproduce.intrinsic.curves import LearningCurve, curve_rows, study_curve
from seedscope.reproduce.intrinsic.grids import GridOutcome, study_grid
from seedscope.reproduce.intrinsic.noise import (
    NoiseOutcome,
    SeedNoise,
    noise_rows,
    study_network_noise,
    study_noise,
    test_rows,
)
from seedscope.reproduce.intrinsic.settings import (
    ATTACKED,
    BINARY,
    CONVOLUTIONAL,
    DIGITS,
    FEW_NETWORKS,
    IMAGES,
    KNOWN,
    SETTINGS,
    SMALL_ATTACK,
    VARIANTS,
    Attack,
    Setting,
)

DAYS_OF_TRAINING = f"IP2 Table 6 is of a smaller network: its 1,000 networks take days; name {ATTACKED} to have them."
A_FEW = (
    f"{ATTACKED}: {FEW_NETWORKS.seeds} of the paper's networks at one T, kept and resumed; the scale 'paper' has all."
)
NO_UMAP = "Maps of models are by principal components: UMAP needs pip install 'seedscope[umap]'."


def run(scale: str, data: list[str] | None, out: Path, jobs: int | None, quiet: bool) -> Study:
    """Return the tables and figures of IP1 and IP2, ours beside theirs.

    Args:
        scale: "small" (minutes) or "paper" (the papers' 118,000 models, kept in `out` and resumed).
        data: only these of the four binary sets, "mnist" (the convolutional network of IP1 D.3), "digits" (the attack
            of IP2 §8 on a small network) and "cifar10-small" (the attack itself, only where it is named: a few of its
            networks in a quarter of an hour, at the scale "paper" all in days).
        out: the folder of the models.
        jobs: processes; default one for each core.
        quiet: show no progress.
    """
    plan, clock = Run(scale, out, jobs, quiet), Stopwatch()
    rows: list[Comparison] = []
    outcomes: list[GridOutcome] = []
    noises: list[NoiseOutcome] = []
    of_networks: list[SeedNoise] = []
    learned: list[LearningCurve] = []
    for name in chosen_data(data, scale):
        with clock.of(name):
            if name in (ATTACKED, DIGITS):
                attack = chosen_attack(name, scale)
                rows += study_attack(attack, attack.load(), plan)
                rows += tables.attacked_network_rows()
                continue
            examined = study_data(name, plan)
            rows += data_rows(examined)
            outcomes += examined
        if name in BINARY:
            with clock.of(f"{name}, noise"):
                convex, network = (setting_of(name, model) for model in ("logistic", "mlp"))
                noises.append(study_noise(convex, convex.load(), plan))
                of_networks.append(study_network_noise(network, network.load(), plan))
                rows += [*noise_rows(noises[-1]), *test_rows(of_networks[-1])]
            with clock.of(f"{name}, losses"):
                found_curves = [study_curve(setting.setting, setting.setting.load(), plan) for setting in examined]
                rows += [row for curve in found_curves for row in curve_rows(curve)]
                learned += found_curves
    drawn = charts(outcomes) | noise_charts(noises, of_networks) | curve_charts(learned)
    return Study("intrinsic", scale, tables.in_order(rows), drawn, clock.seconds)


def setting_of(name: str, model: str) -> Setting:
    """Return the papers' setting of a model on a data set."""
    return next(setting for setting in SETTINGS if setting.data == name and setting.model == model)


def chosen_attack(name: str, scale: str) -> Attack:
    """Return the attack of IP2 §8 on a data set at a scale."""
    if name == DIGITS:
        return SMALL_ATTACK
    if scale == "paper":
        return Attack()
    say(A_FEW)
    return FEW_NETWORKS


@dataclass(frozen=True)
class Stopwatch:
    """Remembers how long each part took."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Measure what is done meanwhile."""
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def chosen_data(names: Sequence[str] | None, scale: str) -> list[str]:
    """Return the data sets to study that are here; others are named, with how to get them."""
    for name in names or ():
        if name not in KNOWN:
            raise unknown_name("data set of this study", name, KNOWN)
    asked = list(names) if names else [*BINARY, IMAGES, DIGITS]
    missing = [name for name in asked if describe(name).where == "not fetched"]
    fetching = " and ".join(f"'seedscope data fetch {name}'" for name in missing)
    require(len(missing) < len(asked), f"none of {', '.join(asked)} is here; get them with {fetching}.")
    if missing:
        say(f"Left out, since they are not here: {', '.join(missing)}; get them with {fetching}.")
    if scale == "paper" and not names:
        say(DAYS_OF_TRAINING)
    return [name for name in asked if name not in missing]


def say(line: str) -> None:
    """Print a line where progress is shown."""
    print(line, file=sys.stderr)


def study_data(name: str, plan: Run) -> list[GridOutcome]:
    """Return the outcome of every grid on one data set, in the order of the papers' tables."""
    if name == IMAGES:
        return [study_grid(CONVOLUTIONAL, CONVOLUTIONAL.load(), plan)]
    return [study_grid(setting, setting.load(), plan) for setting in (*SETTINGS, *VARIANTS) if setting.data == name]


def data_rows(outcomes: Sequence[GridOutcome]) -> Iterator[Comparison]:
    """Yield the rows of all tables for the grids of one data set."""
    for outcome in outcomes:
        if outcome.setting == CONVOLUTIONAL:
            yield from tables.convolutional_rows(outcome)
        if not outcome.setting.features:
            yield from tables.grid_rows(outcome)
        if not outcome.setting.features and outcome.setting != CONVOLUTIONAL:
            yield from tables.settings_rows(outcome.setting, outcome.setting.load(), outcome.size)
    if any(outcome.setting.features for outcome in outcomes):
        yield from tables.variant_rows(outcome for outcome in outcomes if outcome.setting.model == "logistic")


def charts(outcomes: Sequence[GridOutcome]) -> dict[str, Any]:
    """Return the figures by file name; other features of one data set are not drawn."""
    drawn = [outcome for outcome in outcomes if not outcome.setting.features]
    if not drawn:
        return {}
    convex = [outcome for outcome in drawn if outcome.setting.model == "logistic"]
    networks = [outcome for outcome in drawn if outcome.symmetry is not None]
    pictures = {
        "figure-2-along-training": figures.along_training_chart(drawn),
        "figure-3-distances": figures.distance_chart(drawn),
        "figure-6-enough-runs": figures.enough_runs_chart(drawn),
        "figure-1-two-weights": weight_figures.trajectories_chart(drawn),
        "figure-4-spread-along-training": weight_figures.spread_chart(drawn),
        "pairwise-epsilon": weight_figures.pairwise_chart(drawn),
    }
    if convex:
        if weight_figures.projection() != "umap":
            say(NO_UMAP)
        pictures["figure-4-map"] = weight_figures.map_chart(convex)
        pictures["figure-9-map-controls"] = weight_figures.controls_chart(convex[-1])
    return pictures | ({"symmetry": weight_figures.symmetry_chart(networks)} if networks else {})


def curve_charts(learned: Sequence[LearningCurve]) -> dict[str, Any]:
    """Return the pictures of training and of the features by file name."""
    if not learned:
        return {}
    return {"figure-2-features": curves.features_chart(learned), "figure-3-losses": curves.curves_chart(learned)}


def noise_charts(noises: Sequence[NoiseOutcome], of_networks: Sequence[SeedNoise] = ()) -> dict[str, Any]:
    """Return the pictures of the seed's noise by file name."""
    if not noises:
        return {}
    every = [*noises, *of_networks]
    return {
        "figure-5-least-gaussian-weights": noise_figures.least_gaussian_chart(every),
        "figure-6-p-values": noise_figures.p_value_chart(every),
        "figure-7-power": noise_figures.power_chart(),
        "people": noise_figures.people_chart(noises),
    }


__all__ = ["run"]
