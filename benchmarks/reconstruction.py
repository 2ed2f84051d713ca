"""Leakage of all zeros and ones of MNIST, the attack against one trial at a time, DP-SGD with and without traces."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import in_fresh_process, report, seconds

if TYPE_CHECKING:
    from seedscope.core import Relation

RECORDS, PIXELS = 12_665, 784
L2, NOISE = 1e-2, 1e-5
TRIALS, LOOPED = 10_000, 5
MODELS = 500
BATCH, STEPS, DIRECTIONS = 128, 80, 16


def regression() -> tuple[Any, ...]:
    """Return features, labels and weights: MNIST's zeros and ones, or rows of that shape where MNIST is not at hand."""
    from seedscope.numerics import LogisticProblem

    if os.environ.get("SEEDSCOPE_DATA"):
        import seedscope as ss

        data = ss.load("mnist")
        two = data.labels < 2
        features, labels = data.features[two].reshape(-1, PIXELS), data.labels[two]
    else:
        draw = np.random.default_rng(0)
        features = draw.random((RECORDS, PIXELS), np.float32) * (draw.random((RECORDS, PIXELS)) < 0.2)
        labels = (features[:, :100].sum(1) > features[:, 100:200].sum(1)).astype(int)
    rows = np.column_stack([features.astype(float), np.ones(len(features))])
    problem = LogisticProblem(rows, labels, np.full(PIXELS + 1, L2))
    return features, labels, problem.minimise(np.zeros(PIXELS + 1)).weights[0]


def leakage() -> dict[str, float]:
    """Return seconds and additional peak memory (GiB) of the leakage of all records."""
    import resource

    import seedscope as ss

    features, labels, weights = regression()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = seconds(lambda: ss.reconstruction.logistic_dfil(features, labels, weights, L2, NOISE))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": taken, "peak": after / 2**20, "more": (after - before) / 2**20}


def attack() -> dict[str, float]:
    """Return seconds of the blocked attack, and what a loop over as many trials takes, from a few of them."""
    import seedscope as ss

    features, labels, weights = regression()
    draw = np.random.default_rng(0)
    blocked = seconds(
        lambda: ss.reconstruction.attack_errors(features, labels, weights, L2, NOISE, TRIALS, draw, box=(0, 1)),
        repeats=1,
    )
    looped = seconds(lambda: looped_attack(features, labels, weights), repeats=2) * TRIALS / LOOPED
    return {"blocked": blocked, "looped": looped}


def looped_attack(features: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return each record's mean error, one trial at a time, all records of a trial together, in float32."""
    rows = np.column_stack([features, np.ones(len(features), np.float32)])
    draw, total = np.random.default_rng(0), np.zeros(len(rows))
    for _ in range(LOOPED):
        released = (weights + NOISE * draw.normal(size=len(weights))).astype(np.float32)
        gradients = (1 / (1 + np.exp(-(rows @ released))) - labels.astype(np.float32))[:, None] * rows
        others = gradients.sum(0) - gradients + len(rows) * np.float32(L2) * released
        total += ((others / others[:, -1:] - rows) ** 2).mean(1)
    return total / LOOPED


def images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return this many images of digits with labels, or noise of that shape where MNIST is not at hand."""
    if os.environ.get("SEEDSCOPE_DATA"):
        import seedscope as ss

        data = ss.load("mnist")
        return data.features[:count], data.labels[:count].astype(np.float32)
    draw = np.random.default_rng(0)
    return draw.random((count, 28, 28, 1), np.float32), draw.integers(0, 10, count).astype(np.float32)


def traced_steps() -> dict[str, float]:
    """Return seconds of processor time of DP-SGD steps of BR's network, with traces of all rows and without."""
    import time

    import seedscope as ss
    from seedscope.training.dpsgd.train import train_dpsgd

    rows, labels = images(2001)
    network = ss.tanh_cnn().network((28, 28, 1), 10)
    mechanism = ss.DPSGD(0.1, BATCH, STEPS, clipping=ss.SmoothClipping())
    relation: Relation = "add_or_remove"
    arguments = (
        mechanism.private_steps(),
        network,
        relation,
        0,
        np.zeros(1, int),
        np.array([-1]),
        ("varied",),
        (STEPS,),
    )

    def run(traced: np.ndarray | None) -> float:
        start = time.process_time()
        train_dpsgd(*arguments, rows, labels, None, traced=traced)
        return time.process_time() - start

    return {name: min(run(traced) for _ in range(4)) for name, traced in (("plain", None), ("traced", np.arange(2000)))}


def exact_factor() -> float:
    """Return milliseconds of the exact factor κ of one setting with little noise, which takes longest."""
    import seedscope as ss

    return 1000 * seconds(lambda: ss.reconstruction.amplification_exact(0.01, 0.02))


def objective_information() -> float:
    """Return seconds of everybody's Fisher information under objective perturbation: adult's size × 500 models."""
    import seedscope as ss

    if os.environ.get("SEEDSCOPE_DATA"):
        data = ss.load("adult")
        rows, labels = data.base.features, data.base.labels
    else:
        draw = np.random.default_rng(0)
        rows, labels = draw.normal(size=(29_305, 100)) / 10, draw.integers(0, 2, 29_305)
    weights = np.random.default_rng(1).normal(size=(MODELS, rows.shape[1] + 1))
    information = ss.reconstruction.tilted_feature_information
    return seconds(lambda: information(rows, labels, weights, 50.0, "gaussian", 10.0), repeats=1)


def informed_attack() -> dict[str, float]:
    """Return seconds of the prior-aware attack on DP-SGD: breast-cancer, 50 people × 10 candidates × 200 releases."""
    import seedscope as ss
    from seedscope.auditing.sensitive import told
    from seedscope.datasets import default_scaling
    from seedscope.mechanisms import Conditions

    data = ss.load("breast-cancer")
    conditions = Conditions.of(data, default_scaling(data).fit(data))
    mechanism = ss.DPSGD.public(conditions, 2.0, 1e-5)
    found = {}
    for name, model in (("logistic regression", ss.logistic()), ("a network of 10 hidden units", ss.mlp())):
        records = ss.Records(probes=("test",))
        ensemble = ss.train(data, mechanism, model=model, grid=ss.Grid(2), records=records, jobs=1)
        found[name] = seconds(partial(told, ensemble, data, "record", candidates=10), repeats=1)
    return found


def deviation() -> float:
    """Return the relative standard deviation of a trace summed over 100 steps with one direction each."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    import seedscope as ss
    from seedscope.training.dpsgd.leakage import smoothly_clipped_sum
    from seedscope.training.dpsgd.train import train_dpsgd

    rows, labels = images(BATCH + 1)
    network, steps = ss.tanh_cnn().network((28, 28, 1), 10), tuple(range(1, 101))
    mechanism = ss.DPSGD(0.1, BATCH, 100, clipping=ss.SmoothClipping())
    relation: Relation = "add_or_remove"
    arguments = (
        mechanism.private_steps(),
        network,
        relation,
        0,
        np.zeros(1, int),
        np.array([-1]),
        ("varied",),
        steps,
    )
    states = train_dpsgd(*arguments, rows, labels, None)["weights"][0, 0, 0]
    _, unravel = ravel_pytree(network.init(jax.random.key(0)))
    few = [np.repeat(rows[:4], DIRECTIONS, 0), np.repeat(labels[:4], DIRECTIONS), np.ones(4 * DIRECTIONS, np.float32)]
    x, y, w = map(jnp.asarray, few)

    @jax.jit
    def squares(state: Any, key: Any) -> Any:
        directions = jax.random.rademacher(key, x.shape, np.float32)
        return smoothly_clipped_sum(network, unravel(state), x, y, w, 1.0, directions)[1].reshape(4, DIRECTIONS)

    found = np.stack(
        [squares(state, key) for state, key in zip(states, jax.random.split(jax.random.key(1), 100), strict=True)]
    )
    spread = np.sqrt(found.var(axis=2, ddof=1).sum(axis=0))  # of a sum of one direction a step
    return float((spread / found.mean(axis=2).sum(axis=0)).max())


def main() -> None:
    """Print time and memory of the leakage, and the attack beside a loop over trials."""
    found = in_fresh_process("benchmarks.reconstruction", "leakage")
    report("dFIL of all 12,665 records", found["seconds"], unit="s", goal="3 s")
    report("dFIL: peak memory of the process, data included", found["peak"], unit="GiB", goal="1.5 GiB")
    found = in_fresh_process("benchmarks.reconstruction", "attack")
    report("attack: 10,000 trials × 12,665 records", found["blocked"], unit="s", goal="30 s")
    report("attack: trials/s against a loop", TRIALS / found["blocked"], TRIALS / found["looped"], "trials/s", "20×")
    found = in_fresh_process("benchmarks.reconstruction", "traced_steps", threads=1)
    report("DP-SGD step of BR's network with Fisher traces", found["traced"], found["plain"], "s", "at most 2.5×")
    kappa = in_fresh_process("benchmarks.reconstruction", "exact_factor", threads=1)
    report("exact κ of one setting", kappa, unit="ms", goal="50 ms")
    taken = in_fresh_process("benchmarks.reconstruction", "objective_information")
    report("Fisher information of all adult people × 500 models", taken, unit="s", goal="60 s")
    for model, taken in in_fresh_process("benchmarks.reconstruction", "informed_attack").items():
        what = f"informed attack on DP-SGD of {model}: 50 people × 10 candidates × 200 releases"
        report(what, taken, unit="s", goal="180 s")
    spread = in_fresh_process("benchmarks.reconstruction", "deviation", threads=1)
    report("relative deviation of a trace summed over 100 steps", spread, goal="at most 0.05")
