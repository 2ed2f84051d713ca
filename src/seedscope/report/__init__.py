"""What an audit found, shown: a web page, JSON, CSV and charts. Nothing here computes a result."""

from seedscope.report.charts import charts
from seedscope.report.folder import claim_folder, write_report
from seedscope.report.html import render_page, render_summary
from seedscope.report.tables import check_report, public_report, read_report

__all__ = [
    "charts",
    "check_report",
    "claim_folder",
    "public_report",
    "read_report",
    "render_page",
    "render_summary",
    "write_report",
]
