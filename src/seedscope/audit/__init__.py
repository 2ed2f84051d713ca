"""The audit: all analyses that an ensemble's records permit, put together person by person."""

from seedscope.audit.assembly import Audit, audit
from seedscope.audit.levels import LeftOut, Level

__all__ = ["Audit", "LeftOut", "Level", "audit"]
