"""The audit: all analyses that an ensemble's records permit, put together person by person.

`seedscope.audit` is this package and, because its main function has the same name, can be called like that function.
"""

import sys
from types import ModuleType
from typing import Any

from seedscope.audit.assembly import Audit, audit
from seedscope.audit.levels import LeftOut, Level

__all__ = ["Audit", "LeftOut", "Level", "audit"]


class _CallablePackage(ModuleType):
    """A package that is its main function too: whatever was imported before, `seedscope.audit(…)` works."""

    def __call__(self, *ensembles: Any, **options: Any) -> Audit:
        return audit(*ensembles, **options)


sys.modules[__name__].__class__ = _CallablePackage
