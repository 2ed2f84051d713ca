"""Arbitrariness from the released model alone: coverage, for each person and for everybody at once."""

import numpy as np
import pytest

from seedscope.analyses import multiplicity as mu
from seedscope.analyses.multiplicity.released import margin_error
from seedscope.analyses.multiplicity.scores import class_chances
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


SEVERAL = np.array([[0.0, 0.0, 0.0], [0.5, 0.4, -3.0], [2.0, 0.0, 0.0], [4.0, 0.0, -1.0], [6.0, 1.0, 1.0]])


def drawn_scores(scores: np.ndarray, times: int, norm: float, noise_scale: float, seed: int) -> np.ndarray:
    """Return scores [draw, person, class] with noise on the weights, the part that all classes share taken out."""
    noise = np.random.default_rng(seed).normal(size=(times, *scores.shape)) * norm * noise_scale
    drawn: np.ndarray = scores + noise - noise.mean(-1, keepdims=True)
    return drawn


def test_chances_of_classes_are_what_drawing_the_noise_gives() -> None:
    drawn = drawn_scores(SEVERAL, 200_000, 2.0, 0.5, seed=3).argmax(-1)
    shares = (drawn[..., None] == np.arange(3)).mean(0)
    np.testing.assert_allclose(class_chances(SEVERAL, 2.0, 0.5), shares, atol=0.006)
    two = class_chances([[0.7, 0.0]], 1.0, 1.0)[0]  # two scores with noise each are one with √2 of it
    closed = mu.output_perturbation_disagreement(0.7, 1.0, np.sqrt(2))
    assert 2 * (1 - np.square(two).sum()) == pytest.approx(float(closed), abs=1e-9)


@pytest.mark.parametrize("together", [False, True])
def test_beyond_two_classes_the_interval_covers_for_each_person_and_for_all(together: bool) -> None:
    truth = 2 * (1 - np.square(class_chances(SEVERAL, 2.0, 0.5)).sum(-1))
    scores = drawn_scores(SEVERAL, 5000, 2.0, 0.5, seed=4)
    found = mu.released_model_disagreement(scores, 2.0, 0.5, 0.8, classes=3, examples=len(SEVERAL) if together else 1)
    covered = (found.lower <= truth + 1e-9) & (truth <= found.upper + 1e-9)
    share = covered.all(axis=1).mean() if together else covered.mean(axis=0).min()
    assert share >= 0.8 - 3 * np.sqrt(0.16 / 5000)
    assert np.all((found.lower <= found.disagreement + 1e-9) & (found.disagreement <= found.upper + 1e-9))
    np.testing.assert_array_equal(found.decided, scores.argmax(-1))


def test_of_those_a_model_of_several_classes_is_certain_about_few_are_arbitrary() -> None:
    people = np.stack([np.linspace(0, 6, 100), np.zeros(100), np.full(100, -0.5)], axis=1)
    arbitrary = 2 * (1 - np.square(class_chances(people, 1.0, 1.0)).sum(-1)) > 0.5
    found = mu.released_model_disagreement(drawn_scores(people, 1000, 1.0, 1.0, seed=5), 1.0, 1.0, 0.95, classes=3)
    wrong = found.certain(0.75)[:, arbitrary].mean(axis=0)
    assert wrong.max() <= 0.05 + 3 * np.sqrt(0.05 / 1000)
    assert found.certain(0.75)[:, -1].mean() > 0.5  # and it is of use


def test_a_class_that_nobody_is_near_changes_little_and_never_narrows() -> None:
    two = mu.released_model_disagreement(3.0, 1.0, 1.0)
    three = mu.released_model_disagreement([3.0 * np.sqrt(2), 0.0, -100.0], 1.0, 1.0, classes=3)
    assert two.upper <= three.upper <= 2 * two.upper
    assert three.lower <= two.lower
    with pytest.raises(SeedscopeError, match="of 4 classes"):
        mu.released_model_disagreement([1.0, 2.0, 3.0], 1.0, 1.0, classes=4)
