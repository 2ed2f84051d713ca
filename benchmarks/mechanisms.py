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


def steps_by_public_rule(models: int = 100) -> None:
    """Print DP-SGD's public defaults on eight tables, beside the Gaussian tilt and no privacy, a row for each."""
    import seedscope as ss

    tilt = ss.GaussianObjectivePerturbation(EPSILON, DELTA, relation="add_or_remove")
    for name in EIGHT:
        steps = [measured(name, by_public_rule(name, epsilon), models) for epsilon in (0.5, 1.0, 2.0)]
        others = measured(name, tilt, models), measured(name, ss.ObjectivePerturbation(float("inf")), 2)
        print(f"{name}: {', '.join(f'{100 * one:.1f} / {two:.2f}' for one, two in (*steps, *others))}", flush=True)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or HELD_OUT)
