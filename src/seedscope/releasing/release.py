"""Trains the one model to publish."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from seedscope.accounting import TradeOff, trade_off
from seedscope.core import SeedscopeError, require, require_type
from seedscope.datasets import MOST_ROWS, Dataset, Part, Scaling, with_persons
from seedscope.mechanisms import Guarantee, Mechanism
from seedscope.planning import Grid, Plan, Records, make_plan
from seedscope.releasing.model import ReleasedModel
from seedscope.training import Job, SystemDraws

SMOOTHING = 2.0**-10  # of ε: what smoothing a minimiser may cost


def release(
    data: Dataset,
    mechanism: Mechanism,
    *,
    model: Any = None,
    scaling: Scaling | None = None,
    unproved: bool = False,
    draws: SystemDraws | None = None,
) -> ReleasedModel:
    """Return the one model to publish, trained on all rows, with the guarantee that holds for these very weights.

    The random numbers are the operating system's and are kept nowhere: nobody can train the same model again, its
    owner included. A test part that was drawn from the rows is trained on too; one that was given is left out.

    Args:
        data: with public ranges of its columns, or rows with a norm bound; otherwise scaling is learned and nothing is
            proved.
        mechanism: with a proved guarantee, and a δ that does not follow the number of rows. Smoothing its minimiser
            costs 1/1024 of ε more, which the guarantee counts.
        model: a network for DP-SGD; default logistic regression.
        scaling: default as for `train`.
        unproved: publish all the same what is not proved.
        draws: where random numbers come from; for tests.

    >>> import seedscope as ss
    >>> found = ss.release(ss.load("breast-cancer"), ss.ObjectivePerturbation(epsilon=1.0))
    >>> found.guarantee.epsilon.kind, found.weights.shape
    ('proved', (31,))
    """
    require_type("data", data, Dataset, "load(name) or read_table(file, target=…) give one")
    draws = draws or SystemDraws()
    plan = make_plan(all_rows(data), mechanism, model, Grid(1, root_seed=0), Records(probes=()), scaling)
    told = "δ would follow the number of rows, and the card would tell it; give delta, known without the data."
    require(unproved or not mechanism.delta_follows_size, told, argument="delta")
    smoothing = _smoothing(plan)
    guarantee = _guarantee(plan, smoothing)
    if not (guarantee.is_proved or unproved):
        raise SeedscopeError(f"nothing is proved for this model: {guarantee.reason}", argument="unproved")
    fitted = plan.fitted_scaling if not plan.scaling.draws else _drawn_scaling(plan, draws)
    job = _scaled_job(plan, fitted)
    weights = mechanism.published(job, draws, smoothing)
    require(
        bool(np.isfinite(weights).all()), "the weights are not finite; use a smaller learning rate or clipping norm."
    )
    return ReleasedModel(
        weights, repr(plan.model), plan.model.convex and data.features.ndim == 2, data.feature_names, data.class_names,
        fitted, mechanism.public_words(), guarantee, _curve(plan, guarantee),
        mechanism.weight_noise(plan.conditions),
    )  # fmt: skip


def all_rows(data: Dataset) -> Dataset:
    """Return the data with every row to train on; a test part that was given is left out.

    The split that is drawn depends on everybody's label, so that one person's row could move others in or out.
    """
    if not data.drawn_test:
        return data
    parts = [data.train, data.test]
    joined = _joined([part for part in parts if len(part)])
    order = np.argsort(joined.rows, kind="stable")
    whole = replace(data, train=joined.take(order), spare=("test", 0), drawn_test=False)
    if joined.persons is None:
        return whole
    return with_persons(whole, None if MOST_ROWS in data.learned else data.rows_per_person)  # test people have as many


def _joined(parts: list[Part]) -> Part:
    """Return parts as one."""
    owners = [part.persons for part in parts if part.persons is not None]
    names = ("features", "labels", "ids", "rows")
    arrays: Any = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    holes = [part.holes for part in parts if part.holes is not None]
    more: Any = {
        name: np.concatenate(arrays_of_parts)
        for name, arrays_of_parts in (("persons", owners), ("holes", holes))
        if arrays_of_parts
    }
    return Part(**arrays, **more)


def _smoothing(plan: Plan) -> float:
    """Return the ε that smoothing may cost; a mechanism without a guarantee has none to count, but is smoothed."""
    own = plan.mechanism.guarantee(plan.conditions).epsilon
    return SMOOTHING * (1.0 if own is None else own.value)


def _guarantee(plan: Plan, smoothing: float) -> Guarantee:
    """Return the guarantee of the weights as they are published."""
    guarantee, mechanism = plan.guarantee, plan.mechanism
    if guarantee.epsilon is None:
        return guarantee
    if not mechanism.publishes_exactly:
        said = "the noise as it is computed (single precision)"
        return replace(
            guarantee, epsilon=replace(guarantee.epsilon, kind="estimate"), assumes=(*guarantee.assumes, said),
            reason=f"{guarantee.reason[:-1]}; not proved for floating point.",
        )  # fmt: skip
    cost = smoothing if mechanism.smooths else 0.0
    return replace(guarantee, epsilon=replace(guarantee.epsilon, value=guarantee.epsilon.value + cost))


def _curve(plan: Plan, guarantee: Guarantee) -> TradeOff | None:
    """Return what any membership attack can achieve at most: the mechanism's own curve, unless smoothing adds to it."""
    if guarantee.epsilon is None:
        return None
    if plan.mechanism.smooths:
        return trade_off(epsilon=guarantee.epsilon.value, delta=guarantee.delta, kind=guarantee.epsilon.kind)
    return plan.mechanism.trade_off(plan.conditions)


def _drawn_scaling(plan: Plan, draws: SystemDraws) -> Any:
    """Return a private scaling whose noise is the operating system's, in whole steps of a grid, exactly distributed."""
    return plan.scaling.refit(plan.data.base.unfilled, draws.rounded_normals)


def _scaled_job(plan: Plan, fitted: Any) -> Job:
    """Return what training needs: all rows scaled, no probes, no seed."""
    features = np.concatenate([plan.data.base.unfilled, plan.data.spare_example.unfilled])
    rows = fitted.apply(features).astype(plan.mechanism.precision)
    return replace(plan.job, rows=rows, scaling=None, raw_rows=None, root_seed=0)
