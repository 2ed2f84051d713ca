"""What GLA says of its figures, as numbers and as trends, ours beside theirs.

The paper has figures and no tables. A trend is 1 where it holds and 0 where it does not; numbers that can be read off
the text stand beside ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from seedscope.reproduce.comparison import Comparison, paper_numbers
from seedscope.reproduce.per_instance.batches import Rule
from seedscope.reproduce.per_instance.cells import CellOutcome, Directions, student_half_width
from seedscope.reproduce.per_instance.settings import HEADLINE_ORDERS, ORDER, ORDERS, STAGES, Cell, Sweep

PUBLISHED = {
    (row["place"], row["data"], row["quantity"]): (float(row["value"]), row["note"])
    for row in paper_numbers("per_instance")
}
Outcomes = Mapping[Cell, CellOutcome]
YES = "(1: yes)"
SLACK = 1.5  # how much faster than the baseline steps may grow with the order


def rows_of(sweep: Sweep, outcomes: Outcomes, directions: Directions | None) -> list[Comparison]:
    """Return the comparisons of one data set, in the order of the paper's figures."""
    by_epsilon = [
        outcomes[cell]
        for cell in sweep.cells
        if cell.batch_size == sweep.main.batch_size and cell.model == sweep.main.model
    ]
    by_batch = [
        outcomes[cell] for cell in sweep.cells if cell.epsilon == sweep.main.epsilon and cell.model == sweep.main.model
    ]
    by_model = [
        outcomes[cell]
        for cell in sweep.cells
        if cell.epsilon == sweep.main.epsilon and cell.batch_size == sweep.main.batch_size
    ]
    main = outcomes[sweep.main]
    return [
        *headline_rows(main),
        *contribution_rows(in_order(by_epsilon)),
        *(direction_rows(directions) if directions is not None else ()),
        *tail_rows(main),
        *correctness_rows(by_model),
        *mean_rule_rows(in_order(by_batch)),
        *order_rule_rows(main, sweep.high_order_points),
        *epsilon_rule_rows(in_order(by_epsilon)),
        *confidence_rows(main),
        *corollary_rows(in_order(by_batch)),
        *corollary_correctness_rows("GLA Figures 10, 11", in_order(by_epsilon), "epsilon"),
        *corollary_correctness_rows("GLA Figures 12, 13", by_model, "model"),
        *batch_size_rows(in_order(by_batch)),
        *order_rows(main),
        *epsilon_rows(in_order(by_epsilon)),
    ]


def in_order(outcomes: Sequence[CellOutcome]) -> list[CellOutcome]:
    """Return the outcomes by ε and batch size."""
    return sorted(outcomes, key=lambda outcome: (outcome.cell.epsilon, outcome.cell.batch_size))


def headline_rows(main: CellOutcome) -> Iterator[Comparison]:
    """Yield how far people's divergence of the whole run lies below the data-independent one (what GLA set out for)."""
    privacy, place = main.privacy, "GLA: the whole run"
    compositions = {"Theorem 3.3 with p = 3n": main.papers_divergences, "the best of ours": privacy.rdp}
    for order in HEADLINE_ORDERS:
        column = list(privacy.orders).index(order)
        for name, divergences in compositions.items():
            shares = divergences[:, column] / privacy.baseline[column]
            setting = f"α={order:g}, {name}, {privacy.runs} runs"
            yield row(place, main, setting, "share of people at least 10× below the baseline", np.mean(shares <= 0.1))
            yield row(place, main, setting, "median divergence over baseline", np.median(shares))
            for level in (0.1, 0.9):
                quantity = f"{round(100 * level)}th percentile of divergence over baseline"
                yield row(place, main, setting, quantity, np.quantile(shares, level))
    setting = f"δ={privacy.delta:g}, {privacy.runs} runs"
    guarantees = {
        "ε of everybody, Rényi (proved)": float(privacy.epsilon_baseline),
        "ε of everybody, privacy-loss distribution (proved)": float(privacy.epsilon_baseline_pld),
    }
    for quantity, value in guarantees.items():
        yield row(place, main, setting, quantity, value)
    for quantity, level in (("median", 0.5), ("10th percentile", 0.1)):
        value = float(np.quantile(privacy.epsilon, level))
        yield row(place, main, setting, f"{quantity} of people's ε (estimate)", value)
    quantity = "ε of the median person's first run, privacy-loss distribution (estimate)"
    yield row(place, main, setting, quantity, main.run_epsilon)
    gain = float(np.mean(privacy.epsilon < float(privacy.epsilon_baseline_pld)))
    yield row(place, main, setting, "share of people below what everybody has", gain)


def contribution_rows(outcomes: Sequence[CellOutcome]) -> Iterator[Comparison]:
    """Yield what each ε's runs contribute step by step (Figure 1)."""
    for outcome in outcomes:
        setting = f"{outcome.cell.model}, ε={outcome.cell.epsilon:g}"
        mean, low = outcome.contributions.mean(0), np.quantile(outcome.contributions, 0.1, axis=0)
        below = np.flatnonzero(mean < 1)
        yield row("GLA Figure 1", outcome, setting, "test accuracy of the followed points", outcome.accuracy)
        yield row("GLA Figure 1", outcome, setting, "mean contribution, first epoch over baseline", mean[0])
        yield row("GLA Figure 1", outcome, setting, "mean contribution, last epoch over baseline", mean[-1])
        yield row("GLA Figure 1", outcome, setting, "10th percentile, last epoch over baseline", low[-1])
        yield row("GLA Figure 1", outcome, setting, f"mean falls below the baseline {YES}", float(len(below) > 0))
        first = outcome.epochs[below[0]] if len(below) else np.nan
        yield row("GLA Figure 1", outcome, setting, "epoch from which the mean is below the baseline", first)
        yield row("GLA Figure 1", outcome, setting, "baseline ε", float(outcome.privacy.epsilon_baseline))
        yield row(
            "GLA Figure 1", outcome, setting, "median ε of the whole run", float(np.median(outcome.privacy.epsilon))
        )
        lowest = float(np.quantile(outcome.privacy.epsilon, 0.1))
        yield row("GLA Figure 1", outcome, setting, "10th percentile of ε of the whole run", lowest)


def direction_rows(directions: Directions) -> Iterator[Comparison]:
    """Yield both directions for people in the training data (Figures 1c and 24)."""
    for name, values in (("with", directions.trained_with), ("without", directions.trained_without)):
        quantity = f"runs {name} the person: mean contribution, last epoch over baseline"
        yield Comparison(
            "GLA Figures 1c, 24", directions.data, f"{len(values)} people", quantity, float(values[:, -1].mean())
        )
    both = directions.trained_with[:, -1].mean() < 1 > directions.trained_without[:, -1].mean()
    yield with_paper(
        "GLA Figures 1c, 24", directions.data, "both", f"both directions end below the baseline {YES}", float(both)
    )


def tail_rows(main: CellOutcome) -> Iterator[Comparison]:
    """Yield how many points are far below the baseline at each stage (Figure 2)."""
    for stage in STAGES:
        shares = main.shares(stage)
        setting = f"{main.cell.model}, {stage}"
        yield row(
            "GLA Figure 2", main, setting, "share of points at least 10× below the baseline", (shares <= 0.1).mean()
        )
        yield row("GLA Figure 2", main, setting, "median step over baseline", np.median(shares))
        yield row("GLA Figure 2", main, setting, "10th percentile of steps over baseline", np.quantile(shares, 0.1))
    initial, final = ((main.shares(stage) <= 0.1).mean() for stage in ("initial", "final"))
    yield row(
        "GLA Figure 2", main, "trend", f"the tail of protected points grows in training {YES}", float(final > initial)
    )


def correctness_rows(outcomes: Sequence[CellOutcome]) -> Iterator[Comparison]:
    """Yield steps of correctly against incorrectly classified points, by network (Figures 3 and 22)."""
    for outcome in outcomes:
        for stage in STAGES[1:]:
            shares, right = outcome.shares(stage), outcome.right(stage)
            setting = f"{outcome.cell.model}, {stage}"
            for name, chosen in (("correct", right), ("incorrect", ~right)):
                value = float(np.median(shares[chosen])) if chosen.any() else np.nan
                yield row("GLA Figures 3, 22", outcome, setting, f"median step over baseline, {name} points", value)
        better = np.mean(shares[right]) < np.mean(shares[~right]) if right.any() and not right.all() else np.nan
        quantity = f"correct points are better protected at the end {YES}"
        yield row("GLA Figures 3, 22", outcome, outcome.cell.model, quantity, float(better))
        tenth = float(np.median(shares[right]) <= 0.1) if right.any() else np.nan
        yield row(
            "GLA Figures 3, 22", outcome, outcome.cell.model, f"median correct point 10× below at the end {YES}", tenth
        )


def mean_rule_rows(outcomes: Sequence[CellOutcome]) -> Iterator[Comparison]:
    """Yield Theorem 3.6 for the mean and the sum rule by batch size, both directions (Figures 4, 25–35)."""
    place, finals = "GLA Figures 4, 25–35", []
    for outcome in outcomes:
        for stage in STAGES:
            setting = f"batch {outcome.cell.batch_size}, {stage}"
            both = outcome.batches[stage].step_rdp("mean", ORDER) / outcome.baseline()
            for name, values in zip(("with‖without", "without‖with"), both, strict=True):
                yield row(
                    place,
                    outcome,
                    setting,
                    f"mean rule, median step over baseline, {name}",
                    np.median(values),
                    stage != "final",
                )
        finals.append(float(np.median(both.max(0))))
        summed = np.median(outcome.batches["final"].step_rdp("sum", ORDER).max(0)) / outcome.baseline()
        yield row(
            place, outcome, f"batch {outcome.cell.batch_size}, final", "sum rule, median step over baseline", summed
        )
    better = float(finals[-1] < finals[0]) if len(finals) > 1 else np.nan
    yield row(place, outcomes[0], "trend", f"mean rule: larger batches protect better {YES}", better)
    yield row(place, outcomes[0], "trend", f"mean rule: below the baseline at the end {YES}", float(max(finals) < 1))
    yield row(place, outcomes[0], "trend", f"sum rule by Theorem 3.6: above the baseline {YES}", float(summed > 1))


def order_rule_rows(main: CellOutcome, points: int) -> Iterator[Comparison]:
    """Yield Theorem 3.6 by order for both rules, from tuples drawn afresh (Figures 27, 28, 31, 32)."""
    rules: tuple[tuple[Rule, str], ...] = (("mean", "GLA Figures 27, 28"), ("sum", "GLA Figures 31, 32"))
    for rule, place in rules:
        steps = main.batches["final"].rdp_by_order(rule, ORDERS, points)
        for order, values in zip(ORDERS, steps, strict=True):
            quantity = f"{rule} rule, median step over baseline, {steps.shape[1]} points"
            yield row(place, main, f"α={order}, final", quantity, np.median(values) / main.baseline(order))


def epsilon_rule_rows(outcomes: Sequence[CellOutcome]) -> Iterator[Comparison]:
    """Yield Theorem 3.6 by the ε of training for both rules (Figure 33)."""
    for outcome in outcomes:
        for stage in STAGES:
            for rule in ("mean", "sum"):
                value = np.median(outcome.batches[stage].step_rdp(rule, ORDER).max(0))
                setting = f"ε={outcome.cell.epsilon:g}, {stage}"
                yield row("GLA Figure 33", outcome, setting, f"{rule} rule, median step", value, stage != "final")
    quantity = f"mean rule: final steps grow slower with ε than the baseline {YES}"
    yield row("GLA Figure 33", outcomes[0], "trend", quantity, _slower_than_baseline(outcomes))


def _slower_than_baseline(outcomes: Sequence[CellOutcome]) -> float:
    """Return whether the mean rule's final steps grow slower than the baseline from the first to the last; else NaN."""
    if len(outcomes) < 2:
        return np.nan
    ends = outcomes[0], outcomes[-1]
    first, last = (float(np.median(outcome.batches["final"].step_rdp("mean", ORDER).max(0))) for outcome in ends)
    return float(last / first < ends[1].baseline() / ends[0].baseline())


def corollary_correctness_rows(place: str, outcomes: Sequence[CellOutcome], by: str) -> Iterator[Comparison]:
    """Yield Corollary 3.1 of correct and incorrect points for both rules, by ε (Figure 10) or network (Figure 12)."""
    for outcome in outcomes:
        for stage in STAGES[1:]:
            right, batches = outcome.right(stage)[0], outcome.batches[stage]
            for rule in ("mean", "sum"):
                shares = batches.step_epsilon(rule) / batches.step_epsilon_worst()
                for name, chosen in (("correct", right), ("incorrect", ~right)):
                    value = float(np.median(shares[chosen])) if chosen.any() else np.nan
                    quantity = f"{rule} rule, median (ε, δ) step over baseline, {name} points"
                    setting = f"{getattr(outcome.cell, by)}, {stage}"
                    yield row(place, outcome, setting, quantity, value, stage != "final" or rule == "sum")


def confidence_rows(main: CellOutcome) -> Iterator[Comparison]:
    """Yield how sure the contributions are over runs (Figure 5)."""
    by_run = main.contributions_by_run()
    half = student_half_width(by_run)
    quantity = "median half-width of a contribution's 95 % interval over baseline, last epoch"
    yield row("GLA Figure 5", main, f"{len(by_run)} runs", quantity, np.median(half[:, -1]))


def corollary_rows(outcomes: Sequence[CellOutcome]) -> Iterator[Comparison]:
    """Yield Corollary 3.1 over its data-independent counterpart, by rule and batch size (Figures 6–13)."""
    by_rule: dict[str, list[float]] = {"mean": [], "sum": []}
    for outcome in outcomes:
        for rule, values in by_rule.items():
            batches = outcome.batches["final"]
            value = float(np.median(batches.step_epsilon(rule)) / batches.step_epsilon_worst())  # type: ignore[arg-type]
            values.append(value)
            setting = f"batch {outcome.cell.batch_size}, final"
            yield row("GLA Figures 6–13", outcome, setting, f"{rule} rule, median (ε, δ) step over baseline", value)
    yield row(
        "GLA Figures 6–13",
        outcomes[0],
        "trend",
        f"both rules below the baseline at the end {YES}",
        float(max(map(max, by_rule.values())) < 1),
    )
    yield row(
        "GLA Figures 6–13",
        outcomes[0],
        "trend",
        f"mean rule: larger batches protect better {YES}",
        float(by_rule["mean"][-1] < by_rule["mean"][0]) if len(outcomes) > 1 else np.nan,
    )


def batch_size_rows(outcomes: Sequence[CellOutcome]) -> Iterator[Comparison]:
    """Yield the sum rule's steps by batch size, absolute and over the baseline (Figures 14, 15)."""
    for outcome in outcomes:
        setting = f"batch {outcome.cell.batch_size}, final"
        yield row("GLA Figures 14, 15", outcome, setting, "test accuracy of the followed points", outcome.accuracy)
        shares = outcome.shares("final")
        yield row("GLA Figures 14, 15", outcome, setting, "median step over baseline", np.median(shares))
        yield row("GLA Figures 14, 15", outcome, setting, "mean step", shares.mean() * outcome.baseline())
        yield row("GLA Figures 14, 15", outcome, setting, "baseline step", outcome.baseline())
    quantity = f"the baseline rises with the batch size {YES}"
    yield row(
        "GLA Figures 14, 15", outcomes[0], "trend", quantity, _rises([outcome.baseline() for outcome in outcomes])
    )


def order_rows(main: CellOutcome) -> Iterator[Comparison]:
    """Yield mean steps over the baseline by order and stage (Figures 16–19)."""
    for order in ORDERS:
        for stage in STAGES:
            value = main.shares(stage, order).mean()
            yield row("GLA Figures 16–19", main, f"α={order}, {stage}", "mean step over baseline", value, detail=True)
    slow = main.shares("final", ORDERS[-1]).mean() <= main.shares("final", ORDERS[0]).mean() * SLACK
    yield row(
        "GLA Figures 16–19",
        main,
        "trend",
        f"final steps grow with the order at most {SLACK:g} times as fast as the baseline {YES}",
        float(slow),
    )


def epsilon_rows(outcomes: Sequence[CellOutcome]) -> Iterator[Comparison]:
    """Yield mean steps by the ε of training (Figures 20, 21)."""
    for outcome in outcomes:
        for stage in STAGES:
            setting = f"ε={outcome.cell.epsilon:g}, {stage}"
            yield row(
                "GLA Figures 20, 21",
                outcome,
                setting,
                "mean step over baseline",
                outcome.shares(stage).mean(),
                detail=True,
            )
    if len(outcomes) > 1:
        growth = [outcome.shares("final").mean() * outcome.baseline() for outcome in (outcomes[0], outcomes[-1])]
        baseline = outcomes[-1].baseline() / outcomes[0].baseline()
        quantity = f"final steps grow slower with ε than the baseline {YES}"
        yield row("GLA Figures 20, 21", outcomes[0], "trend", quantity, float(growth[1] / growth[0] < baseline))


def _rises(values: Sequence[float]) -> float:
    """Return whether each value is above the one before; NaN where there is nothing to compare."""
    return float(all(first < second for first, second in pairwise(values))) if len(values) > 1 else np.nan


def row(
    place: str, outcome: CellOutcome, setting: str, quantity: str, value: float, detail: bool = False
) -> Comparison:
    """Return one number beside the paper's, where it has one."""
    return with_paper(place, outcome.data, setting, quantity, float(value), detail)


def with_paper(place: str, data: str, setting: str, quantity: str, value: float, detail: bool = False) -> Comparison:
    """Return the comparison with what the paper says of any data, or of these."""
    paper, note = PUBLISHED.get((place, data, quantity)) or PUBLISHED.get((place, "any", quantity)) or (None, "")
    return Comparison(place, data, setting, quantity, value, paper, note, detail)
