from . import torch as torch
from .forests import tells_of_everybody as tells_of_everybody
from .front import audit as audit
from .loading import load_estimator as load_estimator
from .loading import named_set as named_set
from .own_audit import audit_own as audit_own
from .predictions import read_scores as read_scores
from .private_regression import PrivateLogisticRegression as PrivateLogisticRegression
