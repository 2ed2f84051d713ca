"""What a fitted estimator says of people, as scores that decide exactly as its own `predict` does."""

from __future__ import annotations

from typing import Any

import numpy as np

from seedscope.core import SeedscopeError, require

METHODS = ("predict_proba", "decision_function", "predict")
FOLLOW = (
    "DecisionTreeClassifier", "ExtraTreeClassifier", "ExtraTreesClassifier", "GaussianNB", "GradientBoostingClassifier",
    "HistGradientBoostingClassifier", "KNeighborsClassifier", "LogisticRegression", "MLPClassifier",
    "RandomForestClassifier",
)  # fmt: skip
OVER, UNDER = 0.75, 0.25  # scores of decisions that no threshold on the estimator's own scores explains


def require_classifier(estimator: Any) -> None:
    """Raise unless something can be fitted and asked for decisions."""
    from sklearn.base import is_regressor

    name = type(estimator).__name__
    require(
        not isinstance(estimator, type), f"give an instance, {getattr(estimator, '__name__', name)}(), not the class."
    )
    able = hasattr(estimator, "fit") and any(hasattr(estimator, method) for method in METHODS)
    require(able, f"{name} must have fit, and predict_proba, decision_function or predict.")
    regressor = hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator)
    require(not regressor, f"{name} is a regressor: cut the target into classes, such as above and below a limit.")


def fitted_scores(estimator: Any, table: Any, classes: np.ndarray) -> np.ndarray:
    """Return scores [row] of the second class, or [row, class] beyond two, whose decisions are the estimator's own.

    Probabilities where the estimator has them, margins squashed to (0, 1) where it has those, else decisions of 0
    and 1. Where `predict` has a threshold of its own, scores are stretched so that it comes to lie at one half.
    """
    asked = hasattr(estimator, "predict") and not _follows_its_scores(estimator)
    decided = _codes(estimator.predict(table), classes) if asked else None
    if hasattr(estimator, "predict_proba"):
        scores = _all_classes(np.asarray(estimator.predict_proba(table), float), estimator, classes)
    elif hasattr(estimator, "decision_function"):
        scores = _squashed(np.asarray(estimator.decision_function(table), float), estimator, classes)
    else:
        scores = np.eye(len(classes))[decided]
    return _as_decided(scores[:, 1] if len(classes) == 2 else scores, decided)


def _follows_its_scores(estimator: Any) -> bool:
    """Whether `predict` is known to take the most probable class, so that asking again would only cost time."""
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    return type(last).__module__.startswith("sklearn.") and type(last).__name__ in FOLLOW


def _codes(values: Any, classes: np.ndarray) -> np.ndarray:
    """Return class numbers of decisions."""
    decided = np.asarray(values).reshape(-1)
    places = np.clip(np.searchsorted(classes, decided.astype(classes.dtype)), 0, len(classes) - 1)
    foreign = decided[classes[places] != decided.astype(classes.dtype)]
    require(len(foreign) == 0, f"predict gave {foreign[:1].tolist()}, which is none of the labels of y.")
    return places


def _all_classes(scores: np.ndarray, estimator: Any, classes: np.ndarray) -> np.ndarray:
    """Return scores [row, class] of all classes: a class that a sample of the rows lacked gets 0."""
    if scores.ndim == 1:
        scores = np.column_stack([1 - scores, scores])
    known = np.asarray(getattr(estimator, "classes_", classes))
    if len(known) == len(classes):
        return scores
    whole = np.zeros((len(scores), len(classes)))
    whole[:, np.searchsorted(classes, known.astype(classes.dtype))] = scores
    return whole


def _squashed(margins: np.ndarray, estimator: Any, classes: np.ndarray) -> np.ndarray:
    """Return margins as scores [row, class]: logistic for two classes, softmax beyond."""
    from scipy.special import expit, softmax

    if margins.ndim == 1:
        return _all_classes(expit(margins), estimator, classes)
    if margins.shape[1] != len(np.asarray(getattr(estimator, "classes_", classes))):
        raise SeedscopeError("decision_function must give a margin for each class; use decision_function_shape='ovr'.")
    return _all_classes(softmax(margins, axis=1), estimator, classes)


def _as_decided(scores: np.ndarray, decided: np.ndarray | None) -> np.ndarray:
    """Return the scores, mended where they would decide otherwise than the estimator itself.

    >>> _as_decided(np.array([0.1, 0.3, 0.6]), np.array([0, 1, 1])).round(2).tolist()
    [0.25, 0.56, 0.75]
    """
    if decided is None:
        return scores
    if scores.ndim == 2:
        wrong = scores.argmax(1) != decided
        return np.where(wrong[:, None], np.eye(scores.shape[1])[decided], scores)
    if np.array_equal(scores > 0.5, decided == 1):
        return scores
    low, high = scores[decided == 0].max(initial=0.0), scores[decided == 1].min(initial=1.0)
    if low < high:  # a threshold other than one half
        threshold = (low + high) / 2
        above = 0.5 + (scores - threshold) / (2 - 2 * threshold)
        stretched: np.ndarray = np.where(scores <= threshold, scores / (2 * threshold), above)
        return stretched
    wrong = (scores > 0.5) != (decided == 1)
    return np.where(wrong, np.where(decided == 1, OVER, UNDER), scores)
