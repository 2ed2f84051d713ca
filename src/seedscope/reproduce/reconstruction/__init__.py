"""BR, *Bounding training data reconstruction in private (deep) learning*: Figures 2–4, ours beside theirs.

The paper's numbers stand beside ours with its errors (as printed) and without (corrected): ε₂ of output perturbation is
`(2R/(nλσ))²`, and for images that are not scaled R is 17.2.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import seedscope as ss
from seedscope.errors import unknown_name
from seedscope.reproduce.comparison import Comparison, Study, paper_numbers
from seedscope.reproduce.reconstruction import figures
from seedscope.reproduce.reconstruction.linear import ATTACKED_NOISE, L2, NOISE, LinearOutcome, linear_outcome
from seedscope.statistics import spearman

TRIALS = {"small": 1000, "paper": 10_000}
PUBLISHED = {
    (row["place"], row["setting"], row["quantity"]): float(row["value"]) for row in paper_numbers("reconstruction")
}
LINEAR = "mnist 0/1"
NOT_A_SQUARE = "the paper has neither the square nor R, the largest norm of a row"
OWN_NORM = "R is taken from the data"


def run(scale: str, data: list[str] | None, out: Path, jobs: int | None, quiet: bool) -> Study:
    """Return BR's figures, ours beside theirs.

    Args:
        scale: "small" (1,000 trials of the attack) or "paper" (10,000).
        data: only "mnist".
        out: unused; everything is computed within a minute.
        jobs: unused; matrix products use all cores.
        quiet: unused; there is nothing long to show.
    """
    for name in data or ():
        if name != "mnist":
            raise unknown_name("data set of this study", name, ("mnist",))
    start = time.perf_counter()
    outcome = linear_outcome(TRIALS[scale])
    comparisons = (*figure_2(outcome), *figure_3(outcome), *figure_4(outcome))
    charts = {
        "figure-2-bounds": figures.histogram_chart(outcome, printed_bound(outcome)),
        "figure-3-attack": figures.attack_chart(outcome),
        "figure-4-reconstructions": figures.reconstruction_chart(outcome),
    }
    return Study("reconstruction", scale, comparisons, charts, {"logistic regression": time.perf_counter() - start})


def figure_2(outcome: LinearOutcome) -> list[Comparison]:
    """Return accuracy, both versions of the RDP bound, and the dFIL bounds at σ = 0.01."""
    printed, corrected = divergences(outcome, NOISE)
    bound = outcome.bound
    rows = {
        "test accuracy %": (outcome.accuracy, "mean of ten noisy models"),
        "ε₂ as printed: 2/(nλσ)": (printed, NOT_A_SQUARE),
        "ε₂, corrected": (corrected, f"(2R/(nλσ))², {OWN_NORM}"),
        "error bound from ε₂ as printed": (printed_bound(outcome), ""),
        "error bound from ε₂, corrected": (float(ss.reconstruction.rdp_error_lower(corrected, 1.0)), "vacuous"),
        "share of dFIL bounds above 1": (float((bound > 1).mean()), ""),
        "least dFIL bound": (float(bound.min()), ""),
        "median dFIL bound": (float(np.median(bound)), "the paper's picture reaches from 1 to 10¹⁰"),
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
        "rank correlation of bound and median error": (spearman(bound, attack.median)[0], ""),
        "rank correlation of bound and clipped error": (spearman(bound, attack.clipped)[0], ""),
        "rank correlation of bound and mean error": (spearman(bound, attack.mean)[0], infinite),
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
        Comparison(place, LINEAR, setting, quantity, value, PUBLISHED.get((place, setting, quantity)), note)
        for quantity, (value, note) in rows.items()
    ]
