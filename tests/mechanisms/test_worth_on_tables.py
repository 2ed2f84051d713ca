"""What the calibrations are worth on real tables, those that no rule was chosen on among them."""

import itertools

import pytest
from benchmarks.mechanisms import contenders, measured

import seedscope as ss

TABLES = (
    "breast-cancer", "digits-binary", "contraception", "mammography", "credit", "dermatology", "german-credit", "heart",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.paper_data
@pytest.mark.parametrize("name", TABLES)
def test_accuracy_rises_and_disagreement_falls_in_epsilon(name: str) -> None:
    found = [measured(name, ss.GaussianObjectivePerturbation(one, 1e-5), 60) for one in (0.5, 1.0, 2.0, 4.0)]
    for (less, more_doubt), (more, less_doubt) in itertools.pairwise(found):
        assert more >= less - 0.02
        assert less_doubt <= more_doubt + 0.03


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
