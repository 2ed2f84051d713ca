"""The best possible attack on each person, computed instead of tried: everybody's privacy loss.

P is the law of what is released on the data, Q_i without person i (or with another in their place). From
`L_i = ln dP/dQ_i` at what was released follows what *every* attack achieves at most, and the likelihood-ratio attack
achieves it: its advantage is `E (1 − e^−L)₊`, over base models alone. No model without anybody is trained.

    everybody(ensemble)          from what was recorded while training, or exactly where that is known
    from_losses(losses)          from anybody's losses [run, person]
    output_perturbation(…)       exactly, for everybody
    redrawn(norms, …)            estimated from gradient norms of few runs, noise and batches drawn anew
    objective_perturbation(…)    losses from released weights, by the density of what is released
"""

from seedscope.analyses.privacy_loss.exact import ExactLoss, output_perturbation
from seedscope.analyses.privacy_loss.from_ensemble import ATTACKERS, claimed_curve, everybody, everybody_redrawn
from seedscope.analyses.privacy_loss.objective import objective_perturbation
from seedscope.analyses.privacy_loss.redrawn import redrawn
from seedscope.analyses.privacy_loss.result import PrivacyLoss, Sides
from seedscope.analyses.privacy_loss.sampled import LEAST_RUNS, SampledLoss, SelfTest, from_losses

__all__ = [
    "ATTACKERS",
    "LEAST_RUNS",
    "ExactLoss",
    "PrivacyLoss",
    "SampledLoss",
    "SelfTest",
    "Sides",
    "claimed_curve",
    "everybody",
    "everybody_redrawn",
    "from_losses",
    "objective_perturbation",
    "output_perturbation",
    "redrawn",
]
