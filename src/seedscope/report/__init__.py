"""What an audit found, shown: a web page, JSON, CSV and charts. Nothing here computes a result.

write_report, claim_folder               a run's folder
read_report, check_report, public_report the report as JSON, checked against report.schema.json
render_page, render_summary              the report as HTML
charts.charts                            the report as Altair charts
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "charts": "seedscope.report.figures",
    "claim_folder": "seedscope.report.folder",
    "write_report": "seedscope.report.folder",
    "render_page": "seedscope.report.html",
    "render_summary": "seedscope.report.html",
    "check_report": "seedscope.report.tables",
    "public_report": "seedscope.report.tables",
    "read_report": "seedscope.report.tables",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Return a public name, importing its home first: Altair and Jinja2 are only loaded when something is drawn."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'seedscope.report' has no attribute {name!r}")
