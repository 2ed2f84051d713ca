"""A mechanism written in one file trains, stores, resumes, is audited and reported like those of the library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seedscope as ss
from seedscope.core import SeedscopeError
from seedscope.mechanisms import Conditions, Mechanism, StepMechanism
from seedscope.planning import make_plan
from seedscope.training import ChunkTrainer, Job
from tests.helpers.small_data import given_scaling, table
from tests.mechanisms.sixth import PureOutputPerturbation

MECHANISM = PureOutputPerturbation(epsilon=2.0, l2=0.1)


def trained(store: Path | None = None, seeds: int = 16, jobs: int = 1) -> ss.Ensemble:
    grid = ss.Grid(seeds=seeds, neighbours=3)
    return ss.train(table(), MECHANISM, grid=grid, scaling=given_scaling(table()), store=store, jobs=jobs)


def test_it_trains_and_its_noise_has_the_calibrated_norm() -> None:
    data = table()
    grid = ss.Grid(seeds=3000)
    weights = ss.train(data, MECHANISM, grid=grid, scaling=ss.Standardised(), jobs=1).weights.values[:, 0, 0, 0]
    minimiser = ss.OutputPerturbation(noise_scale=0.0, l2=0.1)
    exact = ss.train(data, minimiser, grid=ss.Grid(1), scaling=ss.Standardised()).weights.values[0, 0, 0, 0]
    norms = np.linalg.norm(weights - exact, axis=1)
    conditions = Conditions.of(data, ss.Standardised().fit(data))
    assert conditions.norm_bound is not None
    scale = 2 * conditions.norm_bound / (conditions.examples * 0.1) / 2.0
    assert norms.mean() == pytest.approx(4 * scale, rel=0.05)  # the mean of Gamma(4, scale)
    assert norms.var() == pytest.approx(4 * scale**2, rel=0.15)


@pytest.mark.optimised
def test_it_is_stored_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    trained(tmp_path / "store")
    grown = trained(tmp_path / "store", seeds=40)
    np.testing.assert_array_equal(grown.weights, trained(seeds=40).weights)
    opened = ss.Ensemble.open(tmp_path / "store")
    assert opened.mechanism == MECHANISM
    assert opened.guarantee.epsilon == ss.Number(2.0, "proved")


@pytest.mark.optimised
def test_workers_of_other_processes_train_it_too(tmp_path: Path) -> None:
    np.testing.assert_array_equal(trained(tmp_path / "store", jobs=2).weights, trained().weights)


def test_it_is_audited_and_reported_in_its_own_words(tmp_path: Path) -> None:
    found = ss.audit(trained(), data=table())
    found.save(tmp_path / "report")
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["audited"]["mechanism"] == MECHANISM.words()
    assert report["levels"][0]["epsilon"] == 2.0
    assert report["levels"][0]["reconstruction"] is not None
    assert MECHANISM.words() in (tmp_path / "report" / "report.html").read_text()


def test_its_cost_is_known_before_it_trains() -> None:
    plan = make_plan(table(), MECHANISM, grid=ss.Grid(seeds=1000), scaling=ss.Standardised())
    assert plan.shape.seeds > 1


@pytest.mark.slow
def test_a_store_opens_where_its_mechanism_is_not_known_and_says_so_when_it_is_asked_for(tmp_path: Path) -> None:
    trained(tmp_path / "store")
    program = (
        "import sys, seedscope as ss\n"
        "ensemble = ss.Ensemble.open(sys.argv[1])\n"
        "print(ensemble, ensemble.accuracy().shape)\n"
        "try: ensemble.mechanism\n"
        "except ss.SeedscopeError as error: print(error)\n"
    )
    run = [sys.executable, "-c", program, str(tmp_path / "store")]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert "PureOutputPerturbation" in printed
    assert "(16,)" in printed
    assert "PureOutputPerturbation is not known here; import the module that defines it first." in printed


def test_what_it_leaves_out_is_told_by_a_sentence() -> None:
    with pytest.raises(SeedscopeError, match="is for two classes"):
        ss.train(table(classes=3), MECHANISM, grid=ss.Grid(2), scaling=ss.Standardised())
    with pytest.raises(SeedscopeError, match="gradient_norms are recorded for DPSGD only"):
        ss.train(table(), MECHANISM, grid=ss.Grid(2, neighbours=1), records=ss.Records(norms=ss.Norms()))


def test_a_mechanism_that_forgets_an_answer_cannot_be_made() -> None:
    class Unfinished(Mechanism):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Unfinished()  # type: ignore[abstract]


class WithoutItsRelation(PureOutputPerturbation):
    """Forgets to say what neighbouring data are."""

    relation = None  # type: ignore[assignment]


class StepsThatAreNotCounted(StepMechanism):
    """Says neither how many steps it takes nor of how many rows."""


def test_what_an_author_forgets_is_told_in_one_sentence() -> None:
    with pytest.raises(SeedscopeError, match="WithoutItsRelation must say its relation"):
        WithoutItsRelation()
    with pytest.raises(TypeError, match=r"batch_size.*last_step"):
        StepsThatAreNotCounted()  # type: ignore[abstract]
    with pytest.raises(SeedscopeError, match=r"SGD is a name of seedscope\.mechanisms\.sgd already"):
        type("SGD", (PureOutputPerturbation,), {"__module__": "elsewhere"})


@pytest.mark.parametrize(
    ("epsilon", "change", "said"),  # other ε, so that no trainer of another test is kept
    [
        (
            3.1,
            lambda records: {"weights": records["weights"]},
            r"must give the record '\w+', which the plan has; it gave \['weights'\]",
        ),
        (3.2, lambda records: records | {"mine": records["losses"]}, "gave a record 'mine' that no plan of it has"),
        (3.3, lambda records: records | {"weights": records["weights"][:, :, :, 0]}, "'weights' with the axes"),
    ],
)
def test_a_trainer_that_gives_other_records_is_refused_before_anything_is_written(
    epsilon: float, change: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = PureOutputPerturbation.trainer

    def trainer(self: PureOutputPerturbation, job: Job) -> ChunkTrainer:
        train = original(self, job)
        return lambda seeds, neighbours: change(train(seeds, neighbours))

    monkeypatch.setattr(PureOutputPerturbation, "trainer", trainer)
    mechanism = PureOutputPerturbation(epsilon=epsilon, l2=0.1)
    with pytest.raises(SeedscopeError, match=said):
        ss.train(table(), mechanism, grid=ss.Grid(seeds=4), store=tmp_path / "store", jobs=1)
    assert list((tmp_path / "store" / "done").iterdir()) == []
