"""Audits a user's own model: an estimator or a training function, on seeds × neighbouring data sets like any other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seedscope.auditing import Audit, Finding, Policy
from seedscope.auditing import audit as audit_ensembles
from seedscope.core import BASE, Relation, SeedscopeWarning, require, require_count, shown_progress, varied_init
from seedscope.datasets import Unscaled
from seedscope.execution import train
from seedscope.integrations.describing import (
    estimator_label,
    estimator_settings,
    estimator_words,
    function_name,
    function_settings,
)
from seedscope.integrations.fitted_scores import require_classifier
from seedscope.integrations.forests import as_ensembles, grow, tells_of_everybody
from seedscope.integrations.own_data import Groups, OwnData, own_data
from seedscope.integrations.own_network import OwnNetwork
from seedscope.integrations.sources import seed_share
from seedscope.integrations.training import (
    EstimatorTraining,
    FunctionTraining,
    OwnTraining,
    Resample,
    neighbouring,
    packed,
)
from seedscope.integrations.transfer import REFITTED, moved
from seedscope.integrations.trial import Trial, failure, require_varying, tried, why_it_failed
from seedscope.mechanisms import OwnModel
from seedscope.planning import Grid, Records
from seedscope.storage import Ensemble

Progress = Callable[[int, int], None]
SHOWN = 3  # failed seeds that are named


@dataclass(frozen=True, eq=False)
class Runner:
    """Where and how a user's own models are trained."""

    data: OwnData
    training: OwnTraining
    label: str
    said: str
    settings: str
    root_seed: int
    store: Path | None
    jobs: int | None
    cluster: str | None
    progress: Progress | bool | None

    def run(self, grid: Grid, part: str, place: str, draw: int = 0) -> Ensemble:
        """Return the models of one grid with their scores of one part; seeds that failed are left out and named."""
        carried = replace(self.training, seeds=grid.seeds, draw=draw)
        mechanism = OwnModel(self.label, self.said, self.settings, self.training.resample, draw, carried)
        ensemble = train(
            self.data, mechanism, model=OwnNetwork(self.label), grid=grid, scaling=Unscaled(),
            records=Records(probes=(part,)),  # type: ignore[arg-type]
            store=None if self.store is None else self.store / place, jobs=self.jobs, cluster=self.cluster,
            progress=self.progress,
        )  # fmt: skip
        return self._without_failed(ensemble, carried)

    def _without_failed(self, ensemble: Ensemble, training: OwnTraining) -> Ensemble:
        """Return the ensemble without the seeds whose models could not be trained, after a warning that names them."""
        whole = ensemble.whole_seeds()
        failed = np.setdiff1d(ensemble.dataset["seed"].values, whole.dataset["seed"].values).tolist()
        if not failed:
            return ensemble
        rows, spare = self.data.base.features[:, 0].astype(int), int(self.data.test.features[0, 0])
        named = []
        for seed in failed[:SHOWN]:
            person = _first_failed(ensemble, seed)
            where = "" if person < 0 else f" without {self.data.base.ids[person]}"
            given = neighbouring(rows, spare, ensemble.relation, person)
            named.append(f"seed {seed}{where}: {why_it_failed(training, given, self.root_seed, seed)}")
        more = f"; and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
        said = f"{len(failed)} of {ensemble.dataset.sizes['seed']} seeds of {self.label} failed and are left out"
        require(len(failed) < ensemble.dataset.sizes["seed"] - 1, f"{said}: {'; '.join(named)}{more}.")
        warnings.warn(f"{said}: {'; '.join(named)}{more}.", SeedscopeWarning, stacklevel=4)
        return whole


def _first_failed(ensemble: Ensemble, seed: int) -> int:
    """Return the first data set on which a seed failed: a neighbour's number, or the base's, which is below 0."""
    scores = ensemble.dataset["scores"].sel(seed=seed)
    failed = scores.isnull().any([axis for axis in scores.dims if axis != "neighbour"]).values
    return int(ensemble.dataset["neighbour"].values[np.argmax(failed)])


def audit_own(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    groups: Groups | None = None,
    test: Any = None,
    ids: ArrayLike | None = None,
    seeds: int = 100,
    neighbours: int = 10,
    neighbour_seeds: int = 20,
    resample: Resample = "none",
    relation: Relation = "add_or_remove",
    seed: int = 0,
    name: str = "own data",
    store: str | Path | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: Progress | bool | None = None,
    confidence: float = 0.95,
    command: str = "",
    policy: Policy | str | Path | None = None,
    fail_if: Sequence[str] = (),
) -> Audit:
    """Return the audit of an estimator, or of a function `train(indices, seed)`, re-trained many times.

    Args:
        model: a classifier with `fit` and `predict_proba`, `decision_function` or `predict`, in a pipeline or not;
            every `random_state` in it is drawn anew for each seed. Or a function of training rows' numbers and a seed
            that returns scores [row] of the second class, or [row, class], of all rows.
        X: rows: an array, a data frame of pandas or polars, a sparse matrix; a function needs none.
        y: labels [row].
        groups: by name, a value for each row; or names of columns of X, which stay features.
        test: (X_test, y_test), or True for the rows of the test part; by default a stratified quarter is drawn.
        ids: identifiers, by default the rows' numbers.
        seeds: re-trainings on the data as they are.
        neighbours: people whose membership is attacked, with `neighbour_seeds` re-trainings with and without each.
        resample: "bootstrap" draws the training rows anew for each seed, and tells the seed's share of the
            disagreement from the sample's.
        relation: a person is taken out ("add_or_remove"), or replaced by the first test row ("replace_one").
        seed: everything random follows from it.
        store: a folder that keeps scores and losses: a run that was stopped goes on where it was. Without one, and
            without `resample`, a bootstrap forest of enough trees is audited with and without everybody from these.
        jobs, cluster, progress: as for `train`; policy, fail_if: as for an audit of ensembles.
    """
    require(y is not None, "y must be the labels, one for each row.")
    require_count("seeds", seeds)
    require_count("neighbour_seeds", neighbour_seeds, at_least=2)
    require(resample in ("none", "bootstrap"), f"resample must be 'none' or 'bootstrap', got {resample!r}.")
    data, table, labels = own_data(X, y, test=test, groups=groups, ids=ids, name=name, seed=seed)  # type: ignore[arg-type]
    if resample == "none" and relation == "add_or_remove" and store is None and tells_of_everybody(model, seeds):
        forests = _grown(model, table, labels, data, seeds, seed, jobs, progress)
        return audit_ensembles(forests, confidence=confidence, command=command, policy=policy, fail_if=fail_if)
    label, said, settings, training = _prepared(model, table, labels, resample, seeds)
    trial = tried(training, data, label, seed)
    require_varying(trial, label, resample)
    place = None if store is None else Path(store)
    training, said, settings = _moved(replace(training, seconds=trial.seconds), data, said, settings)
    runner = Runner(data, training, label, said, settings, seed, place, jobs, cluster, progress)
    base = runner.run(Grid(seeds, root_seed=seed), "test", "base")
    trained: Any = base
    if neighbours:
        grid = Grid(neighbour_seeds, min(neighbours, len(data.base)), root_seed=seed, relation=relation)
        trained = base, runner.run(grid, "neighbours", "neighbours")
    report = audit_ensembles(trained, confidence=confidence, command=command, policy=policy, fail_if=fail_if)
    return replace(report, findings=_sources(runner, base, trial, confidence))


def _grown(
    forest: Any, table: Any, labels: np.ndarray, data: OwnData, seeds: int, seed: int, jobs: int | None,
    progress: Progress | bool | None,
) -> Any:  # fmt: skip
    """Return the ensembles of a bootstrap forest, with and without everybody from the same trees."""
    label = estimator_label(forest)
    try:
        with shown_progress(progress, "growing") as move:
            forests = grow(forest, table, labels, data, seeds, seed, jobs, move)
    except Exception as error:
        raise failure(table, label, error) from error
    trees = f"{seeds} forests of {forest.n_estimators} trees; forests without a person are made of trees without them"
    said = f"{estimator_words(forest)}, {trees}"
    return as_ensembles(forests, data, labels, OwnModel(label, said, estimator_settings(forest)))


def _prepared(
    model: Any, table: Any, labels: np.ndarray, resample: Resample, seeds: int
) -> tuple[str, str, str, OwnTraining]:
    """Return a model's name, itself in words, what tells it from another, and how it is trained."""
    if callable(model) and not hasattr(model, "fit"):
        label = function_name(model)
        said = f"the function {label}(indices, seed)"
        training: OwnTraining = FunctionTraining(packed(model), None, labels, resample, 0, seeds)
        return label, _resampled(said, resample), function_settings(model), training
    require_classifier(model)
    require(table is not None, "X must be the rows that the estimator is fitted on.")
    training = EstimatorTraining(packed(model), table, labels, resample, 0, seeds)
    said = f"{estimator_words(model)}, {REFITTED}"
    return estimator_label(model), _resampled(said, resample), estimator_settings(model), training


def _moved(training: OwnTraining, data: OwnData, said: str, settings: str) -> tuple[OwnTraining, str, str]:
    """Return how models are trained, in words which way, and settings that tell the ways apart."""
    if not isinstance(training, EstimatorTraining):
        return training, said, settings
    training, way = moved(training, data.base.features[:, 0].astype(int))
    return training, said.replace(REFITTED, way.words), f"{settings}, our solver" if way.moved else settings


def _resampled(said: str, resample: Resample) -> str:
    """Return the words, with where the sample is drawn anew."""
    return said if resample == "none" else f"{said}; each seed draws its training rows anew (bootstrap)"


def _sources(runner: Runner, base: Ensemble, trial: Trial, confidence: float) -> tuple[Finding, ...]:
    """Return whether decisions hang on the seed or on the sample, where both were drawn."""
    if runner.training.resample == "none":
        return ()
    question = "Is it the seed, or the sample?"
    if not trial.varies:
        said = "The sample alone: the same rows give the same model, whatever the seed."
        return (Finding(question, said, None),)
    seeds = base.dataset["seed"].values
    twins = runner.run(Grid(int(seeds.max()) + 1, root_seed=runner.root_seed), "test", "other-seeds", draw=1)
    both = np.intersect1d(seeds, twins.dataset["seed"].values)
    scores = [
        varied_init(ensemble.dataset["scores"].sel(neighbour=BASE, seed=both)).values for ensemble in (base, twins)
    ]
    share = seed_share(scores[0], scores[1], confidence)
    said = f"{100 * float(share):.0f} % of the disagreement is the seed's, the rest is the sample's."
    return (Finding(question, said, share),)
