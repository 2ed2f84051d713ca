"""Losses along training and where validation would stop it (IP1 Fig. 3, IP2 App. B.1), and features (IP1 Fig. 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

import seedscope as ss
from seedscope.analyses.intrinsic import checkpoints, convergence_point
from seedscope.reproduce.comparison import Comparison, Run
from seedscope.reproduce.intrinsic.settings import CONVERGENCE, Setting
from seedscope.training.gradient import score_block

SEEDS = {"small": 4, "paper": 20}
EVERY = 100  # steps between looks at the validation part: "every 50 or 100 batches"
LONGER = 1.5  # than the papers trained, to see whether more would have helped
ROWS = 2000  # of a part on which the loss is taken
FAILS = 3  # in a row
WIDTH, HEIGHT, COLUMNS, BINS = 220, 150, 4, 40
TRAINING, VALIDATION = "training rows", "validation rows"
COLOURS = {TRAINING: "#c98a00", VALIDATION: "#5b2a86"}


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Mean losses [seed, step] on rows that are trained on and on others, of models of the base data set.

    `features` has values of the training rows, drawn at random.
    """

    setting: Setting
    steps: np.ndarray
    losses: dict[str, np.ndarray]
    features: np.ndarray

    @property
    def stops(self) -> np.ndarray:
        """The step at which validation stops each seed, −1 where it does not."""
        return convergence_point(self.losses[VALIDATION], self.steps.tolist(), fails=FAILS)


def study_curve(setting: Setting, data: ss.Dataset, run: Run) -> LearningCurve:
    """Train a few seeds longer than the papers did and return their losses along training."""
    steps = tuple(range(EVERY, int(LONGER * setting.steps) + 1, EVERY)) or (setting.steps,)
    ensemble = ss.train(
        data,
        ss.SGD(setting.learning_rate, setting.batch_size, steps[-1]),
        model=setting.network,
        grid=ss.Grid(SEEDS[run.scale], checkpoints=steps),
        records=ss.Records(probes=()),
        store=run.store(f"{setting.name}-curve"),
        jobs=run.jobs,
        progress=not run.quiet,
    )
    weights = np.stack([final[:, 0] for _, _, final in checkpoints(ensemble)], axis=1)
    parts = {TRAINING: data.base, VALIDATION: data.validation or data.test}
    chosen = {name: some_rows(data, part) for name, part in parts.items()}
    network = ss.models.network_of(setting.network, data.features.shape[1:], data.classes)
    scored = {name: score_block(network, weights, probes)["losses"] for name, probes in chosen.items()}
    losses = {name: np.asarray(values).mean(axis=-1) for name, values in scored.items()}
    values = np.random.default_rng(0).permutation(chosen[TRAINING][0].ravel())[:ROWS]
    return LearningCurve(setting, np.array(steps), losses, values)


def some_rows(data: ss.Dataset, part: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels of a part, drawn at random and scaled as for training."""
    some = np.sort(np.random.default_rng(0).permutation(len(part))[:ROWS])
    rows = ss.datasets.default_scaling(data).fit(data).apply(part.features[some])
    return rows.astype(np.float32), part.labels[some].astype(np.float32)


def curve_rows(curve: LearningCurve) -> Iterator[Comparison]:
    """Yield where validation would stop, beside the papers' convergence point, and the losses there."""
    setting, stops = curve.setting, curve.stops
    stopped = stops[stops > 0]
    name = "-".join(filter(None, (setting.model, setting.features)))
    note = (
        f"validation loss fails {FAILS} times in a row, looked at every {EVERY} steps; median of the seeds that stop, "
    )
    note += f"{len(stopped)} of {len(stops)}; the paper's T may also be by eye"
    if stopped.size:
        median = float(np.median(stopped))
        yield Comparison(CONVERGENCE, setting.data, name, "validation stops at T", median, setting.steps, note)
    else:
        never = float(curve.steps[-1])
        note = f"validation loss does not fail {FAILS} times in a row up to here"
        yield Comparison(CONVERGENCE, setting.data, name, "validation stops after T", never, setting.steps, note)
    at = int(np.abs(curve.steps - setting.steps).argmin())
    for part, losses in curve.losses.items():
        mean = float(losses[:, at].mean())
        yield Comparison(CONVERGENCE, setting.data, name, f"loss on {part} at the paper's T", mean)


def curves_chart(curves: Sequence[LearningCurve]) -> alt.ConcatChart:
    """Return losses along training, the papers' T dotted and where validation stops dashed (IP1 Figure 3)."""
    return _panels([_curve(curve) for curve in curves])


def _curve(curve: LearningCurve) -> alt.LayerChart:
    """Return one setting's losses: means over seeds, and their range."""
    rows = [
        {
            "step": int(step),
            "part": part,
            "mean": float(values.mean()),
            "low": float(values.min()),
            "high": float(values.max()),
        }
        for part, losses in curve.losses.items()
        for step, values in zip(curve.steps, losses.T, strict=True)
    ]
    colour = alt.Color(
        "part:N", title=None, legend=alt.Legend(orient="top"),
        scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
    )  # fmt: skip
    base = _chart(rows, curve.setting.name).encode(x=alt.X("step:Q", title="training steps T"), color=colour)
    y = alt.Y("mean:Q", title="mean log-loss", scale=alt.Scale(zero=False))
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title="mean log-loss"), y2="high:Q")
    stops = curve.stops[curve.stops > 0]
    marks = [{"step": curve.setting.steps, "dash": "papers' T"}]
    marks += [{"step": float(np.median(stops)), "dash": "validation stops"}] if stops.size else []
    dashes = alt.Scale(domain=["papers' T", "validation stops"], range=[[1, 2], [5, 3]])
    rules = (
        _chart(marks, "").mark_rule().encode(x="step:Q", strokeDash=alt.StrokeDash("dash:N", title=None, scale=dashes))
    )
    panel: alt.LayerChart = band + base.mark_line().encode(y=y) + rules
    return panel.properties(title=curve.setting.name)


def features_chart(curves: Sequence[LearningCurve]) -> alt.ConcatChart:
    """Return how the features' values are spread (IP1 Figure 2): another reduction, other values."""
    return _panels([_features(curve) for curve in curves if curve.setting.model == "logistic"])


def _features(curve: LearningCurve) -> Any:
    """Return one set's values as a histogram."""
    counts, edges = np.histogram(curve.features, BINS, density=True)
    rows = [
        {"low": float(low), "high": float(high), "density": float(count)}
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]
    x = alt.X("low:Q", title="feature value", bin="binned")
    return _chart(rows, curve.setting.name).mark_bar(color=COLOURS[VALIDATION]).encode(
        x=x, x2="high:Q", y=alt.Y("density:Q", title="density")
    )  # fmt: skip


def _chart(rows: list[Any], title: str) -> alt.Chart:
    """Return an empty chart of rows."""
    return alt.Chart(alt.InlineData(values=rows), title=title, width=WIDTH, height=HEIGHT)


def _panels(charts: Sequence[Any]) -> alt.ConcatChart:
    """Return charts side by side, each with scales of its own."""
    together: alt.ConcatChart = alt.concat(*charts, columns=COLUMNS).resolve_scale(x="independent", y="independent")
    return together
