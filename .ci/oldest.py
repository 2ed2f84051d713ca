"""Constraints for pip that pin every package we ask for, and the tests' too, to the oldest version we say we work with.

python .ci/oldest.py >oldest.txt && pip install --constraint oldest.txt --editable '.[test]'
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[.*\])?>=(?P<bound>[\w.]+)")  # constraints name no extras
OUR_EXTRAS = re.compile(r"seedscope\[(?P<extras>[\w,-]+)\]")


def oldest(requirement: str) -> str:
    """The pin to a requirement's lower bound, which it must have: `numpy>=2.0` becomes `numpy==2.0`."""
    found = REQUIREMENT.fullmatch(requirement)
    if found is None:
        raise SystemExit(f"{PYPROJECT.name} must say name>=bound for every dependency, got {requirement!r}.")
    return f"{found['name']}=={found['bound']}"


def requirements(extra: str, extras: dict[str, list[str]]) -> Iterator[str]:
    """Yield what an extra asks for, and what the extras of ours that it names do."""
    for requirement in extras[extra]:
        ours = OUR_EXTRAS.fullmatch(requirement)
        if ours is None:
            yield requirement
        else:
            for name in ours["extras"].split(","):
                yield from requirements(name, extras)


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    tests = requirements("test", project["optional-dependencies"])
    print("\n".join(map(oldest, [*project["dependencies"], *tests])))
