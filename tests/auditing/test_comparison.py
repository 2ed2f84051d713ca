"""Mechanisms at the same proved risk, side by side."""

from dataclasses import replace
from pathlib import Path

import pytest

import seedscope as ss
from seedscope.auditing import Comparison
from seedscope.core import SeedscopeError
from seedscope.report import render_comparison, write_comparison
from tests.helpers.present import present
from tests.helpers.small_data import table

QUICK = ["gaussian-objective", "objective", "output"]


@pytest.fixture(scope="module")
def found() -> Comparison:
    return ss.compare(table(rows=120), epsilon=4.0, delta=1e-4, mechanisms=QUICK, models=20, jobs=1)


def test_all_have_the_same_guarantee_and_beside_them_there_is_none(found: Comparison) -> None:
    free, *private = found.contenders
    assert (free.name, free.epsilon, free.advantage_upper) == ("no privacy", None, None)
    assert [one.name for one in private] == QUICK
    assert {float(one.epsilon) for one in private if one.epsilon} == {4.0}
    assert {one.mechanism.relation for one in private} == {"add_or_remove"}
    assert all(one.advantage_upper is not None for one in private)
    assert free.disagreement.value == 0
    described = [one.as_dict()["trade_off"] for one in found.contenders]
    assert described[0] is None
    assert [one["advantage"]["value"] for one in described[1:]] == [
        float(present(one.advantage_upper)) for one in private
    ]


def test_the_most_exposed_person_is_within_what_the_guarantee_allows(found: Comparison) -> None:
    assert found.contenders[0].most_exposed is None
    for one in found.contenders[1:]:
        exposed = present(one.most_exposed)
        assert present(exposed.lower) <= present(one.advantage_upper).value + 1e-9
        assert present(exposed.lower) <= exposed.value
    output, data = found.contenders[3], table(rows=120)
    by_hand = ss.privacy_loss.everybody(ss.train(data, output.mechanism, grid=ss.Grid(2), jobs=1), data=data)
    assert present(output.most_exposed).value == pytest.approx(float(by_hand.advantage.max()))


def test_the_recommendation_names_the_price_of_having_looked(found: Comparison) -> None:
    assert found.recommended in found.contenders[1:]
    assert "3 times the ε and δ" in found.sentences[-1]


def test_an_advantage_is_kept_by_every_mechanism() -> None:
    found = ss.compare(table(rows=120), advantage=0.3, mechanisms=QUICK, models=3, jobs=1)
    reached = [float(one.advantage_upper or 1) for one in found.contenders[1:]]
    assert max(reached) <= 0.3
    assert min(reached) > 0.29


def test_three_classes_are_compared_too() -> None:
    found = ss.compare(table(rows=90, classes=3), epsilon=8.0, mechanisms=QUICK, models=20, jobs=1)
    assert len(found.contenders) == 4
    assert all(one.most_exposed is not None for one in found.contenders[1:])


def test_replacing_leaves_dpsgd_out_and_says_so() -> None:
    arguments = {"epsilon": 4.0, "relation": "replace_one", "models": 3, "jobs": 1}
    found = ss.compare(table(rows=90), mechanisms=["objective", "dpsgd"], **arguments)  # type: ignore[arg-type]
    assert "adding and removing" in found.left_out["dpsgd"]
    with pytest.raises(SeedscopeError, match="no mechanism is left"):
        ss.compare(table(rows=90), mechanisms=["dpsgd"], **arguments)  # type: ignore[arg-type]


def test_an_epsilon_too_small_for_one_mechanism_leaves_that_one_out_and_compares_the_others() -> None:
    said: list[str] = []

    def progress(name: str) -> None:
        said.append(name)

    found = ss.compare(table(rows=120, columns=3), epsilon=0.1, mechanisms=QUICK, models=3, jobs=1, progress=progress)
    assert set(found.left_out) == {"gaussian-objective", "output"}
    assert all("the least useful epsilon is about" in why for why in found.left_out.values())
    assert said == ["no privacy", "objective"]
    said.clear()
    with pytest.raises(SeedscopeError, match=r"pure ε: epsilon=0\.001 is too small.*; output perturbation: epsilon"):
        ss.compare(table(rows=120), epsilon=0.001, mechanisms=QUICK, models=3, jobs=1, progress=progress)
    assert not said  # refused before anything is trained


def test_the_usual_best_is_not_advised_where_it_was_left_out(found: Comparison) -> None:
    assert "take DP-SGD" in found.sentences[-1]
    assert "without other knowledge" not in replace(found, left_out={"dpsgd": "…"}).sentences[-1]


def test_the_page_shows_what_the_json_has_and_runs_nothing(found: Comparison, tmp_path: Path) -> None:
    hostile = found.as_dict() | {"data": "<script>alert(1)</script>"}
    page = render_comparison(hostile)
    assert "<script" not in page
    assert "script-src &#39;none&#39;" in page
    for one in found.contenders:
        assert f"{one.accuracy.value:.3f}" in page
    written = write_comparison(tmp_path / "out", found.as_dict())
    assert [path.name for path in written] == ["comparison.html", "comparison.json"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"epsilon": 1.0, "advantage": 0.1}, "either epsilon or another risk"),
        ({"mechanisms": ["dpsdg"]}, "Did you mean 'dpsgd'"),
        ({"models": 1}, "models must be a whole number of at least 2"),
        ({"epsilon": 0.01, "mechanisms": ["objective"]}, "the least useful epsilon is about"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_sentence(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(SeedscopeError, match=sentence):
        ss.compare(table(rows=60), **arguments)  # type: ignore[arg-type]
