"""Networks as frozen data that makes (init, apply) pairs.

Names are imported when they are used: what logistic regression and dense networks are is known without JAX.
"""

from typing import Any

import lazy_loader

from seedscope.core import NETWORKS, networks_missing

_imported, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Return a name of this package, imported now."""
    try:
        return _imported(name)
    except ModuleNotFoundError as error:
        if error.name in NETWORKS:
            raise networks_missing(name) from None
        raise
