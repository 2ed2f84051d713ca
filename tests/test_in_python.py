"""What Python's users meet: results that show themselves, progress, wrong types in a sentence, the defaults."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import seedscope as ss
from seedscope.commands import audit as audit_command
from seedscope.commands import compare as compare_command
from seedscope.commands import own_models
from seedscope.commands import train as train_command
from seedscope.core import DELTA, shown_progress
from seedscope.integrations import audit_own
from tests.helpers.small_data import table

GRID = ss.Grid(seeds=8, neighbours=2)


@pytest.fixture(scope="module")
def ensemble() -> ss.Ensemble:
    """Models of plain SGD with and without two people."""
    return ss.train(table(), ss.SGD(steps=30, batch_size=8), grid=GRID)


@pytest.fixture(scope="module")
def results(ensemble: ss.Ensemble) -> dict[str, Any]:
    """A result of each kind that draws itself."""
    noisy = ss.train(table(), ss.OutputPerturbation(epsilon=2.0, delta=1e-5), grid=ss.Grid(seeds=8))
    return {
        "Multiplicity": ss.multiplicity.multiplicity(ensemble),
        "IntrinsicPrivacy": ss.intrinsic.intrinsic_privacy(ensemble),
        "ExactLoss": ss.privacy_loss.everybody(noisy, data=table()),
        "SampledLoss": ss.privacy_loss.from_losses(np.random.default_rng(0).normal(0.5, 1, (50, 4))),
    }


KINDS = ("Multiplicity", "IntrinsicPrivacy", "ExactLoss", "SampledLoss")


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_is_a_short_line_and_a_table_in_a_notebook(results: dict[str, Any], kind: str) -> None:
    line, html = repr(results[kind]), results[kind]._repr_html_()
    assert line.startswith(f"{kind}(")
    assert len(line) < 400
    assert "\n" not in line
    assert html.count("<tr>") == len(results[kind].summary()) == html.count("</td>")
    assert any(word in line for word in ("estimate", "statistical", "proved"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_draws_itself_with_named_axes_and_its_own_numbers(results: dict[str, Any], kind: str) -> None:
    chart = results[kind].plot().to_dict()
    drawn_on = {axis: [layer["encoding"][axis].get("title") for layer in chart["layer"]] for axis in ("x", "y")}
    assert any(drawn_on["x"]), "the axis of numbers or people has a name"
    (rows,) = chart["datasets"].values()
    assert rows
    assert all(row["lower"] <= row["upper"] for row in rows)
    if kind == "SampledLoss":
        drawn = sorted({row["person"]: row["value"] for row in rows}.items())
        np.testing.assert_allclose([value for _, value in drawn], results[kind].advantage)


def test_an_ensemble_is_an_xarray_dataset_and_a_tree_by_parts(ensemble: ss.Ensemble) -> None:
    assert ensemble.to_xarray().equals(ensemble.dataset)
    tree = ensemble.to_datatree()
    assert set(tree.children) == {f"on_{part}" for part in ensemble.texts("example_part")}
    np.testing.assert_array_equal(tree["on_test"]["scores"].values, ensemble.on("test")["scores"].values)
    np.testing.assert_array_equal(tree["weights"].values, ensemble.weights.values)
    assert "Ensemble(" in ensemble._repr_html_()


def test_progress_is_a_bar_a_function_or_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    told: tuple[Any, ...] = (True, False, lambda done, total: seen.append((done, total)))
    for one in told:
        ss.train(table(), ss.ObjectivePerturbation(), grid=ss.Grid(seeds=4), progress=one)
    assert "4/4" in capsys.readouterr().err
    assert seen[-1] == (4, 4)
    with pytest.raises(ss.SeedscopeError, match="progress must be True, False or a function"):
        ss.train(table(), ss.ObjectivePerturbation(), progress="yes")  # type: ignore[arg-type]


def test_progress_in_a_notebook_is_html_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, html: str) -> None:
            shown.append(html)

    def display(html: str, display_id: bool) -> Handle:
        assert display_id
        shown.append(html)
        return Handle()

    notebook: Any = types.ModuleType("IPython")
    notebook.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    notebook.display = types.ModuleType("IPython.display")
    notebook.display.HTML, notebook.display.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook.display)
    with shown_progress(True, "fitting") as move:
        assert move is not None
        move(0, 20)
        move(20, 20)
    assert ["0 of 20" in shown[0], "20 of 20" in shown[1]] == [True, True]


WRONG: dict[str, Callable[[ss.Ensemble], Any]] = {
    "data must be of type Dataset": lambda _: ss.train("breast-cancer", ss.SGD()),  # type: ignore[arg-type]
    "data must be of type Dataset, got DataFrame": lambda _: ss.train(pd.DataFrame({"a": [1]}), ss.SGD()),
    "grid must be of type Grid": lambda _: ss.train(table(), ss.SGD(), grid=5),  # type: ignore[arg-type]
    "records must be of type Records": lambda _: ss.train(table(), ss.SGD(), records="scores"),  # type: ignore[arg-type]
    "scaling must be of type Scaling": lambda _: ss.train(table(), ss.SGD(), scaling="standard"),  # type: ignore[arg-type]
    "store must be a path": lambda _: ss.train(table(), ss.SGD(), store=5),  # type: ignore[arg-type]
    "path must be a path": lambda _: ss.read_table(5, target="y"),  # type: ignore[arg-type]
    "audit takes ensembles one by one": lambda found: ss.audit([found]),
    "audit takes ensembles .* got Dataset": lambda _: ss.audit(table()),
    "data must be of type Dataset, got str": lambda found: ss.audit(found, data="breast-cancer"),  # type: ignore[arg-type]
    "confidence must be a number": lambda found: ss.audit(found, confidence="95%"),  # type: ignore[arg-type]
    "source must be an ensemble": lambda _: ss.multiplicity.multiplicity("scores"),
    "ensemble must be of type Ensemble": lambda _: ss.intrinsic.intrinsic_privacy(table()),  # type: ignore[arg-type]
    "ensemble must be of type Ensemble, got NoneType": lambda _: ss.privacy_loss.everybody(None),  # type: ignore[arg-type]
    "losses must be a number": lambda _: ss.privacy_loss.from_losses("losses"),
    "steps must be a number": lambda _: ss.accounting.dpsgd_epsilon(1.0, 0.01, "100", 1e-5),
    "error must be a number": lambda _: ss.multiplicity.models_needed("0.1", 0.95),  # type: ignore[arg-type]
    "an ensemble is made of": lambda _: ss.Ensemble("folder"),  # type: ignore[arg-type]
    "folder must be a path": lambda found: ss.audit(found).save(3),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_type_is_one_sentence(ensemble: ss.Ensemble, words: str) -> None:
    with pytest.raises(ss.SeedscopeError, match=words) as told:
        WRONG[words](ensemble)
    assert str(told.value).endswith(".")
    assert "\n" not in str(told.value)


def default(function: Callable[..., Any], name: str) -> Any:
    """Return an argument's default."""
    return inspect.signature(function).parameters[name].default


def test_the_command_and_python_have_the_same_defaults() -> None:
    assert default(ss.Grid, "seeds") == train_command.SEEDS
    for name in ("neighbours", "init", "relation"):
        assert default(train_command.train, name) == default(ss.Grid, name)
    assert default(train_command.train, "confidence") == default(ss.train_until, "confidence")
    for name in ("models", "delta", "relation", "seed"):
        assert default(compare_command.compare, name) == default(ss.compare, name)
    own = {"models": "seeds", "neighbours": "neighbours", "neighbour_models": "neighbour_seeds"}
    assert {python: own_models.FEWER[name] for name, python in own.items()} == {
        python: default(audit_own, python) for python in own.values()
    }
    assert default(audit_command.audit, "resample") == default(audit_own, "resample")
    assert default(ss.DPSGD, "delta") == default(ss.DPSGD.calibrated, "delta") == DELTA


def test_help_on_the_audit_shows_how_it_is_called() -> None:
    said = inspect.getdoc(ss.audit) or ""
    assert all(words in said for words in ("audit(ensemble)", "audit(estimator, X, y", "Args:", ">>>"))
    assert {"data", "confidence"} <= set(inspect.signature(ss.audit).parameters)


def test_a_report_is_the_same_byte_for_byte_but_for_its_time(ensemble: ss.Ensemble, tmp_path: Path) -> None:
    written = []
    for name in ("first", "second"):
        audit = ss.audit(ensemble, data=table())
        paths = audit.save(tmp_path / name)
        texts = {path.name: path.read_bytes().replace(audit.made.encode(), b"TIME") for path in paths}
        written.append(texts)
    assert written[0] == written[1]
    assert {"report.html", "report.json", "individuals.csv", "dictionary.csv"} <= set(written[0])
