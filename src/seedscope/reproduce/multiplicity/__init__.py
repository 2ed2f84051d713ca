"""AD, *Arbitrary decisions are a hidden cost of differentially private training*: Tables 1–2, §5.2 and Figures 1–8.

The tables and the plane are trained by objective perturbation, with the calibration of the paper's software (whose ε is
not proved), and beside it at the same ε with the published, proved one and with the best one known. All of it takes
about a minute at the paper's size: no models are kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import seedscope as ss
from seedscope.core import model_progress, unknown_name
from seedscope.reproduce.comparison import Comparison, Study, paper_numbers
from seedscope.reproduce.multiplicity import figures as figures
from seedscope.reproduce.multiplicity.errors import error_rows
from seedscope.reproduce.multiplicity.images import IMAGES, image_outcomes, image_rows
from seedscope.reproduce.multiplicity.models import (
    EPSILONS,
    SHORTFALLS,
    TABLES,
    Cell,
    PlaneOutcome,
    TableOutcome,
    bounded_data,
    disagreement_columns,
    linear_scores,
    outcomes,
    plane_outcome,
    plane_points,
    table_outcome,
    weights_without_noise,
)
from seedscope.reproduce.multiplicity.patient import PATIENT, patient_rows

MODELS = {"small": 500, "paper": 5000}
PAPER, PROVED, BEST = ss.Diffprivlib062(), ss.Chaudhuri(), ss.OneFactor()
PLANE_EPSILONS = (0.5, 1.0, 1.5, 2.5)
PUBLISHED = {
    (row["place"], row["data"], row["setting"], row["quantity"]): float(row["value"])
    for row in paper_numbers("multiplicity")
}
SHOWN = ("AUC mean", "F1 mean", "disagreement mean")  # on the screen; the other columns are in the files
NEAR_BEST = "top 5 % among the best within .01"
OWN_BOUND = "R is the data's own largest norm: ε holds if that is public"


@dataclass(frozen=True)
class Part:
    """A part of the study: its comparisons, and its charts by file name."""

    comparisons: tuple[Comparison, ...] = ()
    charts: Mapping[str, Any] = field(default_factory=dict)


def run(scale: str, data: list[str] | None, out: Path, jobs: int | None, quiet: bool) -> Study:
    """Return AD's Table 2 and figures, ours beside theirs.

    Args:
        scale: "small" (500 models a cell, 10 by DP-SGD) or "paper" (5,000 and 50).
        data: only these of the four tables, "synthetic" and the two image sets.
        out: where the models of DP-SGD are kept; all others are trained within a minute.
        jobs: processes; default one for each core.
        quiet: show no progress.
    """
    tables, images, with_plane = chosen_data(data)
    models, clock = MODELS[scale], Stopwatch()
    parts = [clock("bounds", bounds)]
    if tables:
        parts.append(clock("tables", study_tables, tables, models, jobs, quiet))
    if with_plane:
        parts.append(clock("plane", study_plane, models, jobs, quiet))
    if images:
        parts.append(clock("images", study_images, images, scale, out, jobs, quiet))
    comparisons = tuple(comparison for part in parts for comparison in part.comparisons)
    charts = {name: chart for part in parts for name, chart in part.charts.items()}
    return Study("multiplicity", scale, comparisons, charts, clock.seconds)


class Stopwatch:
    """Calls functions and remembers how long each took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, function: Callable[..., Part], *arguments: Any) -> Part:
        start = time.perf_counter()
        part = function(*arguments)
        self.seconds[name] = time.perf_counter() - start
        return part


def chosen_data(names: Sequence[str] | None) -> tuple[list[str], list[str], bool]:
    """Return the tables and the image sets to study, and whether to study the plane."""
    known = (*TABLES, *IMAGES, "synthetic")
    for name in names or ():
        if name not in known:
            raise unknown_name("data set of this study", name, known)
    chosen = known if names is None else names
    return (
        [name for name in TABLES if name in chosen],
        [name for name in IMAGES if name in chosen],
        "synthetic" in chosen,
    )


def study_tables(names: Sequence[str], models: int, jobs: int | None, quiet: bool) -> Part:
    """Return Tables 1 and 2 with all calibrations, §5.2's patient and Figures 3, 5 and 7, for the named tables."""
    cells = [Cell(name, epsilon, PAPER, models) for name in names for epsilon in EPSILONS]
    beside = [replace(cell, calibration=how) for how in (PROVED, BEST) for cell in cells]
    with model_progress("Table 2", quiet) as progress:
        trained = outcomes(table_outcome, [*cells, *filter(useful, beside)], jobs, progress)
    by_cell: dict[Cell, TableOutcome] = {outcome.cell: outcome for outcome in trained}
    ours = [by_cell[cell] for cell in cells]
    groups = group_rows([outcome for outcome in ours if outcome.cell.data == "contraception"])
    charts: dict[str, Any] = {
        "figure-3-privacy": figures.performance_chart(ours),
        "figure-5a-distributions": figures.distribution_chart(ours),
        "figure-7-viable-range": figures.range_chart(ours),
    }
    if groups:
        charts["figure-5b-age-groups"] = figures.group_chart(groups, "age")
    rows = [
        row
        for outcome in ours
        for row in table_rows(outcome, *(by_cell.get(replace(outcome.cell, calibration=how)) for how in (PROVED, BEST)))
    ]
    sizes = [row for name in names for row in size_rows(name)]
    patient = patient_rows(models, PAPER, BEST) if PATIENT.data in names else []
    return Part((*sizes, *rows, *largest_differences(rows), *patient, *group_comparisons(groups)), charts)


def size_rows(name: str) -> list[Comparison]:
    """Return a row of Table 1: how large a set is as we prepare it; of the synthetic one more can always be drawn."""
    data = ss.load(name)
    train, test = len(data.base), len(data.test)
    sizes = {
        "examples": train + test,
        "features": data.features.shape[1],
        "training examples": train,
        "test examples": test,
    }
    keys = {what: ("AD Table 1", name, "as prepared", what) for what in sizes}
    return [
        Comparison(*keys[what], float(sizes[what]), PUBLISHED[keys[what]]) for what in sizes if keys[what] in PUBLISHED
    ]


def useful(cell: Cell) -> bool:
    """Return whether a calibration gives a model at all: the best one refuses an ε at which noise is all there is."""
    data = bounded_data(cell.data)
    try:
        cell.mechanism.check(ss.Conditions.of(data, ss.Unscaled().fit(data)))
    except ss.SeedscopeError:
        return False
    return True


def table_rows(ours: TableOutcome, proved: TableOutcome | None, best: TableOutcome | None) -> list[Comparison]:
    """Return a row of Table 2: a comparison for each column with the paper's calibration, the best one at the same ε
    beside it; and all columns again with the published, proved one."""
    name, setting = ours.cell.data, f"ε={ours.cell.epsilon:g}"
    published, better = ({} if outcome is None else table_columns(outcome) for outcome in (proved, best))
    rows = []
    for quantity, value in table_columns(ours).items():
        paper = PUBLISHED.get(("AD Table 2", name, setting, quantity))
        notes = [f"Chaudhuri 2011: {published[quantity]:.4g}"] if published else []
        notes += [f"no ties: {100 * ours.areas_of_ranks.mean():.4g}"] if quantity == "AUC mean" else []
        notes += [] if better else ["the best calibration refuses so small an ε"]
        detail, note = quantity not in SHOWN, "; ".join(notes)
        rows.append(Comparison("AD Table 2", name, setting, quantity, value, paper, note, detail, better.get(quantity)))
    again = "AD Table 2, proved calibration"
    return rows + [Comparison(again, name, setting, *entry, note=OWN_BOUND, detail=True) for entry in published.items()]


def table_columns(outcome: TableOutcome) -> dict[str, float]:
    """Return the columns of Table 2: performance in percent over models, disagreement over test examples."""
    performance = {
        "AUC mean": 100 * outcome.areas.mean(),
        "AUC std": 100 * outcome.areas.std(ddof=1),
        "F1 mean": 100 * outcome.f1.mean(),
        "F1 std": 100 * outcome.f1.std(ddof=1),
    }
    return {name: float(value) for name, value in performance.items()} | disagreement_columns(outcome.disagreement)


def largest_differences(rows: Sequence[Comparison]) -> list[Comparison]:
    """Return, for each data set, how far our mean disagreement and mean AUC are from the paper's at most."""
    largest = []
    for name in dict.fromkeys(row.data for row in rows):
        for quantity in ("disagreement mean", "AUC mean"):
            gaps = [
                abs(row.ours - row.paper)
                for row in rows
                if (row.data, row.quantity) == (name, quantity) and row.paper is not None
            ]
            largest.append(Comparison("Largest differences from AD Table 2", name, "every ε", quantity, max(gaps)))
    return largest


def group_rows(cells: Sequence[TableOutcome]) -> list[dict[str, Any]]:
    """Return the mean disagreement by age group at each ε (Figure 5b), with intervals and p-values."""
    if not cells:
        return []
    groups, shown = bounded_data("contraception").test.groups, []
    for outcome in cells:
        compared = ss.multiplicity.compare_groups(outcome.disagreement, groups, "age", outcome.cell.models)
        for group in compared.groups:
            around = group.population or group.disagreement
            shown.append({
                "epsilon": outcome.cell.epsilon, "group": group.name, "mean": around.value, "lower": around.lower,
                "upper": around.upper, "p": float(compared.p_value or math.nan),
            })  # fmt: skip
    return shown


def group_comparisons(rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    """Return the groups' means as comparisons; the paper shows them in a picture only."""
    return [
        Comparison("AD Figure 5b", "contraception", f"ε={row['epsilon']:g}", f"mean disagreement, age {row['group']}",
                   row["mean"], note=f"equal means: p = {row['p']:.3g}")
        for row in rows
    ]  # fmt: skip


def study_images(names: Sequence[str], scale: str, out: Path, jobs: int | None, quiet: bool) -> Part:
    """Return Table 2's rows by DP-SGD on the named image sets, and their part of Figure 3."""
    by_epsilon = image_outcomes(names, scale, out, jobs, quiet)
    rows = [row for outcome in by_epsilon for row in image_rows(outcome, PUBLISHED)]
    return Part(tuple(rows), {"figure-3-dpsgd": figures.image_chart(by_epsilon)})


def study_plane(models: int, jobs: int | None, quiet: bool) -> Part:
    """Return Figures 1, 4, 6 and 8b on the synthetic set, and Figure 1 for output perturbation in closed form."""
    cells = [Cell("synthetic", epsilon, PAPER, models) for epsilon in PLANE_EPSILONS]
    with model_progress("Figures 1, 4, 6, 8", quiet) as progress:
        planes: list[PlaneOutcome] = outcomes(plane_outcome, cells, jobs, progress)
    data = bounded_data("synthetic")
    optimum = weights_without_noise(data, PAPER)
    charts = {
        "figure-1-disagreement": figures.plane_chart(planes, "disagreement", data, optimum),
        "figure-1-output-perturbation": output_perturbation_chart(data),
        "figure-4-accuracy": figures.conditioned_chart(planes, SHORTFALLS),
        "figure-6-viable-range": figures.plane_chart(planes, "viable_range", data, optimum),
        "figure-8b-errors": figures.error_chart(error_rows(data, models // 2)),
    }
    rows = sorted((row for plane in planes for row in plane_rows(plane)), key=lambda row: row.place)
    return Part((*size_rows("synthetic"), *rows, largest_near_the_best(rows)), charts)


def plane_rows(outcome: PlaneOutcome) -> list[Comparison]:
    """Return what the paper says in words of Figure 1, and what Figure 4 shows at one ε."""
    setting, top = f"ε={outcome.cell.epsilon:g}", outcome.conditioned
    claimed = PUBLISHED["AD Figure 1", "synthetic", "every ε shown", "smallest accuracy"]
    near = int(np.searchsorted(SHORTFALLS, 0.01))
    return [
        Comparison("AD Figure 1", "synthetic", setting, "smallest accuracy", float(outcome.accuracy.min()), claimed,
                   "the paper: at least"),
        Comparison("AD Figure 1", "synthetic", setting, "mean accuracy", float(outcome.accuracy.mean())),
        Comparison("AD Figure 4", "synthetic", setting, NEAR_BEST, float(top.disagreement[near]),
                   note=f"{top.models[near]} models"),
    ]  # fmt: skip


def largest_near_the_best(rows: Sequence[Comparison]) -> Comparison:
    """Return what the paper says in words of Figure 4: how high disagreement rises within a point of the best."""
    largest = max(row.ours for row in rows if row.quantity == NEAR_BEST)
    key = ("AD Figure 4", "synthetic", "largest of every ε", NEAR_BEST)
    return Comparison(*key, largest, PUBLISHED[key], "the paper: from 0 to 0.8 for some examples")


def output_perturbation_chart(data: ss.Dataset) -> Any:
    """Return Figure 1 for output perturbation at the same ε (δ = 1/N²): exact, without re-training."""
    assert data.norm_bound is not None  # `bounded_data` has looked it up
    conditions = ss.Conditions(len(data.base), math.hypot(data.norm_bound, 1))
    optimum = ss.train(data, ss.OutputPerturbation(noise_scale=0.0, l2=0.01), grid=ss.Grid(1), scaling=ss.Unscaled())
    weights = optimum.weights.values[0, 0, 0, 0]
    points = plane_points()
    linear, norms = linear_scores(weights, points), np.hypot(np.linalg.norm(points, axis=1), 1)
    panels = []
    for epsilon in PLANE_EPSILONS:
        noise = ss.OutputPerturbation(epsilon, l2=0.01).noise(conditions)
        values = ss.multiplicity.output_perturbation_disagreement(linear, norms, noise)
        panels.append(figures.shaded_plane(values, f"ε = {epsilon:g}", "disagreement", data, weights))
    return figures.side_by_side(panels)


def bounds() -> Part:
    """Return what needs no training: the bound of §4, and Figures 2 and 8a."""
    key = ("AD §4", "any", "5,000 models, 95 %", "error bound of one example")
    bound = float(ss.multiplicity.disagreement_error(5000, 0.95))
    charts = {
        "figure-2-closed-form": figures.closed_form_chart(),
        "figure-8a-bounds": figures.error_chart(bound_rows()),
    }
    return Part((Comparison(*key, bound, PUBLISHED[key], "the paper rounds up"),), charts)


def bound_rows() -> list[dict[str, Any]]:
    """Return the largest error by the paper's bound and by the exact interval, for one example and for 20,000."""
    rows = []
    for models in np.geomspace(50, 20_000, 14).astype(int).tolist():
        every_count = np.arange(models // 2 + 1)
        for examples in (1, 20_000):
            bound = float(ss.multiplicity.disagreement_error(models, 0.95, examples))
            exact = float(ss.multiplicity.interval_error(every_count, models, 0.95, examples).max())
            for name, error in (("the paper's bound", bound), ("exact interval", exact)):
                curve = f"{name}, {examples:,} example{'s' if examples > 1 else ''}"
                rows.append({"models": models, "curve": curve, "error": error})
    return rows
