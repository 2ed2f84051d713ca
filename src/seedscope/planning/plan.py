"""A plan: everything that decides which models are trained and what is recorded of them.

Two plans with the same `identity` train the same models; more seeds or neighbours is growth of the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from seedscope.core import (
    Relation,
    as_read_back,
    plain_values,
    require,
    require_networks,
    require_type,
    unknown_name,
)
from seedscope.datasets import (
    Dataset,
    FittedScaling,
    Part,
    Scaling,
    category_columns,
    default_scaling,
    not_continuous,
    with_imputation,
)
from seedscope.mechanisms import Conditions, Guarantee, Mechanism, Recordable
from seedscope.models import Logistic
from seedscope.planning.chunks import Chunk, ChunkShape, choose_chunk_shape
from seedscope.planning.description import DataFacts, Description, GridFacts, ModelFacts, Preprocessing
from seedscope.planning.grid import Grid, first_of_each
from seedscope.planning.identity import fingerprint_of, software_versions
from seedscope.planning.records import PROBES, SINGULAR, Probed, Records
from seedscope.training import Job


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
    def conditions(self) -> Conditions:
        """What the mechanism's guarantee depends on."""
        return Conditions.of(self.data, self.fitted_scaling, self.model.convex, repr(self.model))

    @cached_property
    def guarantee(self) -> Guarantee:
        """The mechanism's proved guarantee, or the reason why there is none."""
        return self.mechanism.guarantee(self.conditions)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The checkpoints; a mechanism that finds a minimiser has one, at step 0."""
        last = self.mechanism.last_step
        return self.grid.steps(last) if last else (0,)

    @cached_property
    def inits(self) -> tuple[str, ...]:
        """The initialisations; a minimiser does not depend on one."""
        return self.grid.inits if self.mechanism.has_initial_point else ("fixed",)

    @cached_property
    def neighbours(self) -> np.ndarray:
        """The neighbour coordinates, the base (−1) first."""
        return self.grid.neighbour_rows(len(self.data.base), self.data.base.persons)

    @cached_property
    def rows(self) -> np.ndarray:
        """The scaled training rows, the spare example last, as the trainer wants them."""
        features = np.concatenate([self.data.base.unfilled, self.data.spare_example.unfilled])
        return self.fitted_scaling.apply(features).astype(self._float)

    @cached_property
    def labels(self) -> np.ndarray:
        """The training labels, the spare example's last."""
        return np.concatenate([self.data.base.labels, self.data.spare_example.labels]).astype(self._float)

    @cached_property
    def parameters(self) -> int:
        """How many weights a model has."""
        if not self.mechanism.records_weights:
            return 0
        from seedscope.models import parameter_count  # JAX

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
    def watched(self) -> Probed | None:
        """Those whose gradient norms are recorded; None without such records."""
        return None if self.records.norms is None else self._probed(self.records.norms.of)

    @cached_property
    def norm_steps(self) -> tuple[int, ...]:
        """How many steps were done at each state whose gradient norms are recorded."""
        return () if self.records.norms is None or self.records.norms.orders else self._looked_at()

    @property
    def looks(self) -> int:
        """At how many states people's gradient norms are looked at, whether they are kept or summed up."""
        return 0 if self.records.norms is None else len(self._looked_at())

    def _looked_at(self) -> tuple[int, ...]:
        """Return how many steps were done at each state at which gradient norms are looked at."""
        assert self.records.norms is not None
        every = self.records.norms.steps_between(len(self.data.base), self.mechanism.batch_size)
        return (*range(0, self.mechanism.last_step, every), self.mechanism.last_step)

    @cached_property
    def traced(self) -> np.ndarray | None:
        """The rows whose Fisher traces are recorded; None without such records."""
        return None if self.records.fisher_traces is None else self._probed(self.records.fisher_traces).rows

    @cached_property
    def private_columns(self) -> tuple[int, ...] | None:
        """The numbers of the columns that Fisher traces are about; None for all."""
        given = self.records.private
        return None if given is None else tuple(_column_number(column, self.data.feature_names) for column in given)

    @cached_property
    def lossy(self) -> np.ndarray | None:
        """The rows whose privacy losses are recorded, one for each person; None without such records."""
        if self.records.losses_of is None:
            return None
        rows, persons = self._probed(self.records.losses_of).rows, self.data.base.persons
        return rows if persons is None else first_of_each(rows, persons)

    @cached_property
    def probed(self) -> tuple[Probed, ...]:
        """The probe examples, in the order in which they are recorded; of a neighbour all rows of that person."""
        parts = [self._probed(name) for name in PROBES if name in self.records.probes]
        return tuple(self._with_own_rows(part) if part.name == SINGULAR["neighbours"] else part for part in parts)

    @cached_property
    def probed_neighbours(self) -> np.ndarray:
        """Which neighbour (0 the first after the base) each of their probed rows is of, in order."""
        return np.repeat(np.arange(len(self._own_rows)), [len(rows) for rows in self._own_rows])

    @cached_property
    def _own_rows(self) -> list[np.ndarray]:
        """Each neighbour's rows, the one that it is named by first."""
        persons, named = self.data.base.persons, self.neighbours[1:]
        if persons is None:
            return list(named[:, None])
        rows_of_each = [np.flatnonzero(persons == persons[row]) for row in named]
        return [
            np.append(named_row, rows[rows != named_row]) for named_row, rows in zip(named, rows_of_each, strict=True)
        ]

    def _with_own_rows(self, probed: Probed) -> Probed:
        """Return the neighbours' probes with all rows of each person."""
        rows = np.concatenate([np.zeros(0, int), *self._own_rows])
        return Probed(probed.name, rows, self.data.base.take(rows))

    def _probed(self, name: str | int) -> Probed:
        """Return the examples of a part that records can be about; of a number, that many training rows."""
        base = self.data.base
        if isinstance(name, int):
            rows = np.sort(np.random.default_rng(self.grid.root_seed).permutation(len(base))[:name])
            return Probed("train", rows, base.take(rows))
        known: dict[str, tuple[np.ndarray, Part]] = {
            "test": (np.arange(len(self.data.test)), self.data.test),
            "neighbours": (self.neighbours[1:], base.take(self.neighbours[1:])),
            "spare": (np.zeros(1, int), self.data.spare_example),
            "train": (np.arange(len(base)), base),
        }
        return Probed(SINGULAR.get(name, name), *known[name])

    def identity(self) -> dict[str, Any]:
        """Return what makes this plan itself; growth in seeds or neighbours does not change it."""
        shape = self.data.features.shape[1:]
        identity = {
            "data": {"name": self.data.name, "fingerprint": self.data.fingerprint},
            "mechanism": as_read_back(self.mechanism.describe()),
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
            "watched": 0 if self.watched is None else len(self.watched.rows),
            **({} if self.traced is None else {"traced": len(self.traced)}),
            **({} if self.lossy is None else {"losses of": len(self.lossy)}),
            **({"scaling of neighbours": "by their own rows"} if self._unscaled_job(self.data.features[:0]) else {}),
            **({} if self.mechanism.noise_stream is None else {"noise stream": self.mechanism.noise_stream}),
            **({} if self.data.base.persons is None else {"rows of neighbours": "all of a person's"}),
        }
        finite: dict[str, Any] = plain_values(identity, not_finite=str)
        return finite

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of the identity."""
        return fingerprint_of(self.identity())

    @cached_property
    def short_name(self) -> str:
        """A name for what is trained, however large the grid: where a store goes that nobody named."""
        size = ("chunk", "watched", "traced")
        return fingerprint_of({name: value for name, value in self.identity().items() if name not in size})[:8]

    def description(self) -> Description:
        """Return the full description that is kept beside the models."""
        data, scaling = self.data, self.fitted_scaling
        return Description(
            data=DataFacts(
                data.name, data.fingerprint, data.source, len(data.base), len(data.test), data.shape,
                tuple(data.class_names), tuple(data.groups), scaling.norm_bound,
                None if data.base.persons is None else data.base.people,
            ),
            described_mechanism=as_read_back(self.mechanism.describe()),
            guarantee=self.guarantee,
            model=ModelFacts(repr(self.model), self.parameters, self.model.convex),
            grid=GridFacts(
                self.grid.seeds, self.grid.neighbours, tuple(self.grid.people), self.inits, self.steps, self.relation,
                self.grid.root_seed, asdict(self.shape),
            ),
            preprocessing=Preprocessing(
                as_read_back(self.scaling.describe()), scaling.norm_bound, scaling.learned,
                self.conditions.also_learned, scaling.spent, data.rows_per_person,
            ),
            records=self._recorded(),
            versions=software_versions(),
        )  # fmt: skip

    @cached_property
    def job(self) -> Job:
        """What a worker needs to train any chunk."""
        parts = [probed.part for probed in self.probed]
        rows = np.concatenate([part.unfilled for part in parts]) if parts else self.data.features[:0]
        labels = np.concatenate([part.labels for part in parts]) if parts else self.data.labels[:0]
        cargo = self.mechanism.cargo()
        brought = "" if cargo is None else f"-{cargo.identity}"  # of plans with equal words it can be another
        return Job(
            fingerprint=f"{self.fingerprint}-{len(rows)}{brought}",
            mechanism=self.mechanism,
            model=self.model if self.mechanism.takes_network else None,  # it would bring JAX along, unused
            classes=self.data.classes,
            norm_bound=self.conditions.norm_bound,
            relation=self.relation,
            root_seed=self.grid.root_seed,
            inits=self.inits,
            checkpoints=self.steps,
            scores_at_checkpoints=self.records.scores_at_checkpoints,
            rows=self.rows,
            labels=self.labels,
            probe_rows=self.fitted_scaling.apply(rows).astype(self._float),
            probe_labels=labels.astype(self._float),
            **self._watched_job(),
            traced=self.traced,
            private_columns=self.private_columns,
            lossy=self.lossy,
            cargo=cargo,
            noise_key=self.noise_key,
            owners=self._owners(),
            **self._unscaled_job(rows),
        )

    @cached_property
    def noise_key(self) -> str:
        """What noise is keyed by beside the root seed: no two mechanisms, levels or data sets share a draw."""
        used = {"mechanism": as_read_back(self.mechanism.describe()), "data": self.data.fingerprint}
        return fingerprint_of(plain_values(used | {"scaling": repr(self.scaling)}, not_finite=str))

    def _owners(self) -> np.ndarray | None:
        """Return whose each training row is, the spare example nobody's; None where every row is a person."""
        persons = self.data.base.persons
        return None if persons is None else np.append(persons, persons.max() + 1).astype(np.int32)

    def _unscaled_job(self, probe_rows: np.ndarray) -> dict[str, Any]:
        """Return the job's entries about a scaling that is learned, which every neighbour fits anew."""
        if not self.scaling.learns or self.data.features.ndim > 2:
            return {}
        watched = None if self.watched is None else self.watched.part.unfilled
        rows = np.concatenate([self.data.base.unfilled, self.data.spare_example.unfilled])
        raw = {"raw_rows": rows, "raw_probe_rows": probe_rows, "raw_watched_rows": watched}
        return {"scaling": self.scaling, **raw}

    def _watched_job(self) -> dict[str, Any]:
        """Return the job's entries about gradient norms."""
        if self.watched is None or self.records.norms is None:
            return {}
        part = self.watched.part
        return {
            "watched_rows": self.fitted_scaling.apply(part.unfilled).astype(self._float),
            "watched_labels": part.labels.astype(self._float),
            "norms_every": self.records.norms.steps_between(len(self.data.base), self.mechanism.batch_size),
            "norms_precision": self.records.norms.precision,
            "path_orders": self.records.norms.orders,
        }

    def _recorded(self) -> dict[str, Any]:
        """Return the records as plain values; what came later only where asked for: other stores stay the same."""
        recorded, later = as_read_back(asdict(self.records)), ("fisher_traces", "losses_of", "private")
        if recorded["norms"] is not None and not recorded["norms"]["orders"]:
            del recorded["norms"]["orders"]
        if self.private_columns is not None:
            recorded["private"] = list(self.private_columns)
        return {name: value for name, value in recorded.items() if name not in later or value is not None}

    def chunk_coordinates(self, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """Return the seeds and neighbours of a full chunk; beyond the grid seeds go on and the base stands in."""
        seeds = chunk.seed_block * self.shape.seeds + np.arange(self.shape.seeds)
        block = self.neighbours[self.shape.neighbour_slice(chunk, len(self.neighbours))]
        return seeds, np.pad(block, (0, self.shape.neighbours - len(block)), constant_values=-1)

    @property
    def _float(self) -> type:
        """The precision that training works in."""
        return self.mechanism.precision


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
    _check_types(data, grid, records, scaling)
    ours = getattr(mechanism, "records_weights", True)  # a user's own model needs no JAX
    model = _known_model(model) if ours else model
    grid, records = grid or Grid(), records or Records()
    scaling = with_imputation(scaling or default_scaling(data), data)
    plan = Plan(data, mechanism, model, grid, records, scaling, ChunkShape(1, 1))
    _check(plan)
    if getattr(model, "has_one_initial_point", False):
        fixed = plan.inits == ("fixed",)
        require(
            fixed, "a finished module has one initial point: use Grid(init='fixed') or pass a function key → module."
        )
    return replace(plan, shape=chunk or choose_chunk_shape(plan, memory))


def _check_types(data: Any, grid: Any, records: Any, scaling: Any) -> None:
    """Raise where what is to be trained is not of the kind that it must be."""
    require_type("data", data, Dataset, "load(name), read_table(file, target=…) or from_arrays(X, y) give one")
    for name, value, kind in (("grid", grid, Grid), ("records", records, Records), ("scaling", scaling, Scaling)):
        if value is not None:
            require_type(name, value, kind, f"write {kind.__name__}(…), or leave it out")


def _known_model(model: Any) -> Any:
    """Return a model that our engine trains: logistic regression unless another is given."""
    from seedscope.models import as_model, logistic  # JAX

    return as_model(logistic() if model is None else model)


def _check(plan: Plan) -> None:
    """Raise where mechanism, model, data and grid do not go together."""
    known = isinstance(plan.mechanism, Mechanism)
    require(known, f"mechanism must be one of Seedscope's, such as SGD(), got {plan.mechanism!r}.")
    claimed = (
        f"only logistic regression is taken as convex, since bounds hold for it; {plan.model!r} must not say it is."
    )
    require(not plan.model.convex or isinstance(plan.model, Logistic), claimed, "model")
    if plan.mechanism.takes_network:
        require_networks(f"{plan.mechanism.name}, which takes gradient steps,")
    if plan.watched is not None:
        _require_recordable(plan, "gradient_norms")
        nobody = len(plan.watched.rows) == 0
        require(not nobody, "Norms(of='neighbours') needs Grid(neighbours=…) or people; there are none.")
        if plan.records.norms is not None and plan.records.norms.orders:
            _require_recordable(plan, "path_sums")
    if plan.mechanism.limits_people:
        added = plan.relation == "add_or_remove"
        require(added, f"personal_budget is about add_or_remove, the grid is {plan.relation}; leave relation out.")
    if plan.traced is not None:
        _check_traces(plan, plan.traced)
    if plan.lossy is not None:
        _require_recordable(plan, "privacy_losses")
        _require_losses_of_persons(plan)
        require(len(plan.lossy) > 0, "losses_of='neighbours' needs Grid(neighbours=…) or people; there are none.")
    whole = plan.mechanism.takes_masks or not getattr(plan.model, "draws_masks", False)
    require(whole, f"dropout is for plain SGD, and the mechanism is {plan.mechanism.name}; leave dropout out.")
    plan.mechanism.check(plan.conditions)


def _require_losses_of_persons(plan: Plan) -> None:
    """Raise where the privacy losses of a person with several rows are not known."""
    if plan.data.base.persons is not None:
        refusal = plan.mechanism.cannot_lose_together(plan.data.base.most_rows, plan.data.classes)
        require(not refusal, refusal, "person")


def _require_recordable(plan: Plan, what: Recordable) -> None:
    """Raise where the mechanism cannot record something."""
    refusal = plan.mechanism.cannot_record(what)
    require(not refusal, refusal)


def _check_traces(plan: Plan, traced: np.ndarray) -> None:
    """Raise unless the Fisher information of a step exists: noise, smooth clipping, a smooth network, no category."""
    from seedscope.models import require_smooth  # JAX

    _require_recordable(plan, "fisher_traces")
    require(len(traced) > 0, "fisher_traces='neighbours' needs Grid(neighbours=…) or people; there are none.")
    require_smooth(plan.model, plan.data.features.shape[1:], plan.data.classes)
    named = plan.private_columns
    once = named is None or len(set(named)) == len(named)
    require(once, "private must name each column once.")
    private = range(len(plan.data.feature_names)) if named is None else named
    encoded = {column for category in category_columns(plan.data) for column in category.columns}
    category_column = next((column for column in private if column in encoded), None)
    if category_column is not None:
        name, values = plan.data.feature_names[category_column], plan.data.base.features[:, category_column]
        raise not_continuous(f"feature {name!r}", values, "name the others in Records(private=…)")


def _column_number(column: str | int, names: Sequence[str]) -> int:
    """Return the number of a column given by name or number."""
    if isinstance(column, str):
        if column not in names:
            raise unknown_name("private column", column, names)
        return names.index(column)
    require(0 <= column < len(names), f"private columns must be between 0 and {len(names) - 1}, got {column}.")
    return int(column)
