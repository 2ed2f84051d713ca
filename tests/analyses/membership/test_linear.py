"""Shadow margins without shadow models are those of models that are trained."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import seedscope as ss


def table() -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels with noise."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(120, 3))
    return X, (X[:, 0] + draw.normal(size=120) > 0).astype(int)


@pytest.mark.slow
def test_means_and_deviations_are_those_of_trained_models() -> None:
    X, y = table()
    found, draw = ss.membership.linear_shadows(X, y, share=0.5, l2=2.0), np.random.default_rng(1)
    inside = draw.random((600, 120)) < 0.5
    margins = np.stack([LogisticRegression(C=0.5, tol=1e-8).fit(X[k], y[k]).decision_function(X) for k in inside])
    with_row, without = (np.array([margins[k, i].mean() for i, k in enumerate(m.T)]) for m in (inside, ~inside))
    apart, expected = found.mean_with - found.mean_without, with_row - without
    assert np.corrcoef(apart, expected)[0, 1] > 0.95
    assert np.median(apart / expected) == pytest.approx(1, abs=0.15)
    assert np.corrcoef(found.mean_without, without)[0, 1] > 0.99
    deviations = np.array([margins[k, i].std() for i, k in enumerate(inside.T)])
    assert np.median(found.deviation / deviations) == pytest.approx(1, abs=0.15)


def test_a_target_that_learned_from_people_gives_them_away() -> None:
    X, y = table()
    X = np.column_stack([X, np.random.default_rng(2).normal(size=(120, 30))])  # room to remember people
    learned = np.random.default_rng(3).random(120) < 0.5
    target = LogisticRegression().fit(X[learned], y[learned]).decision_function(X)
    ratios = ss.membership.linear_shadows(X, y, share=0.5).log_ratios(target)
    assert ratios[learned].mean() > 0 > ratios[~learned].mean()


def test_more_penalty_tells_less_of_a_row() -> None:
    X, y = table()
    loose, tight = (ss.membership.linear_shadows(X, y, 0.5, l2) for l2 in (0.1, 10.0))
    assert np.abs(loose.mean_with - loose.mean_without).mean() > np.abs(tight.mean_with - tight.mean_without).mean()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"labels": 3}, "labels must be 0 or 1"), ({"share": 1.5}, "share must be"), ({"l2": -1.0}, "l2 must be")],
)
def test_mistakes_are_named(wrong: dict[str, Any], said: str) -> None:
    X, y = table()
    given: dict[str, Any] = {"labels": y, "share": 0.5, "l2": 1.0} | wrong
    given["labels"] = np.broadcast_to(given["labels"], y.shape)
    with pytest.raises(ss.SeedscopeError, match=said):
        ss.membership.linear_shadows(X, **given)
