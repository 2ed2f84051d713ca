"""Seedscope: what the randomness of training hides, and what it decides.

The public names, imported only when they are used:

    load, read_table, from_arrays, Dataset                                    data
    logistic, mlp, lenet5, small_cnn, small_vgg, resnet20                     models
    SGD, DPSGD, OutputPerturbation, ObjectivePerturbation, AugmentedOutputPerturbation   mechanisms
    Grid, Records, Norms, Standardised, Unscaled, train, train_until, Ensemble   many re-trainings
    accounting, intrinsic, multiplicity, membership, per_instance, reconstruction   mathematics on arrays
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "seedscope.adaptive": ("train_until",),
    "seedscope.audit": ("Audit", "audit"),
    "seedscope.datasets": ("Dataset", "from_arrays", "load", "read_table"),
    "seedscope.ensemble": ("Ensemble",),
    "seedscope.errors": ("SeedscopeError",),
    "seedscope.grid": ("Grid",),
    "seedscope.mechanisms": (
        "SGD", "DPSGD", "OutputPerturbation", "ObjectivePerturbation", "AugmentedOutputPerturbation",
        "Poisson", "WithoutReplacement", "Shuffled", "FlatClipping", "SmoothClipping", "Chaudhuri", "Diffprivlib062",
    ),
    "seedscope.models": ("logistic", "mlp", "lenet5", "small_cnn", "small_vgg", "tanh_cnn", "tanh_vgg"),
    "seedscope.number": ("Number",),
    "seedscope.optimizers": ("Cosine", "Drops", "Linear", "Momentum", "WarmUp"),
    "seedscope.plan": ("Norms", "Records"),
    "seedscope.resnet": ("resnet20",),
    "seedscope.run": ("train",),
    "seedscope.scaling": ("Standardised", "Unscaled"),
}  # fmt: skip
_MODULES = {
    "accounting": "seedscope.accounting",
    "statistics": "seedscope.statistics",
    "intrinsic": "seedscope.analyses.intrinsic",
    "multiplicity": "seedscope.analyses.multiplicity",
    "membership": "seedscope.analyses.membership",
    "per_instance": "seedscope.analyses.per_instance",
    "reconstruction": "seedscope.analyses.reconstruction",
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}
__all__ = ["__version__", *_NAMES, *_MODULES]


def __getattr__(name: str) -> Any:
    """Return a public name, importing its home first (PEP 562)."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'seedscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
