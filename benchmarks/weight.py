"""What an installation weighs: every package that Seedscope needs, the heaviest first, and what extras add."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

NAME = re.compile(r"[\w.-]+")
EXTRA = re.compile(r"extra == [\"']([\w-]+)[\"']")
EXTRAS = ("networks", "pictures", "excel", "parquet", "cluster", "onnx")


def needed(name: str, found: set[str], extra: str = "") -> set[str]:
    """Return a package and all that it needs, with one extra of its own, those found before included."""
    if name.lower() in found and not extra:
        return found
    try:
        requirements = distribution(name).requires or []
    except PackageNotFoundError:  # for another system or an older Python, or an extra's that is not installed
        return found
    found.add(name.lower())
    for one in requirements:
        match, only = NAME.match(one), EXTRA.search(one)
        if match and (only is None or only[1] == extra):
            needed(match[0], found)
    return found


def megabytes(name: str) -> float:
    """Return the size of a package's files."""
    places = [Path(str(place.locate())) for place in distribution(name).files or []]
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6


def print_weight(what: str, packages: set[str]) -> None:
    """Print the weight of packages together, and of those above 20 MB."""
    sizes = {name: megabytes(name) for name in packages}
    print(f"{what}, {len(sizes)} packages: {sum(sizes.values()):.0f} MB")
    for name, size in sorted(sizes.items(), key=lambda one: -one[1]):
        if size > 20:
            print(f"  {name}: {size:.0f} MB")


def main() -> None:
    """Print the weight without extras, and what each installed extra adds."""
    basis = needed("seedscope", set())
    print_weight("without extras", basis)
    for extra in EXTRAS:
        further = needed("seedscope", set(basis), extra) - basis
        if further:
            print_weight(f"[{extra}] adds", further)
