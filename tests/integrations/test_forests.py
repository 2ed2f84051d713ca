"""Forests without a person from trees without them: what refits give, for everybody, and from the same trees."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import seedscope as ss
from seedscope.integrations.forests import Forests, grow
from seedscope.integrations.own_data import OwnData, own_data
from seedscope.integrations.seeding import seeded
from seedscope.training import generator

TREES = 8
FOREST = RandomForestClassifier(TREES, max_depth=4)


@pytest.fixture(scope="module")
def people() -> tuple[np.ndarray, np.ndarray]:
    """Two hundred people of a real table."""
    X, y = load_breast_cancer(return_X_y=True)
    return X[:200, :8], y[:200]


@pytest.fixture(scope="module")
def grown(people: tuple[np.ndarray, np.ndarray]) -> tuple[Forests, OwnData]:
    """Sixty small forests and what their trees give."""
    data, table, labels = own_data(*people)
    return grow(FOREST, table, labels, data, seeds=60, root_seed=0, jobs=1), data


def test_forests_with_everybody_are_those_of_plain_refits(
    people: tuple[np.ndarray, np.ndarray], grown: tuple[Forests, OwnData]
) -> None:
    X, y = people
    forests, data = grown
    rows = data.base.features[:, 0].astype(int)
    alone = seeded(FOREST, generator(0, "own model 0", 7)).fit(X[rows], y[rows])
    np.testing.assert_allclose(forests.scores[7], alone.predict_proba(X)[:, 1])


def test_a_forest_without_a_row_is_the_mean_of_the_first_trees_that_lack_it(
    people: tuple[np.ndarray, np.ndarray], grown: tuple[Forests, OwnData]
) -> None:
    X, y = people
    forests, data = grown
    rows = data.base.features[:, 0].astype(int)
    place, found = 5, []
    for seed in range(30):  # the first half of the trees
        forest = seeded(FOREST, generator(0, "own model 0", seed)).fit(X[rows], y[rows])
        for tree, bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
            found += [] if place in bag else [tree.predict_proba(X[[rows[place]]])[0, 1]]
    pairs = len(forests.without_row) // 2
    expected = np.array(found)[: pairs * TREES].reshape(pairs, TREES).mean(1)
    np.testing.assert_allclose(forests.without_row[:pairs, rows[place]], expected)
    assert np.isnan(forests.without_row[:, data.test.rows]).all()


def agreement(seeds: int, refits: int, count: int, trees: int) -> tuple[float, np.ndarray]:
    """Return how forests of trees without people compare with true refits: correlation of means, p-values."""
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(trees, max_depth=6)
    data, table, labels = own_data(X, y)
    found = grow(forest, table, labels, data, seeds, 0, jobs=2)
    rows = data.base.features[:, 0].astype(int)
    drawn = np.random.default_rng(0).permutation(len(rows))[:count]
    ours, theirs, p_values = [], [], []
    for place in drawn:
        without = found.without_row[:, rows[place]]
        kept = np.delete(rows, place)
        refitted = np.array([
            RandomForestClassifier(trees, max_depth=6, random_state=10_000 + k, n_jobs=2)
            .fit(X[kept], y[kept]).predict_proba(X[[rows[place]]])[0, 1]
            for k in range(refits)
        ])  # fmt: skip
        ours.append(without.mean())
        theirs.append(refitted.mean())
        p_values.append(kstest(without, refitted).pvalue)
    return float(np.corrcoef(ours, theirs)[0, 1]), np.array(p_values)


@pytest.mark.slow
def test_forests_of_trees_without_a_person_agree_with_true_refits() -> None:
    correlation, p_values = agreement(seeds=100, refits=12, count=50, trees=20)
    assert correlation >= 0.99
    assert (p_values < 0.05).mean() < 0.16  # 5 % by chance; 16 % of 50 has a chance below 1/1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "forest",
    [
        FOREST,
        ExtraTreesClassifier(TREES, bootstrap=True, max_samples=0.8),
        BaggingClassifier(DecisionTreeClassifier(), TREES, max_features=3),
    ],
)
def test_everybody_trained_on_is_attacked_for_nothing(forest: object, people: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = people
    audit = ss.audit(forest, X, np.array(["no", "yes"])[y], seeds=60, groups={"half": np.arange(200) // 100}, jobs=1)
    level = audit.levels[0]
    assert level.multiplicity.models == 60
    assert level.membership is not None
    assert len(level.audited) == 150
    assert level.membership.held_out_seeds >= 4
    assert float(level.membership.set_advantage) > 0.05  # deep trees remember whom they saw
    assert audit.individuals["membership_advantage"].notna().sum() == 150
    assert "trees without them" in audit.as_dict()["audited"]["mechanism"]


def test_many_classes_and_too_few_trees(people: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = people
    audit = ss.audit(FOREST, X, np.arange(200) % 3, seeds=6, neighbours=3, neighbour_seeds=8, jobs=1)
    assert audit.levels[0].multiplicity.classes == 3
    assert audit.levels[0].membership is not None
    assert len(audit.levels[0].membership.advantage) == 3  # refitted without some people: trees are too few for all


def test_text_without_an_encoder_is_named() -> None:
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"town": list("ab") * 50, "age": range(100)})
    with pytest.raises(ss.SeedscopeError, match="X has text in 'town'"):
        ss.audit(FOREST, X, np.arange(100) % 2)
