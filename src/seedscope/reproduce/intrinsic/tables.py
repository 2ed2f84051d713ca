"""The papers' tables, ours beside theirs, and the reason in the note where the two must differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from seedscope.analyses.intrinsic import AugmentedUtility, epochs_begun
from seedscope.reproduce.comparison import Comparison
from seedscope.reproduce.intrinsic.grids import OWN, SHARED, GridOutcome
from seedscope.reproduce.intrinsic.noise import ORIGIN, PERSONAL, TESTS
from seedscope.reproduce.intrinsic.settings import DROPOUT, PUBLISHED

PLACES = (
    "IP1 Table 3", "IP1 Table 4", "IP1 Table 5", "IP1 Table 6", "IP1 Table 7", "IP1 D.3", "IP2 Table 2", "IP2 Table 4",
    "IP2 Table 5", "IP2 Table 6", "IP2 §5", TESTS, ORIGIN, PERSONAL,
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
    if model == "logistic":
        yield from utility_rows(outcome)
        yield from by_weight_rows(outcome)
        yield from stability_rows(outcome, "IP2 Table 5", "min")
    yield from seed_against_data_rows(outcome)


def privacy_rows(outcome: GridOutcome, place: str, setting: str) -> Iterator[Comparison]:
    """Yield sensitivities, variability and epsilons as IP1 defines them (IP1 Tables 3 and 5)."""
    found, data = outcome.privacy, outcome.setting.data
    if found.sensitivity_bound is not None:
        if place == "IP1 Table 3":
            yield row(place, data, setting, "δ", found.delta, "1/N²")
        yield row(place, data, setting, "sensitivity bound", found.sensitivity_bound.value, bound_note(outcome))
        yield row(place, data, setting, "ε of the bound", *epsilon(outcome, "bound", "flat"))
    yield row(
        place, data, setting, "empirical sensitivity", found.sensitivity_all_pairs.value, sensitivity_note(outcome)
    )
    dropout = f"with dropout {DROPOUT:g}, as in the authors' code (erratum 11)" if setting == "mlp" else ""
    yield row(place, data, setting, "variability", found.variability_flat.value, dropout)
    yield row(place, data, setting, "ε of the empirical sensitivity", *epsilon(outcome, "all_pairs", "flat"))


def by_weight_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield the rows of IP2 Table 4, whose variability is that of the steadiest weight."""
    found, data, place = outcome.privacy, outcome.setting.data, "IP2 Table 4"
    rows = [row(place, data, "logistic", "δ", found.delta, "1/N²")]
    if found.sensitivity_bound is not None:
        rows.append(
            row(place, data, "logistic", "sensitivity bound", found.sensitivity_bound.value, bound_note(outcome))
        )
    rows.append(
        row(
            place,
            data,
            "logistic",
            "empirical sensitivity",
            found.sensitivity_all_pairs.value,
            sensitivity_note(outcome),
        )
    )
    for setting, spread in (("steadiest weight", "min"), ("least steady weight", "max")):
        rows.append(row(place, data, setting, "variability", getattr(found, f"variability_{spread}").value))
        if found.sensitivity_bound is not None:
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
    for (epsilon_aim, name, noise), found in outcome.utilities.items():
        if noise != SHARED:
            continue
        place = "IP1 Table 4" if epsilon_aim == 1 else "IP1 Table 7"
        setting, own = f"ε={epsilon_aim:g}, {name}", outcome.utilities[epsilon_aim, name, OWN]
        yield from noise_rows(place, data, setting, found, own)
        if (share := found.share_of_gap_by_model) is not None:
            whole = (
                "" if own.share_of_gap is None else f"of the means, a vector each: {100 * own.share_of_gap.value:.3g}"
            )
            yield row(place, data, setting, "share of the gap, %", 100 * share.value, whole)
        if own.anisotropic is not None:
            gain = float((own.anisotropic - own.deterministic).mean())
            note = f"credit only for noise that is there; the papers' kind: {own.gain.value:.2g}"
            yield row(place, data, setting, "anisotropic gain", gain, note)


def accuracy_rows(place: str, data: str, setting: str, found: AugmentedUtility) -> Iterator[Comparison]:
    """Yield the accuracy without noise, and its deviation over models."""
    yield row(place, data, setting, "accuracy", found.noiseless.mean(), f"{len(found.noiseless)} models")
    yield row(place, data, setting, "accuracy, deviation", found.noiseless.std(), shown=False)


def noise_rows(
    place: str, data: str, setting: str, found: AugmentedUtility, own: AugmentedUtility
) -> Iterator[Comparison]:
    """Yield the accuracy with all noise, and what less of it wins: one noise vector for all, as in the papers' code."""
    full = found.deterministic
    note = f"one noise vector for all (erratum 12); with a vector for each model {own.deterministic.mean():.3g}"
    note += "; the paper's count of epochs (erratum 7)" if setting.endswith("bound") else ""
    yield row(place, data, setting, "SGD_d accuracy", full.mean(), note)
    yield row(place, data, setting, "SGD_d accuracy, deviation", full.std(), shown=False)
    yield row(place, data, setting, "SGD_r gain", found.gain.value, f"p = {found.p_value_gain:.1g}")


def variant_rows(outcomes: Iterable[GridOutcome]) -> Iterator[Comparison]:
    """Yield IP1 Table 5: MNIST-binary with other features, its own first."""
    place = "IP1 Table 5"
    for outcome in outcomes:
        data, setting = outcome.setting.data, outcome.setting.features or "pca"
        found, own = (outcome.utilities[1.0, "empirical", noise] for noise in (SHARED, OWN))
        yield row(place, data, setting, "models", outcome.size.models, shown=False)
        yield from accuracy_rows(place, data, setting, found)
        yield from noise_rows(place, data, setting, found, own)
        yield from privacy_rows(outcome, place, setting)


def convolutional_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield what IP1 D.3 says of its convolutional network."""
    note = f"the paper: ± .02; {len(outcome.accuracy)} models"
    yield row("IP1 D.3", outcome.setting.data, "cnn", "accuracy", outcome.accuracy.mean(), note)
    yield row("IP1 D.3", outcome.setting.data, "cnn", "parameters", outcome.privacy.parameters)


def seed_against_data_rows(outcome: GridOutcome) -> Iterator[Comparison]:
    """Yield whether the seed moves the weights more than the data, and whether models group by seed (IP2 §5)."""
    place, data, model = "IP2 §5", outcome.setting.data, outcome.setting.model
    clusters = f"{outcome.clusters.clusters} clusters; with one data set: {outcome.clusters.single_dataset_share:.3g}"
    yield row(place, data, model, "share of clusters with one seed", outcome.clusters.single_seed_share, clusters)
    for init in ("varied", "fixed"):
        found = outcome.at_the_end(init)
        note = f"mean Δ_V {found.seed.mean:.3g}, mean Δ_S {found.data_strict.mean:.3g}"
        yield row(place, data, model, f"seed moves more than data, init {init}", found.seed_exceeds_data, note)
    if (bound := outcome.privacy.sensitivity_bound) is not None:
        largest, examples = outcome.at_the_end("varied").data_all_pairs.maximum, round(outcome.privacy.delta**-0.5)
        note = f"the paper: 3.2 to 6.5, with its own count of epochs; a true bound: {bound.value / largest:.3g}"
        ratio = outcome.setting.published_bound(examples) / largest
        yield row(place, data, model, "bound over the largest Δ_S", ratio, note)


def epsilon(outcome: GridOutcome, sensitivity: str, spread: str) -> tuple[float, str]:
    """Return the classical ε of the papers, and as a note the exact ones, also of strict pairs (errata 6 and 8)."""
    found = outcome.privacy
    note = f"exact: {found.epsilon(sensitivity, spread).value:.3g}"
    if sensitivity == "all_pairs":
        note += f", strict: {found.epsilon('strict', spread).value:.3g}"
    return found.epsilon(sensitivity, spread, "classical").value, note


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
    for one in rows:
        yield one if outcome.setting.comparable_with_ip2 else replace(one, note=OTHER_FEATURES)


def in_order(rows: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return the rows by their place in the papers, otherwise in the order given."""
    return tuple(sorted(rows, key=lambda one: PLACES.index(one.place)))
