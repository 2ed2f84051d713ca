"""The table of GLA's items: it is the page's, names what exists, and points at rows that the study has."""

from pathlib import Path

from seedscope import per_instance
from seedscope.reproduce.per_instance import tables
from seedscope.reproduce.per_instance.contents import ITEMS, contents_table

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_table_that_is_printed() -> None:
    assert contents_table() in (ROOT / "docs" / "per-instance.md").read_text(encoding="utf-8")


def test_everything_that_it_names_exists() -> None:
    missing = [name for item in ITEMS for name in item.functions if not hasattr(per_instance, name)]
    assert missing == []
    source = Path(tables.__file__).read_text(encoding="utf-8")
    assert [item.place for item in ITEMS if item.place and f'"{item.place}"' not in source] == []


def test_every_figure_from_1_to_35_is_an_item() -> None:
    named = " ".join(item.name.replace("–", " to ") for item in ITEMS if item.name.startswith("Figure"))
    ranges = {number for start, end in ((6, 9), (16, 19)) for number in range(start, end + 1)}
    numbers = {int(word.strip(",")) for word in named.split() if word.strip(",").isdigit()} | ranges
    assert numbers >= set(range(1, 36))
