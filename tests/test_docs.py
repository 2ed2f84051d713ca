"""What the docs say runs: every example in a docstring, every Python block of a page."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import joblib
import pytest

from tests.architecture import SOURCES
from tests.helpers.tables import patients, written

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(r"^\s+>>> ", re.MULTILINE)  # of a function, or of a method
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = {"seedscope.execution.cluster": "distributed", "seedscope.integrations.torch": "torch"}  # module → its extra
NEEDS_PAPER_DATA = re.compile(r'ss\.load\("(mnist|adult|cifar|forest|mammography|credit)')


def module_name(file: Path) -> str:
    """Return the dotted name of a file of the package."""
    parts = file.relative_to(SOURCES.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def with_examples() -> list[str]:
    """Return the modules that have an example in a docstring."""
    return sorted(module_name(one) for one in SOURCES.rglob("*.py") if EXAMPLE.search(one.read_text()))


def blocks(page: Path) -> list[str]:
    """Return the Python blocks of a page, in their order."""
    return BLOCK.findall(page.read_text())


def marked(page: Path) -> Any:
    """Return a page as a parameter, marked where one of its blocks loads real data."""
    real = any(NEEDS_PAPER_DATA.search(one) for one in blocks(page))
    return pytest.param(page, id=page.stem, marks=[pytest.mark.paper_data] if real else [])


@pytest.mark.parametrize("name", with_examples())
def test_the_examples_in_docstrings_give_what_they_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.optimised
@pytest.mark.parametrize("page", [marked(page) for page in PAGES if blocks(page)])
def test_the_blocks_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, patients(300).rename(columns={"sick": "outcome"}), "patients.csv")
    names: dict[str, Any] = {"__name__": "a_page"}
    with joblib.parallel_config("threading", n_jobs=1):  # a worker process would compile everything again
        for number, block in enumerate(blocks(page), 1):
            exec(compile(block, f"{page.name}, block {number}", "exec"), names)


def test_every_block_of_python_is_found() -> None:
    fences = [
        line for page in PAGES for line in page.read_text().splitlines() if re.match(r"\s*```(py|python)\b", line)
    ]
    assert len(fences) == sum(len(blocks(page)) for page in PAGES), "a block is indented, or says `py`"


def test_every_page_is_reached_from_the_sites_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES[1:]]
    assert [page for page in pages if f"- {page}\n" not in menu] == []


def test_the_site_loads_nothing_from_elsewhere() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in menu  # else the theme's come from another host
    assert "- offline" not in menu  # its search loads a script from another host


def test_what_builds_the_site_is_part_of_the_project() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    builders = re.findall(r"docs/building/\w+\.py", menu)
    assert len(builders) >= 2
    assert [builder for builder in builders if not (ROOT / builder).is_file()] == []
