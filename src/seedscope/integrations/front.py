"""The audit as users call it: of ensembles, of an estimator with its data, or of a training function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seedscope.auditing import Audit
from seedscope.auditing import audit as audit_ensembles
from seedscope.core import require
from seedscope.datasets import Dataset
from seedscope.storage import Ensemble


def audit(
    *given: Any,
    data: Dataset | None = None,
    confidence: float = 0.95,
    command: str = "",
    **options: Any,
) -> Audit:
    """Return the audit of ensembles, of an estimator, or of a training function.

        audit(ensemble)                            one privacy level; nothing is trained
        audit(ensemble_at_half, ensemble_at_one)   several privacy levels of the same data
        audit((base, with_neighbours))             many seeds on the base, fewer with neighbours
        audit(estimator, X, y, groups=…)           any classifier with `fit` and `predict_proba` or the like
        audit(train, y=labels)                     a function `train(indices, seed)` → scores of all rows

    Runs every analysis that the records permit and says why it left another out.

    Args:
        given: one ensemble, or the name of the folder where it is stored, for each privacy level; or a user's own
            model with its rows and labels.
        data: what ensembles were trained on, for the bounds on reconstruction; the rest needs no rows.
        confidence: of all intervals.
        command: how to run it again, for the report.
        options: of a user's own model: `seedscope.integrations.audit_own` says which (seeds, neighbours, store, …).

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = audit(DecisionTreeClassifier(max_features=3), X, y, seeds=10, neighbours=0)
    >>> found.levels[0].multiplicity.models
    10
    """
    if not given or all(isinstance(item, Ensemble | str | Path | tuple) for item in given):
        return audit_ensembles(*given, data=data, confidence=confidence, command=command, **options)
    model = given[0]
    rule = "audit takes ensembles one by one, an estimator with X and y, or a training function"
    own = hasattr(model, "fit") or callable(model)
    require(own, f"{rule}; got {type(model).__name__}, which is none: train(data, mechanism) gives an ensemble.")
    from seedscope.integrations.own_audit import audit_own  # start-up

    return audit_own(*given, confidence=confidence, command=command, **options)
