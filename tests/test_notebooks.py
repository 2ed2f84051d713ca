"""The notebooks run from top to bottom, and show what they computed."""

from __future__ import annotations

import importlib.util
import json
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def building() -> ModuleType:
    """Return the part of the site's building that runs notebooks."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "building" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NOTEBOOKS = building().notebooks()


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs_and_shows_what_it_computed(path: Path) -> None:
    needs = json.loads(path.read_text())["metadata"].get("seedscope", {}).get("needs")
    if needs and find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    shown = building().page(path)
    assert shown.count("```text") >= 2
    assert "Not run" not in shown


def test_the_four_notebooks_are_in_the_menu_and_hold_no_output() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    assert {path.stem for path in NOTEBOOKS} == {"forest", "opacus", "pipeline", "predictions"}
    for path in NOTEBOOKS:
        assert f"notebooks/{path.stem}.md" in menu
        cells: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
        assert not any(cell.get("outputs") for cell in cells)


def test_a_cell_that_fails_stops_the_building() -> None:
    with pytest.raises(ZeroDivisionError):
        building().run([("1 / 0", "code")], "failing")


def test_what_a_cell_prints_and_its_last_value_are_shown() -> None:
    cells = [("# Title", "markdown"), ("a = 2\nprint('printed')\na + 1", "code"), ("b = a", "code")]
    shown = ["# Title", "``` { .python }\na = 2\nprint('printed')\na + 1\n```\n\n```text\nprinted\n3\n```"]
    assert building().run(cells, "some") == [*shown, "``` { .python }\nb = a\n```"]
