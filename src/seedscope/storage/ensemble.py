"""An ensemble: the records of many re-trainings, with named axes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import (
    BASE,
    DamageError,
    Relation,
    SeedscopeError,
    last_step,
    read_error,
    require,
    require_path,
    write_durably,
)
from seedscope.datasets import Scaling
from seedscope.mechanisms import Guarantee, Mechanism, OwnModel
from seedscope.planning import Description
from seedscope.storage.chunk_files import RECORDS
from seedscope.storage.metadata import read_json

if TYPE_CHECKING:
    import xarray

LABELLED = ("seed", "neighbour")
LOOKS = "looks.json"  # in a store whose models were trained until enough was known


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Records of models seeds × neighbours × initialisations, as an xarray Dataset.

    `weights[seed, neighbour, init, step, parameter]`, `scores[seed, neighbour, init, example]` (the probability of
    class 1, or of each class) and `losses` likewise. Neighbour −1 is the base data set.
    """

    dataset: xarray.Dataset
    path: Path | None = None

    def __post_init__(self) -> None:
        """Raise unless neighbours and seeds have labels: without them −1, the base, would be the last position."""
        given = hasattr(self.dataset, "indexes")
        rule = "an ensemble is made of an xarray Dataset by train, Ensemble.open or Ensemble.from_scores; got"
        require(given, f"{rule} {type(self.dataset).__name__}.")
        lacking = [name for name in LABELLED if name not in self.dataset.indexes]
        require(not lacking, f"an ensemble needs labels along {' and '.join(lacking)}; they are missing.")

    @classmethod
    def open(cls, path: str | Path) -> Ensemble:
        """Return the ensemble in a store's folder: the grid that was asked for last; an unfinished one is refused.

        Records are checked as they are read: a damaged chunk is an error that names it and says how to mend it.
        """
        from seedscope.storage.folder import open_files, unfinished  # start-up
        from seedscope.storage.reading import check_coordinates, open_checked  # start-up

        require_path("path", path)
        place = Path(path)
        try:
            require((place / RECORDS).is_dir(), f"no ensemble at {path}; name the folder that was given as store.")
            files = open_files(place)
            whole = open_checked(files)
            dataset = check_coordinates(described_grid(whole), place)
            missing, looks = unfinished(files, dataset.sizes), _looks(place)
        except SeedscopeError:
            raise
        except (OSError, MemoryError) as error:
            raise read_error(error, place) from error
        except Exception as error:  # whatever a damaged folder makes the readers raise
            raise DamageError(
                f"cannot read the ensemble at {path} ({type(error).__name__}); run the same training again to mend it."
            ) from error
        first = f", first {missing[0].name}" if missing else ""
        lacks = f"the ensemble at {path} lacks {len(missing)} of its chunks{first}"
        require(not missing, f"{lacks}; run the same training again to finish it.")
        return cls(dataset.assign_attrs(looks), place)

    @classmethod
    def from_scores(
        cls,
        scores: ArrayLike,
        labels: ArrayLike,
        *,
        groups: Mapping[str, ArrayLike] | None = None,
        without: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        name: str = "predictions",
        mechanism: OwnModel | None = None,
        relation: Relation = "add_or_remove",
        source: str = "predictions from elsewhere",
        training: ArrayLike | None = None,
        features: int = 0,
    ) -> Ensemble:
        """Return models that were trained elsewhere as an ensemble: their predictions are all that is needed.

        Args:
            scores: [model, example], the probability of the second class; or [model, example, class], the classes in
                the labels' ascending order; or decisions [model, example], each a label. Models are re-trainings of
                the same model on the same data.
            labels: the truth, [example].
            groups: by name, a value [example], by which people are compared.
            without: like `scores`, of models trained without that example, for those that the models of `scores`
                were trained with; NaN for the others, which are the test part. With it membership is attacked.
            ids: identifiers [example]; by default an example's number.
            mechanism: how they were trained, where more is known than that.
            relation: how the data of `without` differ from those of `scores`.
            training: without `without`, for each example whether the models were trained with it; by default none.
            features: how many features the examples have, for the report.

        >>> generator = np.random.default_rng(0)
        >>> Ensemble.from_scores(generator.random((20, 6)), [0, 1, 0, 1, 0, 1])
        Ensemble('predictions', OwnModel: seed 20, neighbour 1, init 1, example 6, step 1, person 6)
        """
        from seedscope.storage.from_scores import dataset_from_scores  # start-up

        given = (groups, without, ids, name, mechanism, relation, source, training, features)
        return cls(dataset_from_scores(scores, labels, *given))

    @cached_property
    def description(self) -> Description:
        """How the ensemble was made: data, mechanism, guarantee, model, grid, preprocessing, records, versions."""
        return _description(self.dataset)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that trained the models."""
        return self.description.mechanism

    @property
    def scaling(self) -> Scaling:
        """How features were scaled before training."""
        return self.description.preprocessing.scaling

    @property
    def guarantee(self) -> Guarantee:
        """What the mechanism was proved to guarantee when the models were trained."""
        return self.description.guarantee

    @property
    def relation(self) -> Relation:
        """The neighbour relation of the grid."""
        return self.description.grid.relation

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

    @property
    def latest(self) -> int | None:
        """The largest number of seeds of a training that went on until enough was known; None: it was fixed."""
        latest = self.dataset.attrs.get("latest")
        return None if latest is None else int(latest)

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
        in_part = self.dataset["example_part"].values == part
        require(in_part.any(), f"no scores were recorded on {part!r}; add it to Records(probes=…) and train again.")
        return self.dataset.isel(example=np.flatnonzero(in_part))

    def base_scores(self, part: str = "test") -> np.ndarray:
        """Return the base data set's final scores on a part: [seed × init, example(, class)]."""
        values: np.ndarray = last_step(self.on(part)["scores"].sel(neighbour=BASE)).values
        return values.reshape(-1, *values.shape[2:])

    def accuracy(self, part: str = "test") -> np.ndarray:
        """Return the accuracy of the base data set's models on a part, one per seed and init."""
        scores, labels = self.base_scores(part), self.on(part)["example_label"].values
        predicted = scores > 0.5 if scores.ndim == 2 else scores.argmax(-1)
        accuracies: np.ndarray = (predicted == labels).mean(1)
        return accuracies

    def whole_seeds(self) -> Ensemble:
        """Return the ensemble without the seeds of which a score is missing: a user's own training may fail."""
        scores = self.dataset["scores"]
        whole = scores.notnull().all([axis for axis in scores.dims if axis != "seed"]).values
        return self if whole.all() else replace(self, dataset=self.dataset.isel(seed=np.flatnonzero(whole)))

    def to_xarray(self) -> xarray.Dataset:
        """Return the records with named axes: weights, scores, losses and whatever else was recorded, for xarray."""
        return self.dataset.copy()

    def to_datatree(self) -> xarray.DataTree:
        """Return the records as a tree: `/` what is about whole models, and a branch for each part of the people.

        A branch, such as `/on_test` or `/on_neighbour`, has what was recorded on the examples of that part.
        """
        import xarray

        about_people = [name for name, values in self.dataset.variables.items() if "example" in values.dims]
        parts = sorted(set(self.texts("example_part"))) if "example_part" in self.dataset else []
        branches = {part: self.on(part)[about_people] for part in parts}
        root = self.dataset.drop_vars(about_people)
        return xarray.DataTree.from_dict({"/": root, **{f"/on_{part}": branch for part, branch in branches.items()}})

    def _repr_html_(self) -> str:
        """What it holds, for a notebook."""
        return f"<p>{escape(repr(self))}</p>{self.dataset._repr_html_()}"

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in self.dataset.sizes.items())
        described = self.description
        return f"Ensemble({described.data.name!r}, {described.described_mechanism['type']}: {sizes})"


def note_looks(place: Path, latest: int) -> None:
    """Write into a store that its models are looked at while they are trained, until `latest` at most.

    The first such number stays: the exact interval may be used at one number only.
    """
    if not (place / LOOKS).exists():
        write_durably(place / LOOKS, json.dumps({"latest": latest, "checksum": _looks_checksum(latest)}))


def _looks_checksum(latest: int) -> int:
    """Return the checksum of what a store says about looking: a flipped bit there would be another interval."""
    return zlib.crc32(f"latest {latest}".encode())


def _looks(place: Path) -> dict[str, int]:
    """Return what a store says about looking, empty where the number of its models was fixed."""
    try:
        said = read_json(place / LOOKS)
        latest = int(said["latest"])
        if said.get("checksum", _looks_checksum(latest)) != _looks_checksum(latest):  # older stores have none
            raise ValueError
        return {"latest": latest}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamageError(f"{place / LOOKS} is damaged; take it from a copy, or train into a new store.") from error


def _description(dataset: xarray.Dataset) -> Description:
    """Return what is written down beside the records."""
    return Description.from_json(json.loads(dataset.attrs["description"]))


def described_grid(whole: xarray.Dataset) -> xarray.Dataset:
    """Return the records of the described grid: a store may hold more, from a larger grid asked for before."""
    grid = _description(whole).grid
    neighbours = 1 + len(grid.people) + grid.neighbours
    dataset = whole.isel(seed=slice(grid.seeds), neighbour=slice(neighbours))
    beside = dataset["example_part"].values != "neighbour"
    places = dataset["example_neighbour"].values if "example_neighbour" in dataset else np.cumsum(~beside) - 1
    return dataset.isel(example=np.flatnonzero(beside | (places < neighbours - 1)))
