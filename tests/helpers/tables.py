"""Small tables of people, as files that the commands read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd


def patients(rows: int = 80) -> pd.DataFrame:
    """Return people of whom those above 50 are sick."""
    draw = np.random.default_rng(0)
    age, income = draw.integers(20, 80, rows), draw.normal(30, 8, rows)
    sex = draw.choice(["f", "m"], rows)
    return pd.DataFrame({"age": age, "income": income, "sex": sex, "sick": (age > 50).astype(int)})


def written(folder: Path, table: pd.DataFrame | dict[str, object], name: str = "people.csv") -> Path:
    """Write a table into a folder and return the file."""
    path = folder / name
    pd.DataFrame(table).to_csv(path, index=False)
    return path
