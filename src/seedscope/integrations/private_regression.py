"""Private logistic regression as scikit-learn has its estimators: `fit`, `predict_proba`, and `privacy_`.

Rows are clipped to a public norm and divided by it, the intercept is a column of ones that is regularised like the
others: then the proofs of the mechanisms hold for what `fit` learns, whatever the rows are.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from seedscope.accounting import TradeOff, trade_off
from seedscope.core import (
    SeedscopeError,
    SeedscopeWarning,
    require,
    require_networks,
    require_probability,
    unknown_name,
)
from seedscope.mechanisms import (
    DPSGD,
    Conditions,
    GaussianObjectivePerturbation,
    Guarantee,
    Mechanism,
    ObjectivePerturbation,
    OutputPerturbation,
)
from seedscope.releasing import SMOOTHING
from seedscope.training import Job, SystemDraws

Method = Literal["objective", "output", "dpsgd"]
METHODS = ("objective", "output", "dpsgd")
LEARNED_NORM = "the largest norm of a row"
KNOWN_SEED = "the seed"


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression whose weights are differentially private, for two classes or more.

    Args:
        epsilon: the ε that `fit` may cost, all of it included.
        delta: None is a pure ε with method="objective", and 1/N² with the others; which classes there are and the
            number N of rows count as public.
        method: "objective" (a random tilt of the objective), "output" (noise on the minimiser) or "dpsgd" (noisy
            steps). The first is best nearly always.
        data_norm: the largest norm that a row can have, known without looking at the data; longer rows are clipped to
            it. None takes the longest row's, warns, and what would be proved is an estimate.
        random_state: None draws from the operating system and keeps nothing. A number makes `fit` repeatable: whoever
            knows it knows the noise, so nothing is proved.

    After `fit`: `coef_`, `intercept_`, `classes_`, `privacy_` (the guarantee with its kind), `trade_off_` (what any
    membership attack achieves at most by it), `mechanism_`.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PrivateLogisticRegression(epsilon=1.0, data_norm=6.0).fit(scale(X), y)
    >>> model.privacy_.epsilon.kind, round(model.privacy_.epsilon.value, 6), model.coef_.shape
    ('proved', 1.0, (1, 30))
    >>> print(model.trade_off_.advantage)
    0.4621 (proved)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        method: Method = "objective",
        data_norm: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.data_norm = data_norm
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn's checks that few rows give poor scores: that is what privacy costs."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> PrivateLogisticRegression:
        """Return the estimator with private weights."""
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self._check()
        self.classes_, codes = np.unique(labels, return_inverse=True)
        require(len(self.classes_) > 1, f"y must have two classes or more, but it has only one class, {self.classes_}.")
        norm = self._norm(rows)
        conditions = self._conditions(rows)
        self.mechanism_ = self._mechanism(conditions)
        self.privacy_ = self._guarantee(conditions)
        self.trade_off_ = self._trade_off(conditions)
        _warn_if_useless(self.mechanism_, conditions)
        job = _job(clipped(rows, norm) / norm, codes, self.mechanism_, conditions)
        weights = self.mechanism_.published(job, self._draws(), SMOOTHING * self._own_epsilon)
        self.coef_, self.intercept_ = _coefficients(weights, rows.shape[1], norm)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the logit [row] of the second class, or of each [row, class]."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        logits: np.ndarray = clipped(rows, self._norm_) @ self.coef_.T + self.intercept_
        return logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability [row, class] of each class."""
        logits = self.decision_function(X)
        if logits.ndim == 1:
            return np.stack([expit(-logits), expit(logits)], axis=1)
        chances: np.ndarray = softmax(logits, axis=1)
        return chances

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            logarithms: np.ndarray = np.log(self.predict_proba(X))
        return logarithms

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class [row]."""
        logits = self.decision_function(X)
        places = (logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(1)
        decided: np.ndarray = self.classes_[places]
        return decided

    def _check(self) -> None:
        """Raise what is wrong with the parameters."""
        require(0 < self.epsilon < math.inf, f"epsilon must be a finite number above 0, got {self.epsilon}.")
        if self.delta is not None:
            require_probability("delta", self.delta)
        if self.method not in METHODS:
            raise unknown_name("method", str(self.method), METHODS)
        known = self.data_norm is None or 0 < self.data_norm < math.inf
        require(known, f"data_norm must be a finite number above 0, got {self.data_norm}.")

    def _norm(self, rows: np.ndarray) -> float:
        """Return the norm to which rows are clipped; one that is learned is warned of."""
        if self.data_norm is None:
            self._norm_ = float(np.linalg.norm(rows, axis=1).max()) or 1.0
            warnings.warn(
                f"data_norm was not given and is learned from the data ({self._norm_:.4g}), which tells something of "
                "its longest row: the guarantee is an estimate; give a data_norm that is known without the data.",
                SeedscopeWarning,
                stacklevel=3,
            )
        else:
            self._norm_ = float(self.data_norm)
        return self._norm_

    def _conditions(self, rows: np.ndarray) -> Conditions:
        """Return what the guarantee depends on: rows of norm 1 and a bias of 1."""
        learned = (LEARNED_NORM,) if self.data_norm is None else ()
        width, classes = rows.shape[1] + 1, len(self.classes_)
        return Conditions(len(rows), math.sqrt(2), classes=classes, width=width, also_learned=learned)

    @property
    def _own_epsilon(self) -> float:
        """What the mechanism itself may spend; publishing a minimiser costs the rest."""
        return self.epsilon if self.method == "dpsgd" else self.epsilon / (1 + SMOOTHING)

    def _mechanism(self, conditions: Conditions) -> Mechanism:
        """Return the mechanism of the method, calibrated."""
        epsilon, delta = self._own_epsilon, self.delta
        if self.method == "dpsgd":
            return DPSGD.public(conditions, epsilon, conditions.examples**-2.0 if delta is None else delta)
        if self.method == "output":
            return OutputPerturbation(epsilon, delta)
        return ObjectivePerturbation(epsilon) if delta is None else GaussianObjectivePerturbation(epsilon, delta)

    def _guarantee(self, conditions: Conditions) -> Guarantee:
        """Return what is guaranteed of the weights as they are published."""
        guarantee = self.mechanism_.guarantee(conditions)
        assert guarantee.epsilon is not None
        cost = SMOOTHING * self._own_epsilon if self.mechanism_.smooths else 0.0
        guarantee = replace(guarantee, epsilon=replace(guarantee.epsilon, value=guarantee.epsilon.value + cost))
        return guarantee if self.random_state is None else _known_seed(guarantee)

    def _trade_off(self, conditions: Conditions) -> TradeOff:
        """Return the guarantee's curve: the mechanism's own, unless publishing a minimiser adds to it."""
        epsilon = self.privacy_.epsilon
        assert epsilon is not None
        own = None if self.mechanism_.smooths else self.mechanism_.trade_off(conditions)
        if own is None:
            return trade_off(epsilon=epsilon.value, delta=self.privacy_.delta, kind=epsilon.kind)
        return replace(own, kind=epsilon.kind)

    def _draws(self) -> SystemDraws:
        """Return where random numbers come from."""
        if self.random_state is None:
            return SystemDraws()
        state = check_random_state(self.random_state)
        bits: Callable[[int], bytes] = np.random.default_rng(state.randint(2**31 - 1, size=4)).bytes
        return SystemDraws(bits)


def clipped(rows: np.ndarray, norm: float) -> np.ndarray:
    """Return rows, longer ones shortened to the norm.

    >>> clipped(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0).round(2).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    shortened: np.ndarray = rows * np.minimum(1.0, norm / np.maximum(lengths, norm))
    return shortened


def _known_seed(guarantee: Guarantee) -> Guarantee:
    """Return the guarantee of a model whose random state can be known: an estimate of what secrecy would prove."""
    assert guarantee.epsilon is not None
    note = "proved only of random numbers that nobody knows, and here they follow from random_state"
    epsilon = replace(guarantee.epsilon, kind="estimate", note=note)
    return replace(
        guarantee,
        epsilon=epsilon,
        assumes=(*guarantee.assumes, KNOWN_SEED),
        reason=f"{guarantee.reason.removesuffix('.')}; {note}.",
    )


def _warn_if_useless(mechanism: Mechanism, conditions: Conditions) -> None:
    """Warn where the noise outweighs whatever the rows can say: an audit refuses that, a search should go on."""
    try:
        mechanism.check(conditions)
    except SeedscopeError as error:
        warnings.warn(str(error), SeedscopeWarning, stacklevel=3)


def _job(rows: np.ndarray, codes: np.ndarray, mechanism: Mechanism, conditions: Conditions) -> Job:
    """Return what training needs: rows of norm 1, no probes, no seed."""
    spare = np.zeros((1, rows.shape[1]))
    return Job(
        fingerprint="", mechanism=mechanism, model=_network(mechanism), classes=conditions.classes,
        norm_bound=conditions.norm_bound, relation=mechanism.relation, root_seed=0, inits=("varied",),
        checkpoints=(mechanism.last_step,), scores_at_checkpoints=False,
        rows=np.concatenate([rows, spare]).astype(mechanism.precision), labels=np.append(codes, 0).astype(float),
        probe_rows=rows[:0], probe_labels=np.zeros(0),
    )  # fmt: skip


def _network(mechanism: Mechanism) -> Any:
    """Return the model that steps are taken on; minimisers need none."""
    if not mechanism.takes_network:
        return None
    from seedscope.models import logistic  # JAX

    require_networks(f"{mechanism.name}, which takes gradient steps,")
    return logistic()


def _coefficients(weights: np.ndarray, features: int, norm: float) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients [logit, feature] for rows as they were given, and intercepts [logit]."""
    if not np.isfinite(weights).all():
        raise SeedscopeError("the weights are not finite; use a larger epsilon.")
    logits = len(weights) // (features + 1)
    return weights[:-logits].reshape(logits, features) / norm, weights[-logits:]
