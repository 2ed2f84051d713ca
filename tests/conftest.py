"""What decides which tests can run here."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, visibly, the tests whose surroundings are missing."""
    if not os.environ.get("SEEDSCOPE_DATA"):
        skip = pytest.mark.skip(reason="SEEDSCOPE_DATA does not name a folder with the real data sets")
        for item in items:
            if item.get_closest_marker("paper_data"):
                item.add_marker(skip)
