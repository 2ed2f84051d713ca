"""The user's own models: estimators, training functions, torch runs, or only their predictions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
