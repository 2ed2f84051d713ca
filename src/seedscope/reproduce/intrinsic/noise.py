"""What the seed's noise looks like (IP2 §6), where it comes from, and what it hides of each person.

IP2 trains 800 further seeds on one data set of each kind and calls the noise of convex models Gaussian. It is mostly
the initial point, which is uniform: a test with power against light tails shows it, and so does training from one
point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import seedscope as ss
from seedscope.analyses.intrinsic import (
    HenzeZirkler,
    Histogram,
    NoiseDistribution,
    NoiseOrigin,
    PersonalPrivacy,
    checkpoint_weights,
    epsilon_by_true_law,
    henze_zirkler_power,
    henze_zirkler_subsets,
    intrinsic_privacy,
    intrinsic_privacy_of_people,
    least_gaussian_weights,
    noise_distribution,
    noise_origin,
)
from seedscope.reproduce.comparison import Comparison, Run
from seedscope.reproduce.intrinsic.settings import Setting, Size

SEEDS = 800  # IP2 §6
PEOPLE = {"small": Size(160, 31), "paper": Size(400, 100)}
LEAST_DELTA = 1e-11  # of the true law
TESTS, ORIGIN, PERSONAL = "IP2 §6", "Origin of the noise", "Person by person"
POWER_SAMPLES, POWER_DIMENSIONS = (100, 200, 400, 800), (2, 10, 50)
POWER_LAWS = ("normal_full", "normal_diagonal", "laplace", "uniform")
POWER_REPETITIONS = 10


@dataclass(frozen=True, eq=False)
class SeedNoise:
    """What the seeds' noise looks like: tests of the final weights, and histograms of the least Gaussian ones."""

    setting: Setting
    varied: NoiseDistribution
    smallest_of_subsets: float
    histograms: tuple[Histogram, ...]


@dataclass(frozen=True, eq=False)
class NoiseOutcome(SeedNoise):
    """What the noise of a convex model is with one initial point for all seeds too, and what it hides of people.

    `by_law` [person] has ε by the noise's true law along one direction, a lower side; None where δ is too small for it.
    """

    fixed: NoiseDistribution
    origin: NoiseOrigin
    for_all: ss.Number | None
    people: PersonalPrivacy
    by_law: np.ndarray | None


def study_noise(
    setting: Setting, data: ss.Dataset, run: Run, seeds: int = SEEDS, size: Size | None = None
) -> NoiseOutcome:
    """Train many seeds on one data set, and a grid with neighbours, and return what their noise is and hides."""
    ends = (0, setting.steps)
    alone = trained(setting, data, ss.Grid(seeds, 0, init="both", checkpoints=ends), run, "noise")
    initial, varied = (checkpoint_weights(alone, init="varied", step=step)[:, 0] for step in ends)
    fixed = checkpoint_weights(alone, init="fixed", step=setting.steps)[:, 0]
    chosen = size or PEOPLE[run.scale]
    grid = trained(setting, data, ss.Grid(chosen.seeds, chosen.datasets - 1), run, "people")
    origin, people = noise_origin(initial, varied, fixed), intrinsic_privacy_of_people(grid)
    shifts = checkpoint_weights(grid)
    means = (shifts[:, 1:] - shifts[:, :1]).mean(axis=0)
    widths = np.abs(initial).max(axis=0)
    possible = people.delta >= LEAST_DELTA
    looks = seed_noise(setting, varied)
    return NoiseOutcome(
        setting=setting,
        varied=looks.varied,
        smallest_of_subsets=looks.smallest_of_subsets,
        histograms=looks.histograms,
        fixed=noise_distribution(fixed),
        origin=origin,
        for_all=intrinsic_privacy(grid).epsilon_strict,
        people=people,
        by_law=epsilon_by_true_law(means, origin, widths, people.delta) if possible else None,
    )


def study_network_noise(setting: Setting, data: ss.Dataset, run: Run, seeds: int = SEEDS) -> SeedNoise:
    """Train a network from many seeds on one data set and return what its noise looks like."""
    return seed_noise(setting, checkpoint_weights(trained(setting, data, ss.Grid(seeds), run, "noise"))[:, 0])


def seed_noise(setting: Setting, weights: np.ndarray) -> SeedNoise:
    """Return what the noise of final weights [seed, weight] looks like."""
    normality = noise_distribution(weights)
    moving = np.delete(weights, normality.constant_weights, axis=1)
    smallest = henze_zirkler_subsets(moving).p_value_smallest
    return SeedNoise(setting, normality, smallest, least_gaussian_weights(weights))


def trained(setting: Setting, data: ss.Dataset, grid: ss.Grid, run: Run, name: str) -> ss.Ensemble:
    """Return the models of a grid: weights alone, which are all that is looked at."""
    return ss.train(
        data,
        setting.mechanism,
        model=setting.network,
        grid=grid,
        records=ss.Records(probes=()),
        store=run.store(f"{setting.name}-{name}"),
        jobs=run.jobs,
        progress=not run.quiet,
    )


def noise_rows(outcome: NoiseOutcome) -> Iterator[Comparison]:
    """Yield the tests of IP2 §6, then what neither paper looked at."""
    yield from test_rows(outcome)
    yield from origin_rows(outcome)
    yield from people_rows(outcome)


def test_rows(outcome: SeedNoise) -> Iterator[Comparison]:
    """Yield what the tests say of the final weights, varied initial points as in the paper."""
    normality = outcome.varied
    if isinstance(normality.normality, HenzeZirkler):
        note = "the paper: .14 to .25 for convex models"
        yield row(outcome, TESTS, "Henze–Zirkler p, log-normal", normality.normality.p_value_log_normal, note)
        note = "the log-normal one is off here"
    else:
        note = f"of {len(normality.normality.tests)} random subsets of the weights, times their number"
    yield row(outcome, TESTS, "Henze–Zirkler p, simulated", normality.normality.p_value, note)
    convex = outcome.setting.model == "logistic"
    note = "IP2 App. C.1" if convex else "IP2 App. C.1; the paper: networks are rejected"
    yield row(outcome, TESTS, "Henze–Zirkler p, smallest of subsets", outcome.smallest_of_subsets, note)
    laplace = 100 * normality.laplace_by_weight.rejected_share
    yield row(outcome, TESTS, "weights that are not Laplace, %", laplace, "the paper: 38 to 74")
    alpha, theirs = (
        normality.tail_index,
        "2.01 to 2.05" if convex else "not for networks, whose law need not be symmetric",
    )
    note = f"the paper: {theirs}; Gaussian samples: {alpha.gaussian_mean:.3f} ± {alpha.gaussian_deviation:.3f}"
    yield row(outcome, TESTS, "tail index α", alpha.alpha, note)
    rejected = 100 * normality.normality_by_weight.rejected_share
    yield row(outcome, TESTS, "weights that are not Gaussian, %", rejected, "Shapiro–Wilk, Bonferroni")


def origin_rows(outcome: NoiseOutcome) -> Iterator[Comparison]:
    """Yield where the noise comes from."""
    origin = outcome.origin
    note = f"σ {origin.deviation_varied:.3g} with varied, {origin.deviation_fixed:.3g} with one initial point"
    yield row(outcome, ORIGIN, "σ² by the initial point, %", 100 * origin.share_of_initial_point, note)
    yield row(outcome, ORIGIN, "correlation of final with initial, median weight", origin.correlation)
    yield row(outcome, ORIGIN, "excess kurtosis, median weight", origin.excess_kurtosis, "uniform: −1.2, Gaussian: 0")
    fixed = 100 * outcome.fixed.normality_by_weight.rejected_share
    yield row(outcome, ORIGIN, "not Gaussian with one initial point, %", fixed, "Shapiro–Wilk, Bonferroni")
    residual = f"σ {origin.residual_deviation:.3g} beside a linear map of the initial point"
    yield row(outcome, ORIGIN, "not Gaussian in the residual, %", 100 * origin.residual_rejected_share, residual)


def people_rows(outcome: NoiseOutcome) -> Iterator[Comparison]:
    """Yield each person's own ε in a few numbers, beside the one number for all."""
    people = outcome.people
    if outcome.for_all is not None:
        yield row(outcome, PERSONAL, "ε, one number for all", outcome.for_all.value, outcome.for_all.note)
    yield row(outcome, PERSONAL, "ε of the median person", np.median(people.epsilon), f"{len(people.mu)} people")
    worst = int(people.mu.argmax())
    interval = (
        f"{people.epsilon_lower[worst]:.3g} to {people.epsilon_upper[worst]:.3g} at 95 %, were the noise Gaussian"
    )
    yield row(outcome, PERSONAL, "ε of the most exposed person", people.epsilon.max(), interval)
    if outcome.by_law is not None:
        note = "along this direction; uniform initial point through a linear map, plus Gaussian; inf: above 30"
        yield row(outcome, PERSONAL, "the same by the true law, at least", float(outcome.by_law[worst]), note)


def row(outcome: SeedNoise, place: str, quantity: str, ours: float, note: str = "") -> Comparison:
    """Return one of our numbers; what the paper says of all sets together stands in the note."""
    return Comparison(place, outcome.setting.data, outcome.setting.model, quantity, float(ours), None, note)


def power_study(repetitions: int = POWER_REPETITIONS) -> list[dict[str, float | str]]:
    """Return the mean p-value of Henze–Zirkler by law, seeds and weights (IP2 Fig. 7), with uniform noise beside."""
    sizes = {"samples": POWER_SAMPLES, "dimensions": POWER_DIMENSIONS, "repetitions": repetitions}
    power = {law: henze_zirkler_power(**sizes, distribution=law).mean(axis=2) for law in POWER_LAWS}  # type: ignore[arg-type]
    return [
        {"law": law, "seeds": seeds, "weights": str(weights), "p": float(values[i, j])}
        for law, values in power.items()
        for i, seeds in enumerate(POWER_SAMPLES)
        for j, weights in enumerate(POWER_DIMENSIONS)
    ]
