"""An ensemble: the records of many re-trainings, with named axes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.chunk_files import RECORDS
from seedscope.errors import SeedscopeError, require
from seedscope.grid import BASE

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Records of models seeds × neighbours × initialisations, as an xarray Dataset.

    `weights[seed, neighbour, init, step, parameter]`, `scores[seed, neighbour, init, example]` (the probability of
    class 1, or of each class) and `losses` likewise. Neighbour −1 is the base data set.
    """

    dataset: xarray.Dataset
    path: Path | None = None

    @classmethod
    def open(cls, path: str | Path) -> Ensemble:
        """Return the ensemble in a store's folder: the grid that was asked for last; an unfinished one is refused.

        Records are checked as they are read: a damaged chunk is an error that names it and says how to mend it.
        """
        from seedscope.checked_reading import check_coordinates, open_checked
        from seedscope.store import open_files, unfinished

        place = Path(path)
        require((place / RECORDS).is_dir(), f"no ensemble at {path}; name the folder that was given as store.")
        files = open_files(place)
        try:
            whole = open_checked(files)
            dataset = check_coordinates(_of_grid(whole, json.loads(whole.attrs["description"])["grid"]), place)
            missing = unfinished(files, dataset.sizes)
        except SeedscopeError:
            raise
        except Exception as error:  # whatever a damaged folder makes the readers raise
            raise SeedscopeError(
                f"cannot read the ensemble at {path} ({type(error).__name__}); run the same training again to mend it."
            ) from error
        first = f", first {missing[0].name}" if missing else ""
        lacks = f"the ensemble at {path} lacks {len(missing)} of its chunks{first}"
        require(not missing, f"{lacks}; run the same training again to finish it.")
        return cls(dataset, place)

    @cached_property
    def description(self) -> dict[str, Any]:
        """How the ensemble was made: data, mechanism, guarantee, model, grid, preprocessing, records, versions."""
        return json.loads(self.dataset.attrs["description"])

    @property
    def weights(self) -> xarray.DataArray:
        """Weights [seed, neighbour, init, step, parameter]."""
        return self.dataset["weights"]

    @property
    def scores(self) -> xarray.DataArray:
        """Scores on the probe examples; the probability of class 1, or of each class."""
        return self.dataset["scores"]

    @property
    def losses(self) -> xarray.DataArray:
        """Log-losses on the probe examples."""
        return self.dataset["losses"]

    def texts(self, name: str) -> np.ndarray:
        """Return a coordinate of texts, such as "person_id", as plain strings however it was stored."""
        return np.array(self.dataset[name].values.tolist(), dtype=str)

    @property
    def models(self) -> int:
        """How many models there are."""
        sizes = self.dataset.sizes
        return sizes["seed"] * sizes["neighbour"] * sizes["init"]

    def on(self, part: str) -> xarray.Dataset:
        """Return the records with only the probe examples of a part: "test", "neighbour", "spare" or "train"."""
        there = self.dataset["example_part"].values == part
        require(there.any(), f"no scores were recorded on {part!r}; add it to Records(probes=…) and train again.")
        return self.dataset.isel(example=np.flatnonzero(there))

    def base_scores(self, part: str = "test") -> np.ndarray:
        """Return the base data set's final scores on a part: [seed × init, example(, class)]."""
        scores = self.on(part)["scores"].sel(neighbour=BASE)
        scores = scores.isel(step=-1) if "step" in scores.dims else scores
        values = scores.values
        return values.reshape(-1, *values.shape[2:])

    def accuracy(self, part: str = "test") -> np.ndarray:
        """Return the accuracy of the base data set's models on a part, one per seed and init."""
        scores, labels = self.base_scores(part), self.on(part)["example_label"].values
        predicted = scores > 0.5 if scores.ndim == 2 else scores.argmax(-1)
        return (predicted == labels).mean(1)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in self.dataset.sizes.items())
        return f"Ensemble({self.description['data']['name']!r}, {self.description['mechanism']['type']}: {sizes})"


def _of_grid(whole: xarray.Dataset, grid: dict[str, Any]) -> xarray.Dataset:
    """Return the records of the described grid: a store may hold more, from a larger grid asked for before."""
    neighbours = 1 + len(grid["people"]) + grid["neighbours"]
    dataset = whole.isel(seed=slice(grid["seeds"]), neighbour=slice(neighbours))
    others = dataset["example_part"].values != "neighbour"
    return dataset.isel(example=np.flatnonzero(others | (np.cumsum(~others) < neighbours)))
