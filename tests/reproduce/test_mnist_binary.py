"""MNIST-binary: logistic regression as IP1 trains it, on the real data."""

import numpy as np
import pytest

from seedscope import SGD, Ensemble, Grid, Records, load, train

pytestmark = pytest.mark.paper_data


@pytest.fixture(scope="module")
def ensemble() -> Ensemble:
    """Models of IP1's setting: 60 seeds on the data set and on a few that lack one row."""
    mechanism = SGD(learning_rate=0.5, batch_size=32, steps=1850)
    grid = Grid(seeds=60, neighbours=5, init="varied")
    return train(load("mnist-binary"), mechanism, grid=grid, records=Records(probes=("test",)))


def test_the_data_are_those_of_the_paper(ensemble: Ensemble) -> None:
    assert ensemble.description.data.examples == 10_396
    assert ensemble.description.data.norm_bound == 1.0
    assert ensemble.description.model.parameters == 51


def test_accuracy_is_the_papers(ensemble: Ensemble) -> None:
    assert ensemble.accuracy().mean() == pytest.approx(0.953, abs=0.003)


def test_variability_of_the_weights_is_the_papers(ensemble: Ensemble) -> None:
    weights = ensemble.weights.isel(init=0, step=-1).transpose("neighbour", "seed", "parameter").values.astype(float)
    deviations = weights - weights.mean(1, keepdims=True)
    flat = np.sqrt((deviations**2).mean((1, 2)))  # IP1: one standard deviation over all weights, for each data set
    assert flat.min() == pytest.approx(0.085, abs=0.003)
