"""BR, *Bounding training data reconstruction in private (deep) learning*: Figures 2–6, ours beside theirs.

The paper's numbers stand beside ours with its errors (as printed) and without (corrected): ε₂ of output perturbation is
`(2R/(nλσ))²`, and for images that are not scaled R is 17.2; ε₂ of DP-SGD is about replacing a record, not adding one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import seedscope as ss
from seedscope.core import unknown_name
from seedscope.reproduce.comparison import Comparison, Study, paper_numbers
from seedscope.reproduce.reconstruction import figures, network_figures
from seedscope.reproduce.reconstruction.gallery import digits_gallery, gallery_chart
from seedscope.reproduce.reconstruction.linear import ATTACKED_NOISE, L2, NOISE, LinearOutcome, linear_outcome
from seedscope.reproduce.reconstruction.networks import SAMPLED, SWEEPS, NetworkOutcome, network_outcomes

TRIALS = {"small": 1000, "medium": 10_000, "paper": 10_000}
PUBLISHED = {
    (row["place"], row["data"], row["setting"], row["quantity"]): float(row["value"])
    for row in paper_numbers("reconstruction")
}
LINEAR, DATA = "mnist 0/1", ("digits", "mnist", "cifar10-small")
NOT_A_SQUARE = "the paper has neither the square nor R, the largest norm of a row"
SHORTER = {  # than the paper: all rows, up to 5,000 steps and 432 settings; up to 37,500 steps and 600 settings
    ("mnist", "small"): "20,000 rows, up to 140 steps, 8 settings, 2 runs; the paper: 432 settings, up to 5,000 steps",
    ("mnist", "medium"): "up to 1,200 steps, 4 settings, 2 runs; the paper: 432 settings, up to 5,000 steps",
    ("cifar10-small", "small"): "15,000 rows, Table 1's network, up to 400 steps; the paper: Table 2's, up to 37,500",
    ("cifar10-small", "medium"): "15,000 rows, Table 1's network, up to 1,200 steps; the paper: Table 2's, to 37,500",
}
COMBINED = "of the combination of pixels that is known best; the paper plots dFIL only"
OWN_NORM = "R is taken from the data"


@dataclass(frozen=True)
class Part:
    """A part of the study: its comparisons, and its charts by file name."""

    comparisons: tuple[Comparison, ...] = ()
    charts: Mapping[str, Any] = field(default_factory=dict)


def run(scale: str, data: list[str] | None, out: Path, jobs: int | None, quiet: bool) -> Study:
    """Return BR's figures, ours beside theirs.

    Args:
        scale: "small" (1,000 trials of the attack, eight short settings of the network), "medium" (10,000 trials, and
            networks that reach the paper's accuracy on MNIST: some ten minutes) or "paper" (the paper's whole grid, ten
            runs each: weeks on two cores). Networks go on where they were stopped.
        data: only these of "digits" (a gallery of reconstructions, nothing to download), "mnist" (Figures 2–5 and a
            gallery) and "cifar10-small" (Figure 5's other panel, and Figure 6).
        out: the folder for the networks' stores.
        jobs: processes that train networks; default one for each core.
        quiet: show no progress.
    """
    for name in data or ():
        if name not in DATA:
            raise unknown_name("data set of this study", name, DATA)
    work: dict[str, Callable[[], Part]] = {"the text's examples": lambda: Part(tuple(text_examples()))}
    if data is None or "digits" in data:
        work["gallery of digits"] = lambda: Part(charts={"gallery-digits": digits_gallery()})
    if data is None or "mnist" in data:
        work["logistic regression"] = lambda: study_linear(TRIALS[scale])
        work["network on mnist"] = lambda: study_trade_off("mnist", scale, out, jobs, quiet)
    if data is None or "cifar10-small" in data:
        work["network on cifar10-small"] = lambda: study_trade_off("cifar10-small", scale, out, jobs, quiet)
        work["samples of cifar10-small"] = lambda: study_samples(scale, out, jobs, quiet)
    parts, seconds = [], {}
    for name, part in work.items():
        start = time.perf_counter()
        parts.append(part())
        seconds[name] = time.perf_counter() - start
    comparisons = tuple(comparison for part in parts for comparison in part.comparisons)
    charts = {name: chart for part in parts for name, chart in part.charts.items()}
    return Study("reconstruction", scale, comparisons, charts, seconds)


def text_examples() -> list[Comparison]:
    """Return the numbers of the paper's text: an age at ε = 2, and how tight Theorem 1 is for narrow ranges."""
    error = float(ss.reconstruction.rdp_error_lower(2.0, 100.0))
    width = 0.01  # z + N(0, 1) on [0, M] has ε₂ = M², and the guess z + noise is unbiased with error 1
    narrow = float(ss.reconstruction.rdp_error_lower(width**2, width))
    rows = {
        "least squared error of an age in [0, 100]": (error, ""),
        "the same as ± years": (error**0.5, "the paper rounds down"),
        "bound over true error of a Gaussian guess, range → 0": (
            narrow,
            "a factor of 4: the range's half is what counts",
        ),
    }
    return [
        Comparison("BR §4", "text", "ε=2", name, value, PUBLISHED.get(("BR §4", "text", "ε=2", name)), note)
        for name, (value, note) in rows.items()
    ]


def study_linear(trials: int) -> Part:
    """Return Figures 2–4."""
    outcome = linear_outcome(trials)
    charts = {
        "figure-2-bounds": figures.histogram_chart(outcome, printed_bound(outcome)),
        "figure-3-attack": figures.attack_chart(outcome),
        "figure-4-reconstructions": figures.reconstruction_chart(outcome),
        "gallery-mnist": gallery_chart(outcome.digits.features, outcome.digits.labels, (28, 28)),
    }
    return Part((*figure_2(outcome), *figure_3(outcome), *figure_4(outcome)), charts)


def study_trade_off(data: str, scale: str, out: Path, jobs: int | None, quiet: bool) -> Part:
    """Return a panel of Figure 5: accuracy against bounds over a grid of settings."""
    outcomes = list(network_outcomes(SWEEPS[data, scale], out / "stores", jobs, quiet))
    best = perfect_privacy(outcomes, SHORTER.get((data, scale), ""))
    rows = [*best, *(row for outcome in outcomes for row in network_rows("BR Figure 5", outcome))]
    return Part(tuple(rows), {f"figure-5-trade-off-{data}": network_figures.trade_off_chart(outcomes)})


def study_samples(scale: str, out: Path, jobs: int | None, quiet: bool) -> Part:
    """Return Figure 6: images of the highest and the lowest leakage."""
    sweep = SAMPLED[scale]
    stores = out / "stores" / "figure-6" if scale == "paper" else out / "stores"  # the panel's own are there already
    last = list(network_outcomes(sweep, stores, jobs, quiet))[-1]
    chart = network_figures.sample_chart(last, sweep)
    note = "" if scale == "paper" else "Table 1's network; the paper: Table 2's, C=1, ρ=0.1, T=5000"
    return Part(tuple(network_rows("BR Figure 6", last, note)), {"figure-6-samples": chart})


def perfect_privacy(outcomes: Sequence[NetworkOutcome], note: str) -> list[Comparison]:
    """Return the best test accuracy among settings whose bound is at least 1, for each bound."""
    rows = []
    for name in outcomes[0].bounds:
        best = max((outcome.accuracy for outcome in outcomes if outcome.bounds[name] >= 1), default=float("nan"))
        quantity = f"best accuracy % with a bound of at least 1: {name}"
        paper = PUBLISHED.get(("BR Figure 5", outcomes[0].data, "grid", quantity))
        rows.append(Comparison("BR Figure 5", outcomes[0].data, "grid", quantity, best, paper, note))
    return rows


def network_rows(place: str, outcome: NetworkOutcome, note: str = "") -> list[Comparison]:
    """Return one setting's accuracy, ε₂ and bounds."""
    rows = {
        "test accuracy %": outcome.accuracy,
        "ε₂, as printed: adding or removing": outcome.printed_rdp,
        "ε₂, corrected: replacing": outcome.corrected_rdp,
        **{f"error bound: {name}": value for name, value in outcome.bounds.items()},
    }
    return [
        Comparison(place, outcome.data, outcome.setting, name, value, note=note, detail=place == "BR Figure 5")
        for name, value in rows.items()
    ]


def figure_2(outcome: LinearOutcome) -> list[Comparison]:
    """Return accuracy, both versions of the RDP bound, and the dFIL bounds at σ = 0.01."""
    printed, corrected = divergences(outcome, NOISE)
    bound = outcome.bound
    rows = {
        "test accuracy %": (outcome.accuracy, "mean of ten noisy models"),
        "ε₂ as printed: 2/(nλσ)": (printed, NOT_A_SQUARE),
        "ε₂ of the authors' code: (2/(nλσ))²": (printed**2, "their code has the square, their text has not"),
        "ε₂, corrected": (corrected, f"(2R/(nλσ))², {OWN_NORM}"),
        "error bound from ε₂ as printed": (printed_bound(outcome), ""),
        "error bound from ε₂, corrected": (float(ss.reconstruction.rdp_error_lower(corrected, 1.0)), "vacuous"),
        "share of dFIL bounds above 1": (float((bound > 1).mean()), ""),
        "least dFIL bound": (float(bound.min()), ""),
        "median dFIL bound": (float(np.median(bound)), "the paper's picture reaches from 1 to 10¹⁰"),
        "median bound by the spectral norm": (float(np.median(1 / outcome.spectral)), COMBINED),
        "share of spectral norms that allow no error above 1": (float((outcome.spectral >= 1).mean()), COMBINED),
    }
    return _comparisons("BR Figure 2", f"λ=σ={NOISE:g}", rows)


def figure_3(outcome: LinearOutcome) -> list[Comparison]:
    """Return how the attack's errors at σ = 1e-5 lie to the dFIL bounds."""
    printed, corrected = divergences(outcome, ATTACKED_NOISE)
    bound, attack = outcome.attacked_bound, outcome.attack
    low = bound < 1
    infinite = "the expectation is infinite, the trials' mean is ruled by a few of them"
    biased = "unlike the bound's, this error is of an attacker with a bias: clipped"
    rows = {
        "ε₂ as printed: 2/(nλσ)": (printed, NOT_A_SQUARE),
        "ε₂, corrected": (corrected, OWN_NORM),
        "records of bound below 1": (float(low.sum()), f"of {len(bound)}"),
        "records of bound below 1 whose mean error is below it": (float((attack.mean < bound)[low].sum()), ""),
        "records of bound above 1 whose mean error is below it": (
            float((attack.mean < bound)[~low].sum()),
            "where the noise exceeds the record's own part the guess tends to a ratio that ignores the record: biased",
        ),
        "records of bound below 1 whose clipped error is below it": (
            float((attack.clipped < bound)[low].sum()),
            biased,
        ),
        "rank correlation of bound and median error": (ss.statistics.spearman(bound, attack.median)[0], ""),
        "rank correlation of bound and clipped error": (ss.statistics.spearman(bound, attack.clipped)[0], ""),
        "rank correlation of bound and mean error": (ss.statistics.spearman(bound, attack.mean)[0], infinite),
    }
    return _comparisons("BR Figure 3", f"λ={L2:g}, σ={ATTACKED_NOISE:g}", rows)


def figure_4(outcome: LinearOutcome) -> list[Comparison]:
    """Return the median errors of the records that are shown."""
    rows = {
        f"{kind} leakage: median error of the records shown": (float(np.median(outcome.attack.median[shown])), "")
        for kind, shown in (("highest", outcome.most), ("lowest", outcome.least))
    }
    return _comparisons("BR Figure 4", f"λ={L2:g}, σ={ATTACKED_NOISE:g}", rows)


def divergences(outcome: LinearOutcome, noise: float) -> tuple[float, float]:
    """Return ε₂ of the output perturbation as the paper prints it and as it is."""
    examples = len(outcome.digits.labels)
    sensitivity = 2 * outcome.digits.norm_bound / (examples * L2)
    return 2 / (examples * L2 * noise), float(ss.reconstruction.gaussian_rdp(sensitivity, noise))


def printed_bound(outcome: LinearOutcome) -> float:
    """Return the error bound that follows from the ε₂ as printed."""
    return float(ss.reconstruction.rdp_error_lower(divergences(outcome, NOISE)[0], 1.0))


def _comparisons(place: str, setting: str, rows: dict[str, tuple[float, str]]) -> list[Comparison]:
    """Return the rows (value, note) beside the paper's numbers."""
    return [
        Comparison(place, LINEAR, setting, quantity, value, PUBLISHED.get((place, LINEAR, setting, quantity)), note)
        for quantity, (value, note) in rows.items()
    ]
