"""A verdict for pipelines: JUnit XML that build servers show as tests, SARIF that code hosts show as findings.

Both have one entry for every rule of the policy, and one for every claim that an attack beats. A rule
that is not shown to hold has not passed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from seedscope.core import cannot_write, write_durably

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
UNSAFE = re.compile("[^\\t\\n\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")  # what XML cannot hold
BUG = "training-bug"
LEVELS = {"failed": "error", "open": "warning", "look": "warning"}


def junit(report: Mapping[str, Any]) -> str:
    """Return the report's verdict as JUnit XML: a test for each rule, an error for each bug in the training."""
    verdict, alarms = report["verdict"], report.get("alarms", [])
    checks = verdict.get("checks", [])
    unkept = [check for check in checks if check["status"] != "passed"]
    counts = {"tests": len(checks) + len(alarms), "failures": len(unkept), "errors": len(alarms), "skipped": 0}
    attributes = {name: str(count) for name, count in counts.items()}
    root = ElementTree.Element("testsuites", {"name": "seedscope", **attributes})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _clean(report["title"]), **attributes})
    for alarm in alarms:
        _problem(_test(suite, report, BUG), "error", BUG, alarm)
    for check in checks:
        test = _test(suite, report, check["rule"])
        if check["status"] != "passed":
            _problem(test, "failure", check["status"], _said(check))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _test(suite: ElementTree.Element, report: Mapping[str, Any], name: str) -> ElementTree.Element:
    """Return a new test of a suite."""
    label = report["levels"][report["verdict"].get("level", 0)]["label"]
    return ElementTree.SubElement(suite, "testcase", {"classname": f"seedscope.{_clean(label)}", "name": _clean(name)})


def _problem(test: ElementTree.Element, tag: str, kind: str, sentence: str) -> None:
    """Add what is wrong to a test."""
    problem = ElementTree.SubElement(test, tag, {"type": kind, "message": _clean(sentence)})
    problem.text = _clean(sentence)


def _said(check: Mapping[str, Any]) -> str:
    """Return what is wrong with a rule that is not kept, and what helps."""
    return " ".join([check["sentence"], *check.get("ways_out", [])])


def _clean(text: str) -> str:
    """Return a text without the control characters that XML cannot hold."""
    return UNSAFE.sub("", text)


def sarif(report: Mapping[str, Any], about: str = "report.json") -> str:
    """Return the report's verdict as SARIF 2.1.0: a result for each rule that is not kept, and for each bug.

    Args:
        report: as the schema describes it.
        about: the file that the results are shown at, relative to the repository.
    """
    verdict = report["verdict"]
    checks = verdict.get("checks", [])
    unkept = [check for check in checks if check["status"] != "passed"]
    results = [_result(BUG, "error", alarm, about) for alarm in report.get("alarms", [])]
    results += [_result(check["quantity"], LEVELS[check["status"]], _said(check), about) for check in unkept]
    rules = {check["quantity"]: _sarif_rule(check) for check in checks}
    bug = {"id": BUG, "shortDescription": {"text": "An attack beats what is guaranteed or claimed."}}
    driver = {
        "name": "Seedscope",
        "version": report["provenance"]["seedscope"],
        "informationUri": "https://github.com/seedscope/seedscope",
        "rules": [bug, *rules.values()],
    }
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=1) + "\n"


def _sarif_rule(check: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule with where its limit comes from."""
    return {
        "id": check["quantity"],
        "shortDescription": {"text": check["rule"]},
        "fullDescription": {"text": check.get("source") or check["rule"]},
    }


def _result(rule: str, level: str, sentence: str, about: str) -> dict[str, Any]:
    """Return one finding; its fingerprint stays the same as long as rule and file do."""
    place = {"artifactLocation": {"uri": about}, "region": {"startLine": 1}}
    mark = hashlib.sha256(f"{rule}\n{about}".encode()).hexdigest()[:32]
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": sentence},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"seedscope/v1": mark},
    }


def write_for_pipelines(report: Mapping[str, Any], junit_file: Path | None, sarif_file: Path | None) -> list[Path]:
    """Write what a pipeline asked for; return the paths."""
    texts = {junit_file: junit, sarif_file: sarif}
    wanted = {path: make(report) for path, make in texts.items() if path is not None}
    for path, text in wanted.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, text)
        except OSError as error:
            raise cannot_write(path.parent, error) from error
    return list(wanted)
