"""A number and its kind."""

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from seedscope.core.errors import SeedscopeError
from seedscope.core.number import Number


def test_a_number_is_its_value_as_a_float() -> None:
    assert float(Number(0.25, "proved")) == 0.25


def test_a_number_says_its_kind_interval_and_confidence() -> None:
    assert str(Number(1.0, "proved")) == "1 (proved)"
    assert str(Number(0.5, "statistical", 0.25, 0.75, 0.9)) == "0.5 [0.25, 0.75] (statistical at 90 %)"


def test_an_interval_of_one_number_is_not_printed() -> None:
    assert str(Number(0.1049, "statistical", 0.10489, 0.10491, 0.95)) == "0.1049 (statistical at 95 %)"


def test_json_gets_what_is_known_and_nothing_else() -> None:
    assert Number(0.0, "proved").as_dict() == {"value": 0.0, "kind": "proved"}
    whole = Number(0.5, "statistical", 0.0, 1.0, 0.95, "few runs").as_dict()
    assert json.loads(json.dumps(whole)) == {
        "value": 0.5, "kind": "statistical", "lower": 0.0, "upper": 1.0, "confidence": 0.95, "note": "few runs",
    }  # fmt: skip


def test_a_number_cannot_change_its_kind() -> None:
    with pytest.raises(FrozenInstanceError):
        Number(1.0, "estimate").kind = "proved"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kind": "guess"}, "kind must be one of"),
        ({"kind": "statistical"}, "needs its confidence"),
        ({"kind": "estimate", "confidence": 1.0}, "confidence must be in"),
    ],
)
def test_a_number_without_a_sound_kind_is_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SeedscopeError, match=sentence):
        Number(1.0, **arguments)
