"""Constraints for pip that pin every package we ask for, and the tests' too, to the oldest version we say we work with.

python .ci/oldest.py >oldest.txt && pip install --constraint oldest.txt --editable '.[test]'
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[.*\])?>=(?P<bound>[\w.]+)")  # constraints name no extras


def oldest(requirement: str) -> str:
    """The pin to a requirement's lower bound, which it must have: `numpy>=2.0` becomes `numpy==2.0`."""
    found = REQUIREMENT.fullmatch(requirement)
    if found is None:
        raise SystemExit(f"{PYPROJECT.name} must say name>=bound for every dependency, got {requirement!r}.")
    return f"{found['name']}=={found['bound']}"


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    print("\n".join(map(oldest, project["dependencies"] + project["optional-dependencies"]["test"])))
