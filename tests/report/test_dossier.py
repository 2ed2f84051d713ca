"""The dossier and the model card: what they say is the report's, what people must fill in is marked."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from seedscope.auditing import audit
from seedscope.commands.cli import app
from seedscope.core.errors import SeedscopeError
from seedscope.report import model_card, write_card, write_dossier, write_report
from seedscope.report.dossier import as_markdown, as_page, dossier
from tests.auditing.test_verdict import Situation, exposed
from tests.helpers.report_sample import HOSTILE, changed, hostile_report, public_report, sample_report
from tests.report.test_page import Elements

SECTIONS = (
    "Verdict", "Purpose and responsibility", "Data", "Threat model", "Claims, their kinds and assumptions",
    "Results for everybody", "Groups", "Residual risks", "Remedies", "Provenance", "Signature",
)  # fmt: skip


@pytest.fixture(scope="module")
def judged() -> dict[str, Any]:
    """The report of an audit with a person exposed, and a policy that declares its purpose."""
    from dataclasses import replace

    from seedscope.auditing import read_policy

    found = audit(Situation(shifts=exposed(2.0), epsilon=7.9).ensemble())
    policy = replace(read_policy(), declared={"purpose": "Triage | of <lumps>", "retention": "two years"})
    report: dict[str, Any] = json.loads(json.dumps(replace(found, policy=policy).as_dict()))
    return report


def test_the_dossier_has_what_an_officer_files(judged: dict[str, Any]) -> None:
    text = as_markdown(dossier(judged, "abc123"), judged["title"])
    titles = tuple(re.sub(r"^## \d+\. ", "", line) for line in text.splitlines() if line.startswith("## "))
    assert titles == SECTIONS
    for expected in (judged["verdict"]["headline"], judged["provenance"]["made"], "SHA-256 of report.json: abc123"):
        assert expected in text.replace("\\", "")
    for check in judged["verdict"]["checks"]:
        assert check["sentence"] in text.replace("\\", "")
    assert "More noise (a smaller ε)" in text


def test_what_a_person_must_fill_in_is_marked_and_what_was_declared_stands_there(judged: dict[str, Any]) -> None:
    text = as_markdown(dossier(judged, ""), "x")
    open_fields = [line for line in text.splitlines() if line.startswith("☐") and line.endswith("____")]
    assert len(open_fields) >= 10
    assert "☐ **Purpose of the model:** Triage \\| of \\<lumps\\> *(declared)*" in text
    assert "two years *(declared)*" in text
    page = as_page(dossier(judged, ""), "x")
    assert page.count('class="line"') == len(open_fields)
    assert "Triage | of &lt;lumps&gt;" in page


def test_markdown_and_page_say_the_same(judged: dict[str, Any]) -> None:
    sections = dossier(judged, "0f0f")
    texts = [as_markdown(sections, "x").replace("\\", ""), as_page(sections, "x").replace("&#39;", "'")]
    for section in sections:
        for paragraph in section.paragraphs:
            assert all(paragraph.replace("<", "").replace(">", "") in text for text in texts), paragraph


def test_no_seed_is_in_the_dossier(judged: dict[str, Any]) -> None:
    seeded = changed(judged, "provenance.root_seed", 987654321)
    assert "987654321" not in as_markdown(dossier(seeded, ""), "x")


def test_hostile_texts_add_neither_elements_nor_markdown() -> None:
    report = hostile_report()
    page = Elements(as_page(dossier(report, ""), HOSTILE[1]))
    assert [tag for tag, _ in page.tags if tag in ("script", "img", "iframe", "a", "link", "object")] == []
    assert "script-src 'none'" in page.policy
    text = as_markdown(dossier(report, ""), HOSTILE[1])
    assert re.search(r"(?<!\\)<(script|img|!--)", text) is None


def test_the_hash_is_that_of_the_file_and_old_reports_have_dossiers_too(tmp_path: Path) -> None:
    write_report(tmp_path / "run", sample_report(people=5))
    markdown, page = write_dossier(tmp_path / "run")
    digest = hashlib.sha256((tmp_path / "run" / "report.json").read_bytes()).hexdigest()
    assert digest in markdown.read_text()
    assert digest in page.read_text()
    elsewhere = write_dossier(tmp_path / "run" / "report.json", tmp_path / "filed")
    assert [one.name for one in elsewhere] == ["dossier.md", "dossier.html"]


def test_a_public_report_makes_no_dossier() -> None:
    with pytest.raises(SeedscopeError, match="this one is public"):
        dossier(public_report(sample_report(people=3)), "")


def front_matter(card: str) -> dict[str, Any]:
    """Return the metadata on top of a card."""
    _, metadata, _ = card.split("---\n", 2)
    found: dict[str, Any] = yaml.safe_load(metadata)
    return found


def test_the_card_has_metadata_that_hubs_read_and_the_sections_of_skops() -> None:
    card = model_card(sample_report(people=3), level=1)
    metadata = front_matter(card)
    assert metadata["library_name"] == "sklearn"
    assert metadata["pipeline_tag"] == "tabular-classification"
    assert metadata["privacy"]["epsilon"] == 1.0
    assert "differential-privacy" in metadata["tags"]
    headings = [line for line in card.splitlines() if line.startswith("#")]
    for one in (
        "# Model description", "## Intended uses & limitations", "## Training Procedure", "### Hyperparameters",
        "## Evaluation Results", "# How to Get Started with the Model", "# Model Card Authors", "# Citation",
    ):  # fmt: skip
        assert one in headings


def test_the_card_of_a_report_is_that_of_its_public_facts(judged: dict[str, Any]) -> None:
    report = sample_report(people=3)
    other = changed(changed(report, "levels.2.accuracy.value", 0.123), "audited.train_rows", 77)
    assert model_card(other, 2) == model_card(report, 2)
    public = audit(Situation(shifts=exposed(2.0), epsilon=7.9).ensemble()).as_dict(public=True)
    assert model_card(judged) == model_card(public)


def test_a_card_of_an_older_report_tells_neither_batch_nor_a_delta_of_many_digits() -> None:
    report = sample_report(people=3)
    report = changed(report, "audited.mechanism", "DP-SGD, 85 steps of 106 rows on average, gradients clipped to 0.5")
    report = changed(changed(report, "levels.1.guarantee.delta", 5.52e-6), "levels.1.guarantee.epsilon.value", 0.98765)
    card = model_card(report, 1)
    assert "trained by DP-SGD." in card
    assert front_matter(card)["privacy"] | {"relation": ""} == {"epsilon": 0.988, "delta": 1e-5, "relation": ""}
    assert not any(told in card for told in ("106", "5.5", "0.98765"))


def test_nothing_is_claimed_on_a_card_without_a_proof() -> None:
    report = sample_report(people=3, epsilons=(None, 1.0))
    none = model_card(report, 0)
    assert "Nothing is guaranteed" in none
    assert "privacy" not in front_matter(none)
    learned = model_card(changed(report, "levels.1.guarantee.epsilon.kind", "estimate"), 1)
    assert "an estimate, not a guarantee" in learned
    assert "privacy" not in front_matter(learned)
    bug = model_card({**report, "alarms": ["ε = 1: beaten."]}, 1)
    assert "Nothing is claimed" in bug
    assert "privacy" not in front_matter(bug)
    assert "ε |" not in bug


def test_hostile_texts_stay_texts_on_a_card() -> None:
    report = hostile_report()
    report["levels"][0]["guarantee"]["relation"] = HOSTILE[3] + "\n---\nlicense: none"
    card = model_card(report, 0)
    assert front_matter(card)["privacy"]["relation"].endswith("license: none")
    assert re.search(r"(?<!\\)<(script|img|!--)", card.split("---\n", 2)[2]) is None


def test_commands_write_both_and_say_where(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    write_report(tmp_path / "run", sample_report(people=5))
    done = CliRunner().invoke(app, ["dossier", str(tmp_path / "run")])
    assert done.exit_code == 0
    assert "dossier.html" in done.output
    done = CliRunner().invoke(app, ["card", str(tmp_path / "run"), "--level", "1", "--json"])
    assert json.loads(done.output)["written"] == str(tmp_path / "run" / "README.md")
    with pytest.raises(SeedscopeError, match="level must be from 0 to 2, got 9"):
        write_card(tmp_path / "run", level=9)
