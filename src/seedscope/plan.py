"""A plan: everything that decides which models are trained and what is recorded of them.

Two plans with the same `identity` train the same models; more seeds or neighbours is growth of the same plan.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np

from seedscope import mechanisms, streams
from seedscope.chunk_shapes import choose_chunk_shape, gradient_part
from seedscope.chunk_training import Job
from seedscope.datasets.dataset import Dataset, Part
from seedscope.errors import require, require_count
from seedscope.grid import Chunk, ChunkShape, Grid
from seedscope.mechanisms import (
    CONVEX,
    DPSGD,
    Guarantee,
    Mechanism,
    Relation,
    Setting,
    SmoothClipping,
)
from seedscope.scaling import FittedScaling, Scaling, default_scaling

Probe = Literal["test", "neighbours", "spare", "train"]
PROBES: tuple[Probe, ...] = ("test", "spare", "train", "neighbours")  # in this order: only the last can grow
SINGULAR = {"neighbours": "neighbour"}  # the name of a part, as a coordinate


@dataclass(frozen=True)
class Norms:
    """Whose gradient norms DP-SGD records while it trains, and how often; whether they are classified correctly too.

    `of` is a part of the data: "neighbours" (the rows that neighbouring data sets lack), "train" or "test". They are
    recorded before every `every`-th step, or once an "epoch", from the initial state on, and after the last step.
    "float16" halves the space; it is rounded up, so that what follows from the norms stays a bound.
    """

    of: Literal["neighbours", "train", "test"] = "neighbours"
    every: int | Literal["epoch"] = 1
    precision: Literal["float32", "float16"] = "float32"

    def __post_init__(self) -> None:
        parts = ("neighbours", "train", "test")
        require(self.of in parts, f"of must be one of {', '.join(parts)}, got {self.of!r}.")
        if self.every != "epoch":
            require_count("every", self.every)
        known = self.precision in ("float32", "float16")
        require(known, f"precision must be 'float32' or 'float16', got {self.precision!r}.")

    def steps_between(self, examples: int, batch_size: int) -> int:
        """Return every how many steps norms are recorded."""
        return max(1, round(examples / batch_size)) if self.every == "epoch" else self.every


@dataclass(frozen=True)
class Records:
    """What is kept of each model: weights, scores and losses on probe examples, and with DP-SGD gradient norms.

    `probes` are parts of the data: "test", "neighbours" (the rows that neighbouring data sets lack), "spare" (x_0) and
    "train". `scores_at_checkpoints` keeps scores and losses at every checkpoint, not only at the end. `fisher_traces`
    of "train" or "neighbours" keeps at every checkpoint how much DP-SGD with smooth clipping has revealed of each row.
    """

    probes: tuple[Probe, ...] = ("test", "neighbours", "spare")
    scores_at_checkpoints: bool = False
    norms: Norms | None = None
    fisher_traces: Literal["train", "neighbours"] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "probes", tuple(self.probes))
        known = self.fisher_traces in (None, "train", "neighbours")
        require(known, f"fisher_traces must be 'train' or 'neighbours', got {self.fisher_traces!r}.")
        unknown = [one for one in self.probes if one not in PROBES]
        require(not unknown, f"probes must be among {', '.join(PROBES)}, got {unknown}.")


@dataclass(frozen=True, eq=False)
class Plan:
    """Data, mechanism, model, grid and records, with everything that follows from them."""

    data: Dataset
    mechanism: Mechanism
    model: Any
    grid: Grid
    records: Records
    scaling: Scaling
    shape: ChunkShape

    @cached_property
    def relation(self) -> Relation:
        """The neighbour relation: the grid's, or the mechanism's own."""
        return self.grid.relation or self.mechanism.relation

    @cached_property
    def fitted_scaling(self) -> FittedScaling:
        """The scaling, fitted on the training rows."""
        return self.scaling.fit(self.data)

    @cached_property
    def setting(self) -> Setting:
        """What the mechanism's guarantee depends on."""
        return Setting.of(len(self.data.base), self.fitted_scaling)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The mechanism's proved guarantee, or the reason why there is none."""
        return self.mechanism.guarantee(self.setting)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The checkpoints; a mechanism that finds a minimiser has one, at step 0."""
        return (0,) if isinstance(self.mechanism, CONVEX) else self.grid.steps(gradient_part(self.mechanism).steps)

    @cached_property
    def inits(self) -> tuple[str, ...]:
        """The initialisations; a minimiser does not depend on one."""
        return ("fixed",) if isinstance(self.mechanism, CONVEX) else self.grid.inits

    @cached_property
    def neighbours(self) -> np.ndarray:
        """The neighbour coordinates, the base (−1) first."""
        return self.grid.neighbour_rows(len(self.data.base))

    @cached_property
    def rows(self) -> np.ndarray:
        """The scaled training rows, the spare example last, as the trainer wants them."""
        features = np.concatenate([self.data.base.features, self.data.spare_example.features])
        return self.fitted_scaling.apply(features).astype(self._float)

    @cached_property
    def labels(self) -> np.ndarray:
        """The training labels, the spare example's last."""
        return np.concatenate([self.data.base.labels, self.data.spare_example.labels]).astype(self._float)

    @cached_property
    def parameters(self) -> int:
        """How many weights a model has."""
        from seedscope.models import parameter_count

        return parameter_count(self.model, self.data.features.shape[1:], self.data.classes)

    @property
    def seeds(self) -> np.ndarray:
        """The seed coordinates."""
        return np.arange(self.grid.seeds)

    @property
    def models(self) -> int:
        """How many models the grid has."""
        return self.grid.seeds * len(self.neighbours) * len(self.inits)

    @cached_property
    def watched(self) -> tuple[str, np.ndarray, Part] | None:
        """The (part name, row indices, rows) of those whose gradient norms are recorded; None without such records."""
        norms = self.records.norms
        return None if norms is None else (SINGULAR.get(norms.of, norms.of), *self._part(norms.of))

    @cached_property
    def norm_steps(self) -> tuple[int, ...]:
        """How many steps were done at each state whose gradient norms are recorded."""
        if self.records.norms is None:
            return ()
        sgd = gradient_part(self.mechanism)
        every = self.records.norms.steps_between(len(self.data.base), sgd.batch_size)
        return (*range(0, sgd.steps, every), sgd.steps)

    @cached_property
    def traced(self) -> np.ndarray | None:
        """The rows whose Fisher traces are recorded; None without such records."""
        return None if self.records.fisher_traces is None else self._part(self.records.fisher_traces)[0]

    def probe_parts(self) -> list[tuple[str, np.ndarray, Part]]:
        """Return (part name, row indices, rows) of the probe examples, in the order in which they are recorded."""
        return [(SINGULAR.get(name, name), *self._part(name)) for name in PROBES if name in self.records.probes]

    def _part(self, name: str) -> tuple[np.ndarray, Part]:
        """Return the row indices and the rows of a part that records can be about."""
        base = self.data.base
        every: dict[str, tuple[np.ndarray, Part]] = {
            "test": (np.arange(len(self.data.test)), self.data.test),
            "neighbours": (self.neighbours[1:], base.take(self.neighbours[1:])),
            "spare": (np.zeros(1, int), self.data.spare_example),
            "train": (np.arange(len(base)), base),
        }
        return every[name]

    def identity(self) -> dict[str, Any]:
        """Return what makes this plan itself; growth in seeds or neighbours does not change it."""
        shape = self.data.features.shape[1:]
        identity = {
            "data": {"name": self.data.name, "fingerprint": self.data.fingerprint},
            "mechanism": _plain(mechanisms.describe(self.mechanism)),
            "model": self.model.identity(shape, self.data.classes),
            "scaling": repr(self.scaling),
            "norm_bound": self.fitted_scaling.norm_bound,
            "records": self._recorded(),
            "relation": self.relation,
            "init": list(self.inits),
            "checkpoints": list(self.steps),
            "root_seed": self.grid.root_seed,
            "people": list(self.grid.people),
            "chunk": asdict(self.shape),
            "watched": 0 if self.watched is None else len(self.watched[1]),
            **({} if self.traced is None else {"traced": len(self.traced)}),
            **({"noise stream": streams.NOISE_STREAM} if isinstance(self.mechanism, DPSGD) else {}),
        }
        return _with_finite_numbers(identity)

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of the identity."""
        return fingerprint_of(self.identity())

    def description(self) -> dict[str, Any]:
        """Return the full description that is kept beside the models."""
        data = self.data
        return {
            "data": {
                "name": data.name,
                "fingerprint": data.fingerprint,
                "source": data.source,
                "examples": len(data.base),
                "test_examples": len(data.test),
                "shape": list(data.features.shape[1:]),
                "classes": list(data.class_names),
                "groups": list(data.groups),
                "norm_bound": self.fitted_scaling.norm_bound,
            },
            "mechanism": _plain(mechanisms.describe(self.mechanism)),
            "guarantee": _plain(self.guarantee.describe()),
            "model": {"name": repr(self.model), "parameters": self.parameters, "convex": self.model.convex},
            "grid": {
                "seeds": self.grid.seeds,
                "neighbours": self.grid.neighbours,
                "people": list(self.grid.people),
                "init": list(self.inits),
                "checkpoints": list(self.steps),
                "relation": self.relation,
                "root_seed": self.grid.root_seed,
                "chunk": asdict(self.shape),
            },
            "preprocessing": {"scaling": repr(self.scaling), **self.fitted_scaling.describe()},
            "records": self._recorded(),
            "versions": software_versions(),
        }

    @cached_property
    def job(self) -> Job:
        """What a worker needs to train any chunk."""
        parts = self.probe_parts()
        rows = np.concatenate([part.features for *_, part in parts]) if parts else self.data.features[:0]
        labels = np.concatenate([part.labels for *_, part in parts]) if parts else self.data.labels[:0]
        return Job(
            fingerprint=f"{self.fingerprint}-{len(rows)}",
            mechanism=self.mechanism,
            model=None if isinstance(self.mechanism, CONVEX) else self.model,  # it would bring JAX along, unused
            classes=self.data.classes,
            setting=self.setting,
            relation=self.relation,
            root_seed=self.grid.root_seed,
            inits=self.inits,
            steps=self.steps,
            scores_at_checkpoints=self.records.scores_at_checkpoints,
            rows=self.rows,
            labels=self.labels,
            probe_rows=self.fitted_scaling.apply(rows).astype(self._float),
            probe_labels=labels.astype(self._float),
            **self._watched_job(),
            traced=self.traced,
        )

    def _watched_job(self) -> dict[str, Any]:
        """Return the job's entries about gradient norms."""
        if self.watched is None or self.records.norms is None:
            return {}
        part = self.watched[2]
        return {
            "watched_rows": self.fitted_scaling.apply(part.features).astype(self._float),
            "watched_labels": part.labels.astype(self._float),
            "norms_every": self.records.norms.steps_between(
                len(self.data.base), gradient_part(self.mechanism).batch_size
            ),
            "norms_precision": self.records.norms.precision,
        }

    def _recorded(self) -> dict[str, Any]:
        """Return the records as plain values; traces only where there are any, so that other stores stay the same."""
        recorded = _plain(asdict(self.records))
        return {name: value for name, value in recorded.items() if name != "fisher_traces" or value is not None}

    def chunk_coordinates(self, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """Return the seeds and neighbours of a full chunk; beyond the grid seeds go on and the base stands in."""
        seeds = chunk.seed_block * self.shape.seeds + np.arange(self.shape.seeds)
        here = self.neighbours[self.shape.neighbour_slice(chunk, len(self.neighbours))]
        return seeds, np.pad(here, (0, self.shape.neighbours - len(here)), constant_values=-1)

    @property
    def _float(self) -> type:
        """The precision that training works in: minimisers in float64, gradient steps in float32."""
        return np.float64 if isinstance(self.mechanism, CONVEX) else np.float32


def make_plan(
    data: Dataset,
    mechanism: Mechanism,
    model: Any = None,
    grid: Grid | None = None,
    records: Records | None = None,
    scaling: Scaling | None = None,
    chunk: ChunkShape | None = None,
    memory: int | str | None = None,
) -> Plan:
    """Return the plan for these choices, checked.

    `chunk` overrides the shape of chunks that would be chosen, `memory` bounds it: bytes that a worker may use.
    """
    from seedscope.models import Custom, as_model, logistic

    model = as_model(logistic() if model is None else model)
    grid, records = grid or Grid(), records or Records()
    plan = Plan(data, mechanism, model, grid, records, scaling or default_scaling(data), ChunkShape(1, 1))
    _check(plan)
    if isinstance(model, Custom) and model.has_one_initial_point:
        fixed = plan.inits == ("fixed",)
        require(
            fixed, "a finished module has one initial point: use Grid(init='fixed') or pass a function key → module."
        )
    return replace(plan, shape=chunk or choose_chunk_shape(plan, memory))


def _check(plan: Plan) -> None:
    """Raise where mechanism, model, data and grid do not go together."""
    mechanism, data = plan.mechanism, plan.data
    name = type(mechanism).__name__
    known = isinstance(mechanism, Mechanism)
    require(known, f"mechanism must be one of Seedscope's, such as SGD(), got {mechanism!r}.")
    if plan.records.norms is not None:
        require(isinstance(mechanism, DPSGD), f"gradient norms are recorded for DPSGD only, the mechanism is {name}.")
        require(len(plan.watched[1]), "Norms(of='neighbours') needs Grid(neighbours=…) or people; there are none.")  # type: ignore[index]
    if plan.traced is not None:
        _check_traces(plan)
    if isinstance(mechanism, CONVEX):
        require(plan.model.convex, f"{name} needs model=logistic(), got {plan.model!r}.")
        require(data.classes == 2, f"{name} is for two classes, the data have {data.classes}.")
        require(data.features.ndim == 2, f"{name} needs a table of features, the data are images.")
        return
    rows, size = len(data.base), gradient_part(mechanism).batch_size
    require(size <= rows, f"batch_size must be at most the {rows} training rows, got {size}.")


def _check_traces(plan: Plan) -> None:
    """Raise unless the Fisher information of a step exists: noise, smooth clipping, a smooth network, no category."""
    from seedscope.datasets.categories import few_valued, not_continuous
    from seedscope.smoothness import require_smooth

    mechanism, name = plan.mechanism, type(plan.mechanism).__name__
    require(isinstance(mechanism, DPSGD), f"fisher_traces are recorded for DPSGD only, the mechanism is {name}.")
    assert isinstance(mechanism, DPSGD)
    smooth = isinstance(mechanism.clipping, SmoothClipping)
    require(smooth, "fisher_traces need clipping=SmoothClipping(): flat clipping is not differentiable.")
    noisy = mechanism.noise_multiplier > 0
    require(noisy, "fisher_traces need noise_multiplier above 0, got 0: without noise the information is infinite.")
    require(mechanism.rule == "sum", "fisher_traces need rule='sum': the mean's divisor depends on the batch.")
    require(len(plan.traced), "fisher_traces='neighbours' needs Grid(neighbours=…) or people; there are none.")  # type: ignore[arg-type]
    require_smooth(plan.model, plan.data.features.shape[1:], plan.data.classes)
    rows = plan.data.base.features
    if rows.ndim == 2 and (categories := np.flatnonzero(few_valued(rows, least_share=0.0))).size:
        raise not_continuous(f"feature {plan.data.feature_names[categories[0]]!r}", rows[:, categories[0]])


@cache
def software_versions() -> dict[str, str]:
    """Return the versions of what can change a trained bit."""
    import platform
    from importlib.metadata import version

    packages = ("seedscope", "jax", "jaxlib", "equinox", "numpy", "scipy", "xarray", "zarr")
    return {"python": platform.python_version(), "machine": platform.machine()} | {
        one: version(one) for one in packages
    }


def _plain(value: Any) -> Any:
    """Return the value as JSON gives it back, so that what was written and what is meant compare equal."""
    return json.loads(json.dumps(value, default=lambda one: one.item() if isinstance(one, np.generic) else str(one)))


def fingerprint_of(identity: dict[str, Any]) -> str:
    """Return the checksum of a plan's identity."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _with_finite_numbers(value: Any) -> Any:
    """Return the value with infinite numbers as text, since JSON has none."""
    if isinstance(value, dict):
        return {name: _with_finite_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_finite_numbers(one) for one in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[str]:
    """Return a phrase for each entry in which two identities differ.

    >>> differences({"mechanism": {"steps": 10}}, {"mechanism": {"steps": 20}})
    ['mechanism.steps is 10, not 20']
    """
    found = []
    for name in sorted(old.keys() | new.keys()):
        mine, theirs = new.get(name), old.get(name)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            found += differences(theirs, mine, f"{prefix}{name}.")
        elif mine != theirs:
            found.append(f"{prefix}{name} is {theirs}, not {mine}")
    return found
