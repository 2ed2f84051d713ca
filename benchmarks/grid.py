"""Grids of logistic regressions and small networks, against the best way to train one such model at a time in JAX."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, report, seconds

EXAMPLES, FEATURES, BATCH = 10_397, 50, 32
SETUPS = {"logistic": 1850, "mlp": 2000}
SEEDS, NEIGHBOURS = 40, 49


def synthetic() -> Any:
    """Return data of the shape of MNIST-binary."""
    from seedscope import from_arrays

    draw = np.random.default_rng(0)
    rows = draw.normal(size=(EXAMPLES + 100, FEATURES)) / 7
    labels = (rows[:, 0] + 0.1 * draw.normal(size=len(rows)) > 0).astype(int)
    return from_arrays(rows[:-100], labels[:-100], rows[-100:], labels[-100:], norm_bound=2.0)


def grid_rate(name: str, jobs: int) -> dict[str, float]:
    """Return the time of the first grid (start-up and compilation) and models/s of the next ones."""
    import seedscope as ss

    data, model = synthetic(), {"logistic": ss.logistic(), "mlp": ss.mlp(10)}[name]
    records = ss.Records(probes=("test",))

    def run(root_seed: int) -> None:
        grid = ss.Grid(SEEDS, NEIGHBOURS, root_seed=root_seed)
        ss.train(data, ss.SGD(0.5, BATCH, SETUPS[name]), model=model, grid=grid, records=records, jobs=jobs)

    first = seconds(lambda: run(0), repeats=1)
    later = seconds(lambda: run(1), repeats=1 if name == "mlp" else 3)
    return {"first": first, "models_per_second": SEEDS * (NEIGHBOURS + 1) / later}


def single_rate(name: str, our_loss: bool) -> float:
    """Return models/s of one model at a time: the faster of gathering batches inside the loop and before it.

    The loss is Optax's, as one would write it, or ours with its derivative written out.
    """
    import jax
    import jax.numpy as jnp
    import optax

    import seedscope as ss
    from seedscope.training.gradient.losses import log_loss
    from seedscope.training.streams import shuffled_batches

    data, steps = synthetic(), SETUPS[name]
    network = {"logistic": ss.logistic(), "mlp": ss.mlp(10)}[name].network((FEATURES,), 2)
    rows, labels = data.features.astype(np.float32), data.labels.astype(np.float32)
    order = shuffled_batches(0, 0, EXAMPLES, BATCH, steps)
    start = network.init(jax.random.key(0))
    loss = log_loss if our_loss else optax.sigmoid_binary_cross_entropy
    gradient = jax.grad(lambda w, x, y: jnp.mean(loss(network.apply(w, x), y)))

    def descend(w: Any, x: Any, y: Any) -> Any:
        return jax.tree.map(lambda a, b: a - 0.5 * b, w, gradient(w, x, y))

    @jax.jit
    def inside(w: Any, order: Any) -> Any:
        return jax.lax.scan(lambda w, i: (descend(w, jnp.asarray(rows)[i], jnp.asarray(labels)[i]), None), w, order)[0]

    @jax.jit
    def before(w: Any, x: Any, y: Any) -> Any:
        return jax.lax.scan(lambda w, b: (descend(w, *b), None), w, (x, y))[0]

    jax.block_until_ready((inside(start, order), before(start, rows[order], labels[order])))
    gathered = seconds(lambda: jax.block_until_ready(before(start, rows[order], labels[order])), 10)
    return 1 / min(gathered, seconds(lambda: jax.block_until_ready(inside(start, order)), 10))


def product_rate() -> float:
    """Return the floating-point rate of a large float32 matrix product, in GF/s."""
    import jax

    size = 3000
    matrix = np.random.default_rng(0).random((size, size), np.float32)
    product = jax.jit(lambda a: a @ a)
    product(matrix).block_until_ready()
    return 2 * size**3 / seconds(lambda: product(matrix).block_until_ready(), 5) / 1e9


def first_progress() -> float:
    """Return the seconds from the command to the first model in its progress bar."""
    import subprocess
    import sys
    import tempfile

    code = (
        "import seedscope as ss, sys\n"
        "def seen(done, total):\n    print(done, flush=True)\n    done and sys.exit()\n"
        "data = ss.load('breast-cancer')\n"
        "ss.train(data, ss.SGD(steps=2000), grid=ss.Grid(400, 50), store=sys.argv[1], progress=seen)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-c", code, folder + "/run"], stdout=subprocess.PIPE, text=True)
        for line in process.stdout or ():
            if int(line):
                break
        elapsed = time.perf_counter() - start
        process.wait()
    return elapsed


def main() -> None:
    """Print the grid's speed beside one model at a time and beside a large matrix product."""
    product = in_fresh_process("benchmarks.grid", "product_rate")
    report("large float32 matrix product, all cores", product, unit="GF/s")
    for name, goal in (("logistic", "15×"), ("mlp", "4×, aim 6×")):
        single, with_ours = (
            max(in_fresh_process("benchmarks.grid", "single_rate", name, ours, threads=n) for n in (1, None))
            for ours in (False, True)
        )
        ours = in_fresh_process("benchmarks.grid", "grid_rate", name, 2)
        rate = ours["models_per_second"]
        report(f"{name} grid of {SEEDS} × {NEIGHBOURS + 1} against single models", rate, single, "models/s", goal)
        report("  the same, single models with our loss's derivative", rate, with_ours, "models/s")
        if name == "logistic":
            flops = rate * SETUPS[name] * 4 * BATCH * (FEATURES + 1) / 1e9
            report(f"{name} grid: share of the product's rate", 100 * flops / product, unit="%", goal="25 %, aim 40 %")
        report(f"{name} grid: first run, start-up and compilation included", ours["first"], unit="s")
    report("from the command to the first models done", first_progress(), unit="s", goal="6 s")
