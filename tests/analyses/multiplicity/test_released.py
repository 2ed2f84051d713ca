"""Arbitrariness from the released model alone: coverage, for each person and for everybody at once."""

import numpy as np
import pytest

from seedscope.analyses import multiplicity as mu
from seedscope.analyses.multiplicity.released import margin_error
from seedscope.core import SeedscopeError


@pytest.mark.parametrize("margin", [0.0, 0.3, 1.0, 3.0])
def test_the_interval_from_one_released_model_covers_the_true_disagreement(margin: float) -> None:
    released = margin + np.random.default_rng(0).normal(size=20_000)
    found = mu.released_model_disagreement(2 * 0.5 * released, 2.0, 0.5, confidence=0.9)
    truth = float(mu.output_perturbation_disagreement(margin, 1.0, 1.0))
    covered = np.mean((found.lower <= truth + 1e-12) & (truth <= found.upper + 1e-12))
    assert covered >= 0.9 - 3 * np.sqrt(0.09 / 20_000)


def test_it_covers_for_everybody_at_once_by_either_way() -> None:
    draw = np.random.default_rng(1)
    people, weights = draw.normal(size=(50, 4)), draw.normal(size=4)
    norms, truth = np.linalg.norm(people, axis=1), people @ weights
    exact = mu.output_perturbation_disagreement(truth, norms, 1.0)
    for options in ({"examples": 50}, {"examples": 10**9, "weights": 4}):
        missed = 0
        for _ in range(500):
            scores = people @ (weights + draw.normal(size=4))
            found = mu.released_model_disagreement(scores, norms, 1.0, 0.8, **options)
            missed += bool(((exact < found.lower) | (found.upper < exact)).any())
        assert missed / 500 <= 0.2 + 3 * np.sqrt(0.16 / 500)


def test_abstaining_leaves_only_decisions_that_are_not_arbitrary() -> None:
    draw = np.random.default_rng(2)
    margins = np.linspace(0, 4, 400)
    wrong = []
    for _ in range(200):
        found = mu.released_model_disagreement(margins + draw.normal(size=400), 1.0, 1.0, 0.95)
        arbitrary = mu.output_perturbation_disagreement(margins, 1.0, 1.0) > 0.5
        wrong.append((found.certain(0.75) & arbitrary).mean() / arbitrary.mean())
    assert np.mean(wrong) <= 0.05


def test_few_weights_beat_many_people() -> None:
    assert margin_error(0.95, 10**6, 3) < margin_error(0.95, 10**6)
    assert margin_error(0.95, 1, 100) == margin_error(0.95, 1)


def test_a_level_that_is_none_is_refused() -> None:
    found = mu.released_model_disagreement([1.0], 1.0, 1.0)
    with pytest.raises(SeedscopeError, match="self-consistency"):
        found.certain(0.3)
    with pytest.raises(SeedscopeError, match="noise_scale"):
        mu.released_model_disagreement([1.0], 1.0, 0.0)
