"""What trees vote about people gives away whom a forest learned from, by the likelihood ratio."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import betabinom
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

import seedscope as ss


def test_the_ratio_is_that_of_the_slow_laws() -> None:
    rate = np.random.default_rng(0).uniform(0.1, 0.9, 300)
    learned = np.arange(300) % 2 == 0
    true = np.where(learned, rate / 3, rate)
    errors = betabinom.rvs(100, 64 * true, 64 * (1 - true), random_state=1)
    found = ss.membership.vote_log_ratios(1 - errors / 100, 1 - rate / 3, 1 - rate, trees=100, seen=10**9)
    slow = []
    for k in (16, 32, 64, 128, 256):
        a, b = (betabinom.logpmf(errors, 100, k * one, k * (1 - one)) for one in (rate / 3, rate))
        slow.append(a - b)
    assert min(np.abs(found - one).max() for one in slow[1:4]) < 1e-5  # the true concentration, or the next one
    assert (found[learned] > 0).mean() > 0.9
    assert (found[~learned] < 0).mean() > 0.9


def test_a_row_on_which_trees_agree_anyway_gives_nothing_away() -> None:
    votes = np.append(np.random.default_rng(0).uniform(0.3, 1, 50), 1.0)
    same = np.append(np.full(50, 0.7), 1.0)
    found = ss.membership.vote_log_ratios(votes, same, same, trees=100, seen=500)
    assert np.abs(found).max() < 0.2


def test_certain_votes_are_finite() -> None:
    found = ss.membership.vote_log_ratios([1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0], trees=10, seen=40)
    assert np.isfinite(found).all()
    assert found[0] > 1 > found[1]


def test_a_forest_that_learned_from_people_gives_them_away() -> None:
    draw = np.random.default_rng(0)
    X = draw.normal(size=(150, 3))
    y = (X[:, 0] + draw.normal(size=150) > 0).astype(int)
    learned = draw.random(150) < 0.5
    own, everybody = (
        RandomForestClassifier(50, random_state=0),
        RandomForestClassifier(150, oob_score=True, random_state=1),
    )
    votes = own.fit(X[learned], y[learned]).predict_proba(X)[np.arange(150), y]
    inside = everybody.fit(X, y).predict_proba(X)[np.arange(150), y]
    outside = everybody.oob_decision_function_[np.arange(150), y]
    found = ss.membership.vote_log_ratios(votes, inside, outside, trees=50, seen=55)
    assert ((found > 0) == learned).mean() > 0.8
    assert roc_auc_score(learned, found) > roc_auc_score(learned, votes) + 0.05  # than from the target's votes alone


@pytest.mark.parametrize(
    ("sentence", "given"),
    [
        ("one number for each row", ([0.5], [0.5, 0.5], [0.5], 10, 10)),
        ("shares from 0 to 1", ([1.5], [0.5], [0.5], 10, 10)),
        ("trees must be", ([0.5], [0.5], [0.5], 0, 10)),
    ],
)
def test_wrong_votes_are_one_sentence(sentence: str, given: tuple) -> None:  # type: ignore[type-arg]
    with pytest.raises(ss.SeedscopeError, match=sentence):
        ss.membership.vote_log_ratios(*given)
