"""A user's own models on a Dask cluster: real workers, which know neither the user's module nor the user's data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from sklearn.tree import DecisionTreeClassifier

import seedscope as ss
from tests.helpers.cluster import Cluster
from tests.integrations.test_estimators import encoded, people

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
FEW: dict[str, Any] = {"seeds": 6, "neighbours": 2, "neighbour_seeds": 8}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler with two workers."""
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    started.add_worker(), started.add_worker()
    started.wait_for(2)
    yield started
    started.stop()


def trees_of(depth: int) -> Any:
    """Return a training function that nobody can import: it brings its rows and its depth along."""
    X, y = people()
    numbers = X[["age", "pressure"]].to_numpy()

    def fitted(indices: np.ndarray, seed: int) -> np.ndarray:
        tree = DecisionTreeClassifier(max_features=1, max_depth=depth, random_state=seed)
        return np.asarray(tree.fit(numbers[indices], y[indices]).predict_proba(numbers))

    return fitted


@pytest.mark.parametrize("kind", ["pipeline", "moved", "function"])
def test_a_cluster_gives_the_scores_of_one_process(cluster: Cluster, kind: str, tmp_path: Path) -> None:
    X, y = people()
    numbers = X[["age", "pressure"]]
    given: dict[str, tuple[Any, ...]] = {
        "pipeline": (encoded(DecisionTreeClassifier(max_features=1)), X, y),
        "moved": (SGDClassifier(max_iter=5, tol=None), numbers, y),
        "function": (trees_of(3), None, y),
    }
    alone = ss.audit(*given[kind], jobs=1, **FEW).levels[0]
    there = ss.audit(*given[kind], cluster=cluster.address, store=tmp_path / "runs", **FEW).levels[0]
    np.testing.assert_array_equal(there.ensemble.scores.values, alone.ensemble.scores.values)
    assert there.membership is not None
    assert alone.membership is not None
    np.testing.assert_array_equal(there.membership.true_positive_rate, alone.membership.true_positive_rate)
    assert ("own engine" in there.ensemble.mechanism.words()) is (kind == "moved")
