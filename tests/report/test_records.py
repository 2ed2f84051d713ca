"""The page's section about records: what is the same for all, what can be told of a column, and hostile names."""

from __future__ import annotations

from typing import Any

from seedscope.report import render_page
from seedscope.report.schema import check_report
from tests.helpers.report_sample import HOSTILE, sample_report


def told(column: str) -> dict[str, Any]:
    """A column that can be told a little."""
    largest = {"value": 0.6, "kind": "statistical", "lower": 0.55, "upper": 0.7, "confidence": 0.95}
    return {
        "column": column, "people": 50, "releases": 200, "chance": 0.5, "mean": 0.55, "largest": largest,
        "ceiling": 0.8,
    }  # fmt: skip


def report_about(*columns: list[str]) -> dict[str, Any]:
    """A report with these sensitive columns at its levels, and a category with a hostile name."""
    report = sample_report(people=10)
    left = {"value": 0.97, "kind": "estimate", "lower": 0.95, "upper": 0.98, "confidence": 0.95}
    for level, names in zip(report["levels"], columns, strict=False):
        guess = {"column": HOSTILE[0], "level": HOSTILE[1], "prior": 0.5, "at_most": 0.75}
        level["reconstruction"] = {
            "people": 10, "everybody": None, "left_smallest": left, "left_median": left, "guesses": [guess], "note": "",
        }  # fmt: skip
        level["told"] = [told(one) for one in names]
    return report


def test_the_section_shows_chance_attack_and_ceiling_and_a_dash_where_a_level_has_none() -> None:
    report = report_about(["sex", "smoker"], ["smoker"])
    check_report(report)
    page = render_page(report)
    section = page[page.index('id="records"') :].split("</section>")[0]
    assert "sex: 50.0 % by guessing; with the model" in section
    assert "60.0 %" in section
    assert "the guarantee allows 80.0 %" in section
    assert section.count('<td class="said">–</td>') == 1
    assert "97.0 %" in section
    assert not any(one in section for one in HOSTILE[:2])  # escaped


def test_reports_without_it_have_no_such_section() -> None:
    assert 'id="records"' not in render_page(sample_report(people=10))
