"""Seedscope: what the randomness of training hides, and what it decides.

    load, read_table, from_arrays, Dataset                                    data
    logistic, mlp, lenet5, small_cnn, small_vgg, resnet20                     models
    SGD, DPSGD, OutputPerturbation, ObjectivePerturbation, AugmentedOutputPerturbation   mechanisms
    Grid, Records, Norms, Standardised, Unscaled, train, train_until, Ensemble   many re-trainings
    accounting, intrinsic, multiplicity, membership, per_instance, privacy_loss, reconstruction   mathematics on arrays
    audit                                                                     all of it together, and its report

The names and where they live are in `__init__.pyi`; each is imported when it is first used.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
