"""Charts: with data in a notebook, without any text of the report on the page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from seedscope.core.errors import SeedscopeError
from seedscope.report import rows
from seedscope.report.charts import charts, specifications
from tests.helpers.report_sample import HOSTILE, changed, hostile_report, public_report, sample_report, with_both_sides

REPORT = sample_report(people=50)
NAMES = ["people", "distribution", "trade_off", "attack", "privacy", "groups"]


def emptied(report: dict[str, Any], *columns: str) -> dict[str, Any]:
    """Return the report with these people's columns all null."""
    for level in range(len(report["levels"])):
        for column in columns:
            report = changed(report, f"people.levels.{level}.{column}", [None] * report["people"]["shown"])
    return report


def test_a_full_report_has_all_charts_in_the_pages_order() -> None:
    assert list(charts(REPORT)) == NAMES
    assert list(specifications(REPORT)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_chart_is_valid_and_saves_as_a_picture(name: str, tmp_path: Path) -> None:
    chart = charts(REPORT, level=2)[name]
    chart.save(str(tmp_path / "chart.svg"))
    chart.save(str(tmp_path / "chart.png"))
    assert (tmp_path / "chart.svg").read_text(encoding="utf-8").count("<path") > 5
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_a_chart_without_numbers_is_left_out() -> None:
    without = emptied(REPORT, "membership_advantage", "epsilon_lower", "epsilon_upper")
    assert list(charts(without)) == ["distribution", "trade_off", "attack", "groups"]
    assert "trade_off" not in charts(sample_report(people=10, epsilons=(1.0,)))
    assert charts(public_report(REPORT)) == {}


def test_zeros_of_an_attack_give_way_to_both_sides_of_the_best_one() -> None:
    sided = with_both_sides(REPORT)
    assert list(charts(sided)) == [name if name != "privacy" else "exposure" for name in NAMES]
    people = rows.people_rows(sided, 1)
    shown = rows.sided_rows(people)
    assert {row["person"] for row in shown} == {row["person"] for row in people if row["part"] == "train"}
    assert [row["exposure"] for row in shown] == sorted((row["exposure"] for row in shown), reverse=True)
    assert all(row["advantage_lower"] < row["exposure"] < row["advantage_upper"] for row in shown)
    assert [row["advantage"] for row in rows.allowed_rows(sided)] == [0.9] * 3
    attacked = changed(sided, "people.levels.0.epsilon_lower.0", 0.4)
    assert "privacy" in charts(attacked)


def test_both_sides_save_as_a_picture(tmp_path: Path) -> None:
    charts(with_both_sides(REPORT), level=2)["exposure"].save(str(tmp_path / "chart.svg"))
    assert (tmp_path / "chart.svg").read_text(encoding="utf-8").count("<path") > 5


def test_the_level_decides_whose_numbers_are_drawn() -> None:
    for level in range(3):
        data = charts(REPORT, level)["people"].to_dict()["layer"][0]["data"]["values"]
        assert [row["disagreement"] for row in data] == REPORT["people"]["levels"][level]["disagreement"]


@pytest.mark.parametrize("level", [-1, 3])
def test_a_level_that_does_not_exist_is_refused(level: int) -> None:
    with pytest.raises(SeedscopeError, match="from 0 to 2"):
        charts(REPORT, level)


def test_the_pages_specifications_hold_no_text_of_the_report() -> None:
    text = json.dumps(specifications(hostile_report()), ensure_ascii=False)
    assert not any(hostile[:30] in text for hostile in HOSTILE)
    assert text == json.dumps(specifications(sample_report(people=60)), ensure_ascii=False)


def test_axes_do_not_move_between_levels() -> None:
    first, last = (charts(REPORT, level)["people"].to_dict()["layer"][0]["encoding"] for level in (0, 2))
    assert first["x"] == last["x"]
    assert first["y"] == last["y"]


def test_the_exposure_axis_holds_what_is_drawn_and_no_more() -> None:
    report = with_both_sides(sample_report(people=20))
    for columns in report["people"]["levels"]:
        columns["membership_advantage"] = [-0.5 for _ in columns["membership_advantage"]]  # our attack's, not drawn
    low, high = charts(report)["people"].to_dict()["layer"][0]["encoding"]["y"]["scale"]["domain"]
    shown = [row["exposure"] for level in range(3) for row in rows.people_rows(report, level)]
    assert (low, high) == (0.0, max(0.1, *(one for one in shown if one is not None)))


def test_people_without_any_bound_are_not_in_the_privacy_chart() -> None:
    people = rows.people_rows(REPORT, 0)
    bounded = rows.privacy_rows(people)
    assert {row["person"] for row in bounded} == {row["person"] for row in people if row["epsilon_lower"] is not None}
    shown = [row["epsilon_lower"] for row in bounded]
    assert shown == sorted(shown, reverse=True)
    assert [row["place"] for row in bounded] == list(range(1, len(bounded) + 1))


def test_a_rate_of_zero_is_not_on_a_logarithmic_axis() -> None:
    report = changed(REPORT, "levels.0.roc.false_positive_rate.0", 0.0)
    assert all(row["false_positive"] > 0 for row in rows.roc_rows(report))
    assert len(rows.roc_rows(report)) == len(rows.roc_rows(REPORT)) - 1


def test_group_names_carry_the_group_only_where_there_are_several() -> None:
    assert rows.group_names(REPORT)[0] == "sex: female"
    assert rows.group_names({**REPORT, "groups": REPORT["groups"][:1]}) == ["female", "male"]


def test_people_of_the_test_part_are_drawn_with_an_area(tmp_path: Path) -> None:
    report = json.loads(json.dumps(REPORT))
    report["people"]["part"] = ["test"] * len(report["people"]["part"])
    charts(report)["people"].save(str(tmp_path / "chart.svg"))
    picture = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    drawn = re.findall(r'<path [^>]*\bd="([^"]*)" fill="#8d99a8"', picture)
    assert len(drawn) > 5
    assert all(one.strip().endswith(("Z", "z")) for one in drawn)  # a filled line without an area is invisible
