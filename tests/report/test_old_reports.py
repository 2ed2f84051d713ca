"""Reports that earlier versions wrote are still read, shown, judged, filed and carded."""

from __future__ import annotations

from pathlib import Path

from seedscope.auditing import judge_report
from seedscope.report import model_card, read_report, render_page, render_summary
from seedscope.report.dossier import as_markdown, as_page, dossier

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
    assert "| ε | 2 (proved) |" in model_card(report, 2)
