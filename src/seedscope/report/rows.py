"""The report as rows for charts, with fixed names: what people called their columns and classes is only ever data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Report = Mapping[str, Any]
Rows = list[dict[str, Any]]

TRADE_OFF = {"accuracy": "Accuracy", "mean_disagreement": "Disagreement", "attack_advantage": "Attack"}
MODELS = ["models without them", "models that have them"]  # who decided, by a report's `in_models`
ALLOWED = "allowed by the guarantee"
LIMITS = ("proved for everyone", "most that this many seeds can show")


def people_rows(report: Report, level: int) -> Rows:
    """Return one row per person shown, at a privacy level; the script's `peopleRows` does the same on the page."""
    people, classes = report["people"], report["audited"]["classes"]
    columns = people["levels"][level]
    return [
        {
            "person": person,
            "id": people["id"][person],
            "label": _name(classes, people["label"][person]),
            "predicted": _name(classes, columns["predicted"][person]),
            "disagreement": columns["disagreement"][person],
            "part": people["part"][person],
            "exposure": exposure(people, columns, person),
            "advantage_lower": _entry(columns, "advantage_lower", person),
            "advantage_upper": _entry(columns, "advantage_upper", person),
            "models": _name(MODELS, _entry(columns, "in_models", person)),
            "membership": columns["membership_advantage"][person],
            "epsilon_lower": columns["epsilon_lower"][person],
            "epsilon_upper": columns["epsilon_upper"][person],
            "epsilon_statistical": _entry(columns, "epsilon_statistical", person),
            "epsilon_estimate": _entry(columns, "epsilon_estimate", person),
        }
        for person in range(people["shown"])
    ]


def privacy_rows(people: Rows) -> Rows:
    """Return the people whose ε was attacked, most exposed first, with their place in that order.

    If nobody was attacked, those whose ε is bounded from above.
    """
    attacked = [row for row in people if row["epsilon_lower"] is not None]
    bounded = attacked or [row for row in people if row["epsilon_upper"] is not None]
    sides = ("epsilon_lower", "epsilon_estimate", "epsilon_upper")
    bounded.sort(key=lambda row: (*(-(row[side] or 0) for side in sides), row["person"]))
    return [{**row, "place": place + 1} for place, row in enumerate(bounded)]


def sided_rows(people: Rows) -> Rows:
    """Return the people whose exposure is known from both sides, most exposed first, with their place in that order."""
    sided = [row for row in people if row["advantage_lower"] is not None and row["advantage_upper"] is not None]
    sided.sort(key=lambda row: (-row["exposure"], row["person"]))
    return [{**row, "place": place + 1} for place, row in enumerate(sided)]


def allowed_rows(report: Report) -> Rows:
    """Return, per level, the largest advantage over anybody that the guarantee allows."""
    return [
        {"level": index, "limit": ALLOWED, "advantage": curve["advantage"]["value"]}
        for index, level in enumerate(report["levels"])
        if (curve := level.get("trade_off"))
    ]


def level_rows(report: Report) -> Rows:
    """Return one row per privacy level and quantity of the trade-off."""
    return [
        {"level": index, "label": level["label"], "quantity": title, **_interval(level[name])}
        for index, level in enumerate(report["levels"])
        for name, title in TRADE_OFF.items()
        if level[name] is not None and level[name]["value"] is not None
    ]


def roc_rows(report: Report) -> Rows:
    """Return the points of every level's attack curve whose false-positive rate has a logarithm."""
    return [
        {"level": index, "label": level["label"], "false_positive": false, "true_positive": true, "limit": limit}
        for index, level in enumerate(report["levels"])
        for false, true, limit in _curve(level["roc"])
        if false > 0
    ]


def group_rows(report: Report) -> Rows:
    """Return one row per privacy level, group and group level; `row` is its place in the chart."""
    return [
        {
            "row": row,
            "level": index,
            "group": group["name"],
            "name": group["levels"][place],
            "people": group["people"][place],
            **_interval(part["mean_disagreement"][place]),
        }
        for index in range(len(report["levels"]))
        for row, (group, place) in enumerate(group_places(report))
        if (part := group["by_level"][index])["mean_disagreement"][place] is not None
    ]


def group_places(report: Report) -> list[tuple[Report, int]]:
    """Return every group with each of its levels' positions, in the order of the chart's rows."""
    return [(group, place) for group in report["groups"] for place in range(len(group["levels"]))]


def group_names(report: Report) -> list[str]:
    """Return the names of the chart's rows; with several groups the group's name comes first."""
    several = len(report["groups"]) > 1
    return [
        f"{group['name']}: {group['levels'][place]}" if several else group["levels"][place]
        for group, place in group_places(report)
    ]


def limit_rows(report: Report) -> Rows:
    """Return, per level, the ε that is proved and the ε that this many seeds could show at most."""
    return [
        {"level": index, "limit": name, "epsilon": epsilon}
        for index, level in enumerate(report["levels"])
        for name, epsilon in zip(LIMITS, _limits(level), strict=True)
        if epsilon is not None
    ]


def exposure(people: Report, columns: Report, person: int) -> float | None:
    """Return how far the best attack beats guessing, else how far ours does; 0 for people not trained on."""
    if people["part"][person] == "test":
        return 0.0
    best: float | None = _entry(columns, "advantage", person)
    ours: float | None = columns["membership_advantage"][person]
    return ours if best is None else best


def _entry(columns: Report, name: str, person: int) -> Any:
    """Return a person's number in a column that a report may lack."""
    return columns[name][person] if name in columns else None


def _limits(level: Report) -> tuple[float | None, float | None]:
    """Return the proved ε and the largest ε that could be shown, where there are such."""
    proved = level["guarantee"]["epsilon"]
    return None if proved is None else proved["value"], level["epsilon_lower_ceiling"]


def _name(names: list[str], index: int | None) -> str | None:
    """Return the name at a position, None where there is none."""
    return None if index is None else names[index]


def _interval(number: Report) -> dict[str, Any]:
    """Return a number's value and interval; without an interval its ends are the value."""
    ends = {end: number["value"] if number.get(end) is None else number[end] for end in ("lower", "upper")}
    return {"value": number["value"], **ends, "kind": number["kind"]}


def _curve(roc: Report | None) -> list[tuple[float, float, float | None]]:
    """Return the points of a curve, with the guarantee's limit where there is one."""
    if roc is None:
        return []
    none: list[float | None] = [None] * len(roc["false_positive_rate"])
    limits = roc.get("true_positive_limit", none)
    return list(zip(roc["false_positive_rate"], roc["true_positive_rate"], limits, strict=True))
