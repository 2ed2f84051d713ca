"""A comparison of mechanisms, or remedies with their price, as a web page that opens offline, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from seedscope.core import cannot_write, plain_values, write_together
from seedscope.report.folder import claim_folder
from seedscope.report.page import asset_code, content_security_policy, environment


def render_comparison(comparison: Mapping[str, Any], kind: str = "comparison") -> str:
    """Return the page of that kind as HTML text: text escaped, no script, no network."""
    style = asset_code("style.css")
    policy = content_security_policy([], style)
    page: str = (
        environment()
        .get_template(f"{kind}.html.j2")
        .render(found=plain_values(comparison), policy=policy, style=Markup(style))
    )
    return page


def write_comparison(folder: str | Path, comparison: Mapping[str, Any]) -> list[Path]:
    """Write `comparison.html` and `comparison.json` into a folder of ours; return their paths, the page first."""
    return _written(folder, comparison, "comparison")


def write_remedies(folder: str | Path, priced: Mapping[str, Any]) -> list[Path]:
    """Write `remedies.html` and `remedies.json` into a folder of ours; return their paths, the page first."""
    return _written(folder, priced, "remedies")


def _written(folder: str | Path, contents: Mapping[str, Any], kind: str) -> list[Path]:
    """Write a page of that kind and its JSON."""
    place, plain = claim_folder(folder), plain_values(contents)
    text = json.dumps(plain, indent=1, ensure_ascii=False)
    try:
        return write_together(place, {f"{kind}.html": render_comparison(plain, kind), f"{kind}.json": text})
    except OSError as error:
        raise cannot_write(place, error) from error
