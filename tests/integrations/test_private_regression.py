"""Private logistic regression keeps scikit-learn's conventions, and says what is proved of it."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import check_estimator

import seedscope as ss
from seedscope.core import SeedscopeWarning
from seedscope.integrations.private_regression import METHODS, clipped

PRIVATE = ss.PrivateLogisticRegression


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    """Return standardised rows and labels of a real table."""
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[:, :6], y


def kind(model: Any) -> str:
    """Return the kind of a fitted model's ε."""
    return str(model.privacy_.epsilon.kind)


@pytest.mark.parametrize(
    "method",
    ["objective", pytest.param("output", marks=pytest.mark.slow), pytest.param("dpsgd", marks=pytest.mark.slow)],
)
def test_scikit_learns_own_checks_pass(method: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeedscopeWarning)
        check_estimator(PRIVATE(method=method, data_norm=10.0), on_skip=None)


@pytest.mark.slow
def test_scikit_learns_own_checks_pass_as_it_comes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeedscopeWarning)
        check_estimator(PRIVATE(), on_skip=None)


@pytest.mark.parametrize("delta", [None, 1e-5])
@pytest.mark.parametrize("method", METHODS)
def test_the_epsilon_that_was_asked_for_is_the_whole_price_and_proved(table: Any, method: Any, delta: Any) -> None:
    model = PRIVATE(1.5, delta, method, data_norm=5.0).fit(*table)
    found, curve = model.privacy_, model.trade_off_
    assert found.is_proved
    assert found.epsilon is not None
    assert curve.advantage.kind == "proved"
    own_region = ss.accounting.trade_off(epsilon=float(found.epsilon), delta=found.delta)
    assert float(curve.advantage) <= float(own_region.advantage) * (1 + 1e-9)
    assert 1.5 * (1 - 1e-3) <= float(found.epsilon) <= 1.5 * (1 + 1e-12)
    if delta is None:
        assert found.delta == (0.0 if method == "objective" else len(table[0]) ** -2)
    else:
        assert found.delta == delta
    assert found.relation == ("add_or_remove" if method == "dpsgd" else "replace_one")


def test_a_learned_norm_is_warned_of_and_proves_nothing(table: Any) -> None:
    with pytest.warns(SeedscopeWarning, match="data_norm was not given"):
        found = PRIVATE(2.0).fit(*table)
    assert kind(found) == "estimate"
    assert found.privacy_.assumes == ("the largest norm of a row",)
    assert "the largest norm of a row were public" in found.privacy_.reason


def test_a_random_state_repeats_and_proves_nothing(table: Any) -> None:
    first, second, other = (PRIVATE(data_norm=5.0, random_state=seed).fit(*table) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert not np.array_equal(first.coef_, other.coef_)
    assert kind(first) == "estimate"
    assert "random_state" in first.privacy_.reason
    once, again = (PRIVATE(data_norm=5.0).fit(*table).coef_ for _ in range(2))
    assert not np.array_equal(once, again)


def test_nobody_is_longer_than_the_public_norm(table: Any) -> None:
    X, y = table[0].copy(), table[1]
    X[0] *= 1e6  # whoever is longer than the bound counts as if they were at it
    at_bound = X.copy()
    at_bound[0] *= 5.0 / np.linalg.norm(X[0])
    weights = [PRIVATE(data_norm=5.0, random_state=0).fit(rows, y).coef_ for rows in (X, at_bound)]
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-9)


@pytest.mark.parametrize("method", ["objective", "output"])
def test_without_much_noise_it_is_the_regularised_minimiser(table: Any, method: Any) -> None:
    X, y = table
    model = PRIVATE(1e7, 1e-5, method, data_norm=4.0, random_state=0).fit(X, y)
    conditions = ss.Conditions(len(X), 2**0.5, width=X.shape[1] + 1)
    mechanism: Any = model.mechanism_
    penalty = mechanism.release(conditions).penalty
    rows = np.column_stack([clipped(X, 4.0) / 4.0, np.ones(len(X))])

    def objective(w: np.ndarray) -> float:
        return float(np.logaddexp(0, (1 - 2 * y) * (rows @ w)).mean() + penalty / 2 * w @ w)

    slow = minimize(objective, np.zeros(7), method="BFGS", options={"gtol": 1e-9}).x
    ours = np.append(model.coef_[0] * 4.0, model.intercept_)
    np.testing.assert_allclose(rows @ ours, rows @ slow, atol=0.02 * np.abs(rows @ slow).max())


def test_smaller_epsilon_is_noisier(table: Any) -> None:
    def spread(epsilon: float) -> float:
        fits = [PRIVATE(epsilon, data_norm=5.0, random_state=k).fit(*table) for k in range(30)]
        logits = np.stack([one.decision_function(table[0]) for one in fits])
        return float((logits.std(0) / np.abs(logits.mean(0)).mean()).mean())

    assert spread(0.3) > 2 * spread(3.0)


@pytest.mark.parametrize("method", METHODS)
def test_it_drops_into_pipelines_and_cross_validation(method: Any) -> None:
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), PRIVATE(100.0, 1e-3, method, data_norm=4.0, random_state=0))
    assert cross_val_score(model, X, y, cv=2).mean() > 0.7
    chances = model.fit(X, y).predict_proba(X)
    assert chances.shape == (150, 3)
    np.testing.assert_allclose(chances.sum(1), 1)
    np.testing.assert_array_equal(model.classes_[chances.argmax(1)], model.predict(X))


def test_it_is_searched_over_and_audited_like_any_other(table: Any) -> None:
    found = GridSearchCV(PRIVATE(data_norm=5.0, random_state=0), {"epsilon": [0.5, 2.0]}, cv=2).fit(*table)
    assert found.best_params_["epsilon"] in (0.5, 2.0)
    report = ss.audit(PRIVATE(1.0, data_norm=5.0), *table, seeds=20, neighbours=0)
    assert report.levels[0].multiplicity.models == 20


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epsilon": 0.0}, "epsilon must be a finite number above 0, got 0.0"),
        ({"epsilon": np.inf}, "epsilon must be a finite number above 0, got inf"),
        ({"delta": 2.0}, "delta must be"),
        ({"method": "objektive"}, "method"),
        ({"data_norm": -1.0}, "data_norm must be a finite number above 0, got -1.0"),
    ],
)
def test_wrong_parameters_are_named(table: Any, wrong: Any, said: str) -> None:
    with pytest.raises(ss.SeedscopeError, match=said):
        PRIVATE(**wrong).fit(*table)


def test_too_small_an_epsilon_is_warned_of(table: Any) -> None:
    with pytest.warns(SeedscopeWarning, match="the least useful epsilon is about"):
        PRIVATE(0.001, data_norm=5.0).fit(*table)
