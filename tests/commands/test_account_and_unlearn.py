"""`account` and `unlearn` as commands: what they print, and one sentence for each mistake."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from seedscope import DPSGD, Ensemble, Grid, Norms, Records, SeedscopeError, Shuffled, per_instance, train
from seedscope.accounting import dpsgd_epsilon
from seedscope.commands.cli import app
from tests.helpers.small_data import table

MECHANISM: dict[str, Any] = {"learning_rate": 1.0, "batch_size": 8, "steps": 12, "noise_multiplier": 2.0}
SETUP = ["account", "--examples", "10000", "--batch-size", "100", "--steps", "500"]


def ran(*arguments: object) -> str:
    """Return what a command printed, after it ended well."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object) -> str:
    """Return the sentence with which a command refuses."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert isinstance(result.exception, SeedscopeError), result.output
    return str(result.exception)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models whose training rows' norms were recorded."""
    place = tmp_path_factory.mktemp("runs") / "kept"
    train(table(), DPSGD(**MECHANISM), grid=Grid(seeds=3), records=Records(norms=Norms("train", 4)), store=place)
    return place


def test_an_account_gives_epsilon_and_its_meaning_in_plain_words() -> None:
    said = ran(*SETUP, "--noise", 1.2)
    assert f"{float(dpsgd_epsilon(1.2, 0.01, 500, 1e-5)):.4g} by Rényi orders" in said
    for words in ("whatever the data", "membership attack", "of outsiders", "Only for Poisson batches"):
        assert words in said
    assert json.loads(ran(*SETUP, "--epsilon", 2, "--json"))["epsilon"]["rdp"] == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("risk", [["--advantage", 0.1], ["--tpr", 0.05, "--fpr", 0.01]])
def test_an_account_finds_the_least_noise_for_a_risk(risk: list[Any]) -> None:
    found = json.loads(ran(*SETUP, *risk, "--json"))
    at_one_percent = next(one for one in found["true_positive_rates"] if one["false_positive_rate"] == 0.01)
    reached = found["membership_advantage"] if "--advantage" in risk else at_one_percent["at_most"]
    assert 0.999 * risk[1] <= reached <= risk[1]
    assert found["epsilon"]["pld"] < found["epsilon"]["rdp"]
    assert set(found["trade_off"]) == {"false_positive_rate", "true_positive_rate"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give one of --noise, --epsilon"),
        (["--noise", 1, "--advantage", 0.1], "give one of --noise, --epsilon"),
        (["--tpr", 0.1], "true_positive_rate and false_positive_rate go together"),
        (["--tpr", 0.01, "--fpr", 0.1], "true_positive_rate must be above"),
        (["--advantage", 1.5], "advantage must be in (0, 1)"),
        (["--noise", 0], "noise_multiplier must be"),
        (["--noise", -1], "noise_multiplier must be"),
        (["--noise", 1, "--delta", 0], "delta must be in (0, 1)"),
        (["--noise", 1, "--delta", 1.5], "delta must be in (0, 1)"),
        (["--noise", 1, "--batch-size", 10_001], "--batch-size must be at most --examples"),
        (["--epsilon", -2], "epsilon must be"),
        (["--noise", 1, "--relation", "other"], "relation"),
        (["--noise", 1, "--epochs", 2], "either --steps or --epochs"),
        (["--noise", 1, "--steps", 0], "steps must be"),
        (["--examples", 100, "--batch-size", 0, "--epochs", 1, "--noise", 1], "--batch-size must be at least 1, got 0"),
        (["--examples", 100, "--batch-size", 10, "--steps", -1, "--noise", 1], "--steps must be at least 1, got -1"),
    ],
)
def test_an_account_of_what_cannot_be_is_refused(options: list[Any], words: str) -> None:
    assert words in refused(*SETUP, *options)


@pytest.mark.slow
def test_requests_are_decided_in_their_order(store: Path) -> None:
    found = json.loads(ran("unlearn", store, "--person", 3, "--person", 11, "--budget", 1000, "--json"))
    assert [(one["person"], one["retrain"]) for one in found["requests"]] == [("3", False), ("11", False)]
    assert "train again" in ran("unlearn", store, "--person", 3, "--budget", 1e-9)


def without(*people: int, **changes: int) -> Any:
    """Return what trains models like those of the store on the table without some of its rows."""
    data = table()
    left = replace(data, train=data.train.take(np.delete(np.arange(len(data.train)), people)))
    mechanism = DPSGD(**MECHANISM | changes)
    return lambda place: train(
        left, mechanism, grid=Grid(seeds=3), records=Records(norms=Norms("train", 4)), store=place
    )


@pytest.mark.slow
def test_a_later_person_is_asked_about_in_runs_without_the_earlier_ones(store: Path, tmp_path: Path) -> None:
    left = tmp_path / "left"
    without(3)(left)
    asked = ["unlearn", store, "--person", 3, "--person", 11, "--budget", 1000, "--json"]
    alone, after = (json.loads(ran(*asked, *more)) for more in ([], ["--after", left]))
    orders = per_instance.orders_needed(2.0, 2)
    first, later = (per_instance.per_instance_privacy(Ensemble.open(one), orders=orders) for one in (store, left))
    requests = [("3", first.divergence(3)), ("11", later.divergence(10))]  # row 11 is row 10 of what is left
    expected = per_instance.unlearning_decisions(requests, 2.0, 1000)
    found = [one["divergence"]["value"] for one in after["requests"]]
    assert found == [float(one.divergence) for one in expected]
    assert found[0] == alone["requests"][0]["divergence"]["value"]
    assert found[1] != alone["requests"][1]["divergence"]["value"]
    assert "still in the data" in alone["assumes"]
    assert "--public-size keeps their chance as it is" in after["assumes"]


@pytest.mark.slow
def test_with_a_public_number_of_rows_nothing_is_assumed_but_that_nobody_saw_the_model(tmp_path: Path) -> None:
    for place, gone in enumerate(((), (3,))):
        without(*gone, public_size=40)(tmp_path / str(place))
    people = ["--person", 3, "--person", 11]
    found = json.loads(ran("unlearn", tmp_path / "0", *people, "--after", tmp_path / "1", "--json"))
    assert found["assumes"] == "requests were made without seeing the model"


@pytest.mark.slow
def test_runs_on_something_else_than_what_is_left_are_refused(store: Path, tmp_path: Path) -> None:
    asked = ["unlearn", store, "--person", 3, "--person", 11, "--after"]
    wrong = {
        "--after must name runs without the people who left before, got runs with '3'": without(4),
        "leave out those who asked before and nobody else": without(3, 4),
        "--after must name runs of the same training": without(3, steps=8),
    }
    for place, (words, make) in enumerate(wrong.items()):
        make(tmp_path / str(place))
        assert words in refused(*asked, tmp_path / str(place))
    assert "every --person but the first, 1, got 2" in refused(*asked, store, "--after", store)


def test_noisy_steps_stand_in_for_training_again(store: Path) -> None:
    asked = ["unlearn", store, "--person", 3, "--budget", 1e-9, "--l2", 0.1, "--radius", 5]
    found = json.loads(ran(*asked, "--json"))["fine_tuning"]
    assert found["divergence"]["kind"] == "proved"
    assert found["divergence"]["value"] <= 1e-9
    assert f"then {found['steps']} whole-batch gradient steps" in ran(*asked).replace("\n", " ")
    assert "l2 must be" in refused(*asked[:-3], 0, "--radius", 5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--person", "9999"], "no gradient norms were recorded of a row with identifier '9999'"),
        (["--person", "3", "--order", 1], "order must be"),
        (["--person", "3", "--budget", 0], "budget must be"),
    ],
)
def test_requests_that_cannot_be_decided_are_refused(store: Path, options: list[Any], words: str) -> None:
    assert words in refused("unlearn", store, *options)


def test_norms_of_a_shuffled_run_are_refused(tmp_path: Path) -> None:
    mechanism = DPSGD(**MECHANISM, sampling=Shuffled())
    train(table(), mechanism, grid=Grid(seeds=2), records=Records(norms=Norms("train", 4)), store=tmp_path / "run")
    assert "needs Poisson() batches" in refused("unlearn", tmp_path / "run", "--person", 3)


def test_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    assert "no ensemble at" in refused("unlearn", tmp_path, "--person", 3)


def test_train_records_norms_that_unlearn_reads(tmp_path: Path) -> None:
    place = tmp_path / "run"
    options = ["--mechanism", "dpsgd", "--epsilon", 5, "--steps", 4, "--batch-size", 32, "--seeds", 2, "--jobs", 1]
    ran("train", "breast-cancer", *options, "--norms", "train", "--norms-every", "epoch", "--store", place, "--json")
    said = ran("unlearn", place, "--person", 5, "--budget", 100)
    assert "0 of 1 requests need training again" in said
    assert "of must be 'neighbours', 'train', 'test'" in refused(
        "train", "breast-cancer", *options, "--norms", "everybody"
    )
    assert "--norms-every must be" in refused(
        "train", "breast-cancer", *options, "--norms", "test", "--norms-every", "x"
    )
    assert "go with --norms" in refused("train", "breast-cancer", *options, "--norms-every", "5")
    assert "DPSGD only" in refused("train", "breast-cancer", "--norms", "test", "--store", tmp_path / "other")


def test_train_keeps_path_sums_that_unlearn_reads(tmp_path: Path) -> None:
    place = str(tmp_path / "sums")
    options = ["--mechanism", "dpsgd", "--epsilon", "2", "--steps", "10", "--seeds", "2", "--norms", "train"]
    ran("train", "breast-cancer", *options, "--norms-orders", "1.5,2,4", "--store", place, "--json")
    assert Ensemble.open(place).dataset["path_sums"].dims == ("seed", "neighbour", "init", "path_order", "watched")
    found = json.loads(ran("unlearn", place, "--person", "5", "--order", "1.5", "--budget", "100", "--json"))
    assert found["retrainings"] == 0
    message = refused("train", "breast-cancer", *options, "--norms-orders", "1.5;2")
    assert "--norms-orders must be numbers with commas" in message
    assert "go with --norms" in refused("train", "breast-cancer", "--norms-orders", "2")
