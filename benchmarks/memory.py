"""Peak memory of a stored grid at two sizes: it must not grow with the number of models."""

from __future__ import annotations

import tempfile

from benchmarks.measure import in_fresh_process, report


def peak(models: int) -> float:
    """Return the peak memory in GiB of the driver and its largest worker for a grid of this many models."""
    import resource

    import seedscope as ss

    data, neighbours = ss.load("breast-cancer"), 49
    with tempfile.TemporaryDirectory() as folder:
        grid = ss.Grid(models // (neighbours + 1), neighbours)
        ss.train(data, ss.SGD(steps=300), grid=grid, store=f"{folder}/run", jobs=2)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (own + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 2**20


def main() -> None:
    """Print peak memory at 2,000 and 20,000 models."""
    small, large = (in_fresh_process("benchmarks.memory", "peak", models) for models in (2_000, 20_000))
    report("peak memory, 20,000 models against 2,000", large, small, "GiB", "no growth")
