"""The dossier that a data-protection officer files: made from a report alone, with what a person must fill in marked.

dossier(report, digest)      its sections, as data
as_markdown, as_page         the same sections as Markdown, and as a web page that prints well
write_dossier(run)           both, beside the report; the report's SHA-256 says what they are about
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from seedscope.core import cannot_write, require, write_together
from seedscope.report import page as html
from seedscope.report import schema, words

MARKDOWN, PAGE = "dossier.md", "dossier.html"
TO_FILL = "to be filled in by a person"
PERSONS = {  # what only people know: title, and under which name a policy may declare it
    "Purpose of the model": "purpose",
    "Controller, and who answers for this release": "controller",
    "Legal basis of training and of release": "legal_basis",
    "Who will receive or query the model": "recipients",
}
DATA = {
    "Whose data these are, and how they were collected": "data_subjects",
    "Special categories of personal data": "special_categories",
    "How long data and models are kept": "retention",
}
REMEDIES = {
    "advantage": "More noise (a smaller ε), fewer features or more people; more re-trainings if it is open.",
    "unseen": "Attack more people, drawn at random, or compute everybody's privacy loss.",
    "epsilon": "A smaller ε, or none claimed at all.",
    "delta_people": "A smaller δ, far below one over the number of people.",
    "arbitrary": "Less noise, more data, abstaining where decisions hang on the seed, or a person who decides.",
    "above_majority": "More test people, or another model: this one is not shown to be of use.",
    "accuracy_cost": "Another mechanism or a weaker level, or more data.",
}


@dataclass(frozen=True)
class Table:
    """A table: its header, and its rows of texts."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """A part of the dossier: paragraphs, a table, and what people fill in; an answer that is known stands there."""

    title: str
    paragraphs: tuple[str, ...] = ()
    table: Table | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


def dossier(report: Mapping[str, Any], digest: str) -> tuple[Section, ...]:
    """Return the dossier's sections.

    Args:
        report: an internal report, as the schema describes it; older ones have less to say.
        digest: the SHA-256 of its file, by which everybody can check what the dossier is about.
    """
    require(not report["public"], "a dossier is made from the internal report; this one is public.")
    known = {
        declared["name"].lower().replace(" ", "_"): declared["value"]
        for declared in report["verdict"].get("declared", [])
    }
    return (
        _verdict(report),
        Section("Purpose and responsibility", fields={title: known.get(name, "") for title, name in PERSONS.items()}),
        _data(report, known),
        _threats(report, known),
        _claims(report),
        _results(report),
        _groups(report),
        _risks(report),
        _remedies(report),
        _provenance(report),
        _signature(digest),
    )


def _verdict(report: Mapping[str, Any]) -> Section:
    """Return what the audit came to, rule by rule."""
    verdict = report["verdict"]
    policy = verdict.get("policy")
    by = f"Judged by {policy['name']} ({policy['origin']})." if policy else "Judged before there were policies."
    rows = tuple(
        (check["rule"], words.STATUSES[check["status"]], check["sentence"]) for check in verdict.get("checks", [])
    )
    said = (
        *(f"AN ATTACK BEATS WHAT IS CLAIMED. {alarm}" for alarm in report.get("alarms", [])),
        verdict["headline"],
        by,
    )
    return Section("Verdict", said, Table(("Rule", "", "Found"), rows) if rows else None)


def _data(report: Mapping[str, Any], known: Mapping[str, str]) -> Section:
    """Return what is known of the data, and what only people know."""
    audited = report["audited"]
    rows = {
        "Data": audited["data"],
        "From": audited["source"],
        "Rows": f"{audited['train_rows']:,} to train, {audited['test_rows']:,} to test",
        "Features": f"{audited['features']:,}",
        "Classes": ", ".join(audited["classes"]),
        "Compared by": ", ".join(group["name"] for group in report["groups"]) or "no group",
        "Fingerprint": audited["fingerprint"],
    }
    fields = {title: known.get(name, "") for title, name in DATA.items()}
    return Section("Data", (), Table(("", ""), tuple(rows.items())), fields)


def _threats(report: Mapping[str, Any], known: Mapping[str, str]) -> Section:
    """Return what the attacker is taken to know and to see."""
    declared = tuple((entry["name"], entry["value"]) for entry in report["verdict"].get("declared", []))
    said = (
        "The attacker of this audit knows everybody's data but one person's, the training and its settings, sees the "
        "final model, and wants to know whether that person was in the training data.",
        f"Neighbouring data: {report['audited']['relation']}.",
    )
    fields = {"Which other attackers are reasonably likely, and what they can reach": known.get("attackers", "")}
    return Section("Threat model", said, Table(("Declared", ""), declared) if declared else None, fields)


def _claims(report: Mapping[str, Any]) -> Section:
    """Return what is claimed at each level, with its kind and assumptions."""
    rows = tuple(_claim(level) for level in report["levels"])
    kinds = tuple(f"{kind}: {meaning}." for kind, meaning in words.KINDS.items())
    return Section("Claims, their kinds and assumptions", kinds, Table(("Level", "ε", "δ", "By", "Meaning"), rows))


def _claim(level: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one level's claim."""
    guarantee = level["guarantee"]
    epsilon = "none" if guarantee["epsilon"] is None else _number(guarantee["epsilon"])
    reason = f"{guarantee['reason']} Protects against: {guarantee['relation']}."
    return level["label"], epsilon, words.shown(guarantee["delta"]), reason, guarantee.get("meaning", "")


def _number(number: Mapping[str, Any] | None, show: words.Show = "plain") -> str:
    """Return a number with its interval and kind as text."""
    if number is None:
        return "not known"
    ends = [number.get("lower"), number.get("upper")]
    between = "" if None in ends else f" [{words.shown(ends[0], show)}, {words.shown(ends[1], show)}]"
    sure = number.get("confidence")
    kind = number["kind"] if sure is None else f"{number['kind']}, {words.shown_confidence(sure)}"
    note = f"; {number['note']}" if number.get("note") else ""
    return f"{words.shown(number['value'], show)}{between} ({kind}{note})"


def _results(report: Mapping[str, Any]) -> Section:
    """Return the numbers of every level, and how many people they are about."""
    levels, people = report["levels"], report["people"]
    header = ("Quantity", *(level["label"] for level in levels))
    rows = tuple(
        (quantity.title, *(_number(level[quantity.name], quantity.show) for level in levels))
        for quantity in words.LEVEL
    )
    said = (
        f"{people['total']:,} rows of the data are in individuals.csv, each with what every analysis says about them."
    )
    chosen = levels[report["verdict"].get("level", 0)]["label"]
    more = tuple((fact["name"], _number(fact["number"], fact.get("show", "plain"))) for fact in
                 report["verdict"].get("measured", []))  # fmt: skip
    measured = tuple(f"At {chosen}, {name}: {value}." for name, value in more)
    return Section("Results for everybody", (said, *measured), Table(header, rows))


def _groups(report: Mapping[str, Any]) -> Section:
    """Return what each group gets at the level of the verdict."""
    level = report["verdict"].get("level", 0)
    rows = tuple(
        (f"{group['name']}: {name}", f"{group['people'][k]:,}", _number(part["mean_disagreement"][k]),
         _number(part["accuracy"][k], "percent"))
        for group in report["groups"] for part in [group["by_level"][level]] for k, name in enumerate(group["levels"])
    )  # fmt: skip
    if not rows:
        return Section("Groups", ("No groups were compared.",), fields={"Why not": ""})
    return Section("Groups", (), Table(("Group", "People", "Mean disagreement", "Accuracy"), rows))


def _risks(report: Mapping[str, Any]) -> Section:
    """Return what remains: rules not kept, analyses left out, and what nothing covers."""
    verdict = report["verdict"]
    unkept = [check["sentence"] for check in verdict.get("checks", []) if check["status"] != "passed"]
    left_out = [f"Left out, {analysis['analysis']}: {analysis['reason']}" for analysis in report["left_out"]]
    said = (*report.get("alarms", []), *unkept, *verdict.get("follows", [])[2:], *left_out)
    return Section("Residual risks", said, fields={"Risks that are accepted, why, and by whom": ""})


def _remedies(report: Mapping[str, Any]) -> Section:
    """Return what can be done about each rule that is not kept."""
    unkept = [check for check in report["verdict"].get("checks", []) if check["status"] != "passed"]
    rows = tuple((check["rule"], REMEDIES.get(check["quantity"], "See the documentation.")) for check in unkept)
    said = () if rows else ("Every rule is kept.",)
    return Section("Remedies", said, Table(("Rule", "What helps"), rows) if rows else None, {"Measures decided": ""})


def _provenance(report: Mapping[str, Any]) -> Section:
    """Return where the numbers come from; never a seed, by which whoever reads it could draw the same noise."""
    made = report["provenance"]
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    models = f"{report['audited']['models']:,} models of {report['audited']['model']}"
    rows = {
        "Made": made["made"], "Seedscope": made["seedscope"], "Versions": versions, "Command": made["command"],
        "Trained": models, "Mechanism": report["audited"]["mechanism"],
        "Fingerprint of the data": made["data_fingerprint"], "Models kept in": ", ".join(made["stores"]) or "nowhere",
    }  # fmt: skip
    return Section("Provenance", (), Table(("", ""), tuple(rows.items())))


def _signature(digest: str) -> Section:
    """Return the hash of what was filed, and the lines to sign on."""
    said = (
        f"SHA-256 of report.json: {digest}",
        "Everything above that is not marked as filled in by a person follows from that file. "
        "'sha256sum report.json' shows that it is the same.",
    )
    fields = dict.fromkeys(
        ("Opinion of the data-protection officer", "Decision", "Name and role", "Place and date"), ""
    )
    return Section("Signature", said, fields=fields | {"Signature": ""})


def as_markdown(sections: Sequence[Section], title: str) -> str:
    """Return the dossier as Markdown; texts of the report are escaped, so that none of them formats or links."""
    parts = [f"# Dossier: {escaped(title)}", f"*Lines marked ☐ are {TO_FILL}.*"]
    for number, section in enumerate(sections, 1):
        parts += [f"## {number}. {escaped(section.title)}", *map(escaped, section.paragraphs)]
        if section.table is not None:
            parts.append(_markdown_table(section.table))
        parts += [_markdown_field(title, answer) for title, answer in section.fields.items()]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    """Return a table in Markdown."""
    lines = [table.header, tuple("---" for _ in table.header), *table.rows]
    return "\n".join(
        "| " + " | ".join(cell if cell == "---" else escaped(cell) for cell in row) + " |" for row in lines
    )


def _markdown_field(title: str, answer: str) -> str:
    """Return what a person fills in, or declared."""
    return (
        f"☐ **{escaped(title)}:** {escaped(answer) + ' *(declared)*' if answer else '______________________________'}"
    )


def escaped(text: str) -> str:
    r"""Return a text that Markdown shows as it is, on one line.

    >>> print(escaped("a|b <script> *x*"))
    a\|b \<script\> \*x\*
    """
    return re.sub(r"([\\`*_\[\]<>|#~!])", r"\\\1", " ".join(text.split()))


def as_page(sections: Sequence[Section], title: str) -> str:
    """Return the dossier as one web page without scripts, laid out to be printed or saved as PDF."""
    style = html.asset("dossier.css")
    page: str = (
        html.environment()
        .get_template("dossier.html.j2")
        .render(
            sections=sections,
            title=title,
            to_fill=TO_FILL,
            style=Markup(style),
            policy=html.content_security_policy([], style),
        )
    )
    return page


def write_dossier(run: str | Path, folder: str | Path | None = None) -> list[Path]:
    """Write dossier.md and dossier.html from a run's report.json, by default beside it; return their paths."""
    report = schema.read_report(run)
    file = Path(run) / schema.JSON_NAME if Path(run).is_dir() else Path(run)
    place = Path(folder) if folder is not None else file.parent
    sections = dossier(report, hashlib.sha256(file.read_bytes()).hexdigest())
    title = report["title"]
    try:
        place.mkdir(parents=True, exist_ok=True)
        return write_together(place, {MARKDOWN: as_markdown(sections, title), PAGE: as_page(sections, title)})
    except OSError as error:
        raise cannot_write(place, error) from error
