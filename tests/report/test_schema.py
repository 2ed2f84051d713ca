"""The report as JSON and CSV: what is written can be read, what is malformed ends in one sentence."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from seedscope.core.errors import SeedscopeError
from seedscope.report import schema as tables
from seedscope.report.individuals import individuals_csv, safe_cell
from tests.helpers.report_sample import HOSTILE, changed, hostile_report, public_report, sample_report

REPORT, SMALL = sample_report(people=40), sample_report(people=3, epsilons=(1.0,))
LENGTHS = (
    "people.id",
    "people.levels.1.agreement",
    "people.groups.0",
    "groups.0.people",
    "levels.0.roc.true_positive_rate",
)
WRONG = {
    "format": "other", "version": 2, "public": "no", "title": 3, "levels": [], "verdict.tone": "fine",
    "levels.0.delta": "small", "levels.0.accuracy": None, "levels.0.accuracy.kind": "sure",
    "levels.0.accuracy.confidence": 95, "levels.0.guarantee.epsilon": 1.0, "people.shown": 39, "people.label.0": 2,
    "people.label.1": -1, "people.groups.1.0": 3, "people.levels.0.predicted.0": 0.5,
    "people.levels.0.disagreement.3": "0.1", "people.levels.0.disagreement.4": True, "people.part.0": "both",
    "audited.train_rows": -1, "groups.0.by_level": [], "provenance.versions": {"numpy": 2}, "extra": 1,
    "verdict.level": 3,
}  # fmt: skip


def full_schema_accepts(report: Any) -> bool:
    """The slow, obvious check."""
    return bool(Draft202012Validator(tables.schema()).is_valid(report))


@pytest.mark.parametrize("epsilons", [(None,), (0.5, 1.0), (None, 0.1, 1.0, 8.0)])
def test_a_report_as_an_audit_makes_it_fits_the_schema(epsilons: tuple[Any, ...]) -> None:
    report = sample_report(people=12, epsilons=epsilons)
    tables.check_report(report)
    assert full_schema_accepts(report)


def test_the_schema_itself_is_a_schema() -> None:
    Draft202012Validator.check_schema(tables.schema())


def test_texts_of_any_kind_fit_the_schema() -> None:
    tables.check_report(hostile_report())


@pytest.mark.parametrize("path", WRONG)
def test_a_wrong_value_is_refused_in_one_sentence(path: str) -> None:
    wrong = changed(REPORT, path, WRONG[path])
    with pytest.raises(SeedscopeError) as caught:
        tables.check_report(wrong)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


ANYTHING = st.one_of(st.none(), st.text(), st.booleans(), st.floats(allow_nan=False), st.integers())
COLUMNS = ("people.label.0", "people.levels.0.predicted.0", "people.levels.0.disagreement.0")


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(COLUMNS), ANYTHING)
def test_the_fast_check_of_columns_refuses_all_that_the_full_schema_refuses(path: str, value: Any) -> None:
    report = changed(SMALL, path, value)
    if not full_schema_accepts(report):
        with pytest.raises(SeedscopeError):
            tables.check_report(report)


@pytest.mark.parametrize("path", LENGTHS)
def test_lists_that_belong_together_must_have_one_length(path: str) -> None:
    with pytest.raises(SeedscopeError, match="entries where"):
        tables.check_report(changed(REPORT, path, []))


def test_a_missing_part_is_named() -> None:
    report = {name: part for name, part in REPORT.items() if name != "verdict"}
    with pytest.raises(SeedscopeError, match="'verdict' is a required property"):
        tables.check_report(report)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(tables.report_json(REPORT), encoding="utf-8")
    assert tables.read_report(tmp_path) == REPORT
    assert tables.read_report(tmp_path / "report.json") == REPORT


def test_arrays_and_what_is_not_finite_become_lists_and_null() -> None:
    mixed = {"a": np.array([1.5, np.nan]), "b": np.float32(0.5), "c": (np.int64(3), float("inf")), "d": np.bool_(True)}
    assert json.loads(tables.report_json(mixed)) == {"a": [1.5, None], "b": 0.5, "c": [3, None], "d": True}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a JSON file"),
        (b"{", "not a JSON file"),
        (b"\xff\xfe\x00", "not a JSON file"),
        (b"[" * 100_000, "not a JSON file"),
        (b'{"value": NaN}', "NaN is not JSON"),
        (b"[1, 2]", "a report is a JSON object"),
        (b"{}", "'format' must be"),
        (b'{"format": "seedscope-report", "version": 99}', "update Seedscope"),
        (b'{"format": "seedscope-report", "version": "1"}', "not a report that can be shown"),
        (b'{"format": "seedscope-report", "version": 1, "public": 7}', "not a report that can be shown"),
    ],
)
def test_a_file_that_is_no_report_is_refused_in_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(SeedscopeError, match=message):
        tables.read_report(tmp_path)


def test_a_missing_report_says_which_folder_to_give(tmp_path: Path) -> None:
    with pytest.raises(SeedscopeError, match=r"no report at .*seedscope audit"):
        tables.read_report(tmp_path)


def test_a_public_report_has_only_what_is_listed() -> None:
    report = public_report(REPORT)
    tables.check_report(report)
    assert set(report) == {
        "format",
        "version",
        "public",
        "title",
        "audited",
        "levels",
        "provenance",
        "glossary",
        "notice",
    }
    assert set(report["levels"][0]) == {"label", "epsilon", "delta", "guarantee"}
    text = tables.report_json({**report, "glossary": []})
    secrets = ("accuracy", "patients.csv", "root_seed", "disagreement", REPORT["audited"]["fingerprint"], "train_rows")
    assert not any(secret in text for secret in secrets)


@pytest.mark.parametrize("part", ["people", "groups", "verdict", "relations"])
def test_a_public_report_with_anything_about_the_data_is_refused(part: str) -> None:
    with pytest.raises(SeedscopeError, match=part):
        tables.check_report({**public_report(REPORT), part: REPORT[part]})


def written(frame: pd.DataFrame) -> list[list[str]]:
    """Return the cells of the CSV that the frame becomes, header first."""
    return list(csv.reader(io.StringIO(individuals_csv(frame), newline="")))


def test_no_text_cell_starts_a_formula() -> None:
    texts = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "＝1", "plain", "-5", "+1.5e3", "a=b"]
    (header, *rows) = written(pd.DataFrame({"=header": texts, "number": np.arange(10) - 5.0}))
    assert header == ["'=header", "number"]
    cells = [row[0] for row in rows]
    assert cells == [
        "'=1+1",
        "'+cmd|' /C calc'!A0",
        "'-2+3",
        "'@SUM(A1)",
        "'\t'=1",  # some readers take what follows a tab for a cell
        "'＝1",
        "plain",
        "-5",
        "+1.5e3",
        "a=b",
    ]
    assert [float(row[1]) for row in rows] == (np.arange(10) - 5.0).tolist()


def test_formulas_hide_neither_in_categories_nor_among_mixed_types() -> None:
    frame = pd.DataFrame({"c": pd.Categorical(["=a", "b", "=a"]), "o": pd.Series(["=x", 3, None], dtype=object)})
    assert written(frame)[1:] == [["'=a", "'=x"], ["b", "3"], ["'=a", ""]]


def test_hostile_texts_survive_the_table() -> None:
    rows = written(pd.DataFrame({"id": list(HOSTILE)}))
    assert [row[0] for row in rows[1:]] == list(HOSTILE)


@given(st.text())
def test_a_safe_cell_is_the_text_but_for_apostrophes_before_formulas(text: str) -> None:
    safe = safe_cell(text)
    assert safe.replace("'", "") == text.replace("'", "")
    assert safe_cell(safe) == safe
