"""How far apart networks are that are the same function with their hidden units in another order or on another scale.

A network of one hidden layer computes the same if its units change places, and, with ReLU, if a unit's incoming weights
grow by a factor by which its outgoing ones shrink. Both count as distance between weights, and so as noise of the seed
(IP1 §4, IP2 §5), although they hide nobody: an attacker undoes them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.intrinsic.distances import pairwise_distances
from seedscope.analyses.intrinsic.spread import variability
from seedscope.analyses.intrinsic.weight_grid import checked_weights
from seedscope.core import map_in_threads, require, require_count

ROUNDS = 100  # of matching and averaging, which ends by itself, mostly after a few
AS_TRAINED, MATCHED, BALANCED = "as trained", "units matched", "units matched and balanced"


@dataclass(frozen=True)
class HiddenLayer:
    """The shape of a network with one hidden layer.

    Its weights lie in one vector as `mlp` has them: [unit, input], [unit], [output, unit], [output].
    """

    inputs: int
    units: int
    outputs: int = 1

    def __post_init__(self) -> None:
        for name in ("inputs", "units", "outputs"):
            require_count(name, getattr(self, name))

    @property
    def parameters(self) -> int:
        """How many weights it has."""
        return self.units * (self.inputs + 1 + self.outputs) + self.outputs

    def by_unit(self, weights: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what goes into each unit [..., unit, input + 1], what leaves it [..., unit, output], the last bias."""
        array = np.asarray(weights, float)
        shape = f"weights must be {self.parameters} numbers a network of this hidden layer, got {array.shape[-1]}."
        require(array.ndim >= 1 and array.shape[-1] == self.parameters, shape)
        ends = np.cumsum([self.units * self.inputs, self.units, self.outputs * self.units])
        rows, biases, leaving, last = np.split(array, ends, axis=-1)
        into = rows.reshape(*array.shape[:-1], self.units, self.inputs)
        leaving = leaving.reshape(*array.shape[:-1], self.outputs, self.units)
        return np.concatenate([into, biases[..., None]], axis=-1), np.swapaxes(leaving, -1, -2), last

    def joined(self, into: np.ndarray, leaving: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return weights in one vector: the inverse of `by_unit`."""
        front = into.shape[:-2]
        rows, biases = into[..., :-1].reshape(*front, -1), into[..., -1]
        return np.concatenate([rows, biases, np.swapaxes(leaving, -1, -2).reshape(*front, -1), last], axis=-1)


@dataclass(frozen=True, eq=False)
class Symmetry:
    """What is left of the seed's effect when units may change places, and also their scale.

    By name ("as trained", "units matched", "units matched and balanced"): `seed` [pair of seeds] the distances Δ_V of
    the base's models; `data` [seed, neighbour] the distances Δ_S; `variability` the pooled spread over seeds, each
    network in the order of units that brings it nearest to the others.
    """

    seed: dict[str, np.ndarray]
    data: dict[str, np.ndarray]
    variability: dict[str, float]

    def seed_exceeds_data(self, name: str) -> float:
        """Return the share of (pair of seeds, seed and neighbour) comparisons in which the seed moves more."""
        ordered = np.sort(self.data[name], axis=None)
        return float(np.searchsorted(ordered, self.seed[name]).mean() / ordered.size)


def balanced(weights: ArrayLike, layer: HiddenLayer) -> np.ndarray:
    """Return the same ReLU networks with each unit's incoming and outgoing weights of one norm: the shortest such.

    A unit that nothing enters or leaves is 0.

    >>> balanced([4.0, 0.0, 1.0, 0.5], HiddenLayer(inputs=1, units=1)).tolist()
    [2.0, 0.0, 2.0, 0.5]
    """
    into, leaving, last = layer.by_unit(weights)
    before, after = (np.linalg.norm(part, axis=-1, keepdims=True) for part in (into, leaving))
    alive = (before > 0) & (after > 0)
    ratio = np.sqrt(np.divide(after, before, out=np.zeros_like(before), where=alive))
    inverse = np.divide(1.0, ratio, out=np.zeros_like(ratio), where=ratio > 0)
    return layer.joined(into * ratio, leaving * inverse, last)


def best_order(reference: ArrayLike, weights: ArrayLike, layer: HiddenLayer) -> np.ndarray:
    """Return the order of the units of `weights` that brings it nearest to `reference`, exactly: an assignment problem.

    >>> best_order([1.0, 9.0, 0, 0, 1, 1, 0], [9.1, 1.2, 0, 0, 1, 1, 0], HiddenLayer(inputs=1, units=2)).tolist()
    [1, 0]
    """
    return _order(_costs(_units(reference, layer), _units(weights, layer)))


def matched_distances(left: ArrayLike, right: ArrayLike, layer: HiddenLayer) -> np.ndarray:
    """Return the distances [i, j] between networks, each pair in the order of units that brings it nearest.

    Args:
        left, right: [network, parameter].
        layer: the shape of the networks.

    >>> one, swapped = [1.0, 9.0, 0, 0, 1, 2, 0], [9.0, 1.0, 0, 0, 2, 1, 0]
    >>> matched_distances([one], [swapped], HiddenLayer(inputs=1, units=2)).tolist()
    [[0.0]]
    """
    ours, there = _units(left, layer), _units(right, layer)
    last = pairwise_distances(layer.by_unit(left)[2], layer.by_unit(right)[2])
    rows = [_matched_row(units, there) for units in ours]
    matched: np.ndarray = np.sqrt(np.stack(rows) + last**2)
    return matched


def _matched_row(units: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the squared distances of one network's units [unit, weight] to those of others, in their best orders."""
    flat = others.reshape(-1, others.shape[-1])
    costs = (pairwise_distances(units, flat) ** 2).reshape(len(units), len(others), -1)
    return np.array([np.take_along_axis(cost, _order(cost)[:, None], 1).sum() for cost in np.moveaxis(costs, 1, 0)])


def _units(weights: ArrayLike, layer: HiddenLayer) -> np.ndarray:
    """Return each unit's own weights [..., unit, weight], incoming and outgoing."""
    into, leaving, _ = layer.by_unit(weights)
    return np.concatenate([into, leaving], axis=-1)


def _costs(reference: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the squared distances [unit, unit] between the units of two networks."""
    squares: np.ndarray = pairwise_distances(reference, units) ** 2
    return squares


def _order(costs: np.ndarray) -> np.ndarray:
    """Return which column goes to each row, at the least sum."""
    from scipy.optimize import linear_sum_assignment

    order: np.ndarray = linear_sum_assignment(costs)[1]
    return order


def aligned(weights: ArrayLike, layer: HiddenLayer) -> np.ndarray:
    """Return weights [seed, dataset, parameter] with each seed's units in an order that makes the seeds' spread small.

    One order a seed, found on the base and used for all its data sets, so that distances between those stay. Orders are
    matched with the mean network and the mean taken anew until nothing changes; each round makes the spread smaller.
    """
    array = checked_weights(weights)
    base, orders = _units(array[:, 0], layer), np.full((len(array), layer.units), -1)
    mean = base[0]
    for _ in range(ROUNDS):
        matched = np.stack([_order(_costs(mean, units)) for units in base])
        mean = np.take_along_axis(base, matched[..., None], axis=1).mean(axis=0)
        if np.array_equal(matched, orders):
            break
        orders = matched
    into, leaving, last = layer.by_unit(array)
    chosen = orders[:, None, :, None]
    return layer.joined(np.take_along_axis(into, chosen, -2), np.take_along_axis(leaving, chosen, -2), last)


def without_symmetry(weights: ArrayLike, layer: HiddenLayer, *, relu: bool = True) -> Symmetry:
    """Return the seed's and the data's effect on networks as trained, with units matched, and on one scale too.

    How much of "the seed moves the weights" is only another name for the same function?

    Args:
        weights: [seed, dataset, parameter], dataset 0 the base, of networks with one hidden layer.
        layer: their shape.
        relu: whether units may be rescaled; else only their order is free.

    >>> rng = np.random.default_rng(0)
    >>> layer = HiddenLayer(inputs=3, units=4)
    >>> one = rng.normal(size=layer.parameters)
    >>> into, leaving, last = layer.by_unit(one)
    >>> orders = [rng.permutation(4) for _ in range(5)]
    >>> same = np.stack([layer.joined(into[order], leaving[order], last) for order in orders])[:, None]
    >>> found = without_symmetry(same.repeat(2, axis=1), layer)
    >>> bool(found.seed["as trained"].mean() > 1), found.seed["units matched"].max().round(6).item()
    (True, 0.0)
    """
    array = checked_weights(weights, least_datasets=2)
    kinds = {MATCHED: array} | ({BALANCED: balanced(array, layer)} if relu else {})
    above = np.triu_indices(len(array), 1)
    seed = {AS_TRAINED: pairwise_distances(array[:, 0])[above]}
    data, spread = {AS_TRAINED: _strict(array)}, {AS_TRAINED: _pooled(array)}
    for name, kind in kinds.items():
        seed[name] = matched_distances(kind[:, 0], kind[:, 0], layer)[above]
        tasks = list(map_in_threads(lambda models: matched_distances(models[:1], models[1:], layer)[0], list(kind)))
        data[name], spread[name] = np.stack(tasks), _pooled(aligned(kind, layer))
    return Symmetry(seed, data, spread)


def _strict(array: np.ndarray) -> np.ndarray:
    """Return Δ_S [seed, neighbour]."""
    distances: np.ndarray = np.linalg.norm(array[:, 1:].astype(float) - array[:, :1], axis=-1)
    return distances


def _pooled(array: np.ndarray) -> float:
    """Return IP1's spread of the base's models."""
    return float(variability(array[:, :1]).flat[0])
