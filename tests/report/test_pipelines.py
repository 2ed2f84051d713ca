"""The verdict for pipelines: JUnit and SARIF that say the same as the report."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

from seedscope.report import junit, sarif
from tests.helpers.report_sample import HOSTILE, sample_report

STATUSES = ("passed", "failed", "open", "look")


def judged(alarms: list[str] | None = None, text: str = "A sentence.") -> dict[str, Any]:
    """Return a report with one rule of each status."""
    report = sample_report(people=4)
    checks = [
        {"quantity": one, "title": one, "rule": f"{one}: at most 1", "status": one, "sentence": text, "source": text}
        for one in STATUSES
    ]
    report["verdict"] |= {"checks": checks, "level": 1}
    return report | {"alarms": alarms or []}


def test_every_rule_is_a_test_and_only_what_is_kept_passes() -> None:
    suite = ElementTree.fromstring(junit(judged(["ε = 1: beaten."])))[0]
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["5", "3", "1"]
    assert [len(test) for test in suite] == [1, 0, 1, 1, 1]
    assert {test.get("classname") for test in suite} == {"seedscope.ε = 1"}


def test_every_rule_that_is_not_kept_is_a_finding_at_a_file() -> None:
    log = json.loads(sarif(judged(["ε = 1: beaten."]), "reports/report.json"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert [(one["ruleId"], one["level"]) for one in run["results"]] == [
        ("training-bug", "error"), ("failed", "error"), ("open", "warning"), ("look", "warning"),
    ]  # fmt: skip
    for one in run["results"]:
        assert one["ruleId"] in known
        assert one["message"]["text"]
        (place,) = one["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] == "reports/report.json"
    assert len({json.dumps(one["partialFingerprints"]) for one in run["results"]}) == 4


def test_hostile_texts_stay_texts() -> None:
    for text in (*HOSTILE, "\x01\ud800\ufffe"):
        report = judged([text], text) | {"title": text}
        suite = ElementTree.fromstring(junit(report))[0]
        assert len(suite) == 5
        assert json.loads(sarif(report))["runs"][0]["results"][0]["message"]["text"] == text


def test_a_report_from_before_policies_has_no_rules_to_fail() -> None:
    assert ElementTree.fromstring(junit(sample_report(people=4)))[0].get("tests") == "0"
    assert json.loads(sarif(sample_report(people=4)))["runs"][0]["results"] == []
