"""A model card from public facts alone: front matter that Hugging Face reads, sections as skops names them.

Nothing on it depends on the data: no accuracy, no number of rows, no weights, and ε in round numbers; but for an alarm,
after which nothing is claimed. What only people know is marked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seedscope.core import cannot_write, require, write_durably
from seedscope.mechanisms import NOT_COVERED
from seedscope.report import schema, words
from seedscope.report.dossier import escaped
from seedscope.report.older import without_the_data

FILL = "[More Information Needed]"  # as skops and Hugging Face mark what is missing


def model_card(report: Mapping[str, Any], level: int = 0) -> str:
    """Return the card of one privacy level as Markdown.

    Args:
        report: a public report, or a whole one of which only what everybody may know is read.
        level: which of its levels is released, from 0.
    """
    public = report if report["public"] else report.get("for_everybody") or without_the_data(report)
    levels = public["levels"]
    require(0 <= level < len(levels), f"level must be from 0 to {len(levels) - 1}, got {level}.")
    chosen, audited = levels[level], public["audited"]
    alarms = public.get("alarms", [])
    parts = [
        _front_matter(chosen["guarantee"], bool(alarms)),
        "# Model description",
        f"{escaped(audited['model'])}, trained by {escaped(audited['mechanism'])}.",
        "## Intended uses & limitations",
        FILL,
        "### Privacy",
        *_privacy(chosen["guarantee"], alarms),
        "### Not covered",
        "\n".join(f"- {sentence}" for sentence in NOT_COVERED),
        "## Training Procedure",
        f"Mechanism: {escaped(audited['mechanism'])}.",
        "### Hyperparameters",
        FILL,
        "## Evaluation Results",
        "None here: whatever is measured on the data depends on it. " + FILL,
        "# How to Get Started with the Model",
        FILL,
        "# Model Card Authors",
        FILL,
        "# Model Card Contact",
        FILL,
        "# Citation",
        f"Made with Seedscope {report['provenance']['seedscope']}.",
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(guarantee: Mapping[str, Any], bug: bool) -> str:
    """Return the metadata that model hubs read; YAML whose texts are quoted as JSON quotes them."""
    proved = not bug and guarantee["epsilon"] is not None and guarantee["epsilon"]["kind"] == "proved"
    tags = ["tabular-classification", "seedscope", *(["differential-privacy"] if proved else [])]
    lines = ["---", "library_name: sklearn", "pipeline_tag: tabular-classification", "tags:"]
    lines += [f"- {json.dumps(tag)}" for tag in tags]
    if proved:
        lines += [
            "privacy:",
            f"  epsilon: {_yaml_number(guarantee['epsilon']['value'])}",
            f"  delta: {_yaml_number(guarantee['delta'])}",
        ]
        lines += [f"  relation: {json.dumps(guarantee['relation'], ensure_ascii=False)}"]
    return "\n".join([*lines, "---"])


def _yaml_number(value: float) -> str:
    """Return a number as YAML 1.1 reads one, which takes 1e-05 for a text.

    >>> _yaml_number(1e-5), _yaml_number(2)
    ('1.0e-05', '2.0')
    """
    mantissa, mark, exponent = repr(float(value)).partition("e")
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}{mark}{exponent}"


def _privacy(guarantee: Mapping[str, Any], alarms: list[str]) -> list[str]:
    """Return what is guaranteed, in a table and in words; after an alarm nothing is."""
    if alarms:
        return [f"**Nothing is claimed.** {escaped(' '.join(alarms))}"]
    if guarantee["epsilon"] is None:
        return [f"**Nothing is guaranteed.** {escaped(guarantee['reason'])}"]
    kind = guarantee["epsilon"]["kind"]
    rows = [
        ("ε", f"{words.shown(guarantee['epsilon']['value'])} ({kind})"),
        ("δ", words.shown(guarantee["delta"])),
        ("Protects against", escaped(guarantee["relation"])),
        ("A person is", "all rows of one person" if guarantee.get("unit") == "person" else "one row of the table"),
        ("By", escaped(guarantee["reason"])),
    ]
    table = "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
    warned = (
        [] if kind == "proved" else ["**This ε is an estimate, not a guarantee:** the reason says on what it rests."]
    )
    return [*warned, table, escaped(guarantee.get("meaning", ""))]


def write_card(run: str | Path, file: str | Path | None = None, level: int | None = None) -> Path:
    """Write the card of a run's report, by default as README.md beside it, of the level of its verdict."""
    report = schema.read_report(run)
    place = Path(run) if Path(run).is_dir() else Path(run).parent
    chosen = report.get("verdict", {}).get("level", 0) if level is None else level
    target = place / "README.md" if file is None else Path(file)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_durably(target, model_card(report, chosen))
    except OSError as error:
        raise cannot_write(target.parent, error) from error
    return target
