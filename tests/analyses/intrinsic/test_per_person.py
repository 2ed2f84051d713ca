"""Each person's intrinsic privacy: known laws come back, intervals cover, the attack is held against other seeds."""

import numpy as np
import pytest

import seedscope as ss
from seedscope.analyses import intrinsic
from seedscope.analyses.intrinsic.per_person import least_seeds
from seedscope.core import SeedscopeError

SHIFTS = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0.3, 0.3, 0.3, 0.3], [0, 2, 0, 0], [0, 0, 0.1, 0]], float)
LAWS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "uniform": lambda rng, shape: rng.uniform(-(3**0.5), 3**0.5, size=shape),
    "laplace": lambda rng, shape: rng.laplace(scale=0.5**0.5, size=shape),
}
MIXING = np.random.default_rng(5).normal(size=(4, 4)) / 2 + np.eye(4)


def drawn(seed: int, law: str = "normal", seeds: int = 60) -> np.ndarray:
    """Return [seed, dataset, value] of correlated noise that every data set shares, its shift, and a little more."""
    rng = np.random.default_rng(seed)
    noise = LAWS[law](rng, (seeds, 1, 4)) @ MIXING.T
    jitter = 0.1 * rng.normal(size=(seeds, len(SHIFTS), 4)) * (np.arange(len(SHIFTS)) > 0)[:, None]
    values: np.ndarray = noise + SHIFTS + jitter
    return values


def truth() -> np.ndarray:
    """Return the power of the best attack on each person, from the covariance that was drawn from."""
    inverse = np.linalg.inv(MIXING @ MIXING.T)
    return np.array([np.sqrt(shift @ inverse @ shift) for shift in SHIFTS[1:]])


@pytest.mark.parametrize("law", LAWS)
def test_the_power_is_unbiased_and_its_interval_covers(law: str) -> None:
    found = [intrinsic.personal_privacy(drawn(seed, law, 150), delta=1e-5) for seed in range(200)]
    covered = np.mean([(one.mu_lower <= truth()) & (truth() <= one.mu_upper) for one in found], axis=0)
    assert (covered >= 0.92).all()  # 95 % asked for, 200 repetitions
    squares = np.mean([one.mu**2 for one in found], axis=0)
    np.testing.assert_allclose(squares[:3], truth()[:3] ** 2, rtol=0.06)


def test_chance_adds_nothing_to_a_person_who_moves_nothing() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2000, 1, 5)) + 0.05 * rng.normal(size=(2000, 2, 5)) * np.array([0, 1])[:, None]
    assert intrinsic.personal_privacy(values, delta=1e-5).mu[0] < 0.01


def test_the_attack_reaches_what_was_computed_on_seeds_that_it_has_not_seen() -> None:
    found = intrinsic.personal_privacy(drawn(0, seeds=4000), delta=1e-5)
    reached = (found.true_positives - found.false_positives) / found.held_out
    np.testing.assert_allclose(reached, found.advantage, atol=0.05)


def test_epsilon_is_the_gaussian_mechanisms() -> None:
    found = intrinsic.personal_privacy(drawn(1), delta=1e-6)
    np.testing.assert_allclose(found.epsilon, ss.accounting.gaussian_epsilon(found.mu, 1.0, 1e-6))
    assert (found.epsilon_lower <= found.epsilon).all()
    assert (found.epsilon <= found.epsilon_upper).all()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.zeros((5, 2)), "must have the axes"),
        (np.zeros((50, 1, 2)), "at least one data set without a person"),
        (drawn(0)[: least_seeds(4) - 1], "train more seeds, or look at fewer functions"),
        (np.full((50, 2, 1), np.nan), "leave out diverged runs"),
        (np.zeros((50, 2, 1)), "no seed moves"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(values: np.ndarray, said: str) -> None:
    with pytest.raises(SeedscopeError, match=said):
        intrinsic.personal_privacy(values, delta=1e-5)


@pytest.fixture(scope="module")
def few_seeds() -> ss.Ensemble:
    """A grid with fewer seeds than weights."""
    grid = ss.Grid(seeds=14, neighbours=3)
    return ss.train(ss.load("breast-cancer"), ss.SGD(learning_rate=0.5, batch_size=32, steps=20), grid=grid, jobs=1)


def test_with_fewer_seeds_than_weights_people_are_looked_at_by_logits(few_seeds: ss.Ensemble) -> None:
    found = intrinsic.intrinsic_privacy_of_people(few_seeds)
    assert found.looked_at == "the logits on the person's row and on the spare row"
    assert found.mu.shape == (3,)
    losses = few_seeds.losses.isel(init=0)
    first = int(np.flatnonzero(few_seeds.texts("example_part") == "neighbour")[0])
    spare = int(np.flatnonzero(few_seeds.texts("example_part") == "spare")[0])
    logits = -np.log(np.expm1(losses.values[:, :2][..., [first, spare]].astype(float)))
    alone = intrinsic.personal_privacy(logits, delta=found.delta)
    np.testing.assert_allclose(found.mu[0], alone.mu[0])


def test_an_audit_of_plain_sgd_is_headed_by_the_most_exposed_person(few_seeds: ss.Ensemble) -> None:
    audit = ss.audit(few_seeds)
    own = intrinsic.intrinsic_privacy_of_people(few_seeds)
    report = audit.as_dict()
    assert report["verdict"]["numbers"][0]["name"] == "Most exposed person's intrinsic ε"
    assert report["verdict"]["numbers"][0]["number"]["value"] == pytest.approx(own.epsilon.max())
    shown = report["levels"][0]["intrinsic"]
    assert {"epsilon_most_exposed", "epsilon_median_person", "mu_lower_projection"} <= set(shown)
    known = audit.individuals["epsilon_estimate"].dropna()
    np.testing.assert_allclose(np.sort(known), np.sort(own.epsilon))
