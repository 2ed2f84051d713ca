"""The page in a real browser with the network off: choose people, move ε, sort, search, open a person, print."""

import itertools
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from seedscope.report import render_comparison, render_page, rows, words
from seedscope.report.sheet import render_sheet
from tests.helpers.report_sample import HOSTILE, changed, hostile_report, public_report, sample_report, with_both_sides

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser; pip install playwright")
pytestmark = pytest.mark.browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
REPORT = sample_report(people=120)
PEOPLE = REPORT["people"]
WIDE, NARROW = 1600, 400


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without its own wish to talk to the network."""
    path = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=[*QUIET, "--no-first-run"])
        yield running
        running.close()


class Opened:
    """A page that is open offline, with all that it complained about and asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._dismiss)
        page.on("request", lambda request: self.requests.append(request.url))

    def _dismiss(self, dialog: Any) -> None:
        """Close a dialog that the page opened, which is a complaint."""
        self.complaints.append(dialog.message)
        dialog.dismiss()

    def data(self, chart: str, name: str) -> list[dict[str, Any]]:
        """Return the rows that a chart has under a name now."""
        found: list[dict[str, Any]] = self.page.evaluate(
            "([chart, name]) => seedscope.views[chart].data(name)", [chart, name]
        )
        return found

    def persons(self, chart: str, name: str = "chosen") -> set[int]:
        """Return the people in a chart's data."""
        return {row["person"] for row in self.data(chart, name)}

    def picture(self, chart: str) -> str:
        """Return what a chart looks like."""
        return str(self.page.locator(f"[data-chart={chart}] .chart").inner_html())

    def drag(self, chart: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag over a chart between two places, as shares of its width and height."""
        place = self.page.locator(f"[data-chart={chart}] .chart")
        place.scroll_into_view_if_needed()
        box = place.bounding_box()
        points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)]
        self.page.mouse.move(*points[0])
        self.page.mouse.down()
        self.page.mouse.move(*points[1], steps=6)
        self.page.mouse.up()
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def column(self, key: str) -> list[str]:
        """Return the texts of a column of the table's page."""
        heads = self.page.locator("#table thead th").evaluate_all("all => all.map((one) => one.dataset.column)")
        texts: list[str] = self.page.locator(f"#table tbody tr > :nth-child({heads.index(key) + 1})").all_inner_texts()
        return texts


@cache
def sample_page() -> str:
    """Return the page of the report that most tests open."""
    return render_page(REPORT)


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Open a report; at the end nothing may have been complained about or asked of the network."""
    contexts, pages = [], []

    def open_report(report: dict[str, Any], width: int = WIDE, hash: str = "", **options: Any) -> Opened:
        file = tmp_path / "report.html"
        file.write_text(sample_page() if report is REPORT else render_page(report), encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": 1000}, offline=True, **options))
        opened = Opened(contexts[-1].new_page())
        opened.page.set_default_timeout(120_000)  # of a busy machine
        opened.page.goto(file.as_uri() + hash)
        if not report["public"] and options.get("java_script_enabled", True):
            opened.page.wait_for_selector("html[data-ready]")
        pages.append(opened)
        return opened

    yield open_report
    for opened in pages:
        assert opened.complaints == []
        assert all(url.startswith(("file:", "data:")) for url in opened.requests)
    for context in contexts:
        context.close()


def test_every_chart_has_the_reports_numbers_at_every_level(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    fixed = {"trade_off": ("levels", rows.level_rows), "attack": ("roc", rows.roc_rows)}
    fixed |= {"groups": ("groups", rows.group_rows), "privacy": ("limits", rows.limit_rows)}
    for chart, (name, rows_of) in fixed.items():
        assert opened.data(chart, name) == rows_of(REPORT)
    for level in range(3):
        opened.page.locator("#level").fill(str(level))
        people = rows.people_rows(REPORT, level)
        for chart, name, expected in (("people", "people", people), ("privacy", "bounded", rows.privacy_rows(people))):
            given = opened.data(chart, name)
            assert [set(row) for row in given] == [set(row) for row in expected]
            assert [exact(row) for row in given] == [exact(row) for row in expected]
            assert [floats(row) for row in given] == [pytest.approx(floats(row), rel=1e-5) for row in expected]


def test_both_sides_of_everybodys_exposure_are_drawn_and_follow_a_choice(show: Callable[..., Opened]) -> None:
    report = with_both_sides(REPORT)
    opened = show(report)
    assert opened.data("exposure", "allowed") == rows.allowed_rows(report)
    opened.page.locator("#level").fill("1")
    expected = rows.sided_rows(rows.people_rows(report, 1))
    given = opened.data("exposure", "sided")
    assert [exact(row) for row in given] == [exact(row) for row in expected]
    assert [floats(row) for row in given] == [pytest.approx(floats(row), rel=1e-5) for row in expected]


def exact(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's texts, places and gaps."""
    return {name: value for name, value in row.items() if name not in floats(row)}


def floats(row: dict[str, Any]) -> dict[str, float]:
    """Return a row's measured numbers, of which the page keeps six digits."""
    measured = [
        "disagreement",
        "membership",
        "exposure",
        *(f"advantage_{side}" for side in ("lower", "upper")),
        *(f"epsilon_{side}" for side in ("lower", "upper", "statistical", "estimate")),
    ]
    return {name: row[name] for name in measured if row[name] is not None}


def test_people_chosen_in_the_scatter_light_up_in_all_charts(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    before = {chart: opened.picture(chart) for chart in ("people", "distribution", "trade_off", "groups", "privacy")}
    opened.drag("people", (0.55, 0.05), (0.97, 0.55))
    range_ = opened.page.evaluate("() => seedscope.views.people.signal('brush')")
    inside = {
        row["person"]
        for row in opened.data("people", "people")
        if row["exposure"] is not None
        and range_["disagreement"][0] <= row["disagreement"] <= range_["disagreement"][1]
        and range_["exposure"][0] <= row["exposure"] <= range_["exposure"][1]
    }
    assert 0 < len(inside) < 60
    for chart, old in before.items():
        assert opened.persons(chart) == inside
        assert opened.picture(chart) != old
    assert opened.page.inner_text("#chosen-count") == f"{len(inside)} people chosen"
    opened.page.check("#only-chosen")
    assert opened.page.inner_text("#found") == f"{len(inside)} people found"


def test_people_chosen_in_the_distribution_replace_those_chosen_before(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    opened.drag("people", (0.3, 0.05), (0.97, 0.8))
    opened.drag("distribution", (0.2, 0.3), (0.5, 0.6))
    low, high = opened.page.evaluate("() => seedscope.views.distribution.signal('brush').disagreement")
    values = PEOPLE["levels"][0]["disagreement"]
    inside = {person for person, value in enumerate(values) if low <= value <= high}
    assert inside
    assert opened.persons("people") == opened.persons("groups") == inside
    assert opened.page.evaluate("() => Object.keys(seedscope.views.people.signal('brush'))") == []


def test_clear_lets_everyone_go(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    fresh = opened.picture("distribution")
    opened.drag("distribution", (0.2, 0.3), (0.9, 0.6))
    assert opened.persons("people")
    opened.page.click("#clear")
    assert all(not opened.persons(chart) for chart in ("people", "distribution", "trade_off", "groups", "privacy"))
    assert opened.page.inner_text("#chosen-count") == "Nobody chosen"
    assert bars(opened.picture("distribution")) == bars(fresh)


def bars(picture: str) -> list[str]:
    """Return the shapes of a picture's bars."""
    return re.findall(r'aria-roledescription="bar"[^>]* d="([^"]+)"', picture)


def test_moving_epsilon_keeps_the_people_chosen_and_moves_them(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    opened.drag("people", (0.3, 0.05), (0.97, 0.8))
    chosen, before = opened.persons("distribution"), opened.picture("attack")
    opened.page.focus("#level")
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.inner_text("#level-name") == REPORT["levels"][1]["label"]
    assert opened.persons("distribution") == opened.persons("people") == chosen
    moved = {row["person"]: row["disagreement"] for row in opened.data("people", "chosen")}
    assert moved == pytest.approx({person: PEOPLE["levels"][1]["disagreement"][person] for person in chosen}, rel=1e-5)
    assert opened.picture("attack") != before
    assert opened.page.get_attribute("#level", "aria-valuetext") == REPORT["levels"][1]["label"]


def test_a_filter_keeps_only_its_group(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    opened.page.locator("#filters select").first.select_option("0")
    women = {person for person, level in enumerate(PEOPLE["groups"][0]) if level == 0}
    assert opened.persons("people", "people") == opened.persons("distribution", "people") == women
    assert opened.page.inner_text("#found") == f"{len(women)} people found"
    opened.page.click("#choose-found")
    assert opened.persons("groups") == women


@pytest.mark.parametrize("key", ["disagreement", "membership_advantage", "id", "group-1"])
def test_sorting_orders_the_whole_table_with_unknown_last(show: Callable[..., Opened], key: str) -> None:
    opened = show(REPORT)
    for _ in range(2):
        opened.page.click(f'[data-column="{key}"] button')
        order = opened.page.get_attribute(f'[data-column="{key}"]', "aria-sort")
        texts = []
        while True:
            texts += opened.column(key)
            if opened.page.is_disabled("#next-page"):
                break
            opened.page.click("#next-page")
        assert len(texts) == PEOPLE["shown"]
        assert texts == expected_texts(key, order == "descending")


def expected_texts(key: str, descending: bool) -> list[str]:
    """Return the slow, obvious order of a column."""
    if key.startswith("group"):
        names = REPORT["groups"][1]["levels"]
        return sorted((names[place] for place in PEOPLE["groups"][1]), reverse=descending)
    values = PEOPLE["id"] if key == "id" else PEOPLE["levels"][0][key]
    known = sorted((one for one in values if one is not None), reverse=descending)
    texts = known if key == "id" else [words.shown(float(f"{one:.6g}")) for one in known]
    return texts + ["–"] * (len(values) - len(known))


@pytest.mark.parametrize(("text", "count"), [("P-00017", 1), ("p-0001", 10), ("nobody here", 0), ("60 and over", None)])
def test_search_finds_persons_labels_and_groups(show: Callable[..., Opened], text: str, count: int | None) -> None:
    opened = show(REPORT)
    opened.page.fill("#search", text)
    expected = PEOPLE["groups"][1].count(2) if count is None else count
    assert opened.page.inner_text("#found") == f"{expected} {'person' if expected == 1 else 'people'} found"
    assert opened.page.locator("#table tbody tr").count() == min(expected, 25)


def test_a_click_on_a_person_opens_their_section_with_all_numbers(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    opened.page.fill("#search", "P-00007")
    opened.page.click("#table tbody button.link")
    columns = PEOPLE["levels"][0]
    section = opened.page.inner_text("#person")
    assert opened.page.inner_text("#person-title") == "P-00007"
    assert opened.page.evaluate("document.activeElement.id") == "person-title"
    recorded = [quantity for quantity in words.PERSON if quantity.name in columns]
    assert len(recorded) >= 6
    for quantity in recorded:
        value = columns[quantity.name][7]
        assert quantity.title in section
        assert quantity.meaning in section
        assert words.shown(float(f"{value:.6g}"), quantity.show) in section
    assert f"Rank {columns['rank_disagreement'][7]} of 120" in section
    assert opened.page.locator("#person .kind").count() == len(recorded)
    assert opened.page.locator("#person-levels tbody tr").count() == 3
    assert all(
        opened.persons(chart, "focus") == {7} for chart in ("people", "distribution", "trade_off", "groups", "privacy")
    )


def test_a_click_on_a_point_opens_that_person(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    point = opened.page.locator("[data-chart=people] .mark-symbol >> nth=0 >> path").nth(5)
    point.scroll_into_view_if_needed()
    opened.page.wait_for_timeout(50)
    box = point.bounding_box()
    opened.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    title = opened.page.inner_text("#person-title")
    assert opened.persons("people", "focus") == {PEOPLE["id"].index(title)}


def test_the_page_opens_at_the_level_of_the_verdict(show: Callable[..., Opened]) -> None:
    opened = show(changed(REPORT, "verdict.level", 1))
    assert opened.page.input_value("#level") == "1"
    assert opened.page.inner_text("#level-name") == REPORT["levels"][1]["label"]


def test_a_link_to_a_person_opens_them(show: Callable[..., Opened]) -> None:
    opened = show(REPORT, hash="#person-3")
    assert opened.page.inner_text("#person-title") == PEOPLE["id"][3]


def test_the_keyboard_alone_chooses_sorts_and_opens(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    opened.page.locator("#table tbody input").first.focus()
    opened.page.keyboard.press("Space")
    (chosen,) = opened.persons("people") | opened.persons("distribution")
    assert opened.page.evaluate("document.activeElement.closest('tr').dataset.person") == str(chosen)
    opened.page.keyboard.press("Tab")
    opened.page.keyboard.press("Enter")
    assert opened.page.inner_text("#person-title") == PEOPLE["id"][chosen]
    opened.page.locator('[data-column="agreement"] button').focus()
    opened.page.keyboard.press("Enter")
    assert opened.page.get_attribute('[data-column="agreement"]', "aria-sort") == "descending"


def test_pointing_at_a_person_names_them(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    point = opened.page.locator("[data-chart=people] .mark-symbol >> nth=0 >> path").nth(3)
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    opened.page.wait_for_selector("#tooltip:not([hidden])")
    assert "P-000" in opened.page.inner_text("#tooltip")


@pytest.mark.parametrize(("width", "scheme"), list(itertools.product((NARROW, WIDE), ("light", "dark"))))
def test_nothing_overflows_at_any_width_in_either_theme(show: Callable[..., Opened], width: int, scheme: str) -> None:
    for report in (REPORT, hostile_report()):
        opened = show(report, width, color_scheme=scheme)
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width
        for chart in opened.page.locator("figure:not([hidden])").all():
            inside = chart.locator(".chart > svg, .chart > canvas, .chart svg, .chart canvas").first.bounding_box()
            assert inside["x"] + inside["width"] <= chart.bounding_box()["x"] + chart.bounding_box()["width"]
        assert (
            luminance(opened, "background-color") > 0.5
            if scheme == "light"
            else luminance(opened, "background-color") < 0.1
        )


def luminance(opened: Opened, what: str) -> float:
    """Return how bright the page's colour is, from 0 to 1."""
    colour = opened.page.evaluate("(what) => getComputedStyle(document.body).getPropertyValue(what)", what)
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_button_changes_the_theme_of_page_and_charts(show: Callable[..., Opened]) -> None:
    opened = show(REPORT, color_scheme="light")
    before = opened.picture("trade_off"), luminance(opened, "color")
    opened.page.click("#theme")
    assert luminance(opened, "color") > 0.5 > before[1]
    assert opened.picture("trade_off") != before[0]
    opened.page.click("#theme")
    assert opened.picture("trade_off") == before[0]


def test_texts_have_enough_contrast_in_both_themes(show: Callable[..., Opened]) -> None:
    for scheme in ("light", "dark"):
        opened = show(REPORT, color_scheme=scheme)
        ratio = opened.page.evaluate(CONTRAST, ["--ink", "--muted", "--accent", "--good", "--warn", "--alert"])
        assert min(ratio) >= 4.5, ratio


CONTRAST = """(names) => {
  const probe = document.body.appendChild(document.createElement("span"));
  const light = (name) => {
    probe.style.color = `var(${name})`;
    const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  return names.flatMap((name) => ["--paper", "--ground"].map((under) => {
    const [low, high] = [light(name), light(under)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }));
}"""


def test_every_control_has_a_name_for_screen_readers(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    unnamed = opened.page.evaluate(
        """() => [...document.querySelectorAll("input, select, button")]
             .filter((one) => one.offsetParent && !(one.ariaLabel || one.labels?.length || one.textContent.trim()))
             .map((one) => one.outerHTML)"""
    )
    assert unnamed == []


def test_hostile_texts_run_nothing_and_are_shown_as_texts(show: Callable[..., Opened]) -> None:
    report = hostile_report()
    opened = show(report)
    opened.drag("people", (0.3, 0.05), (0.97, 0.8))
    opened.page.locator("#level").fill("2")
    opened.page.fill("#search", "<script>")
    opened.page.click('[data-column="label"] button')
    opened.page.locator("#table tbody button.link").first.click()
    opened.page.locator("[data-chart=groups] .chart").hover()
    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.locator("img, iframe, main script").count() == 0
    assert opened.page.inner_text("h1") == report["verdict"]["headline"]
    assert "<script>" in opened.page.inner_text("#person-title")
    shown = opened.page.locator("#filters span").all_text_contents()
    assert shown == [group["name"] for group in report["groups"]]
    assert opened.page.inner_text("#glossary").count(HOSTILE[0]) == 2


def test_the_policy_stops_scripts_and_requests_that_are_not_the_pages_own(show: Callable[..., Opened]) -> None:
    opened = show(REPORT)
    opened.page.evaluate(
        """() => {
             const script = document.createElement("script");
             script.textContent = "window.hacked = 1";
             const button = document.createElement("button");
             button.setAttribute("onclick", "window.hacked = 2");
             document.body.append(script, button);
             button.click();
           }"""
    )
    failed = opened.page.evaluate("() => fetch('https://example.org').then(() => false, () => true)")
    assert failed
    assert opened.page.evaluate("window.hacked") is None
    assert len(opened.complaints) >= 3
    assert all("Content Security Policy" in one or "content security policy" in one for one in opened.complaints)
    opened.complaints.clear()


def test_five_thousand_people_can_be_chosen_and_moved(show: Callable[..., Opened]) -> None:
    opened = show(sample_report(people=5000, audited=5000))
    opened.drag("people", (0.2, 0.05), (0.97, 0.85))
    chosen = opened.persons("people")
    assert len(chosen) > 500
    opened.page.locator("#level").fill("2")
    assert opened.persons("people") == opened.persons("distribution") == chosen
    assert opened.page.locator("#table tbody tr").count() == 25
    assert opened.page.locator("[data-chart=people] canvas").count() == 1


def test_one_level_without_groups_or_membership_still_makes_a_page(show: Callable[..., Opened]) -> None:
    report = sample_report(people=30, epsilons=(None,), audited=0)
    report["groups"], report["people"]["groups"], report["relations"] = [], [], []
    opened = show(report)
    assert opened.page.locator("figure:not([hidden])").count() == 2
    assert opened.page.is_hidden("#level")
    opened.drag("distribution", (0.2, 0.3), (0.9, 0.6))
    opened.page.locator("#table tbody button.link").first.click()
    assert "Not known" not in opened.page.inner_text("#person")


def test_printing_from_the_dark_is_light_and_leaves_the_page_as_it_was(show: Callable[..., Opened]) -> None:
    opened = show(REPORT, color_scheme="dark")
    before = opened.picture("trade_off"), opened.page.get_attribute("html", "data-theme")
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert luminance(opened, "color") < 0.3
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    opened.page.wait_for_timeout(200)
    assert (opened.picture("trade_off"), opened.page.get_attribute("html", "data-theme")) == before
    assert opened.page.pdf(format="A4").startswith(b"%PDF")


def test_without_scripts_the_verdict_and_the_tables_are_there(show: Callable[..., Opened]) -> None:
    opened = show(REPORT, java_script_enabled=False)
    text = opened.page.inner_text("body")
    assert REPORT["verdict"]["headline"] in text
    assert "need JavaScript" in text
    assert REPORT["provenance"]["command"] in text


def test_the_public_page_opens_and_says_what_is_guaranteed(show: Callable[..., Opened]) -> None:
    opened = show(public_report(REPORT), NARROW)
    text = opened.page.inner_text("body")
    assert REPORT["levels"][0]["guarantee"]["meaning"] in text
    assert "P-000" not in text
    assert opened.page.evaluate("document.documentElement.scrollWidth") == NARROW


def test_a_bug_in_the_training_comes_before_everything_else(show: Callable[..., Opened]) -> None:
    alarm = f"ε = 1: the attack proves too much {HOSTILE[0]}"
    for width in (WIDE, NARROW):
        opened = show({**REPORT, "alarms": [alarm]}, width)
        told = opened.page.get_by_role("alert")
        assert told.inner_text() == f"An attack beats what is claimed. {alarm}"
        assert told.bounding_box()["y"] < opened.page.locator("#headline").bounding_box()["y"]
        assert opened.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert show(REPORT).page.get_by_role("alert").count() == 0


def test_a_person_shows_every_side_of_their_privacy_with_its_kind(show: Callable[..., Opened]) -> None:
    opened = show(REPORT, hash="#person-3")
    told = {
        one.locator("h3").inner_text(): one.locator(".kind").inner_text()
        for one in opened.page.locator("#person-numbers article").all()
        if one.locator(".kind").count()
    }
    assert told["Own ε"] == "estimate"
    assert told["Own ε at most"] == told["ε shown by attack"] == "statistical 95 %"
    assert told["ε guaranteed"] == "proved"
    estimates = PEOPLE["levels"][0]["epsilon_estimate"]
    place = 1 + sum(one is not None and one > estimates[3] for one in estimates)
    own = opened.page.locator("#person-numbers article").filter(has_text="Own ε").first
    assert f"Rank {place}" in own.inner_text()


def test_a_report_without_the_newer_columns_opens_all_the_same(show: Callable[..., Opened]) -> None:
    newer = ("epsilon_statistical", "epsilon_estimate", "rank_epsilon_estimate", "ranked")
    levels = [{name: one for name, one in level.items() if name not in newer} for level in PEOPLE["levels"]]
    older = changed(REPORT, "people.levels", levels)
    for level in older["levels"]:
        del level["sandwich"]
    opened = show(older, hash="#person-3")
    assert opened.page.locator("#person").is_visible()
    assert "Own ε" not in opened.page.locator("#table thead").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_axe_finds_no_serious_violation(show: Callable[..., Opened], width: int, scheme: str) -> None:
    opened = show(REPORT, width, "#person-3", bypass_csp=True, color_scheme=scheme)
    assert serious(opened) == []


def test_axe_finds_no_serious_violation_on_the_public_page(show: Callable[..., Opened]) -> None:
    assert serious(show(public_report(REPORT), bypass_csp=True)) == []


def test_axe_finds_what_is_planted(show: Callable[..., Opened]) -> None:
    opened = show(REPORT, bypass_csp=True)
    opened.page.evaluate("() => document.body.append(document.createElement('button'))")
    assert serious(opened) == ["button-name"]


def serious(opened: Opened) -> list[str]:
    """Return what axe-core calls serious or critical, by rule."""
    axe = pytest.importorskip("axe_playwright_python", reason="axe-core comes with axe-playwright-python")
    opened.page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = opened.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [one["id"] for one in found["violations"] if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("paper", [688, 710], ids=["A4", "Letter"])  # what the margins leave, in CSS pixels
def test_nothing_is_cut_off_on_paper(show: Callable[..., Opened], paper: int) -> None:
    opened = show(REPORT, 1000)
    opened.page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    opened.page.emulate_media(media="print")
    opened.page.set_viewport_size({"width": paper, "height": 1000})
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= paper
    hidden = """all => all.filter((one) => getComputedStyle(one).overflow !== "visible"
      && one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0 && !one.closest(".hidden-label, svg, .skip"))
      .map((one) => one.outerHTML.slice(0, 90))"""
    assert opened.page.locator("main *").evaluate_all(hidden) == []


def small_pages() -> dict[str, str]:
    """Return the other pages that are made: a comparison, remedies, and the sheet of one person."""
    number = {"value": 0.709, "kind": "statistical", "lower": 0.626, "upper": 0.793, "confidence": 0.95}
    names = ("accuracy", "disagreement", "arbitrary_share", "most_exposed", "advantage_upper", "epsilon", "undecided")
    curve = {"mu": number, "true_positive_rates": [{"false_positive_rate": 0.01, "at_most": 0.027}]}
    row = {"delta": 1e-6, "spending": "composed", "trade_off": curve} | dict.fromkeys(names, number)
    titles = ("objective perturbation, Gaussian", "output perturbation", "abstain unless 3 models agree")
    rows = [{"title": title, "name": title} | row for title in titles]
    said = {"data": "patients", "models": 600, "sentences": ["Best of all.", "Cheapest for 5 %.", "Each ε is proved."]}
    left_out = {"left_out": {"dpsgd": "it needs add_or_remove"}}
    about = {
        "risk": "ε = 1, δ = 1e-06",
        "relation": "one person added or taken out",
        "mechanism": "output perturbation",
    }
    found = said | about | left_out | {"contenders": rows, "remedies": rows, "recommended": titles[0]}
    person = {"part": "train", "predicted": "ill", "agreement": 0.67, "disagreement": 0.885, "advantage": 0.07}
    sheet = render_sheet(REPORT, "000017", [person] * len(REPORT["levels"]))
    return {kind: render_comparison(found, kind) for kind in ("comparison", "remedies")} | {"sheet": sheet}


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("kind", ["comparison", "remedies", "sheet"])
def test_the_other_pages_fit_their_window_and_axe_finds_nothing_serious(
    browser: Any, tmp_path: Path, kind: str, width: int
) -> None:
    file = tmp_path / "page.html"
    file.write_text(small_pages()[kind], encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 1000}, offline=True, bypass_csp=True)
    opened = Opened(context.new_page())
    opened.page.goto(file.as_uri())
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert serious(opened) == []
    assert opened.complaints == []
    context.close()


def test_no_number_of_a_table_is_cut_off_where_there_is_room(show: Callable[..., Opened]) -> None:
    tables = show(REPORT, WIDE).page.locator(".scroll:not(:has(#table))")
    assert tables.evaluate_all("all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length") == 0
