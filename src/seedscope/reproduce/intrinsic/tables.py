"""The papers' tables, ours beside theirs, and the reason in the note where the two must differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

import seedscope as ss
from seedscope.analyses.intrinsic import AugmentedUtility, epochs_begun, sgd_variability_bound
from seedscope.reproduce.comparison import Comparison
from seedscope.reproduce.intrinsic.grids import OWN, SHARED, GridOutcome
from seedscope.reproduce.intrinsic.noise import ORIGIN, PERSONAL, TESTS
from seedscope.reproduce.intrinsic.settings import ATTACKED, CONVERGENCE, DROPOUT, PUBLISHED, Setting, Size

SYMMETRY = "Symmetry"
PLACES = (
    "IP1 Table 1", "IP1 Table 2", "IP1 Table 3", "IP1 Table 4", "IP1 Table 5", "IP1 Table 6", "IP1 Table 7",
    "IP1 App. B", "IP1 Eq. (9)", "IP1 D.3", "IP2 Table 1", "IP2 Table 2", "IP2 Table 3", "IP2 Table 4", "IP2 Table 5",
    "IP2 Table 6", "IP2 Table 7", "IP2 Table 8", "IP2 §5", TESTS, "IP2 §7", CONVERGENCE, SYMMETRY, ORIGIN, PERSONAL,
)  # fmt: skip
OTHER_FEATURES = "not comparable: the paper has other features"


def row(
    place: str, data: str, setting: str, quantity: str, ours: float, note: str = "", shown: bool = True
) -> Comparison:
    """Return our number beside the one that the paper has in this place, if it has one."""
    return Comparison(
        place, data, setting, quantity, float(ours), PUBLISHED.get((place, data, setting, quantity)), note, not shown
    )


def grid_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield the rows of every table that a grid has a part in."""
    model = outcome.setting.model
    if model != "cnn":
        yield from privacy_rows(outcome, "IP1 Table 3", outcome.setting.model)
        yield from stability_rows(outcome, "IP1 Table 6", "flat")
        yield row(
            "IP2 Table 2", outcome.setting.data, model, "accuracy", outcome.accuracy.mean(), accuracy_note(outcome)
        )
    if model != "cnn":
        yield from as_in_the_code_rows(outcome)
    yield from pair_rows(outcome)
    if outcome.symmetry is not None:
        yield from symmetry_rows(outcome)
    if model == "logistic":
        yield from variability_bound_rows(outcome)
        yield from steadiness_rows(outcome)
        yield from utility_rows(outcome)
        yield from by_weight_rows(outcome)
        yield from stability_rows(outcome, "IP2 Table 5", "min")
    yield from seed_against_data_rows(outcome)


def privacy_rows(outcome: GridOutcome, place: str, setting: str) -> Iterator[Comparison]:
    """Yield sensitivities, variability and epsilons as IP1 defines them (IP1 Tables 3 and 5)."""
    privacy, data = outcome.privacy, outcome.setting.data
    if privacy.sensitivity_bound is not None:
        if place == "IP1 Table 3":
            yield row(place, data, setting, "δ", privacy.delta, "1/N²")
        yield row(place, data, setting, "sensitivity bound", privacy.sensitivity_bound.value, bound_note(outcome))
        yield row(place, data, setting, "ε of the bound", *epsilon(outcome, "bound", "flat"))
    yield row(
        place, data, setting, "empirical sensitivity", privacy.sensitivity_all_pairs.value, sensitivity_note(outcome)
    )
    dropout = f"with dropout {DROPOUT:g}, as in the authors' code (erratum 11)" if setting == "mlp" else ""
    yield row(place, data, setting, "variability", privacy.variability_flat.value, dropout)
    yield row(place, data, setting, "ε of the empirical sensitivity", *epsilon(outcome, "all_pairs", "flat"))


def by_weight_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield the rows of IP2 Table 4, whose variability is that of the steadiest weight."""
    privacy, data, place = outcome.privacy, outcome.setting.data, "IP2 Table 4"
    rows = [row(place, data, "logistic", "δ", privacy.delta, "1/N²")]
    if privacy.sensitivity_bound is not None:
        rows.append(
            row(place, data, "logistic", "sensitivity bound", privacy.sensitivity_bound.value, bound_note(outcome))
        )
    rows.append(
        row(
            place,
            data,
            "logistic",
            "empirical sensitivity",
            privacy.sensitivity_all_pairs.value,
            sensitivity_note(outcome),
        )
    )
    for setting, spread in (("steadiest weight", "min"), ("least steady weight", "max")):
        rows.append(row(place, data, setting, "variability", getattr(privacy, f"variability_{spread}").value))
        if privacy.sensitivity_bound is not None:
            rows.append(row(place, data, setting, "ε of the bound", *epsilon(outcome, "bound", spread)))
        rows.append(row(place, data, setting, "ε of the empirical sensitivity", *epsilon(outcome, "all_pairs", spread)))
    return as_comparable(outcome, rows)


def stability_rows(outcome: GridOutcome, place: str, spread: str) -> Iterator[Comparison]:
    """Yield the range of the variability over data sets (IP1 Table 6, IP2 Table 5)."""
    data, model = outcome.setting.data, outcome.setting.model
    smallest, largest = outcome.privacy.stability[spread]
    rows = [
        row(place, data, model, "data sets", outcome.size.datasets, shown=False),
        row(place, data, model, "smallest variability", smallest),
        row(place, data, model, "largest variability", largest),
    ]
    return as_comparable(outcome, rows) if place.startswith("IP2") else iter(rows)


def utility_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield accuracies without, with all and with less noise (IP1 Tables 4 and 7)."""
    data = outcome.setting.data
    any_of_them = next(iter(outcome.utilities.values()))
    yield from accuracy_rows("IP1 Table 4", data, "noiseless", any_of_them)
    for (epsilon_aim, name, noise), utility in outcome.utilities.items():
        if noise != SHARED:
            continue
        place = "IP1 Table 4" if epsilon_aim == 1 else "IP1 Table 7"
        setting, own = f"ε={epsilon_aim:g}, {name}", outcome.utilities[epsilon_aim, name, OWN]
        yield from noise_rows(place, data, setting, utility, own)
        if (share := utility.share_of_gap_by_model) is not None:
            whole = (
                "" if own.share_of_gap is None else f"of the means, a vector each: {100 * own.share_of_gap.value:.3g}"
            )
            yield row(place, data, setting, "share of the gap, %", 100 * share.value, whole)
        if own.anisotropic is not None:
            gain = float((own.anisotropic - own.deterministic).mean())
            note = f"credit only for noise that is there; the papers' kind: {own.gain.value:.2g}"
            yield row(place, data, setting, "anisotropic gain", gain, note)


def accuracy_rows(place: str, data: str, setting: str, utility: AugmentedUtility) -> Iterator[Comparison]:
    """Yield the accuracy without noise, and its deviation over models."""
    yield row(place, data, setting, "accuracy", utility.noiseless.mean(), f"{len(utility.noiseless)} models")
    yield row(place, data, setting, "accuracy, deviation", utility.noiseless.std(), shown=False)


def noise_rows(
    place: str, data: str, setting: str, utility: AugmentedUtility, own: AugmentedUtility
) -> Iterator[Comparison]:
    """Yield the accuracy with all noise, and what less of it wins: one noise vector for all, as in the papers' code."""
    full = utility.deterministic
    note = f"one noise vector for all (erratum 12); with a vector for each model {own.deterministic.mean():.3g}"
    note += "; the paper's count of epochs (erratum 7)" if setting.endswith("bound") else ""
    yield row(place, data, setting, "SGD_d accuracy", full.mean(), note)
    yield row(place, data, setting, "SGD_d accuracy, deviation", full.std(), shown=False)
    yield row(place, data, setting, "SGD_r gain", utility.gain.value, f"p = {utility.p_value_gain:.1g}")


def variant_rows(outcomes: Iterable[GridOutcome]) -> Iterator[Comparison]:
    """Yield IP1 Table 5: MNIST-binary with other features, its own first."""
    place = "IP1 Table 5"
    for outcome in outcomes:
        data, setting = outcome.setting.data, outcome.setting.features or "pca"
        shared, own = (outcome.utilities[1.0, "empirical", noise] for noise in (SHARED, OWN))
        yield row(place, data, setting, "models", outcome.size.models, shown=False)
        yield from accuracy_rows(place, data, setting, shared)
        yield from noise_rows(place, data, setting, shared, own)
        yield from privacy_rows(outcome, place, setting)


def convolutional_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield what IP1 D.3 says of its convolutional network."""
    note = f"the paper: ± .02; {len(outcome.accuracy)} models"
    yield row("IP1 D.3", outcome.setting.data, "cnn", "accuracy", outcome.accuracy.mean(), note)
    yield row("IP1 D.3", outcome.setting.data, "cnn", "parameters", outcome.privacy.parameters)
    seed, sharp = outcome.at_the_end("varied").seed, relative_deviation(outcome.privacy.parameters)
    note = f"between Gaussian vectors of as many numbers: {sharp:.3g}; the paper draws both and calls them alike"
    sharpness = seed.standard_deviation / seed.mean
    yield row("IP1 D.3", outcome.setting.data, "cnn", "deviation of Δ_V over its mean", sharpness, note)


def relative_deviation(dimensions: int) -> float:
    """Return the deviation over the mean of the distance between two standard Gaussian vectors: a χ law, scaled.

    >>> round(relative_deviation(1), 4), round(relative_deviation(1448) * (2 * 1448) ** 0.5, 3)
    (0.7555, 1.0)
    """
    half = dimensions / 2
    mean = math.sqrt(2) * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))
    return math.sqrt(max(0.0, dimensions / mean**2 - 1))


def settings_rows(setting: Setting, data: ss.Dataset, size: Size) -> Iterator[Comparison]:
    """Yield what was trained, ours beside the papers': IP1 Tables 1 and 2, IP2 Tables 1, 3 and 7."""
    features = math.prod(data.features.shape[1:])
    rows = {"training rows": len(data.train), "test rows": len(data.test), "features": features}
    if setting.model == "logistic":
        validation = {"validation rows": len(data.validation) if data.validation else 0}
        yield from _settings("IP1 Table 1", setting.data, "data", rows | validation)
        yield from _settings("IP2 Table 1", setting.data, "data", rows, other_features(setting))
    parameters = ss.models.parameter_count(setting.network, data.features.shape[1:], data.classes)
    trained = {
        "learning rate": setting.learning_rate,
        "steps T": setting.steps,
        "models E": size.models,
        "parameters P": parameters,
    }
    trained |= {"hidden units": setting.hidden} if setting.model == "mlp" else {}
    for place, note in (("IP1 Table 2", ""), ("IP2 Table 7", "trained as in IP1 Table 2")):
        yield from _settings(place, setting.data, setting.model, trained, note)
    grid = {"seeds": size.seeds, "data sets": size.datasets, "models": size.models}
    yield from _settings("IP2 Table 3", setting.data, setting.model, grid, "theirs are averages of ragged grids")


def attacked_network_rows() -> Iterator[Comparison]:
    """Yield the size of the network that is attacked (IP2 Table 8)."""
    parameters = ss.models.parameter_count(ss.small_vgg(), (32, 32, 3), 10)
    yield from _settings("IP2 Table 8", ATTACKED, "small_vgg", {"parameters P": parameters})


def _settings(place: str, data: str, setting: str, values: Mapping[str, float], note: str = "") -> Iterator[Comparison]:
    """Yield one row for each value; the note stands where the papers have another number."""
    for quantity, value in values.items():
        comparison = row(place, data, setting, quantity, value, note)
        yield comparison if comparison.paper != comparison.ours else replace(comparison, note="")


def other_features(setting: Setting) -> str:
    """Return the note where IP2 has other features."""
    return "" if setting.comparable_with_ip2 else OTHER_FEATURES


def as_in_the_code_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield Δ̂* and σ as the authors' code has them: over pairs drawn at random, by the median of data sets."""
    data, model, drawn = outcome.setting.data, outcome.setting.model, outcome.drawn_pairs
    published = PUBLISHED.get(("IP1 Table 3", data, model, "empirical sensitivity"))
    note = f"{drawn.pairs} of {drawn.possible} pairs: a quarter as many as models (erratum 13); "
    note += f"90 % of such draws: {drawn.lower:.3g} to {drawn.upper:.3g}"
    quantity = "empirical sensitivity, pairs drawn"
    yield Comparison("IP1 Table 3", data, model, quantity, drawn.median, published, note)
    published = PUBLISHED.get(("IP1 Table 3", data, model, "variability"))
    quantity, note = "variability, median of data sets", "as in IP1's code; the text says the smallest (erratum 13)"
    yield Comparison("IP1 Table 3", data, model, quantity, outcome.spread_median, published, note)


def pair_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield the ε of single pairs, in the middle and at the end (IP1 Eq. 9)."""
    note = f"{len(outcome.pairwise)} pairs that differ in one row; the largest {outcome.pairwise.max():.3g}"
    median = float(np.median(outcome.pairwise))
    yield row("IP1 Eq. (9)", outcome.setting.data, outcome.setting.model, "ε of the median pair", median, note)


def variability_bound_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield what theory says of two seeds (IP1 Claims 1 and 2), and how far apart they were."""
    setting, examples = outcome.setting, round(outcome.privacy.delta**-0.5)
    bound = sgd_variability_bound(setting.steps, examples, setting.batch_size, setting.learning_rate, math.sqrt(2))
    place, seen = "IP1 App. B", outcome.at_the_end("fixed").seed.maximum
    note = f"Claim 1; the largest Δ_V with one initial point is {seen:.3g}, the bound on Δ_S {bound.sensitivity:.3g}"
    yield row(place, setting.data, setting.model, "bound on Δ_V", bound.maximum, note)
    note = "Claim 2, by Chebyshev: that the bound on Δ_V is as near to that on Δ_S as to its own mean"
    yield row(place, setting.data, setting.model, "largest probability", bound.chebyshev, note)


def steadiness_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield whether steady weights are moved little by a record too (IP2 §7)."""
    steadiness, data, model = outcome.steadiness, outcome.setting.data, outcome.setting.model
    note = "of a weight's σ with its own Δ_S; the paper: steady weights do not have a small Δ_S"
    yield row("IP2 §7", data, model, "rank correlation over weights", steadiness.rank_correlation, note)
    note = "Δ_S of the steadiest weight over that of the most moved weight"
    yield row("IP2 §7", data, model, "Δ_S of the steadiest weight, share", steadiness.steadiest_share, note)


def symmetry_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield what is left of the seed's effect when hidden units may change places and scale."""
    symmetry, data, model = outcome.symmetry, outcome.setting.data, outcome.setting.model
    assert symmetry is not None  # asked for only where there is one
    for name, distances in symmetry.seed.items():
        spread, moved = symmetry.variability[name], float(symmetry.data[name].max())
        exceeds = f"above Δ_S in {100 * symmetry.seed_exceeds_data(name):.3g} % of the comparisons"
        yield row(SYMMETRY, data, model, f"mean Δ_V, {name}", distances.mean(), exceeds)
        yield row(SYMMETRY, data, model, f"σ, {name}", spread, "of the base's models")
        note = f"exact; one row's largest Δ_S {moved:.3g}"
        epsilon = float(ss.accounting.gaussian_epsilon(moved, spread, outcome.privacy.delta))
        yield row(SYMMETRY, data, model, f"ε, {name}", epsilon, note)


def seed_against_data_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield whether the seed moves the weights more than the data, and whether models group by seed (IP2 §5)."""
    place, data, model = "IP2 §5", outcome.setting.data, outcome.setting.model
    clusters = f"{outcome.clusters.clusters} clusters; with one data set: {outcome.clusters.single_dataset_share:.3g}"
    yield row(place, data, model, "share of clusters with one seed", outcome.clusters.single_seed_share, clusters)
    for init in ("varied", "fixed"):
        distances = outcome.at_the_end(init)
        note = f"mean Δ_V {distances.seed.mean:.3g}, mean Δ_S {distances.data_strict.mean:.3g}"
        yield row(place, data, model, f"seed moves more than data, init {init}", distances.seed_exceeds_data, note)
    if (bound := outcome.privacy.sensitivity_bound) is not None:
        largest, examples = outcome.at_the_end("varied").data_all_pairs.maximum, round(outcome.privacy.delta**-0.5)
        note = f"the paper: 3.2 to 6.5, with its own count of epochs; a true bound: {bound.value / largest:.3g}"
        ratio = outcome.setting.published_bound(examples) / largest
        yield row(place, data, model, "bound over the largest Δ_S", ratio, note)


def epsilon(outcome: GridOutcome, sensitivity: str, spread: str) -> tuple[float, str]:
    """Return the classical ε of the papers, and as a note the exact ones, also of strict pairs (errata 6 and 8)."""
    privacy = outcome.privacy
    note = f"exact: {privacy.epsilon(sensitivity, spread).value:.3g}"
    if sensitivity == "all_pairs":
        note += f", strict: {privacy.epsilon('strict', spread).value:.3g}"
    return privacy.epsilon(sensitivity, spread, "classical").value, note


def bound_note(outcome: GridOutcome) -> str:
    """Return how many epochs the bound counts, and what the paper's count gives, which is no bound (erratum 7)."""
    setting, bound = outcome.setting, outcome.privacy.sensitivity_bound
    assert bound is not None  # asked for only where there is one
    examples = round(outcome.privacy.delta**-0.5)
    begun = int(epochs_begun(setting.steps, examples, setting.batch_size))
    fraction = setting.steps * setting.batch_size / (examples + 1)  # the paper counts the spare row
    return f"{begun} epochs begun; {fraction:.2f} would give {bound.value * fraction / begun:.3g}"


def sensitivity_note(outcome: GridOutcome) -> str:
    """Return the strict one, since two neighbours differ in two rows (erratum 8), and the size of the grid."""
    return f"{outcome.size.seeds} × {outcome.size.datasets}; strict: {outcome.privacy.sensitivity_strict.value:.3g}"


def accuracy_note(outcome: GridOutcome) -> str:
    """Return why IP2's accuracy may differ."""
    if not outcome.setting.comparable_with_ip2:
        return OTHER_FEATURES
    earlier = PUBLISHED.get(("IP1 Table 4", outcome.setting.data, "noiseless", "accuracy"))
    return f"IP1 has {earlier:g} for the same set-up" if outcome.setting.model == "logistic" and earlier else ""


def as_comparable(outcome: GridOutcome, rows: Iterable[Comparison]) -> Iterator[Comparison]:
    """Yield IP2's rows, those of CIFAR2 marked as not comparable."""
    for row in rows:
        yield row if outcome.setting.comparable_with_ip2 else replace(row, note=OTHER_FEATURES)


def in_order(rows: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return the rows by their place in the papers, otherwise in the order given."""
    return tuple(sorted(rows, key=lambda row: PLACES.index(row.place)))
