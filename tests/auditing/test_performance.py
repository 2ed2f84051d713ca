"""How good decisions are, by slow and obvious versions, and what the page says of settings and meanings."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix as sklearn_confusion
from sklearn.metrics import roc_auc_score

import seedscope as ss
from seedscope.accounting import plain_meanings
from seedscope.auditing.performance import areas, confusion_matrix
from tests.helpers.small_data import table


def test_areas_are_the_share_of_pairs_in_the_right_order() -> None:
    draw = np.random.default_rng(0)
    scores, labels = draw.integers(0, 5, (3, 20)) / 4, draw.integers(0, 2, 20)
    pairs = list(product(np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)))
    slow = [np.mean([(s[i] > s[j]) + 0.5 * (s[i] == s[j]) for i, j in pairs]) for s in scores]
    np.testing.assert_allclose(areas(scores, labels), slow)
    np.testing.assert_allclose(areas(scores, labels), [roc_auc_score(labels, s) for s in scores])


def test_areas_of_several_classes_are_scikit_learns() -> None:
    draw = np.random.default_rng(1)
    scores, labels = draw.dirichlet(np.ones(3), (2, 30)), draw.integers(0, 3, 30)
    expected = [roc_auc_score(labels, one, multi_class="ovr", average="macro") for one in scores]
    np.testing.assert_allclose(areas(scores, labels), expected)


def test_confusion_is_the_mean_of_every_models_own() -> None:
    draw = np.random.default_rng(2)
    decided, labels = draw.integers(0, 3, (4, 25)), draw.integers(0, 3, 25)
    slow = np.mean([sklearn_confusion(labels, one, labels=[0, 1, 2]) for one in decided], axis=0)
    np.testing.assert_allclose(confusion_matrix(decided, labels, 3), slow)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """The report of two private levels."""
    levels = [ss.train(table(), ss.ObjectivePerturbation(epsilon=e), grid=ss.Grid(seeds=12)) for e in (1.0, 8.0)]
    return ss.audit(*levels, data=table()).as_dict()


def test_a_report_has_its_baselines_and_every_levels_recall(report: dict[str, Any]) -> None:
    data, found = table(), report["performance"]
    counts = np.bincount(data.test.labels)
    assert found["majority"]["value"] == pytest.approx(counts.max() / counts.sum())
    assert 0.5 < found["without_privacy"]["value"] <= 1
    for level, whole in zip(found["levels"], report["levels"], strict=True):
        matrix = np.array(level["confusion"])
        np.testing.assert_allclose(matrix.sum(1), counts, atol=0.02)
        assert np.trace(matrix) / counts.sum() == pytest.approx(whole["accuracy"]["value"], abs=0.01)
        recalls = [one["value"] for one in level["recall"]]
        np.testing.assert_allclose(recalls, np.diag(matrix) / counts, atol=0.01)


def test_a_level_says_its_settings_and_what_its_epsilon_bounds(report: dict[str, Any]) -> None:
    strong, weak = report["levels"]
    assert {"features", "l2", "noise (tilt of the objective)"} <= set(strong["settings"])
    noise = [float(one["settings"]["noise (tilt of the objective)"]) for one in (strong, weak)]
    assert noise[0] > noise[1] > 0
    assert strong["meanings"][0] == next(plain_meanings(1.0, 0.0, []))
    assert len(weak["meanings"]) == 5


def test_where_not_everybody_was_attacked_the_report_says_how_many() -> None:
    ensemble = ss.train(table(), ss.SGD(steps=20, batch_size=8), grid=ss.Grid(seeds=12, neighbours=3))
    said = ss.audit(ensemble).as_dict()["audited"]["attacked"]
    assert said.startswith(f"3 of {len(table().base)} people were attacked")
