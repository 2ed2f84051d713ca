"""The page as text: inert data, one policy, words escaped. What it does in a browser is tested in tests/browser."""

import base64
import hashlib
import importlib.util
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from seedscope.report import page as html
from seedscope.report import render_page, render_summary, words
from tests.helpers.report_sample import HOSTILE, hostile_report, public_report, sample_report

LIMIT = 6_000_000


Element = tuple[str, dict[str, str | None]]  # a tag and its attributes


class Elements(HTMLParser):
    """Collects the start tags of a page with their attributes, and the text inside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[Element] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self._inside: Element | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = (tag, dict(attrs)) if tag in ("script", "style") else None
        if self._inside:
            self.raw.append((*self._inside, ""))

    def handle_data(self, data: str) -> None:
        if self._inside:
            tag, attributes, text = self.raw[-1]
            self.raw[-1] = (tag, attributes, text + data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    @property
    def policy(self) -> str:
        return str(next(a["content"] for _, a in self.tags if a.get("http-equiv") == "Content-Security-Policy"))


@pytest.fixture(scope="module")
def hostile() -> Elements:
    return Elements(render_page(hostile_report()))


def test_five_thousand_people_at_three_levels_stay_below_six_megabytes() -> None:
    assert len(render_page(sample_report(people=5000, audited=5000)).encode()) < LIMIT


def test_hostile_texts_add_no_element(hostile: Elements) -> None:
    def skeleton(page: Elements) -> list[str]:
        return [
            tag for tag, _ in page.tags if tag in ("script", "style", "img", "iframe", "object", "link", "meta", "base")
        ]

    assert skeleton(hostile) == skeleton(Elements(render_page(sample_report(people=10))))


def test_hostile_texts_add_no_handler(hostile: Elements) -> None:
    assert not any(name.startswith("on") for _, attributes in hostile.tags for name in attributes)


def test_nothing_on_the_page_points_outside(hostile: Elements) -> None:
    links = [
        attributes[name] for _, attributes in hostile.tags for name in ("href", "src", "action") if name in attributes
    ]
    assert links
    assert all(link and link.startswith(("#", "data:image/svg+xml")) for link in links)


def test_the_policy_allows_exactly_the_pages_own_scripts_and_style(hostile: Elements) -> None:
    runs = [
        text for tag, attributes, text in hostile.raw if tag == "style" or attributes.get("type") != "application/json"
    ]
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in runs}
    assert set(re.findall(r"'sha256-[^']+'", hostile.policy)) == hashes
    assert "default-src 'none'" in hostile.policy
    assert not re.search(r"unsafe|http|\*|connect-src", hostile.policy)


def test_the_data_survives_its_escaping(hostile: Elements) -> None:
    text = next(text for _, attributes, text in hostile.raw if attributes.get("type") == "application/json")
    assert "<" not in text
    assert not set("\u2028\u2029") & set(text)
    report = json.loads(text)["report"]
    assert report["verdict"]["sentences"] == list(HOSTILE)
    assert report["title"] == hostile_report()["title"]


def test_people_on_the_page_are_rounded_and_nothing_else() -> None:
    report = sample_report(people=30)
    payload = html._payload(report)["report"]
    assert {name: part for name, part in payload.items() if name != "people"} == {
        name: part for name, part in report.items() if name != "people"
    }
    ours, given = payload["people"]["levels"][0]["disagreement"], report["people"]["levels"][0]["disagreement"]
    assert ours == pytest.approx(given, rel=1e-5)


def test_every_number_of_the_verdict_shows_its_kind_and_meaning() -> None:
    report = sample_report(people=10)
    page = render_page(report)
    for one in report["verdict"]["numbers"]:
        card = page[page.index(f">{one['name']}<") :][:900]
        assert f"kind-{one['number']['kind']}" in card
        assert one["meaning"] in card


def test_the_public_page_has_no_script_and_nothing_of_the_data() -> None:
    report = sample_report(people=10)
    page = Elements(render_page(public_report(report)))
    text = render_page(public_report(report))
    assert not [tag for tag, _ in page.tags if tag == "script"]
    assert "script-src 'none'" in page.policy
    for secret in ("P-00000", "patients.csv", "Accuracy", "individuals", report["audited"]["fingerprint"], "Root seed"):
        assert secret not in text
    assert report["levels"][0]["guarantee"]["meaning"] in text


def test_a_script_that_would_break_out_of_the_page_is_refused() -> None:
    with pytest.raises(RuntimeError, match="cannot be put into a page"):
        html._checked("let x = '</SCRIPT>'", "x.js")


def test_the_summary_for_notebooks_is_escaped() -> None:
    text = render_summary(hostile_report())
    assert "<script" not in text
    assert "<img" not in text
    assert len(text) < 20_000


@pytest.mark.parametrize(
    ("value", "show", "text"),
    [(0.95, "percent", "95.0 %"), (1234567.0, "plain", "1,234,567"), (-0.5, "plain", "-0.5"), (2e-9, "plain", "2e-9"),
     (0.00012, "plain", "0.00012"), (99.99, "plain", "100"), (float("inf"), "plain", "–")],
)  # fmt: skip
def test_numbers_are_printed_for_people(value: float, show: Any, text: str) -> None:
    assert words.shown(value, show) == text


@pytest.mark.parametrize("public", [False, True])
def test_a_delta_that_was_chosen_wears_no_badge(public: bool) -> None:
    page = render_page(public_report(sample_report()) if public else sample_report())
    rows = re.findall(r'<tr><th scope="row">δ</th>(.*?)</tr>', page, flags=re.DOTALL)
    sentences = re.findall(r"δ = (.*?)\. ", page, flags=re.DOTALL)
    assert rows or sentences
    assert not any("kind-" in text for text in (*rows, *sentences))
    assert 'class="kind kind-' in page  # other numbers say theirs


def without_width(value: Any) -> Any:
    """Return a report in which every interval is its value."""
    if isinstance(value, dict):
        ends = {name: value["value"] for name in ("lower", "upper") if value.get(name) is not None and "value" in value}
        return {name: without_width(inner) for name, inner in value.items()} | ends
    return [without_width(inner) for inner in value] if isinstance(value, list) else value


def test_an_interval_of_one_number_is_not_shown() -> None:
    assert 'class="interval"' in render_page(sample_report())
    assert 'class="interval"' not in render_page(without_width(sample_report()))


@pytest.mark.slow
def test_the_charts_library_is_what_its_package_has() -> None:
    spec = importlib.util.spec_from_file_location("make_vega", Path(__file__).parents[2] / "docs" / "make_vega.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    ours, theirs = html.asset("vega.js"), made.bundle()
    if ours.split("\n")[0] != theirs.split("\n")[0]:
        pytest.skip("another version of vl-convert is installed")
    assert ours == theirs
