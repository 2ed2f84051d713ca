"""The part of the study about sampled losses alone, with as many runs, people and epochs as one has time for.

The same folder goes on with what it has:

    python -m seedscope.reproduce.per_instance mnist --runs 5 --people 500 --out runs/losses
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from seedscope.reproduce.comparison import Run
from seedscope.reproduce.per_instance.sampled_losses import RUNS, loss_rows, study_losses
from seedscope.reproduce.per_instance.settings import SWEEPS


def main() -> None:
    """Do this part of the study at the paper's setting and print its rows."""
    parser = argparse.ArgumentParser(description="The best possible attack on people beside GLA's composition.")
    parser.add_argument("data", choices=sorted({data for data, _ in RUNS}))
    for name in ("runs", "people", "epochs"):
        parser.add_argument(f"--{name}", type=int, help="default: the paper's")
    parser.add_argument("--out", type=Path, required=True, help="folder of the models")
    asked = parser.parse_args()
    usual = SWEEPS[asked.data, "paper"]
    sweep = replace(usual, epochs=asked.epochs or usual.epochs)
    run = Run("paper", asked.out, jobs=None, quiet=False)
    for row in loss_rows(study_losses(sweep, sweep.load(), run, asked.runs, asked.people)):
        print(f"{row.setting}: {row.quantity}: {row.ours:.4g}")


if __name__ == "__main__":
    main()
