"""Networks as frozen data that makes (init, apply) pairs.

Names are imported when they are used: what logistic regression and dense networks are is known without JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
