"""The per-instance study: the mean rule's products against updates written out, and a tiny study that trains once."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import seedscope as ss
from seedscope import Dataset
from seedscope.core.errors import SeedscopeError
from seedscope.reproduce import per_instance as study
from seedscope.reproduce.comparison import Run, Study
from seedscope.reproduce.per_instance import __main__ as alone
from seedscope.reproduce.per_instance import batches, settings
from seedscope.reproduce.per_instance.cells import CellOutcome, student_half_width, study_cell, study_directions
from seedscope.reproduce.per_instance.sampled_losses import RUNS, loss_rows, study_losses
from seedscope.reproduce.per_instance.settings import STAGES, Cell, Sweep
from seedscope.reproduce.per_instance.tables import PUBLISHED, _rises, headline_rows
from seedscope.training.gradient.losses import log_loss
from tests.helpers.small_data import images

pytestmark = pytest.mark.slow  # compiles many networks

MODEL = ss.mlp(3, "tanh")
SWEEP = Sweep("mnist", 30, 2, 2, 0.5, 4, 2, 16, ("LeNet-5",), (10.0, 100.0), (6, 12), tuple_batches=8)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the study see small images and a small network, and batches that fit."""
    monkeypatch.setattr(ss, "load", lambda name: images(40, 5), raising=False)
    monkeypatch.setitem(settings.MODELS, "LeNet-5", lambda: MODEL)
    monkeypatch.setattr(Sweep, "main", property(lambda self: Cell("LeNet-5", batch_size=6)))


@pytest.fixture
def outcome(tmp_path: Path) -> CellOutcome:
    """The outcome of the main cell."""
    return study_cell(SWEEP, SWEEP.main, SWEEP.load(), Run("paper", tmp_path, 1, True))


def clipped_gradients(data: Dataset, weights: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return each example's clipped gradient, held one by one in float64."""
    network = MODEL.network(data.features.shape[1:], data.classes)
    _, unravel = ravel_pytree(network.init(jax.random.key(0)))
    gradient = jax.jit(jax.grad(lambda w, x, y: log_loss(network.apply(unravel(w), x[None]), y[None])[0]))
    each = np.array(
        [gradient(weights, x, y) for x, y in zip(rows.astype(np.float32), labels.astype(np.float32), strict=True)],
        float,
    )
    clipped: np.ndarray = each * np.minimum(1, 1 / np.linalg.norm(each, axis=1))[:, None]
    return clipped


def test_products_are_those_of_sums_and_gradients_held_one_by_one(outcome: CellOutcome, tmp_path: Path) -> None:
    data = SWEEP.load()
    ensemble = ss.Ensemble.open(next((tmp_path / "stores").iterdir()))
    weights = np.asarray(ensemble.weights.isel(seed=0, neighbour=0, init=0).values[-1])
    found = outcome.batches["final"]
    gradients = clipped_gradients(data, weights, data.base.features, data.base.labels)
    points = clipped_gradients(data, weights, data.test.features, data.test.labels)
    index, sizes = batches._padded_batches(len(data.base), 6 / len(data.base), len(found.sizes), 20)
    sums = np.stack([gradients[batch[:size]].sum(0) for batch, size in zip(index, sizes, strict=True)])
    np.testing.assert_array_equal(found.sizes, sizes)
    np.testing.assert_allclose(found.among, sums @ sums.T, atol=1e-4)
    np.testing.assert_allclose(found.between, sums @ points.T, atol=1e-4)
    np.testing.assert_allclose(found.own, np.sum(points**2, 1), atol=1e-4)
    n = np.maximum(sizes, 1)
    moved = [
        [np.linalg.norm((s + g) / (k + 1) - s / max(k, 1)) for s, k in zip(sums, sizes, strict=True)] for g in points
    ]
    np.testing.assert_allclose(found.sensitivities(), moved, atol=1e-4)
    assert n.min() >= 1


def test_coordinates_have_the_inner_products_they_came_from() -> None:
    vectors = np.random.default_rng(0).normal(size=(4, 9))
    placed = batches._coordinates(vectors @ vectors.T)
    np.testing.assert_allclose(placed @ placed.T, vectors @ vectors.T, atol=1e-10)


def test_a_cell_holds_what_the_figures_show(outcome: CellOutcome) -> None:
    assert outcome.norms.shape == (2, len(outcome.epochs), 4)
    assert outcome.contributions.shape == (4, len(outcome.epochs) - 1)
    for stage in STAGES:
        assert np.all((outcome.shares(stage) >= 0) & (outcome.shares(stage) <= 1 + 1e-9))
        assert outcome.batches[stage].step_rdp("mean", 4).shape == (2, 4)
    alone = outcome.contributions_by_run()
    assert np.all(outcome.contributions <= alone.max(0) * (1 + 1e-9))
    assert np.all(outcome.contributions >= alone.min(0) * (1 - 1e-9))
    worst = outcome.batches["final"].step_epsilon_worst()
    assert np.all(outcome.batches["final"].step_epsilon("sum") <= 2 * worst)


def test_high_orders_of_a_sum_of_nobody_else_are_the_sampled_gaussians() -> None:
    """With empty batches the sum rule's step is one point's subsampled Gaussian, whose divergence is known exactly."""
    norms, q, noise = np.array([1.0, 0.3]), 0.05, 1.2
    alone = batches.StageBatches(np.zeros(72, int), np.zeros((72, 72)), np.zeros((72, 2)), norms**2, noise, q, 50, 8)
    found = alone.rdp_by_order("sum", settings.ORDERS, 2)
    exact = ss.per_instance.step_rdp(norms[None], noise, q, np.array(settings.ORDERS)[:, None])
    other_direction = q * np.array(settings.ORDERS)[:, None] * norms**2 / (2 * noise**2)  # by Theorem 3.6, over v
    np.testing.assert_allclose(found, np.maximum(exact, other_direction), rtol=0.05)


@pytest.mark.slow
def test_directions_are_of_the_same_people_with_and_without(tmp_path: Path) -> None:
    found = study_directions(SWEEP, SWEEP.load(), Run("small", tmp_path, 1, True))
    assert found.trained_with.shape == found.trained_without.shape == (2, len(found.epochs))
    np.testing.assert_allclose(found.trained_with[:, 0], found.trained_without[:, 0])  # one initial point for all
    assert found.privacy.both_directions.all()


@pytest.mark.parametrize("runs", [20, 3])
def test_losses_of_the_same_people_stand_beside_their_composition(
    runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RUNS, ("mnist", "paper"), (runs, 5))
    found = study_losses(SWEEP, SWEEP.load(), Run("paper", tmp_path, 1, True))
    assert found.loss.kind == ("statistical" if runs == 20 else "estimate")
    assert found.loss.people.tolist() == found.composed.people.tolist()
    rows = {one.quantity: one.ours for one in loss_rows(found)}
    assert 0 < rows["advantage that the guarantee allows"] <= 1
    assert rows["largest advantage, at least"] <= rows["largest advantage, at most"]
    composed = [value for name, value in rows.items() if name.endswith("GLA's composition")]
    assert len(composed) == 2


def test_this_part_alone_goes_on_with_as_many_runs_people_and_epochs_as_one_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(settings.SWEEPS, ("mnist", "paper"), SWEEP)
    for runs in ("2", "3"):
        asked = ["mnist", "--runs", runs, "--people", "4", "--epochs", "1", "--out", str(tmp_path)]
        monkeypatch.setattr("sys.argv", ["losses", *asked])
        alone.main()
        assert f"1 epochs, {runs} runs, 4 people: advantage that the guarantee allows: " in capsys.readouterr().out
    assert len(list((tmp_path / "stores").iterdir())) == 1  # which has grown


@pytest.mark.slow
def test_a_small_study_gives_every_figure_and_trains_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(settings.SWEEPS, ("mnist", "paper"), SWEEP)
    monkeypatch.setitem(RUNS, ("mnist", "paper"), (20, 5))
    done = study.run("paper", ["mnist"], tmp_path, 1, True)
    assert len(list((tmp_path / "stores").iterdir())) == len(SWEEP.cells) + 2
    places = {one.place for one in done.comparisons}
    assert {"GLA Figure 1", "GLA Figure 2", "GLA Figures 3, 22", "GLA Figures 4, 25–35", "GLA Figure 5"} <= places
    assert {"GLA: the whole run", "GLA Figures 10, 11", "GLA Figures 12, 13", "GLA Figure 33"} <= places
    assert {"GLA Figures 27, 28", "GLA Figures 31, 32"} <= places
    trends = [one for one in done.comparisons if one.quantity.endswith("(1: yes)")]
    assert all(one.ours in (0.0, 1.0) or np.isnan(one.ours) for one in trends)
    assert {(place, quantity) for place, _, quantity in PUBLISHED} <= {(one.place, one.quantity) for one in trends}
    monkeypatch.setattr("seedscope.training.dpsgd.train.train_dpsgd", lambda *_: pytest.fail("trained again"))
    again = study.run("paper", ["mnist"], tmp_path, 1, True)
    assert [one.ours for one in again.comparisons] == pytest.approx([one.ours for one in done.comparisons], nan_ok=True)
    written = {Path(path).name for path in Study("x", "paper", done.comparisons, done.charts).save(tmp_path / "out")}
    assert len([name for name in written if name.endswith(".svg")]) == 8


def test_another_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SeedscopeError, match="unknown data set of this study"):
        study.run("small", ["adult"], tmp_path, 1, True)


def test_cells_differ_from_the_main_one_in_one_choice() -> None:
    for cell in SWEEP.cells[1:]:
        changed = [
            name for name in ("model", "epsilon", "batch_size") if getattr(cell, name) != getattr(SWEEP.main, name)
        ]
        assert len(changed) == 1
    assert replace(SWEEP.main) == SWEEP.cells[0]


def test_a_trend_of_one_setting_is_no_trend() -> None:
    assert np.isnan(_rises([1.0]))
    assert _rises([1.0, 2.0]) == 1.0
    assert _rises([1.0, 3.0, 2.0]) == 0.0


def test_intervals_over_few_runs_are_students() -> None:
    draw = np.random.default_rng(0)
    for runs in (2, 5):
        each = draw.normal(size=(runs, 4000))
        covered = np.mean(np.abs(each.mean(0)) <= student_half_width(each))
        assert covered == pytest.approx(0.95, abs=0.02)


def test_the_headline_is_of_the_whole_run(outcome: CellOutcome) -> None:
    rows = list(headline_rows(outcome))
    found = {(one.setting, one.quantity): one.ours for one in rows}
    privacy = outcome.privacy
    column = list(privacy.orders).index(8.0)
    for name, divergences in (
        ("Theorem 3.3 with p = 3n", outcome.papers_divergences),
        ("the best of ours", privacy.rdp),
    ):
        median = found[f"α=8, {name}, 2 runs", "median divergence over baseline"]
        assert median == pytest.approx(np.median(divergences[:, column] / privacy.baseline[column]))
    assert np.all(privacy.rdp <= outcome.papers_divergences * (1 + 1e-9))
    assert all(0 <= one.ours <= 1 + 1e-9 for one in rows if "over baseline" in one.quantity)
