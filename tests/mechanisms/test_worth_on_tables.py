"""What the calibrations are worth on real tables, those that no rule was chosen on among them."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from benchmarks.mechanisms import contenders, measured

import seedscope as ss
from seedscope.core import SeedscopeError
from seedscope.mechanisms import Mechanism

EMBEDDED = ("breast-cancer", "digits-binary", "synthetic")
FETCHED = ("contraception", "mammography", "credit", "dermatology", "heart", "german-credit")
TABLES = (*EMBEDDED, *(pytest.param(name, marks=pytest.mark.paper_data) for name in FETCHED))
EPSILONS, MODELS = (0.5, 1.0, 2.0, 4.0), 100
ALIKE = 3.5  # standard errors within which two of a hundred differences count as the same


@dataclass(frozen=True)
class Worth:
    """Mean accuracy and disagreement over re-trainings with their standard errors, and how many decisions are 1."""

    accuracy: float
    accuracy_error: float
    disagreement: float
    disagreement_error: float
    decided_1: float


def worth(name: str, mechanism: Mechanism) -> Worth | None:
    """Return what a mechanism is worth on a table's test part; None where its ε is too small for a model of it."""
    data, records = ss.load(name), ss.Records(probes=("test",))
    scaling = ss.Standardised() if data.ranges else None
    try:
        trained = ss.train(data, mechanism, grid=ss.Grid(MODELS), records=records, scaling=scaling, jobs=1)
    except SeedscopeError as error:
        if "least useful epsilon" in str(error):
            return None
        raise
    decided = trained.base_scores() > 0.5
    right, without = (decided == data.test.labels).mean(1), decided.sum(0) - decided
    left_out = ss.multiplicity.disagreement(decided), 4 * without * (MODELS - 1 - without) / (MODELS - 1) / (MODELS - 2)
    jackknife = np.sqrt((MODELS - 1) * left_out[1].mean(1).var())
    return Worth(right.mean(), right.std() / np.sqrt(MODELS), left_out[0].mean(), jackknife, decided.mean())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Gaussian", "pure ε", "output"])
@pytest.mark.parametrize("name", TABLES)
def test_accuracy_rises_and_disagreement_falls_in_epsilon_within_their_errors(name: str, kind: str) -> None:
    found = [one for one in (worth(name, contenders(epsilon)[kind]) for epsilon in EPSILONS) if one is not None]
    assert len(found) >= 3
    for one, more in itertools.pairwise(found):
        both = (
            np.hypot(one.accuracy_error, more.accuracy_error),
            np.hypot(one.disagreement_error, more.disagreement_error),
        )
        assert more.accuracy >= one.accuracy - ALIKE * both[0]
        # where a small ε says the same to nearly everybody, nobody disagrees: there is nothing to fall from
        if not one.decided_1 > 0.9:
            assert more.disagreement <= one.disagreement + ALIKE * both[1]
    assert found[-1].accuracy > found[0].accuracy - 0.005
    assert found[-1].disagreement < found[0].disagreement


@pytest.mark.slow
@pytest.mark.paper_data
def test_the_held_out_tables_reach_their_goals() -> None:
    every = contenders()
    assert measured("breast-cancer", every["Gaussian"], 1000)[0] >= 0.91
    for name in ("german-credit", "heart"):
        before, now = (measured(name, every[one], 100)[0] for one in ("published calibration", "Gaussian"))
        assert now >= before + 0.05
    accuracy, disagreement = measured("adult", every["Gaussian"], 20)
    assert accuracy >= 0.82
    assert disagreement <= 0.06
