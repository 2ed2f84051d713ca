"""Random numbers that are published are exactly distributed; what double precision cannot tell is computed again."""

import itertools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from scipy import stats

from seedscope.core import SeedscopeError
from seedscope.training import SystemDraws
from seedscope.training.convex import make_problem
from seedscope.training.publishing import Verified, blockwise_sum, smoothed


def seeded(seed: int) -> SystemDraws:
    return SystemDraws(np.random.default_rng(seed).bytes)


@pytest.mark.parametrize("scale", [1.0, 3.7, 2.0**30])
def test_rounded_normals_have_the_rounded_normals_probabilities(scale: float) -> None:
    drawn = seeded(1).rounded_normals(scale, 100_000)
    edges = np.round(np.quantile(drawn, np.linspace(0.02, 0.98, 13))) if scale > 10 else np.arange(-4.0, 5.0)
    edges = np.unique(edges)
    counts = np.histogram(drawn, np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]
    chances = np.diff(np.concatenate([[0], stats.norm.cdf((edges + 0.5) / scale), [1]]))
    assert stats.chisquare(counts, 100_000 * chances).pvalue > 1e-3


def test_many_decimals_agree_with_double_precision_where_that_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = seeded(2)._some_rounded(2.0**20, 400)
    points = np.frombuffer(np.random.default_rng(2).bytes(8 * 800), np.uint64).reshape(2, 400).astype(np.int64)
    exact = [seeded(3)._exactly(2.0**20, int(x), int(y)) for x, y in points.T]
    assert [one for one in exact if one is not None] == quick.tolist()


def test_unclear_roundings_are_decided_with_more_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    draws = seeded(4)
    exactly: Callable[..., int | None] = draws._exactly

    def counted(*given: Any) -> int | None:
        asked.append(1)
        return exactly(*given)

    monkeypatch.setattr(draws, "_exactly", counted)
    assert stats.kstest(draws.rounded_normals(2.0**40, 4000) / 2**40, "norm").pvalue > 1e-3
    assert 0 < len(asked) < 400


@pytest.mark.slow
def test_discrete_laplace_has_its_probabilities() -> None:
    drawn = seeded(5).discrete_laplace(4, 20_000)
    chances = math.tanh(1 / 8) * np.exp(-np.abs(np.arange(-12, 13)) / 4)
    counts = [(drawn == one).sum() for one in range(-12, 13)]
    rest = 20_000 - sum(counts)
    assert stats.chisquare([*counts, rest], 20_000 * np.append(chances, 1 - chances.sum())).pvalue > 1e-3


@pytest.mark.parametrize("shape", [1, 2.5, 31])
def test_gammas_normals_and_batches_have_their_laws(shape: float) -> None:
    draws = seeded(6)
    assert stats.kstest(draws.gammas(4000, shape), stats.gamma(shape).cdf).pvalue > 1e-3
    assert stats.kstest(draws.normals((4000,)), "norm").pvalue > 1e-3
    sizes = [len(draws.batch(500, 0.1)) for _ in range(400)]
    assert stats.kstest(sizes + np.random.default_rng(0).random(400) - 0.5, stats.norm(50, 45**0.5).cdf).pvalue > 1e-4
    assert len(draws.batch(7, 1.0)) == 7


def test_gammas_of_other_shapes_are_refused() -> None:
    with pytest.raises(SeedscopeError, match=r"whole and half shapes, got 1\.3"):
        seeded(0).gammas(2, 1.3)


def test_nothing_is_drawn_twice() -> None:
    first, second = SystemDraws(), SystemDraws()
    assert len({*first.words(100).tolist(), *second.words(100).tolist()}) == 200


def test_smoothed_weights_are_on_one_grid_whatever_they_were_and_no_value_is_impossible() -> None:
    weights, distance = np.array([0.1, -2.0]), 1e-6
    step = 2.0 ** math.floor(math.log2(distance / 64))
    for moved in (weights, weights + distance / 3):
        placed = smoothed(moved, distance, seeded(7), 0.01) / step
        np.testing.assert_array_equal(placed, np.round(placed))
    near = [smoothed(np.array([one]), distance, seeded(k), 5.0)[0] for k in range(3000) for one in (0.1,)]
    far = [smoothed(np.array([0.1 + 2 * distance]), distance, seeded(9000 + k), 5.0)[0] for k in range(3000)]
    cut = 0.1 + np.arange(-4, 8) * distance
    shares = [np.array([np.mean(np.array(values) > one) for one in cut]) for values in (near, far)]
    ratios = [np.log((a + 0.02) / (b + 0.02)) for a, b in itertools.permutations(shares)]
    assert np.max(ratios) <= 5.0


@pytest.mark.parametrize("classes", [2, 3])
def test_the_bound_on_a_solutions_gradient_holds_with_exact_fractions(classes: int) -> None:
    from fractions import Fraction

    draw = np.random.default_rng(8)
    rows = np.column_stack([draw.uniform(-0.5, 0.5, (40, 2)), np.ones(40)])
    labels, penalty = draw.integers(0, classes, 40), np.full(3, 0.1)
    problem = make_problem(rows, labels, penalty, classes)
    checked = Verified(problem, 2**0.5)
    tilt = problem.spread(draw.normal(size=(1, problem.dimension))) / 40
    found = checked.minimise(tilt)
    with localcontext() as context:
        context.prec = 60
        exact = exact_gradient(problem.rows, labels, penalty, found.weights[0].reshape(-1, 3), tilt[0].reshape(-1, 3))
    norm = math.sqrt(sum(Fraction(one) ** 2 for one in exact))
    assert norm <= found.residual_norms[0] <= 2.0**-40 * 2**0.5
    assert found.residual_norms[0] > 2.0**-52 * 500  # rounding is counted, whatever was computed


def exact_gradient(
    rows: np.ndarray, labels: np.ndarray, penalty: np.ndarray, weights: np.ndarray, tilt: np.ndarray
) -> list[Decimal]:
    """Return the mean objective's gradient in many decimals, class by class."""
    total = [[Decimal(0)] * rows.shape[1] for _ in weights]
    for row, label in zip(rows, labels, strict=True):
        logits = [
            sum((Decimal(float(a)) * Decimal(float(b)) for a, b in zip(row, one, strict=True)), Decimal(0))
            for one in weights
        ]
        if len(weights) == 1:
            pulls = [1 / (1 + (-logits[0]).exp()) - int(label)]
        else:
            chances = [one.exp() for one in logits]
            pulls = [one / sum(chances) - int(place == label) for place, one in enumerate(chances)]
        for place, pull in enumerate(pulls):
            total[place] = [so_far + pull * Decimal(float(one)) for so_far, one in zip(total[place], row, strict=True)]
    return [
        one / len(rows) + Decimal(float(penalty[k])) * Decimal(float(weights[c, k])) + Decimal(float(tilt[c, k]))
        for c, summed in enumerate(total)
        for k, one in enumerate(summed)
    ]


def test_a_sum_in_blocks_is_the_sum() -> None:
    draw = np.random.default_rng(9)
    pulls, rows = draw.normal(size=(1500, 3)), draw.normal(size=(1500, 4))
    np.testing.assert_allclose(blockwise_sum(pulls, rows), pulls.T @ rows, rtol=1e-11, atol=1e-11)
