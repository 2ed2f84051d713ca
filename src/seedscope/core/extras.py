"""Whether the packages of an extra are there, asked before they are used."""

from __future__ import annotations

from importlib.util import find_spec

from seedscope.core.errors import SeedscopeError

NETWORKS = ("jax", "jaxlib", "equinox", "optax")  # gradient steps and networks: half of what all packages weigh


def has_networks() -> bool:
    """Return whether JAX, and what we use beside it, is installed; it is not loaded."""
    return all(find_spec(package) is not None for package in NETWORKS)


def require_networks(what: str) -> None:
    """Raise, with how to install it, unless JAX is there for whatever trains by gradient steps."""
    if not has_networks():
        raise networks_missing(what)


def networks_missing(what: str) -> SeedscopeError:
    """Return the error for what needs JAX where it is not installed."""
    return SeedscopeError(f"{what} needs JAX, which is not installed: pip install 'seedscope[networks]'.")


def require_pictures() -> None:
    """Raise, with how to install it, unless what draws charts into files is there."""
    if not has_pictures():
        raise SeedscopeError("charts as files need vl-convert: pip install 'seedscope[pictures]'.", argument="charts")


def has_pictures() -> bool:
    """Return whether charts can be drawn into files; pages and notebooks draw theirs in the browser."""
    return find_spec("vl_convert") is not None
