"""What is randomised when a model is trained, and which guarantee that is proved to give: frozen data that answers.

SGD                            shuffled epochs; random order and initial weights, no proved guarantee
DPSGD                          clipped gradients plus Gaussian noise
OutputPerturbation             the regularised minimiser plus Gaussian noise
ObjectivePerturbation          the minimiser of a randomly tilted objective: a pure ε
GaussianObjectivePerturbation  the same with a Gaussian tilt: (ε, δ)
AugmentedOutputPerturbation    SGD plus only the noise that its own randomness lacks (IP1 Alg. 1)
OwnModel                       the user's own training, or models that were trained elsewhere
"""

from seedscope.mechanisms.augmented import AugmentedOutputPerturbation
from seedscope.mechanisms.base import Load, Mechanism, Recordable, mechanism_from
from seedscope.mechanisms.dpsgd import DPSGD
from seedscope.mechanisms.gaussian_objective import GaussianObjectivePerturbation
from seedscope.mechanisms.guarantees import NOT_COVERED, SIZE_SEEN, Conditions, Guarantee, group_privacy, only_if
from seedscope.mechanisms.minimisers import MinimiserMechanism
from seedscope.mechanisms.objective import Calibration, Chaudhuri, Diffprivlib062, ObjectivePerturbation, OneFactor
from seedscope.mechanisms.output import OutputPerturbation
from seedscope.mechanisms.own_model import Cargo, OwnModel
from seedscope.mechanisms.released import NoisyMinimum, NoisyObjective, NoisyRegression, NoisySums, PlainSteps
from seedscope.mechanisms.sgd import SGD
from seedscope.mechanisms.steps import StepMechanism
from seedscope.mechanisms.tilted import TiltedMechanism

__all__ = [
    "DPSGD",
    "NOT_COVERED",
    "SGD",
    "SIZE_SEEN",
    "AugmentedOutputPerturbation",
    "Calibration",
    "Cargo",
    "Chaudhuri",
    "Conditions",
    "Diffprivlib062",
    "GaussianObjectivePerturbation",
    "Guarantee",
    "Load",
    "Mechanism",
    "MinimiserMechanism",
    "NoisyMinimum",
    "NoisyObjective",
    "NoisyRegression",
    "NoisySums",
    "ObjectivePerturbation",
    "OneFactor",
    "OutputPerturbation",
    "OwnModel",
    "PlainSteps",
    "Recordable",
    "StepMechanism",
    "TiltedMechanism",
    "group_privacy",
    "mechanism_from",
    "only_if",
]
