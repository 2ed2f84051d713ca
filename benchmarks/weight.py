"""What an installation weighs: every package that Seedscope needs without extras, the heaviest first."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

NAME = re.compile(r"[\w.-]+")


def needed(name: str, found: set[str]) -> set[str]:
    """Return a package and all that it needs without extras, those found before included."""
    if name.lower() in found:
        return found
    try:
        requirements = distribution(name).requires or []
    except PackageNotFoundError:  # for another system or an older Python
        return found
    found.add(name.lower())
    for one in requirements:
        match = NAME.match(one)
        if match and "extra ==" not in one:
            needed(match[0], found)
    return found


def megabytes(name: str) -> float:
    """Return the size of a package's files."""
    places = [Path(str(place.locate())) for place in distribution(name).files or []]
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6


def main() -> None:
    """Print the whole weight, and the packages above 20 MB."""
    sizes = {name: megabytes(name) for name in needed("seedscope", set())}
    print(f"all {len(sizes)} packages: {sum(sizes.values()):.0f} MB")
    for name, size in sorted(sizes.items(), key=lambda one: -one[1]):
        if size > 20:
            print(f"  {name}: {size:.0f} MB")
