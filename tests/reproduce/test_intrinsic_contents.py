"""The table of the items of IP1 and IP2: it is the page's, names what exists, and leaves no table or figure out."""

from pathlib import Path

import pytest

from seedscope import accounting, intrinsic, membership
from seedscope.reproduce import intrinsic as study
from seedscope.reproduce.intrinsic import tables
from seedscope.reproduce.intrinsic.contents import ITEMS, contents_table

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_table_that_is_printed() -> None:
    assert contents_table() in (ROOT / "docs" / "intrinsic.md").read_text(encoding="utf-8")


def test_every_function_row_and_chart_that_it_names_exists() -> None:
    rooms = (intrinsic, membership, accounting)
    functions = {name for item in ITEMS for name in item.functions}
    assert {name for name in functions if not any(hasattr(room, name) for room in rooms)} == set()
    assert {place for item in ITEMS for place in item.rows} <= set(tables.PLACES)
    source = Path(study.__file__).read_text(encoding="utf-8")
    assert {name for item in ITEMS for name in item.charts if f'"{name}"' not in source} == set()


def test_what_is_not_shown_says_why() -> None:
    assert [item.name for item in ITEMS if not item.shown and not item.differs] == []


@pytest.mark.parametrize(
    ("paper", "numbered"), [("IP1", {"Table": 7, "Figure": 9}), ("IP2", {"Table": 8, "Figure": 11})]
)
def test_every_table_and_figure_is_an_item(paper: str, numbered: dict[str, int]) -> None:
    expected = {f"{paper} {kind} {number}" for kind, count in numbered.items() for number in range(1, count + 1)}
    assert expected <= {item.name for item in ITEMS}
