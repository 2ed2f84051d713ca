"""Accuracy and mean disagreement of mechanisms on held-out tables at the same (ε, δ), as in docs/mechanisms.md."""

from __future__ import annotations

import sys
from typing import Any

CHOSEN_ON = ("contraception", "dermatology", "digits-binary", "synthetic", "mnist-binary", "cifar2")
HELD_OUT = ("breast-cancer", "mammography", "credit", "german-credit", "heart", "adult")
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


def measured(name: str, mechanism: Any, models: int) -> tuple[float, float]:
    """Return mean accuracy and mean disagreement on the test part."""
    import seedscope as ss

    data, records = ss.load(name), ss.Records(probes=("test",))
    scaling = ss.Standardised() if data.ranges else None  # as for the tables that come without public ranges
    ensemble = ss.train(data, mechanism, grid=ss.Grid(models), records=records, scaling=scaling, jobs=1)
    found = ss.multiplicity.multiplicity(ensemble)
    return float(found.accuracy or 0.0), float(found.mean)


def main(names: tuple[str, ...] = HELD_OUT, models: int = 100) -> None:
    """Print a row for each table."""
    for name in names:
        cells = []
        for title, mechanism in contenders().items():
            accuracy, disagreement = measured(name, mechanism, 40 if name == "adult" else models)
            cells.append(f"{title} {100 * accuracy:.1f} / {disagreement:.2f}")
        print(f"{name}: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or HELD_OUT)
