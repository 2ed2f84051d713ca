"""Models of scikit-learn, or of anybody who speaks its protocol: audited, and one that is private from the start."""

from seedscope.integrations.front import audit
from seedscope.integrations.loading import load_estimator
from seedscope.integrations.private_regression import PrivateLogisticRegression

__all__ = ["PrivateLogisticRegression", "audit", "load_estimator"]
