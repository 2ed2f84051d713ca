"""Reports that earlier versions wrote are still read, shown, judged, filed and carded."""

from __future__ import annotations

import json
from pathlib import Path

from seedscope.auditing import judge_report
from seedscope.report import model_card, read_report, render_page, render_summary
from seedscope.report.dossier import as_markdown, as_page, dossier
from seedscope.report.older import without_old_promises

OLD = Path(__file__).with_name("report-before-policies.json")


def test_a_report_from_before_policies_is_read_and_shown() -> None:
    report = read_report(OLD)
    assert "checks" not in report["verdict"]
    page = render_page(report)
    assert report["verdict"]["headline"] in page
    assert "Why this verdict" not in page
    assert report["verdict"]["headline"] in render_summary(report)


def test_a_report_from_before_policies_is_not_released_by_its_mean_over_people() -> None:
    found = judge_report(read_report(OLD))
    assert found.tone == "change"  # a third of its decisions are arbitrary
    statuses = {one.rule.quantity: one.status for one in found.checks}
    assert statuses["advantage"] == "open"
    assert statuses["arbitrary"] == "failed"


def test_a_report_from_before_policies_has_a_dossier_and_a_card() -> None:
    report = read_report(OLD)
    sections = dossier(report, "0")
    assert "Judged before there were policies." in as_markdown(sections, report["title"])
    assert "<!doctype html>" in as_page(sections, report["title"])
    card = model_card(report, 2)
    assert "| ε | 2 (estimate) |" in card
    assert "differential-privacy" not in card.partition("---\n\n")[0]


def test_what_an_older_version_promised_wrongly_is_not_repeated() -> None:
    written, report = json.loads(OLD.read_text()), read_report(OLD)
    assert written["levels"][2]["guarantee"]["epsilon"]["kind"] == "proved"
    assert [level["guarantee"]["epsilon"]["kind"] for level in report["levels"]] == ["estimate"] * 3
    page = render_page(report)
    assert "odds of any outcome" not in page
    assert "Privacy guaranteed" not in page
    assert "Made by an earlier version" in page
    found = judge_report(report)
    assert "35.0 % of the people" in found.headline
    assert without_old_promises(report) is report  # once is enough
