"""Accuracy and mean disagreement of mechanisms on held-out tables at the same (ε, δ), as in docs/mechanisms.md."""

from __future__ import annotations

import sys
from typing import Any

CHOSEN_ON = ("contraception", "dermatology", "digits-binary", "synthetic", "mnist-binary", "cifar2")
HELD_OUT = ("breast-cancer", "mammography", "credit", "german-credit", "heart", "adult")
EIGHT = (
    "breast-cancer",
    "mammography",
    "credit",
    "german-credit",
    "heart",
    "contraception",
    "dermatology",
    "digits-binary",
)
EPSILON, DELTA = 1.0, 1e-5


def contenders(epsilon: float = EPSILON) -> dict[str, Any]:
    """Return the mechanisms by name, all about replacing a person."""
    import seedscope as ss

    return {
        "published calibration": ss.ObjectivePerturbation(epsilon, calibration=ss.Chaudhuri()),
        "pure ε": ss.ObjectivePerturbation(epsilon),
        "Gaussian": ss.GaussianObjectivePerturbation(epsilon, DELTA),
        "output": ss.OutputPerturbation(epsilon, DELTA),
    }


def by_public_rule(name: str, epsilon: float = EPSILON) -> Any:
    """Return DP-SGD with its public defaults for a table: adding and removing a person."""
    import seedscope as ss

    data = ss.load(name)
    scaling = ss.Standardised().fit(data) if data.norm_bound is None else ss.Unscaled().fit(data)
    return ss.DPSGD.public(ss.Conditions.of(data, scaling), epsilon, DELTA)


def for_last_weights(name: str, epsilon: float = EPSILON) -> Any:
    """Return DP-SGD on all rows whose last weights alone have the ε: adding and removing a person."""
    import seedscope as ss

    data = ss.load(name)
    setting = ss.Conditions.of(data, ss.Standardised().fit(data))
    return ss.DPSGD.for_last_weights(setting, epsilon, DELTA)


def certified(name: str, epsilon: float, models: int) -> tuple[float, float]:
    """Return how many test people a released model certifies by itself, and how many of its 95 % intervals hold."""
    import numpy as np

    import seedscope as ss

    data, records = ss.load(name), ss.Records(probes=())
    scaling = ss.Standardised() if data.ranges else None
    mechanism = ss.OutputPerturbation(epsilon, DELTA)
    trained = ss.train(data, mechanism, grid=ss.Grid(models), records=records, scaling=scaling, jobs=1)
    rows = trained.scaling.fit(data).apply(np.asarray(data.test.unfilled, float))
    rows = np.column_stack([rows, np.ones(len(rows))])
    noise, lengths = mechanism.noise(trained.description.conditions), np.linalg.norm(rows, axis=1)
    told = ss.multiplicity.released_model_disagreement(trained.weights.values[:, 0, 0, 0] @ rows.T, lengths, noise)
    quiet = mechanism.regression(data, trained.scaling.fit(data)).weights
    truth = ss.multiplicity.output_perturbation_disagreement(rows @ quiet, lengths, noise)
    held = (told.lower <= truth + 1e-6) & (truth <= told.upper + 1e-6)
    return float(told.certain().mean()), float(held.mean())


def measured(name: str, mechanism: Any, models: int) -> tuple[float, float]:
    """Return mean accuracy and mean disagreement on the test part."""
    import seedscope as ss

    data, records = ss.load(name), ss.Records(probes=("test",))
    scaling = ss.Standardised() if data.ranges else None  # as for the tables that come without public ranges
    ensemble = ss.train(data, mechanism, grid=ss.Grid(models), records=records, scaling=scaling, jobs=1)
    found = ss.multiplicity.multiplicity(ensemble)
    return float(found.accuracy or 0.0), float(found.mean)


def main(names: tuple[str, ...] = HELD_OUT, models: int = 100) -> None:
    """Print a row for each table, and then DP-SGD's table."""
    for name in names:
        cells = []
        for title, mechanism in contenders().items():
            accuracy, disagreement = measured(name, mechanism, 40 if name == "adult" else models)
            cells.append(f"{title} {100 * accuracy:.1f} / {disagreement:.2f}")
        print(f"{name}: {', '.join(cells)}", flush=True)
    steps_by_public_rule(models)
    for name in ("breast-cancer", "mammography", "adult"):
        share, held = certified(name, EPSILON, 20 if name == "adult" else models)
        print(
            f"{name}: a released model certifies {100 * share:.0f} %, its intervals hold for {100 * held:.1f} %",
            flush=True,
        )


def steps_by_public_rule(models: int = 100) -> None:
    """Print a row for each of eight tables: DP-SGD by the public rule, then at ε = 1 last weights, tilt, no privacy."""
    import seedscope as ss

    tilt = ss.GaussianObjectivePerturbation(EPSILON, DELTA, relation="add_or_remove")
    for name in EIGHT:
        steps = [measured(name, by_public_rule(name, epsilon), models) for epsilon in (0.5, 1.0, 2.0)]
        others = [measured(name, one, models) for one in (for_last_weights(name), tilt)]
        others.append(measured(name, ss.ObjectivePerturbation(float("inf")), 2))
        print(f"{name}: {', '.join(f'{100 * one:.1f} / {two:.2f}' for one, two in (*steps, *others))}", flush=True)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or HELD_OUT)
