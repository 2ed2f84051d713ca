"""Stand-ins for runs of DP-SGD: the linear recursion in one piece, near the runs of their seeds, and known shares."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.special import expit

import seedscope as ss
from seedscope.analyses import multiplicity as mu
from seedscope.planning import make_plan
from seedscope.training.dpsgd import StepsSurrogate
from seedscope.training.dpsgd.noise import noise_keys, normals_like
from seedscope.training.sampling import Poisson
from tests.helpers.small_data import table

DATA = table(rows=120, columns=3, norm_bound=1.0)
STEPS = ss.DPSGD.calibrated(
    4.0, 1e-5, examples=len(DATA.base), batch_size=20, steps=25, learning_rate=1.0, clipping_norm=0.5
)
MODELS = 120


def stand_ins_for(steps: ss.DPSGD) -> StepsSurrogate:
    """Return the stand-ins of steps on the data."""
    plan = make_plan(DATA, steps, None, ss.Grid(MODELS), ss.Records(probes=("test",)))
    found = steps.surrogate(plan.job)
    assert isinstance(found, StepsSurrogate)
    return found


@pytest.fixture(scope="module")
def surrogate() -> StepsSurrogate:
    return stand_ins_for(STEPS)


@pytest.fixture(scope="module")
def runs() -> np.ndarray:
    """Return the decisions of trained models."""
    ensemble = ss.train(DATA, STEPS, grid=ss.Grid(MODELS), records=ss.Records(probes=("test",)), jobs=1)
    return np.asarray(ensemble.base_scores() > 0.5)


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_a_stand_in_is_the_recursion_step_by_step(l2: float) -> None:
    surrogate = stand_ins_for(replace(STEPS, l2=l2))
    job, seed, size = surrogate.job, 3, len(DATA.base)
    rows, labels = np.column_stack([job.rows[:-1], np.ones(size)]), job.labels[:-1]
    from seedscope.models import network_of
    from seedscope.training.gradient import starting_points

    init = network_of(job.model, job.rows.shape[1:], 2).init
    start = starting_points(init, job.root_seed, np.array([seed], np.int32), 1, job.inits)
    u = np.asarray(ravel_pytree(jax.tree.map(lambda leaf: leaf[0, 0], start))[0], float)
    places, sizes = Poisson().draw(job.root_seed, seed, size, 20, 25, size)
    batches = np.split(places, np.cumsum(sizes))[:-1]
    key, reference = noise_keys(job.noise_seed, np.array([seed]))[0], np.zeros(4)
    limit = 0.5 / np.linalg.norm(rows, axis=1)
    for t, batch in enumerate(batches):
        derivative = expit(rows @ reference) - labels
        clipped = np.clip(derivative, -limit, limit)[:, None] * rows
        bend = (np.abs(derivative) < limit) * expit(rows @ reference) * expit(-rows @ reference)
        noise = np.asarray(ravel_pytree(normals_like(init, jax.random.fold_in(key, t)))[0], float)
        random = clipped[batch].sum(0) - 20 / size * clipped.sum(0) + STEPS.noise_scale * noise
        u = (1 - l2) * u - (rows.T * bend) @ rows @ u / size - random / 20
        reference = (1 - l2) * reference - clipped.mean(0)
    stood_in = (surrogate._quiet(np.array([seed])) + surrogate._noisy(np.array([seed])))[0]
    np.testing.assert_allclose(stood_in, reference + u, atol=1e-5)


@pytest.mark.slow
def test_stand_ins_decide_nearly_always_as_their_runs_do(surrogate: StepsSurrogate, runs: np.ndarray) -> None:
    stand_ins = surrogate.decisions(np.arange(MODELS))
    own = np.mean(stand_ins != runs)
    others = np.mean(np.roll(stand_ins, 1, axis=0) != runs)
    assert own < others / 3


@pytest.mark.slow
def test_known_shares_are_those_of_stand_ins_of_other_seeds(surrogate: StepsSurrogate) -> None:
    seen, known = surrogate.decisions(np.arange(1500)).mean(axis=0), surrogate.shares
    noise = 4.5 * 0.5 / np.sqrt(1500)
    assert np.all((known.values - known.below - noise < seen) & (seen < known.values + known.above + noise))
    assert (known.below + known.above).max() < 0.1


def test_few_draws_estimate_shares_without_bias(surrogate: StepsSurrogate) -> None:
    few, many = replace(surrogate, draws=100).shares, surrogate.shares
    assert np.all(np.abs(few.values - many.values) <= 5 * np.sqrt(few.variance + many.variance) + 1e-3)


def test_intervals_with_stand_ins_hold_what_more_runs_show(surrogate: StepsSurrogate, runs: np.ndarray) -> None:
    shares = surrogate.shares
    sides = {"below": shares.below, "above": shares.above}
    found = mu.StandIns.counted(shares.values, runs, surrogate.decisions(np.arange(MODELS)), **sides, risk=shares.risk)
    assert found.useful
    lower, upper = mu.combined_interval(runs.sum(0), found, 0.95, runs.shape[1])
    own = mu.disagreement(runs)
    assert np.all((lower <= own + 0.15) & (own <= upper + 0.15))


@pytest.mark.parametrize("change", ["momentum", "three classes"])
def test_where_there_are_none_votes_count_alone(change: str) -> None:
    data = table(rows=90, classes=3) if change == "three classes" else DATA
    steps = replace(STEPS, momentum=ss.Momentum(0.9)) if change == "momentum" else STEPS
    plan = make_plan(data, steps, None, ss.Grid(2), ss.Records(probes=("test",)))
    assert steps.surrogate(plan.job) is None
