"""What this machine has: memory, and the parts of a processor that can change the last bit of a sum."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path

UNKNOWN = 8 << 30  # bytes, where nobody can tell
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container
VECTORS = re.compile(r"(avx|fma|sse4|amx|asimd|sve|neon)\w*")


@cache
def machine_memory() -> int:
    """Return the bytes of memory that this process may use at most: the machine's, or its container's."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not a POSIX system
        return UNKNOWN
    return min([whole, *(int(text) for text in map(_text, LIMITS) if text.strip().isdecimal())])


def available_memory() -> int:
    """Return the bytes of memory that are free now, as the system sees it; all there are where it does not say."""
    match = re.search(r"MemAvailable:\s+(\d+) kB", _text("/proc/meminfo"))
    return min(machine_memory(), int(match[1]) << 10) if match else machine_memory()


@cache
def processor() -> dict[str, str]:
    """Return the processor's name and the vector instructions that compilers choose from."""
    said = _text("/proc/cpuinfo")
    name = re.search(r"model name\s*:\s*(.+)", said)
    flags = re.search(r"(?:flags|Features)\s*:\s*(.+)", said)
    vectors = sorted(flag for flag in (flags[1].split() if flags else ()) if VECTORS.fullmatch(flag))
    return {"cpu": name[1].strip() if name else platform.processor(), "vectors": " ".join(vectors)}


def _text(path: str) -> str:
    """Return what a file of the system says, nothing where there is none."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""
