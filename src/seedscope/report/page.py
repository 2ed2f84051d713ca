"""The report as one web page that opens offline: text escaped, data as inert JSON, a policy that allows no network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from seedscope.core import plain_values
from seedscope.report import words
from seedscope.report.charts import specifications

DIGITS = 6  # significant digits of people's numbers on the page; report.json has all


def render_page(report: Mapping[str, Any]) -> str:
    """Return the whole page as HTML text.

    Nothing of the report becomes code: the template escapes, and the script's data is JSON in a block that browsers
    do not run. The content-security policy names the scripts by their hashes, so that no other could run anyway.

    Args:
        report: as the schema describes it; a public one gives the public page.
    """
    plain = plain_values(report)
    public = plain["public"]
    scripts = [] if public else [asset_code("vega.js"), asset_code("script.js")]
    style = asset_code("style.css")
    page: str = (
        environment()
        .get_template("report.html.j2")
        .render(
            report=plain,
            policy=content_security_policy(scripts, style),
            style=Markup(style),
            scripts=[Markup(script) for script in scripts],
            payload=None if public else Markup(inert_json(_payload(plain))),
            words=words,
            limited=any("true_positive_limit" in (level.get("roc") or {}) for level in plain["levels"]),
            own=any((level.get("sandwich") or {}).get("largest_estimate") for level in plain["levels"]),
            proved=any(level["guarantee"]["epsilon"] for level in plain["levels"]),
            sandwiched=any(level.get("sandwich") for level in plain["levels"]),
            intrinsic=list(dict.fromkeys(name for level in plain["levels"] for name in level.get("intrinsic") or {})),
        )
    )
    return page


def render_summary(report: Mapping[str, Any]) -> str:
    """Return the verdict with its numbers as a piece of HTML, for a notebook's `_repr_html_`."""
    summary: str = environment().get_template("summary.html.j2").render(report=plain_values(report), words=words)
    return summary


def inert_json(value: Any) -> str:
    """Return JSON that is safe inside a script element: no character that could end it or break an old parser.

    >>> inert_json({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def content_security_policy(scripts: list[str], style: str) -> str:
    """Return a policy that permits these scripts and this style, pictures inside the page, and nothing else."""
    allowed = " ".join(_hash(script) for script in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    """Return the text's digest in the form that a policy wants."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _payload(report: dict[str, Any]) -> dict[str, Any]:
    """Return what the script works with: the report, the charts' specifications and the words for columns."""
    people = {**report["people"], "levels": [_rounded(columns) for columns in report["people"]["levels"]]}
    quantities = [
        {"name": quantity.name, "title": quantity.title, "meaning": quantity.meaning, "show": quantity.show}
        for quantity in words.PERSON
    ]
    return {
        "report": {**report, "people": people},
        "specifications": specifications(report),
        "quantities": quantities,
        "kinds": words.KINDS,
    }


def _rounded(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the people's columns with fewer digits."""
    return {
        name: [_round(value) for value in column] if isinstance(column, list) else column
        for name, column in columns.items()
    }


def _round(value: Any) -> Any:
    """Return a float with few significant digits, anything else as it is."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


@cache
def asset(name: str) -> str:
    """Return the text of a template, script or style."""
    return files("seedscope.report").joinpath("assets", name).read_text(encoding="utf-8")


def asset_code(name: str) -> str:
    """Return a script or style beside this module."""
    return _checked(asset(name), name)


def _checked(text: str, name: str) -> str:
    """Return a text that is safe to stand inside a script or style element."""
    lowered = text.lower()
    if "</script" in lowered or "<!--" in lowered or "</style" in lowered or "\r" in text:
        raise RuntimeError(f"{name} cannot be put into a page: it has a closing tag, a comment or a carriage return.")
    return text


@cache
def environment() -> Any:
    """Return the templates' environment: everything escaped, a missing name is an error."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"shown": words.shown, "confidence": words.shown_confidence}
    return environment
