"""AD §5.2's patient: 56 years old, a malignant tumour, and a diagnosis that privacy turns into a coin toss.

The paper says of which table the record is, not which row. Three test patients fit; one of them has the paper's
numbers at ε = 0.5. At ε = 2.5 the paper's 55 % is not reached: how sure models are about one person there depends on
which rows they are trained on, and the paper's split is known by its random state alone. So other splits are tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import seedscope as ss
from seedscope.reproduce.comparison import Comparison, paper_numbers
from seedscope.reproduce.multiplicity.models import Calibration, bounded_data, linear_scores, released_weights

PLACE = "AD §5.2"
EPSILONS = (0.5, 2.5)
SPLITS = 10  # other splits of the same rows that are tried
PUBLISHED = {
    (row["setting"], row["quantity"]): float(row["value"])
    for row in paper_numbers("multiplicity")
    if row["place"] == PLACE
}


@dataclass(frozen=True)
class Patient:
    """A record: its data set and its row in the original file, counted from 0."""

    data: str
    row: int


PATIENT = Patient("mammography", 441)


def patient_rows(models: int, calibration: Calibration, best: Calibration) -> list[Comparison]:
    """Return how the patient is decided at both ε, ours beside the paper's, and at ε = 2.5 over other splits."""
    data = bounded_data(PATIENT.data)
    rows = [row for epsilon in EPSILONS for row in _decided(data, epsilon, models, calibration, best)]
    elsewhere = [
        _disagreement(_share(other_split(data, seed), EPSILONS[-1], models, calibration))
        for seed in range(1, SPLITS + 1)
    ]
    note = f"among {SPLITS} other splits of the same rows: which rows are trained on decides it"
    setting = f"ε={EPSILONS[-1]:g}, other splits"
    ends = {"smallest disagreement": min(elsewhere), "largest disagreement": max(elsewhere)}
    return rows + [Comparison(PLACE, PATIENT.data, setting, name, value, note=note) for name, value in ends.items()]


def _decided(
    data: ss.Dataset, epsilon: float, models: int, calibration: Calibration, best: Calibration
) -> list[Comparison]:
    """Return the share of models that see the tumour, and the disagreement, at one ε."""
    setting = f"ε={epsilon:g}"
    ours, better = (_share(data, epsilon, models, how) for how in (calibration, best))
    numbers = {"decided malignant": (ours, better), "disagreement": (_disagreement(ours), _disagreement(better))}
    return [
        Comparison(PLACE, PATIENT.data, setting, name, mine, PUBLISHED.get((setting, name)), best=better_share)
        for name, (mine, better_share) in numbers.items()
    ]


def _share(data: ss.Dataset, epsilon: float, models: int, calibration: Calibration) -> float:
    """Return the share of models that decide the patient's tumour is malignant."""
    mechanism = ss.ObjectivePerturbation(epsilon, calibration=calibration)
    weights = released_weights(data, mechanism, models).astype(float)
    return float((linear_scores(weights, patient_features(data)) > 0).mean())


def _disagreement(share: float) -> float:
    """Return 4p(1 − p)."""
    return 4 * share * (1 - share)


def patient_features(data: ss.Dataset) -> np.ndarray:
    """Return the patient's row [1, feature], whichever part it is in."""
    parts = [part.features[part.rows == PATIENT.row] for part in (data.train, data.test)]
    return np.concatenate(parts)


def other_split(data: ss.Dataset, seed: int) -> ss.Dataset:
    """Return the same rows with as many others of them to train on, drawn at random."""
    parts = (data.train, data.test)
    names = ("features", "labels", "ids", "rows")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    order = np.random.default_rng(seed).permutation(len(joined["rows"]))
    chosen, rest = order[: len(data.train)], order[len(data.train) :]
    train, test = (
        replace(data.train, groups={}, **{name: joined[name][which] for name in names}) for which in (chosen, rest)
    )
    largest = float(np.linalg.norm(train.features, axis=1).max())
    return replace(data, train=train, test=test, norm_bound=largest)
