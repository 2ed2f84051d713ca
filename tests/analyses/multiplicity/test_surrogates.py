"""Stand-ins: their known votes, intervals from three values, and that these cover."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import seedscope as ss
from seedscope.analyses import multiplicity as mu
from seedscope.analyses.multiplicity.intervals import disagreement_image
from seedscope.core import SeedscopeError
from seedscope.execution import stand_ins_of
from seedscope.execution import until as adaptive
from seedscope.numerics import three_valued_interval, three_values
from seedscope.planning import make_plan
from seedscope.training import KnownShares, LinearSurrogate, spherical_share
from seedscope.training import surrogates as module
from tests.helpers.small_data import table

DATA = table(rows=120, columns=3, norm_bound=1.0)


def mechanism(epsilon: float) -> Any:
    return ss.GaussianObjectivePerturbation(epsilon, 1e-5)


def decided(epsilon: float, models: int, seed: int) -> tuple[np.ndarray, np.ndarray, KnownShares]:
    """Return the decisions of models and of their stand-ins, and the known shares of the latter."""
    grid = ss.Grid(models, root_seed=seed)
    plan = make_plan(DATA, mechanism(epsilon), None, grid, ss.Records(probes=("test",)))
    surrogate = plan.mechanism.surrogate(plan.job)
    assert surrogate is not None
    trained = ss.train(DATA, mechanism(epsilon), grid=grid, records=ss.Records(probes=("test",)), jobs=1)
    return trained.base_scores() > 0.5, surrogate.decisions(np.arange(models)), surrogate.shares


@pytest.mark.parametrize("law", ["gaussian", "gamma"])
@pytest.mark.parametrize("dimension", [1, 4, 30])
def test_the_share_of_spherical_noise_is_what_drawing_it_gives(law: str, dimension: int) -> None:
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(200_000, dimension))
    if law == "gamma":
        vectors *= (draw.standard_gamma(dimension, 200_000) / np.linalg.norm(vectors, axis=1))[:, None]
    margins = np.array([-1.0, 0.0, 0.5, 2.0])
    drawn = (vectors[:, :1] <= margins).mean(0)
    np.testing.assert_allclose(spherical_share(law, margins, dimension), drawn, atol=0.005)


@pytest.mark.slow
@pytest.mark.parametrize(("up", "down"), [(0.0, 0.0), (0.02, 0.0), (0.02, 0.03), (0.3, 0.1)])
def test_the_interval_of_three_values_covers_however_often_one_looks(up: float, down: float) -> None:
    draw = np.random.default_rng(1).random((400, 1000))
    ups, downs = np.cumsum(draw < up, axis=0), np.cumsum(draw > 1 - down, axis=0)
    ever = np.zeros(1000, bool)
    for look in range(20, 401, 20):
        lower, upper = three_valued_interval(ups[look - 1], downs[look - 1], look, 0.8)
        ever |= (up - down < lower) | (upper < up - down)
    assert ever.mean() <= 0.2


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5])
def test_surrogate_intervals_cover_at_their_level_over_500_repetitions(epsilon: float) -> None:
    models, stand_ins, shares = decided(epsilon, 30_000, seed=3)
    truth = 4 * models.mean(0) * (1 - models.mean(0))
    wrong = 0
    for part in range(500):
        here = slice(60 * part, 60 * (part + 1))
        found = mu.StandIns.counted(
            shares.values, models[here], stand_ins[here], below=shares.below, above=shares.above, risk=shares.risk
        )
        lower, upper = mu.combined_interval(models[here].sum(0), found, 0.8, len(truth))
        wrong += bool(((truth < lower - 0.01) | (upper + 0.01 < truth)).any())  # the truth is known to about .01
    assert wrong / 500 <= 0.2


def tilted_twin(surrogate: LinearSurrogate, tilt: np.ndarray) -> np.ndarray:
    """Return the minimiser of the tilted objective by SciPy, its rows and labels those of `DATA`."""
    from scipy.optimize import minimize

    plan = make_plan(DATA, mechanism(2.5), None, ss.Grid(2), ss.Records(probes=("test",)))
    rows = np.column_stack([plan.job.rows[:-1], np.ones(len(plan.job.rows) - 1)])
    labels, size = plan.job.labels[:-1], len(rows)
    penalty = mechanism(2.5).noisy_objective(plan.conditions).penalties(rows.shape[1]) / size

    def objective(w: np.ndarray) -> float:
        logits = rows @ w
        return float(np.mean(np.logaddexp(0, logits) - labels * logits) + penalty @ w**2 / 2 + tilt @ w / size)

    return minimize(objective, surrogate.centre, method="BFGS", options={"gtol": 1e-9}).x  # type: ignore[no-any-return]


def test_each_further_term_brings_stand_ins_nearer_to_the_minimiser() -> None:
    plan = make_plan(DATA, mechanism(2.5), None, ss.Grid(2), ss.Records(probes=("test",)))
    surrogate = plan.mechanism.surrogate(plan.job)
    assert isinstance(surrogate, LinearSurrogate)
    assert surrogate.terms is not None
    tilts = surrogate.noise.draw(3, "any", np.arange(5), 4)
    u = tilts @ surrogate.spread.T
    orders = [u, replace(surrogate.terms, cubic=None).added(u), surrogate.terms.added(u)]
    truth = np.stack([tilted_twin(surrogate, tilt) for tilt in tilts])
    errors = [np.abs(surrogate.centre + one - truth).mean() for one in orders]
    assert errors[1] < errors[0] / 2
    assert errors[2] < errors[1] / 2


def test_drawn_shares_are_those_of_many_stand_ins_of_other_seeds() -> None:
    plan = make_plan(DATA, mechanism(1.0), None, ss.Grid(2), ss.Records(probes=("test",)))
    surrogate = plan.mechanism.surrogate(plan.job)
    assert isinstance(surrogate, LinearSurrogate)
    surrogate = surrogate.for_models(500)
    assert surrogate.draws == 20_000
    seen = surrogate.decisions(np.arange(40_000)).mean(axis=0)
    known = surrogate.shares
    noise = 4 * 0.5 / np.sqrt(40_000)
    assert np.all((known.values - known.below - noise < seen) & (seen < known.values + known.above + noise))
    assert np.all(np.abs(seen - known.values) < 5 * np.sqrt(known.variance + seen * (1 - seen) / 40_000) + 2e-4)
    turned = surrogate.draws * (known.values - surrogate._straight_shares())
    np.testing.assert_allclose(turned, turned.round(), atol=1e-6)  # a mean of draws, and not an interval's middle
    assert known.risk == module.SHARE_RISK
    assert (known.below + known.above).max() < 0.02


def test_what_drawn_shares_may_be_wrong_by_is_counted_with() -> None:
    sure = mu.StandIns(np.array([0.2]), np.array([6]), np.array([2]), models=1000)
    lower, upper = mu.surrogate_interval(sure, 0.95)
    wide = mu.surrogate_interval(replace(sure, below=np.array([0.01]), above=np.array([0.02]), risk=1e-4), 0.95)
    assert wide[0] < lower - 0.01
    assert wide[1] > upper + 0.02
    with pytest.raises(SeedscopeError, match="no surer"):
        mu.surrogate_interval(replace(sure, risk=0.06), 0.95)


def test_the_disagreement_is_unbiased_though_shares_are_drawn() -> None:
    draw, share, p, models, draws, times = np.random.default_rng(7), 0.05, 0.08, 10, 20, 40_000
    drawn = draw.binomial(draws, share, times) / draws
    ups, nobody = draw.binomial(models, p - share, times), np.zeros(times)
    found = mu.StandIns(drawn, ups, nobody, models, variance=drawn * (1 - drawn) / (draws - 1))
    error = found.disagreement.std() / np.sqrt(times)
    assert abs(found.disagreement.mean() - 4 * p * (1 - p)) < 4 * error


def test_stand_ins_leave_little_variance_and_their_estimate_is_that_of_many_models() -> None:
    models, stand_ins, shares = decided(2.5, 3000, seed=5)
    few = mu.StandIns.counted(shares.values, models[:200], stand_ins[:200])
    assert few.useful
    assert few.variance_left < 0.03
    many = mu.disagreement(models)
    assert np.abs(few.disagreement - many).mean() < np.abs(mu.disagreement(models[:200]) - many).mean()
    assert "fewer are needed" in few.words()


def test_stand_ins_with_other_noise_say_that_they_are_of_no_use_and_the_votes_count_alone() -> None:
    draw = np.random.default_rng(2)
    models, other = draw.random((2, 500, 20)) < 0.3
    found = mu.StandIns.counted(np.full(20, 0.3), models, other)
    assert not found.useful
    assert "only the models' own votes" in found.words()
    plain = mu.disagreement_interval(models.sum(0), 500, 1 - 0.25 * 0.05, 20)
    lower, upper = mu.combined_interval(models.sum(0), found, 0.95, 20)
    assert np.all((lower >= plain[0] - 1e-12) & (upper <= plain[1] + 1e-12))


def test_output_perturbation_is_its_own_stand_in() -> None:
    trained = ss.train(DATA, ss.OutputPerturbation(1.0), grid=ss.Grid(200), jobs=1)
    found = stand_ins_of(trained, DATA)
    assert found is not None
    assert found.ups.sum() + found.downs.sum() == 0


@pytest.mark.slow
def test_training_until_an_error_needs_fewer_models_with_stand_ins_and_says_so() -> None:
    few, many = (adaptive.train_until(DATA, mechanism(2.5), error=0.1, surrogate=one, jobs=1) for one in (True, False))
    assert few.reached
    assert many.reached
    assert few.seeds < many.seeds / 2
    assert few.stand_ins is not None
    assert many.stand_ins is None


def test_a_model_has_no_stand_in_where_its_mechanism_has_none() -> None:
    trained = ss.train(DATA, ss.SGD(steps=3), grid=ss.Grid(2), jobs=1)
    assert stand_ins_of(trained, DATA) is None


def test_people_of_equal_counts_have_the_interval_that_each_has_alone() -> None:
    draw = np.random.default_rng(4)
    ups, downs, trials = draw.integers(0, 4, (3, 50)), draw.integers(0, 3, (3, 50)), draw.choice([60, 90], 50)
    together = three_valued_interval(ups, downs, trials, 0.9)
    alone = [three_valued_interval(*one, 0.9) for one in zip(ups.flat, downs.flat, np.tile(trials, 3), strict=True)]
    np.testing.assert_array_equal(np.array(together).reshape(2, -1), np.array(alone).T)
    assert np.ndim(alone[0][0]) == 0


def test_counts_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="its stand-in"):
        mu.StandIns.counted([0.1], [[1]], [[1], [0]])
    with pytest.raises(SeedscopeError, match="at most all trials"):
        three_valued_interval(3, 3, 5, 0.9)


@pytest.mark.parametrize(("error", "confidence", "examples"), [(0.3, 0.9, 1), (0.05, 0.95, 208), (0.6, 0.95, 5)])
def test_the_fewest_models_are_those_from_which_on_the_interval_is_narrow(
    error: float, confidence: float, examples: int
) -> None:
    def enough(models: int) -> bool:
        nobody = mu.StandIns(np.zeros(1), np.zeros(1), np.zeros(1), models)
        upper = mu.surrogate_interval(nobody, 1 - mu.SURROGATE_RISK * (1 - confidence), examples)[1]
        return bool(disagreement_image(np.zeros(1), upper)[1] <= 2 * error)

    fewest = mu.models_needed_surrogate(error, confidence, examples)
    assert enough(fewest)
    assert fewest == 2 or not enough(fewest - 1)


def test_vast_plans_look_at_an_interval_once_a_number_of_models(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Mock(side_effect=three_values._log_wealth)
    monkeypatch.setattr(three_values, "_log_wealth", looks)
    assert mu.models_needed_surrogate(1e-6, 0.95, 10**6) > 10**7
    assert looks.call_count < 100
