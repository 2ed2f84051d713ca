"""What makes a plan itself: its checksum, in which entries two differ, and the software that can change a bit."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from typing import Any

from seedscope.core import has_networks, processor

NUMERICAL = ("machine", "jax", "jaxlib", "equinox", "numpy", "scipy")
FLAGS = ("XLA_FLAGS", "JAX_PLATFORMS", "JAX_DISABLE_MOST_OPTIMIZATIONS")


@cache
def software_versions() -> dict[str, str]:
    """Return the versions of what can change a trained bit; JAX is not always installed."""
    import platform
    from importlib.metadata import version

    always, networks = ("numpy", "scipy", "xarray", "zarr"), ("jax", "jaxlib", "equinox")
    packages = ("seedscope", *(networks if has_networks() else ()), *always)
    return {"python": platform.python_version(), "machine": platform.machine()} | {
        package: version(package) for package in packages
    }


@cache
def environment() -> dict[str, str]:
    """Return what can change a trained bit and cannot be set: versions, processor, kernels, the compiler's flags."""
    from threadpoolctl import threadpool_info

    versions = {name: version for name, version in software_versions().items() if name in NUMERICAL}
    kernels = {str(library.get("architecture")) for library in threadpool_info() if library.get("user_api") == "blas"}
    flags = {name: os.environ[name] for name in FLAGS if os.environ.get(name)}
    return versions | processor() | {"blas": " ".join(sorted(kernels))} | flags


def fingerprint_of(identity: dict[str, Any]) -> str:
    """Return the checksum of a plan's identity."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[str]:
    """Return a phrase for each entry in which two identities differ.

    >>> differences({"mechanism": {"steps": 10}}, {"mechanism": {"steps": 20}})
    ['mechanism.steps is 10, not 20']
    """
    differing = []
    for name in sorted(old.keys() | new.keys()):
        mine, theirs = new.get(name), old.get(name)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            differing += differences(theirs, mine, f"{prefix}{name}.")
        elif mine != theirs:
            differing.append(f"{prefix}{name} is {theirs}, not {mine}")
    return differing
