"""An ensemble from predictions alone: the models were trained elsewhere, and only their scores are known."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import BASE, RELATIONS, Relation, SeedscopeError, require
from seedscope.datasets import Unscaled
from seedscope.mechanisms import Conditions, OwnModel
from seedscope.planning import DataFacts, Description, GridFacts, ModelFacts, Preprocessing, software_versions

if TYPE_CHECKING:
    import xarray

LEAST_PROBABILITY = 1e-6  # of the true class: a score of exactly 0 would be an infinite loss
MOST_GROUPS = 20


@dataclass(frozen=True, eq=False)
class People:
    """The examples that models were asked about: class numbers, the classes' names, groups and identifiers."""

    labels: np.ndarray
    classes: tuple[str, ...]
    ids: np.ndarray
    groups: Mapping[str, np.ndarray]
    training: np.ndarray  # whether models without this example are known too

    @property
    def order(self) -> np.ndarray:
        """Their places, those of the test part first."""
        return np.argsort(self.training, kind="stable")


def log_losses(scores: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Return −ln of the true class's score [..., example], from the score of class 1 or, beyond two, of every class.

    >>> log_losses(np.array([[0.5, 1.0]]), np.array([0, 1]), classes=2).round(6).tolist()
    [[0.693147, 1e-06]]
    >>> log_losses(np.array([[0.5, 0.2, 0.3]] * 3), np.array([0, 0, 2]), classes=3).round(3).tolist()
    [0.693, 0.693, 1.204]
    """
    true = np.take_along_axis(scores, _aligned(labels, scores), -1)[..., 0] if classes > 2 else None
    chance = np.where(labels == 1, scores, 1 - scores) if true is None else true
    losses: np.ndarray = -np.log(np.clip(chance, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY))
    return losses


def _aligned(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the labels with as many axes as the scores have, the class last."""
    return np.broadcast_to(labels[:, None], (*scores.shape[:-1], 1))


def as_scores(values: ArrayLike, classes: Sequence[Any], name: str = "scores") -> np.ndarray:
    """Return scores [model, example] of class 1, or [model, example, class] beyond two, from scores or decisions.

    >>> as_scores([["no", "yes"]], ["no", "yes"]).tolist()
    [[0.0, 1.0]]
    """
    given = _rectangular(values, name)
    shaped = given.ndim in (2, 3) and given.size > 0
    require(shaped, f"{name} must be [model, example] or [model, example, class], got shape {given.shape}.")
    if given.dtype.kind != "f":
        return _from_decisions(given, classes, name)
    known = given[~np.isnan(given)]
    require((known >= 0) & (known <= 1), f"{name} must be probabilities from 0 to 1; squash margins to them first.")
    count = len(classes)
    if given.ndim == 2:
        more = f"the labels have {count} classes: give [model, example, class], classes in ascending order."
        require(count == 2, f"{name} [model, example] are of two classes, {more}")
        return given.astype(float)
    columns = given.shape[2]
    require(columns == count, f"{name} have {columns} classes, the labels {count}; both must be the same, ascending.")
    return given[..., 1].astype(float) if count == 2 else given.astype(float)


def _rectangular(values: ArrayLike, name: str) -> np.ndarray:
    """Return values as an array, or raise where models were asked about different numbers of examples."""
    try:
        return np.asarray(values)
    except ValueError:
        shapes = sorted({np.shape(model) for model in values})  # type: ignore[union-attr]
        raise SeedscopeError(f"{name} differ in shape between models: {shapes[0]} and {shapes[-1]}.") from None


def _from_decisions(given: np.ndarray, classes: Sequence[Any], name: str) -> np.ndarray:
    """Return decisions, each a class, as scores of 0 and 1."""
    require(given.ndim == 2, f"{name} that are decisions must be [model, example], got shape {given.shape}.")
    decided = given.astype(int) if given.dtype.kind == "b" else given
    foreign = np.setdiff1d(decided.astype(str), np.asarray(classes).astype(str))
    shown = ", ".join(map(str, classes))
    require(len(foreign) == 0, f"{name} decide for {', '.join(foreign[:3])}, which no label is; classes are {shown}.")
    chosen = decided.astype(str)[..., None] == np.asarray(classes).astype(str)
    scores: np.ndarray = (chosen[..., 1] if len(classes) == 2 else chosen).astype(float)
    return scores


def dataset_from_scores(
    scores: ArrayLike,
    labels: ArrayLike,
    groups: Mapping[str, ArrayLike] | None,
    without: ArrayLike | None,
    ids: ArrayLike | None,
    name: str,
    mechanism: OwnModel | None,
    relation: Relation,
    source: str,
    training: ArrayLike | None,
    features: int,
) -> xarray.Dataset:
    """Return the records of models that were trained elsewhere; the arguments are those of `Ensemble.from_scores`."""
    require(relation in RELATIONS, f"relation must be one of {RELATIONS}, got {relation!r}.")
    truth = np.asarray(labels)
    require(truth.ndim == 1 and len(truth) > 0, f"labels must be [example], got shape {truth.shape}.")
    classes, codes = np.unique(truth, return_inverse=True)
    require(len(classes) >= 2, f"labels must have at least two classes, got {classes.tolist()}.")
    shaped = as_scores(scores, classes.tolist())
    _require_models(shaped, len(truth))
    absent = None if without is None else _without(without, classes.tolist(), shaped.shape)
    trained = _trained(training, len(truth)) if absent is None else _known(absent)
    people = People(codes, _class_names(classes), _ids(ids, len(truth)), _groups(groups, len(truth)), trained)
    _require_test_part(people)
    return _assembled(shaped, absent, people, name, mechanism or OwnModel(), relation, source, features)


def _require_models(scores: np.ndarray, examples: int) -> None:
    """Raise unless there are several models, scores of every example, and something that varies."""
    right = scores.shape[1] == examples
    require(right, f"scores are of {scores.shape[1]} examples, labels of {examples}; they must be of the same.")
    require(len(scores) >= 2, f"scores must be of at least two models, got {len(scores)}; the first axis is the model.")
    bad = np.flatnonzero(np.isnan(scores).any(axis=tuple(range(1, scores.ndim))))
    require(len(bad) == 0, f"scores of model {bad[:5].tolist()} are not numbers; leave these models out.")
    require(np.ptp(scores, axis=0).max() > 0, f"all {len(scores)} models have the same scores: nothing varied.")


def _without(without: ArrayLike, classes: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Return the scores of models without each example, of the same shape as those of models with it."""
    absent = as_scores(np.asarray(without, float), classes, "without")
    require(absent.shape == shape, f"without must have the shape of scores, got {absent.shape} and {shape}.")
    return absent


def _known(absent: np.ndarray) -> np.ndarray:
    """Return for which examples the scores without them are known: all of a column, or none of it."""
    missing = np.isnan(absent if absent.ndim == 2 else absent[..., 0])
    whole = missing.all(0) | ~missing.any(0)
    first = np.flatnonzero(~whole)
    require(whole, f"without must be known of every model or of none; example {first[:1].tolist()} has some.")
    known: np.ndarray = ~missing.any(0)
    return known


def _trained(training: ArrayLike | None, examples: int) -> np.ndarray:
    """Return which examples the models were trained with; none where nothing was said."""
    given = np.zeros(examples, bool) if training is None else np.asarray(training)
    right = given.shape == (examples,) and given.dtype == bool
    require(right, f"training must be True or False for each of {examples} examples, got shape {given.shape}.")
    return given


def _class_names(classes: np.ndarray) -> tuple[str, ...]:
    """Return the classes as text; whole numbers without a decimal point."""
    whole = classes.dtype.kind == "f" and bool(np.all(classes % 1 == 0))
    return tuple(str(int(name)) if whole else str(name) for name in classes.tolist())


def _ids(ids: ArrayLike | None, examples: int) -> np.ndarray:
    """Return the identifiers as text, by default the examples' numbers."""
    if ids is None:
        return np.arange(examples).astype(str)
    given = np.asarray(ids).astype(str)
    require(given.shape == (examples,), f"ids must be one for each of {examples} examples, got shape {given.shape}.")
    require(len(np.unique(given)) == examples, "ids must be unique.")
    return given


def _groups(groups: Mapping[str, ArrayLike] | None, examples: int) -> dict[str, np.ndarray]:
    """Return each group attribute as text."""
    texts = {str(name): np.asarray(values).astype(str) for name, values in (groups or {}).items()}
    for name, values in texts.items():
        right = values.shape == (examples,)
        require(right, f"group {name!r} must have a value for each of {examples} examples, got {values.shape}.")
        levels = len(np.unique(values))
        require(levels <= MOST_GROUPS, f"group {name!r} has {levels} levels, at most {MOST_GROUPS} are allowed.")
    return texts


def _require_test_part(people: People) -> None:
    """Raise unless examples of two classes are left that no model was trained on."""
    test = people.labels[~people.training]
    remedy = "leave NaN in `without` for examples that no model was trained on."
    if len(np.unique(test)) < 2:
        raise SeedscopeError(f"decisions are audited on test examples of two classes, got {len(test)}; {remedy}")


def _assembled(
    scores: np.ndarray,
    absent: np.ndarray | None,
    people: People,
    name: str,
    mechanism: OwnModel,
    relation: Relation,
    source: str,
    features: int,
) -> xarray.Dataset:
    """Return the records with named axes: examples of the test part first."""
    import xarray

    order, models = people.order, len(scores)
    axes = ("seed", "neighbour", "init", "example")
    score_axes = axes if scores.ndim == 2 else (*axes, "class")
    ordered, classes = scores[:, order], 2 if scores.ndim == 2 else scores.shape[-1]
    losses = log_losses(ordered, people.labels[order], classes)
    data: dict[str, Any] = {
        "scores": (score_axes, ordered[:, None, None].astype(np.float32)),
        "losses": (axes, losses[:, None, None].astype(np.float32)),
    }
    if absent is not None:
        lost = log_losses(absent[:, order], people.labels[order], classes)
        data["losses_without"] = (("seed", "init", "example"), lost[:, None].astype(np.float32))
    text = _description(scores, people, name, mechanism, relation, source, features).text()
    part = "train" if absent is None else "neighbour"
    return xarray.Dataset(data, coords=_coordinates(people, models, part), attrs={"description": text, "format": 1})


def _coordinates(people: People, models: int, training_part: str) -> dict[str, Any]:
    """Return the coordinates that an ensemble of a grid has, for one data set and one step."""
    order = people.order
    return {
        "seed": ("seed", np.arange(models)),
        "neighbour": ("neighbour", np.array([BASE])),
        "neighbour_drawn": ("neighbour", np.array([False])),
        "init": ("init", np.array(["varied"])),
        "step": ("step", np.array([0])),
        "example_part": ("example", np.where(people.training[order], training_part, "test")),
        "example_row": ("example", order),
        "example_label": ("example", people.labels[order]),
        "example_person": ("example", order),
        "person_id": ("person", people.ids),
        "person_part": ("person", np.where(people.training, "train", "test")),
        "person_label": ("person", people.labels),
        **{f"group_{k}": ("person", values) for k, values in enumerate(people.groups.values())},
    }


def _description(
    scores: np.ndarray, people: People, name: str, mechanism: OwnModel, relation: Relation, source: str,
    features: int,
) -> Description:  # fmt: skip
    """Return what is known of models that were trained elsewhere."""
    trained = int(people.training.sum())
    digest = hashlib.sha256(repr((name, people.classes, tuple(people.groups))).encode())
    for values in (people.labels, people.ids, *people.groups.values()):
        digest.update("\0".join(map(str, values.tolist())).encode())
    facts = DataFacts(
        name, digest.hexdigest()[:16], source, trained, len(people.labels) - trained, (features,),
        people.classes,
        tuple(people.groups), None,
    )  # fmt: skip
    return Description(
        data=facts,
        described_mechanism=mechanism.describe(),
        guarantee=mechanism.guarantee(Conditions(trained, None)),
        model=ModelFacts(mechanism.label, 0, convex=False),
        grid=GridFacts(len(scores), 0, (), ("varied",), (0,), relation, 0, {}),
        preprocessing=Preprocessing(Unscaled().describe(), None, learned=False),
        records={"probes": ["test", "neighbours"] if trained else ["test"]},
        versions=software_versions(),
    )
