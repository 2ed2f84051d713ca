"""Re-doing IP1 and IP2: the published numbers, a grid against slow ways, and the papers' findings on the real data."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import seedscope as ss
from seedscope.core.errors import SeedscopeError
from seedscope.reproduce import intrinsic as study
from seedscope.reproduce.comparison import Run, Study, paper_numbers
from seedscope.reproduce.intrinsic import attack, curves, grids, noise, noise_figures, tables
from seedscope.reproduce.intrinsic.settings import (
    ATTACKED,
    BINARY,
    CONVOLUTIONAL,
    DIGITS,
    KNOWN,
    PUBLISHED,
    SETTINGS,
    SMALL_ATTACK,
    VARIANTS,
    Attack,
    Setting,
    Size,
)
from tests.helpers.present import present

EMBEDDED = Setting("breast-cancer", "logistic", 0.5, 16, 100, Size(12, 8))
NETWORK = replace(EMBEDDED, model="mlp", hidden=3)


def bounded() -> ss.Dataset:
    """Return an embedded table whose rows have norm 1."""
    data = ss.load("breast-cancer")
    train, test = (replace(part, features=unit(part.features)) for part in (data.train, data.test))
    return replace(data, train=train, test=test, norm_bound=1.0)


def unit(rows: np.ndarray) -> np.ndarray:
    """Return rows of norm 1."""
    scaled: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A quiet run in this process that keeps its models."""
    return Run("paper", tmp_path_factory.mktemp("study"), jobs=1, quiet=True)


@pytest.fixture(scope="module")
def convex(run: Run) -> grids.GridOutcome:
    """The outcome of a small grid of logistic regressions."""
    return grids.study_grid(EMBEDDED, bounded(), run)


@pytest.fixture(scope="module")
def network(run: Run) -> grids.GridOutcome:
    """The outcome of a small grid of networks."""
    return grids.study_grid(NETWORK, bounded(), run)


def test_every_row_of_the_tables_is_in_the_published_numbers() -> None:
    count = {place: sum(row["place"] == place for row in paper_numbers("intrinsic")) for place in tables.PLACES}
    assert count["IP1 Table 3"] == 4 * (6 + 3)
    assert count["IP1 Table 4"] == 4 * (2 + 2 * 4)
    assert count["IP1 Table 5"] == 3 * 11
    assert count["IP1 Table 6"] == 4 * 6
    assert count["IP1 Table 7"] == 4 * 2 * 4
    assert count["IP2 Table 2"] == 8
    assert count["IP2 Table 4"] == 4 * 9
    assert count["IP2 Table 5"] == 4 * 3
    assert count["IP2 Table 6"] == 3 * 9


@pytest.mark.parametrize("place", ["IP1 Table 3", "IP1 Table 5"])
def test_published_epsilons_follow_from_the_published_sensitivities_by_the_classical_formula(place: str) -> None:
    for (where, data, setting, quantity), value in PUBLISHED.items():
        if where != place or not quantity.startswith("ε of"):
            continue
        delta = PUBLISHED["IP1 Table 3", data, "logistic", "δ"]
        named = "sensitivity bound" if "bound" in quantity else "empirical sensitivity"
        sensitivity, spread = (PUBLISHED[place, data, setting, name] for name in (named, "variability"))
        assert ss.accounting.classical_gaussian_epsilon(sensitivity, spread, delta) == pytest.approx(value, rel=0.03)


def test_the_eight_grids_are_at_least_as_large_as_those_of_ip2_table_3() -> None:
    average = {
        ("cifar2", "logistic"): (103, 49, 9900), ("mnist-binary", "logistic"): (100, 99, 19600),
        ("adult", "logistic"): (126, 40, 25700), ("forest", "logistic"): (160, 36, 20693),
        ("cifar2", "mlp"): (120, 40, 9900), ("mnist-binary", "mlp"): (138, 23, 9800),
        ("adult", "mlp"): (101, 28, 11250), ("forest", "mlp"): (101, 28, 11247),
    }  # fmt: skip
    assert len(SETTINGS) == len(average)
    for setting in SETTINGS:
        seeds, datasets, models = average[setting.data, setting.model]
        assert setting.paper.seeds >= seeds
        assert setting.paper.datasets >= datasets
        assert models <= setting.paper.models <= 1.04 * models


def test_a_grid_says_what_the_library_says_of_the_same_models(convex: grids.GridOutcome, run: Run) -> None:
    weights = grids.trained(EMBEDDED, bounded(), EMBEDDED.paper, run).weights.sel(init="varied").isel(step=-1).values
    moved = np.linalg.norm(weights[:, :, None].astype(float) - weights[:, None], axis=-1)
    assert convex.privacy.sensitivity_all_pairs.value == pytest.approx(moved.max(), rel=1e-5)
    assert convex.at_the_end("varied").data_all_pairs.maximum == pytest.approx(moved.max(), rel=1e-5)
    deviations = weights - weights.mean(0)
    assert convex.privacy.variability_flat.value == pytest.approx(np.sqrt((deviations**2).mean((0, 2))).min(), rel=1e-5)


def test_accuracies_are_those_of_scored_models(network: grids.GridOutcome) -> None:
    records = ss.Records(probes=("test",))
    grid = ss.Grid(grids.SCORED, init="varied")
    scored = ss.train(bounded(), NETWORK.mechanism, model=NETWORK.network, grid=grid, records=records, jobs=1)
    np.testing.assert_allclose(network.accuracy, scored.accuracy()[: len(network.accuracy)], atol=1e-6)


def test_accuracies_do_not_depend_on_how_many_rows_are_scored_at_once(
    network: grids.GridOutcome, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble = grids.trained(NETWORK, bounded(), NETWORK.paper, run)
    monkeypatch.setattr(grids, "NUMBERS_AT_ONCE", 1 << 16)
    in_blocks = grids.accuracies(
        NETWORK.network, bounded(), ss.intrinsic.checkpoint_weights(ensemble)[: grids.SCORED, 0]
    )
    np.testing.assert_allclose(in_blocks, network.accuracy, atol=1e-12)


def test_a_bound_stands_only_beside_convex_models(convex: grids.GridOutcome, network: grids.GridOutcome) -> None:
    places = {one.place for one in tables.grid_rows(convex)}
    assert {"IP1 Table 3", "IP1 Table 4", "IP1 Table 7", "IP2 Table 4", "IP2 Table 5"} <= places
    assert "ε of the bound" in {one.quantity for one in tables.grid_rows(convex)}
    assert not {"ε of the bound", "sensitivity bound"} & {one.quantity for one in tables.grid_rows(network)}
    assert convex.bounds
    assert not network.bounds


def test_the_bound_counts_epochs_that_were_begun_and_the_note_has_the_papers_count(convex: grids.GridOutcome) -> None:
    mnist = replace(EMBEDDED, data="mnist-binary", batch_size=32, steps=1850)
    bound = ss.Number(float(ss.intrinsic.sgd_sensitivity_bound(1850, 10_396, 32, 0.5, 2**0.5)), "proved")
    privacy = replace(convex.privacy, delta=1 / 10_396**2, sensitivity_bound=bound)
    note = tables.bound_note(replace(convex, setting=mnist, privacy=privacy))
    assert note == "6 epochs begun; 5.69 would give 0.252"  # IP1 Table 3 prints .252


def test_rows_of_ip2_that_need_its_embedding_say_so(convex: grids.GridOutcome) -> None:
    other = replace(convex, setting=replace(EMBEDDED, data="cifar2"))
    rows = [one for one in tables.grid_rows(other) if one.place in ("IP2 Table 2", "IP2 Table 4", "IP2 Table 5")]
    assert rows
    assert {one.note for one in rows} == {tables.OTHER_FEATURES}


def test_every_published_number_of_a_grid_gets_ours_beside_it(
    convex: grids.GridOutcome, network: grids.GridOutcome
) -> None:
    """All keys of the CSV are produced by the tables: none is misspelt."""
    found = set()
    for name in BINARY:
        for outcome in (convex, network):
            moved = replace(outcome, setting=replace(outcome.setting, data=name))
            found |= {(one.place, one.data, one.setting, one.quantity) for one in tables.grid_rows(moved)}
    for features in ("", "random-projection", "crop"):
        variant = replace(convex, setting=replace(EMBEDDED, data="mnist-binary", features=features))
        found |= {(one.place, one.data, one.setting, one.quantity) for one in tables.variant_rows([variant])}
    elsewhere = ("IP1 D.3", "IP2 Table 6", *SETTINGS_TABLES)
    assert {key for key in PUBLISHED if key[0] not in elsewhere} <= found


SETTINGS_TABLES = ("IP1 Table 1", "IP1 Table 2", "IP2 Table 1", "IP2 Table 3", "IP2 Table 7", "IP2 Table 8")


def test_every_published_setting_gets_ours_beside_it() -> None:
    found = {}
    for setting in SETTINGS:
        for one in tables.settings_rows(setting, bounded(), setting.paper):
            found[one.place, one.data, one.setting, one.quantity] = one
    for one in tables.attacked_network_rows():
        found[one.place, one.data, one.setting, one.quantity] = one
        assert one.ours == one.paper == 82_554
    assert {key for key in PUBLISHED if key[0] in SETTINGS_TABLES} == set(found)
    for setting in SETTINGS:  # what does not depend on the data is the paper's
        for quantity in ("learning rate", "steps T"):
            one = found["IP1 Table 2", setting.data, setting.model, quantity]
            assert one.ours == one.paper
            assert one.note == ""
    assert found["IP2 Table 7", "cifar2", "logistic", "steps T"].note == "trained as in IP1 Table 2"


def test_hidden_units_are_matched_in_networks_alone(convex: grids.GridOutcome, network: grids.GridOutcome) -> None:
    assert convex.symmetry is None
    rows = {one.quantity: one.ours for one in tables.grid_rows(network) if one.place == tables.SYMMETRY}
    assert rows["mean Δ_V, units matched"] < rows["mean Δ_V, as trained"]
    assert rows["σ, units matched"] < rows["σ, as trained"]
    assert rows["ε, units matched"] > rows["ε, as trained"]  # less noise that counts
    assert rows["σ, as trained"] == pytest.approx(network.spread["varied", NETWORK.steps])


def test_what_the_papers_say_of_pairs_seeds_and_weights_has_rows(convex: grids.GridOutcome) -> None:
    found = {(one.place, one.quantity): one for one in tables.grid_rows(convex)}
    bound = found["IP1 App. B", "bound on Δ_V"].ours
    assert bound == pytest.approx(2 * EMBEDDED.steps * EMBEDDED.learning_rate * 2**0.5)
    assert bound > convex.at_the_end("fixed").seed.maximum
    assert 0 <= found["IP1 App. B", "largest probability"].ours <= 1
    assert found["IP1 Eq. (9)", "ε of the median pair"].ours <= present(convex.privacy.epsilon_strict).value
    assert -1 <= found["IP2 §7", "rank correlation over weights"].ours <= 1
    assert found["IP1 Table 3", "empirical sensitivity, pairs drawn"].ours <= convex.privacy.sensitivity_all_pairs.value
    assert convex.drawn_pairs.pairs == EMBEDDED.paper.models // 4
    smallest, largest = convex.privacy.stability["flat"]
    assert smallest <= found["IP1 Table 3", "variability, median of data sets"].ours <= largest


def test_losses_along_training_are_those_of_single_models_and_validation_stops_them(run: Run) -> None:
    small = Run("small", run.out, jobs=1, quiet=True)
    curve = curves.study_curve(replace(EMBEDDED, steps=600), bounded(), small)
    assert curve.steps.tolist() == list(range(100, 901, 100))
    records = ss.Records(probes=("test",), scores_at_checkpoints=True)
    grid = ss.Grid(4, checkpoints=tuple(curve.steps.tolist()))
    scored = ss.train(bounded(), ss.SGD(0.5, 16, 900), model=EMBEDDED.network, grid=grid, records=records, jobs=1)
    losses = scored.on("test")["losses"].isel(neighbour=0, init=0).transpose("seed", "step", "example").values
    np.testing.assert_allclose(curve.losses[curves.VALIDATION], losses.mean(axis=-1), rtol=1e-4)
    assert (np.diff(curve.losses[curves.TRAINING].mean(axis=0)) < 0).all()
    rows = {one.quantity: one for one in curves.curve_rows(curve)}
    assert rows["validation stops after T"].ours == 900  # it still improves
    losses = np.tile([3.0, 2.0, 2.5, 2.5, 2.5, 1.0, 1.0, 1.0, 1.0], (4, 1))
    stopped = replace(curve, losses=curve.losses | {curves.VALIDATION: losses})
    assert {one.quantity: one.ours for one in curves.curve_rows(stopped)}["validation stops at T"] == 500
    Study("intrinsic", "small", tuple(rows.values())).save(run.out / "curves")  # plain numbers, which JSON can have
    drawn = study.curve_charts([curve, stopped])
    assert [len(chart.to_dict()["concat"]) for chart in drawn.values()] == [2, 2]


@pytest.mark.parametrize("dimensions", [2, 30])
def test_distances_of_gaussian_vectors_are_as_sharp_as_the_formula_says(dimensions: int) -> None:
    pairs = np.random.default_rng(0).normal(size=(2, 40_000, dimensions))
    distances = np.linalg.norm(pairs[0] - pairs[1], axis=-1)
    assert tables.relative_deviation(dimensions) == pytest.approx(distances.std() / distances.mean(), rel=0.02)


def test_the_attack_fills_ip2_table_6(run: Run) -> None:
    small = Attack(data="digits", steps=(20, 40), seeds=6, network=ss.logistic())
    rows = list(attack.study_attack(small, ss.load("digits"), run))
    published = {quantity for place, *_, quantity in PUBLISHED if place == "IP2 Table 6"}
    assert {one.quantity for one in rows} == published
    assert {one.setting for one in rows} == {"T=20", "T=40"}
    by_name = {one.quantity: one.ours for one in rows if one.setting == "T=40"}
    gain = by_name["accuracy, seed known"] - by_name["accuracy, seed hidden"]
    assert by_name["accuracy gain"] == pytest.approx(gain)
    assert 0.4 < by_name["accuracy, seed known"] < 0.75


def test_a_stopped_run_goes_on_with_the_models_it_has(convex: grids.GridOutcome, run: Run) -> None:
    seen = []
    ss.train(
        bounded(), EMBEDDED.mechanism, model=EMBEDDED.network, store=run.store(EMBEDDED.name), jobs=1,
        grid=ss.Grid(12, 7, init="both", checkpoints=grids.CHECKPOINTS), records=ss.Records(probes=()),
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen == [(EMBEDDED.paper.models, EMBEDDED.paper.models)]


def test_tables_and_figures_are_written(convex: grids.GridOutcome, network: grids.GridOutcome, tmp_path: Path) -> None:
    rows = tables.in_order([*study.data_rows([convex, network])])
    written = Study("intrinsic", "small", rows, study.charts([convex, network])).save(tmp_path)
    assert [path.name for path in written] == [
        "comparisons.csv",
        "comparisons.json",
        "figure-2-along-training.svg",
        "figure-3-distances.svg",
        "figure-6-enough-runs.svg",
        "figure-1-two-weights.svg",
        "figure-4-spread-along-training.svg",
        "pairwise-epsilon.svg",
        "figure-4-map.svg",
        "figure-9-map-controls.svg",
        "symmetry.svg",
    ]
    assert all(path.stat().st_size > 1000 for path in written)
    assert "undefined" not in (tmp_path / "figure-3-distances.svg").read_text()
    with open(tmp_path / "comparisons.csv") as file:
        assert len(list(csv.DictReader(file))) == len(rows)
    assert len(json.loads((tmp_path / "comparisons.json").read_text())["comparisons"]) == len(rows)


def test_data_that_are_not_here_are_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "describe", lambda name: FakeDescription("not fetched" if name == "forest" else "here"))
    assert study.chosen_data(None, "small") == ["mnist-binary", "adult", "cifar2", "mnist", "digits"]
    assert "seedscope data fetch forest" in capsys.readouterr().err


def test_without_any_data_the_study_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "describe", lambda name: FakeDescription("not fetched"))
    with pytest.raises(SeedscopeError, match="seedscope data fetch adult"):
        study.chosen_data(["adult"], "small")


def test_the_small_attack_is_of_few_rows_learned_by_heart_and_the_others_are_no_members() -> None:
    whole, data = ss.load("digits"), SMALL_ATTACK.load()
    assert len(data.train) == SMALL_ATTACK.rows == 300
    assert len(data.train) + len(data.test) == len(whole.train) + len(whole.test)
    assert not set(data.train.ids) & set(data.test.ids)


@pytest.mark.paper_data
def test_the_attack_on_the_papers_network_trains_on_as_many_images_as_the_authors() -> None:
    data = Attack().load()
    assert (len(data.train), len(data.test)) == (13_500, 4_500)
    counts = np.bincount(data.train.labels)
    assert counts.min() > 0.95 * counts.mean()


def test_few_of_the_papers_networks_are_attacked_only_where_they_are_named(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ATTACKED not in study.chosen_data(None, "small")
    assert study.chosen_attack(DIGITS, "paper") == SMALL_ATTACK
    assert study.chosen_attack(ATTACKED, "paper") == Attack()
    few = study.chosen_attack(ATTACKED, "small")
    assert "8 of the paper's networks" in capsys.readouterr().err
    assert set(few.steps) <= set(Attack().steps)
    small = replace(run, scale="small")
    assert attack.attack_store(few, small) == run.store("cifar10-small-vgg")  # kept: it takes long
    assert attack.attack_store(SMALL_ATTACK, small) is None
    assert [attack.difference(one) == "" for one in (Attack(), few, SMALL_ATTACK)] == [True, False, False]


def test_an_unknown_data_set_is_refused() -> None:
    with pytest.raises(SeedscopeError, match="mnist-binary"):
        study.chosen_data(["mnist-binry"], "small")


class FakeDescription:
    """A description of which only the place matters."""

    def __init__(self, where: str) -> None:
        self.where = where


@pytest.mark.paper_data
@pytest.mark.parametrize("name", ["mnist-binary", "adult", "forest"])
def test_logistic_regression_on_the_real_data_is_that_of_the_papers(name: str, tmp_path: Path) -> None:
    setting = next(one for one in SETTINGS if (one.data, one.model) == (name, "logistic"))
    run = Run("small", tmp_path, jobs=1, quiet=True)
    found = grids.study_grid(setting, setting.load(), run, Size(64, 40))
    published = {quantity: PUBLISHED["IP1 Table 3", name, "logistic", quantity] for quantity in QUANTITIES}
    assert found.privacy.variability_flat.value == pytest.approx(published["variability"], rel=0.05)
    assert found.privacy.sensitivity_all_pairs.value == pytest.approx(published["empirical sensitivity"], rel=0.2)
    assert found.privacy.delta == pytest.approx(published["δ"], rel=0.01)
    accuracy = PUBLISHED["IP1 Table 4", name, "noiseless", "accuracy"]
    assert found.accuracy.mean() == pytest.approx(accuracy, abs=0.01)
    assert found.at_the_end("varied").seed.minimum > found.at_the_end("varied").data_all_pairs.maximum
    assert found.at_the_end("fixed").seed.minimum > found.at_the_end("fixed").data_all_pairs.maximum
    assert found.clusters.single_seed_share == 1
    assert present(found.privacy.sensitivity_bound).value > found.privacy.sensitivity_all_pairs.value


QUANTITIES = ("variability", "empirical sensitivity", "δ")


@pytest.mark.paper_data
def test_networks_on_the_real_data_vary_as_in_the_paper_and_group_by_seed(tmp_path: Path) -> None:
    setting = next(one for one in SETTINGS if (one.data, one.model) == ("adult", "mlp"))
    found = grids.study_grid(setting, setting.load(), Run("small", tmp_path, jobs=1, quiet=True), Size(24, 12))
    assert found.privacy.variability_flat.value == pytest.approx(
        PUBLISHED["IP1 Table 3", "adult", "mlp", "variability"], rel=0.1
    )
    assert found.at_the_end("varied").seed_exceeds_data == 1
    assert found.clusters.single_seed_share == 1


@pytest.mark.paper_data
def test_the_convolutional_network_is_that_of_the_paper() -> None:
    from seedscope.models.base import parameter_count

    data = CONVOLUTIONAL.load()
    assert (len(data.train), len(data.test), data.classes) == (54_000, 10_000, 10)
    assert parameter_count(CONVOLUTIONAL.network, (28, 28, 1), 10) == PUBLISHED["IP1 D.3", "mnist", "cnn", "parameters"]
    assert {one.data for one in (*SETTINGS, *VARIANTS, CONVOLUTIONAL)} <= set(KNOWN)


@pytest.fixture(scope="module")
def noisy(run: Run) -> noise.NoiseOutcome:
    """What the noise of a few dozen seeds is and hides."""
    return noise.study_noise(EMBEDDED, bounded(), run, seeds=60, size=Size(44, 3))


def test_the_noise_of_a_short_training_is_its_initial_point(noisy: noise.NoiseOutcome) -> None:
    assert noisy.origin.share_of_initial_point > 0.9
    assert noisy.origin.excess_kurtosis < -0.5
    found = {(row.place, row.quantity): row.ours for row in noise.noise_rows(noisy)}
    assert found[noise.ORIGIN, "σ² by the initial point, %"] == pytest.approx(100 * noisy.origin.share_of_initial_point)
    assert found[noise.PERSONAL, "ε of the most exposed person"] == noisy.people.epsilon.max()
    assert {place for place, _ in found} == {noise.TESTS, noise.ORIGIN, noise.PERSONAL}


def test_a_networks_noise_has_the_same_tests_and_pictures(noisy: noise.NoiseOutcome, run: Run) -> None:
    found = noise.study_network_noise(NETWORK, bounded(), run, seeds=60)
    rows = {row.quantity: row.ours for row in noise.test_rows(found)}
    assert rows["Henze–Zirkler p, smallest of subsets"] == found.smallest_of_subsets
    assert rows["weights that are not Gaussian, %"] == 100 * found.varied.normality_by_weight.rejected_share > 0
    weights = ss.intrinsic.checkpoint_weights(noise.trained(NETWORK, bounded(), ss.Grid(60), run, "noise"))[:, 0]
    np.testing.assert_array_equal(
        found.varied.normality_by_weight.p_values, ss.intrinsic.shapiro_wilk(weights).p_values
    )
    drawn = noise_figures.p_value_chart([noisy, found]).to_dict()
    names = [panel["data"]["name"] for panel in drawn["concat"]]
    inits = [{row["init"] for row in drawn["datasets"][name]} for name in names]
    assert inits == [{"varied", "one for all"}, {"varied"}]


def test_pictures_of_the_noise_have_a_panel_for_each_set(
    noisy: noise.NoiseOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    for draw in (noise_figures.least_gaussian_chart, noise_figures.p_value_chart, noise_figures.people_chart):
        assert len(draw([noisy, noisy]).to_dict()["concat"]) == 2
    monkeypatch.setattr(noise, "POWER_SAMPLES", (30,))
    monkeypatch.setattr(noise, "POWER_DIMENSIONS", (2, 5))
    laws = [row["law"] for row in noise.power_study(repetitions=1)]
    assert laws == ["normal_full"] * 2 + ["normal_diagonal"] * 2 + ["laplace"] * 2 + ["uniform"] * 2
