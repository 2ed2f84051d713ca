"""Bytes and durations, read and written."""

from __future__ import annotations

import re

from seedscope.core.errors import SeedscopeError

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_bytes(memory: int | str) -> int:
    """Return a number of bytes, given as such or like "2GiB".

    >>> parse_bytes("2GiB"), parse_bytes("500 MB"), parse_bytes(1000)
    (2147483648, 500000000, 1000)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", str(memory).lower())
    if match is None or not float(match[1]):
        raise SeedscopeError(f"memory must be a number of bytes above 0 or like 2GiB, got {str(memory)[:60]!r}.")
    return int(float(match[1]) * (UNITS | BINARY_UNITS)[match[2] or ""])


def in_bytes(size: float) -> str:
    """Return a number of bytes in words.

    >>> in_bytes(300), in_bytes(5 << 20), in_bytes(3.5 * 2**30)
    ('300 bytes', '5 MiB', '3.5 GiB')
    """
    if size < 2**20:
        return f"{size / 1024:.0f} KiB" if size >= 1024 else f"{size:.0f} bytes"
    return f"{size / 2**20:.0f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"


def in_time(seconds: float) -> str:
    """Return a duration in words.

    >>> in_time(0.2), in_time(12.3), in_time(600), in_time(9000), in_time(200_000)
    ('1 s', '12 s', '10 min', '2.5 h', '2.3 days')
    """
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 100_000 else f"{seconds / 86400:.1f} days"
