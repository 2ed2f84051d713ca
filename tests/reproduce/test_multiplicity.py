"""Re-doing AD: the cells' statistics against slow and trusted ways, the published numbers, and Table 2 within reach."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import seedscope as ss
from seedscope.mechanisms.guarantees import Conditions
from seedscope.reproduce import multiplicity as study
from seedscope.reproduce.comparison import paper_numbers
from seedscope.reproduce.multiplicity import errors as errors
from seedscope.reproduce.multiplicity import images as images
from seedscope.reproduce.multiplicity import patient as patient
from seedscope.reproduce.multiplicity.models import (
    EPSILONS,
    SHORTFALLS,
    TABLES,
    Cell,
    PlaneOutcome,
    TableOutcome,
    bounded_data,
    linear_scores,
    outcomes,
    plane_outcome,
    plane_points,
    probabilities,
    released_weights,
    table_outcome,
    unsaturated,
    weights_without_noise,
)
from tests.helpers.present import present


@pytest.fixture(scope="module")
def embedded() -> TableOutcome:
    """Return a cell's outcome on a table that is always there."""
    return table_outcome(Cell("breast-cancer", 1.0, study.PAPER, 40))


@pytest.fixture(scope="module")
def planes() -> list[PlaneOutcome]:
    """Return outcomes on the synthetic set at a small and a large ε."""
    return [plane_outcome(Cell("synthetic", epsilon, study.PAPER, 60)) for epsilon in (0.5, 2.5)]


def test_table_2_is_complete_in_the_published_numbers() -> None:
    rows = [row for row in paper_numbers("multiplicity") if row["place"] == "AD Table 2"]
    tabular = {(row["data"], row["setting"], row["quantity"]) for row in rows if row["data"] in TABLES}
    assert len(tabular) == 4 * len(EPSILONS) * 11
    assert len(rows) - len(tabular) == 5 * 9
    assert {setting for _, setting, _ in tabular} == {f"ε={epsilon:g}" for epsilon in EPSILONS}


def test_a_cells_statistics_are_those_of_one_model_at_a_time(embedded: TableOutcome) -> None:
    from sklearn.metrics import f1_score, roc_auc_score

    data = bounded_data("breast-cancer")
    weights = released_weights(data, embedded.cell.mechanism, 40).astype(float)
    for model in range(3):
        linear = data.test_features @ weights[model, :-1] + weights[model, -1]
        assert embedded.areas_of_ranks[model] == pytest.approx(roc_auc_score(data.test_labels, linear))
        assert embedded.f1[model] == pytest.approx(f1_score(data.test_labels, linear > 0))
    decided = linear_scores(weights, data.test_features) > 0
    pairs = [2 * np.mean(decided[i] != decided[j]) for i in range(40) for j in range(i)]
    assert embedded.disagreement.mean() == pytest.approx(np.mean(pairs))


def test_saturated_probabilities_tie_where_ranks_do_not() -> None:
    linear, labels = np.array([[800.0, 900.0, -5.0, 1.0]]), [0, 1, 0, 0]
    tied = ss.multiplicity.areas_under_curve(probabilities(linear), labels)
    assert tied[0] == pytest.approx(2.5 / 3)  # 800 and 900 are both 1: half a pair is lost
    assert ss.multiplicity.areas_under_curve(unsaturated(linear), labels)[0] == 1.0


def test_the_norm_bound_is_that_of_the_longest_training_row() -> None:
    data = bounded_data("synthetic")
    assert data.norm_bound == pytest.approx(np.linalg.norm(data.features, axis=1).max())


def test_without_noise_the_weights_are_the_regularised_optimum() -> None:
    from sklearn.linear_model import LogisticRegression

    data = bounded_data("synthetic")
    peer = LogisticRegression(C=1.0, tol=1e-8).fit(data.features, data.labels)  # diffprivlib's own objective
    np.testing.assert_allclose(weights_without_noise(data, study.PAPER)[:-1], peer.coef_[0], rtol=1e-3)


def test_more_privacy_is_more_disagreement_over_the_plane(planes: list[PlaneOutcome]) -> None:
    private, less = planes
    assert private.disagreement.mean() > 2 * less.disagreement.mean()
    assert private.viable_range.mean() > less.viable_range.mean()
    assert private.disagreement.shape == (len(plane_points()),)


def test_the_plane_is_uncertain_along_the_boundary_only(planes: list[PlaneOutcome]) -> None:
    points = plane_points()
    boundary, far = np.abs(points.sum(1)) < 0.2, np.abs(points.sum(1)) > 5
    for one in planes:
        assert one.disagreement[boundary].mean() > one.disagreement[far].mean() + 0.3


def test_every_model_of_figure_1_is_as_accurate_as_the_paper_says(planes: list[PlaneOutcome]) -> None:
    assert min(one.accuracy.min() for one in planes) >= 0.72


def test_fewer_models_reach_a_higher_accuracy(planes: list[PlaneOutcome]) -> None:
    for one in planes:
        assert np.all(np.diff(one.conditioned.models) >= 0)  # along growing shortfalls
        assert len(one.conditioned.disagreement) == len(SHORTFALLS)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_output_perturbation_in_closed_form_agrees_with_training_it(epsilon: float) -> None:
    data = replace(bounded_data("synthetic"), test=bounded_data("synthetic").test.take(slice(0, 300)))
    mechanism = ss.OutputPerturbation(epsilon, l2=0.01)
    ensemble = ss.train(data, mechanism, grid=ss.Grid(4000), scaling=ss.Unscaled(), jobs=1)
    optimum = ss.train(
        data, ss.OutputPerturbation(noise_scale=0.0, l2=0.01), grid=ss.Grid(1), scaling=ss.Unscaled(), jobs=1
    )
    noise = mechanism.noise(Conditions(len(data.base), math.hypot(present(data.norm_bound), 1)))
    linear = linear_scores(optimum.weights.values[0, 0, 0, 0], data.test_features)
    norms = np.hypot(np.linalg.norm(data.test_features, axis=1), 1)
    exact = ss.multiplicity.output_perturbation_disagreement(linear, norms, noise)
    positives = (ensemble.base_scores("test") > 0.5).sum(0)
    lower, upper = ss.multiplicity.disagreement_interval(positives, 4000, 0.999, examples=300)
    assert np.all((lower <= exact) & (exact <= upper))
    assert 0.1 < exact.mean() < 0.99


@pytest.mark.slow
def test_a_small_study_on_embedded_data_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(study.MODELS, "small", 40)
    found = study.run("small", ["synthetic"], tmp_path, jobs=1, quiet=True)
    rendered = {"figure-4-accuracy": found.charts["figure-4-accuracy"]}
    written = replace(found, charts=rendered).save(tmp_path / "out")
    assert all(chart.to_dict() for chart in found.charts.values())  # checked against the schema
    with open(written[0], encoding="utf-8") as file:
        places = {row["place"] for row in csv.DictReader(file)}
    assert places == {"AD §4", "AD Table 1", "AD Figure 1", "AD Figure 4"}
    said = [one for one in found.comparisons if one.quantity == study.NEAR_BEST]
    assert (said[-1].ours, said[-1].paper) == (max(one.ours for one in said[:-1]), 0.8)
    numbers = {name.split("-")[1] for name in found.charts}
    assert numbers == {"1", "2", "4", "6", "8a", "8b"}
    assert set(found.seconds) == {"bounds", "plane"}
    assert all(path.stat().st_size > 1000 for path in written)


def test_tables_give_every_column_with_every_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "EPSILONS", (0.5, 2.5))
    monkeypatch.setattr(study, "largest_differences", lambda rows: [])  # the paper has no such table
    part = study.study_tables(["breast-cancer"], 20, jobs=1, quiet=True)
    assert len(part.comparisons) == 2 * 2 * 11
    assert sum(not one.detail for one in part.comparisons) == 2 * 3
    means = {one.setting: (one.ours, one.best) for one in part.comparisons if one.quantity == "disagreement mean"}
    assert means["ε=2.5"][1] is None or means["ε=2.5"][1] < means["ε=2.5"][0]
    assert set(part.charts) == {"figure-3-privacy", "figure-5a-distributions", "figure-7-viable-range"}


@pytest.mark.slow
def test_cells_come_back_in_order_from_several_processes() -> None:
    cells = [Cell("breast-cancer", epsilon, study.PROVED, 10) for epsilon in (0.5, 1.0, 2.0)]
    seen = []
    found = outcomes(table_outcome, cells, 2, lambda *now: seen.append(now))
    assert [one.cell for one in found] == cells
    assert (seen[0], seen[-1]) == ((0, 30), (30, 30))
    alone = table_outcome(cells[1])
    np.testing.assert_array_equal(found[1].disagreement, alone.disagreement)


def test_data_of_another_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ss.SeedscopeError, match="Did you mean 'mammography'"):
        study.run("small", ["mamography"], tmp_path, jobs=1, quiet=True)


@pytest.mark.paper_data
@pytest.mark.parametrize("name", TABLES)
def test_table_2_is_the_papers(name: str) -> None:
    found = [table_outcome(Cell(name, epsilon, study.PAPER, 1000)) for epsilon in (0.5, 1.0, 2.5)]
    best = [
        table_outcome(cell) if study.useful(cell) else None
        for cell in (Cell(name, epsilon, study.BEST, 200) for epsilon in (0.5, 1.0, 2.5))
    ]
    rows = [row for one, other in zip(found, best, strict=True) for row in study.table_rows(one, None, other)]
    better = [row for row in rows if row.quantity == "disagreement mean" and row.best is not None]
    assert len(better) >= 2
    assert all(row.best < row.ours for row in better)  # type: ignore[operator]
    for row in rows:
        if row.paper is not None and row.quantity == "disagreement mean":
            assert row.ours == pytest.approx(row.paper, abs=0.06), row
        if (
            row.paper is not None and row.quantity == "disagreement median"
        ):  # contraception, 5,000 models: .34, paper .27
            assert row.ours == pytest.approx(row.paper, abs=0.11), row
        if row.paper is not None and row.quantity in ("AUC mean", "F1 mean", "AUC std"):
            assert row.ours == pytest.approx(row.paper, abs=2.0), row
    means = [one.disagreement.mean() for one in found]
    assert means == sorted(means, reverse=True)
    areas = [one.areas.mean() for one in found]
    assert areas == sorted(areas)


@pytest.mark.paper_data
def test_the_youngest_face_the_most_arbitrariness_in_contraception() -> None:
    outcome = table_outcome(Cell("contraception", 2.5, study.PAPER, 1000))
    means = {row["group"]: row["mean"] for row in study.group_rows([outcome])}
    assert means["16–30"] > means["31–40"] + 0.05  # AD §5.4


def test_edges_of_one_direction_have_their_energy_there_and_rows_norm_one() -> None:
    step = np.zeros((1, 28, 28, 1))
    step[:, :, 14:] = 1  # brighter to the right
    rows = images.edge_energies(np.concatenate([step, np.transpose(step, (0, 2, 1, 3))]))
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    assert rows.mean(1) == pytest.approx(0, abs=1e-6)
    assert rows.reshape(2, 49, 8).sum(1).argmax(1).tolist() == [0, 2]  # to the right; down


def test_features_of_an_image_do_not_depend_on_other_images() -> None:
    drawn = np.random.default_rng(0).random((5, 32, 32, 3))
    assert np.array_equal(images.edge_energies(drawn)[2:3], images.edge_energies(drawn[2:3]))


@pytest.fixture(scope="module")
def private_digits() -> list[images.ImageOutcome]:
    """Return outcomes of DP-SGD at a small and a large ε on digits that are always there."""
    return [images.image_outcome(ss.load("digits"), epsilon, 8, jobs=1) for epsilon in (0.5, 8.0)]


def test_private_training_has_the_epsilon_of_its_row() -> None:
    data = ss.load("digits")
    mechanism = images.private_training(data, 2.22)
    epsilon = present(mechanism.guarantee(Conditions(len(data.base), 1.0)).epsilon)
    assert epsilon.value == pytest.approx(2.22, rel=1e-3)
    assert mechanism.delta == images.DELTA


def test_disagreement_by_dpsgd_is_that_of_ten_binary_classifiers(private_digits: list[images.ImageOutcome]) -> None:
    ensemble = ss.train(
        ss.load("digits"), images.private_training(ss.load("digits"), 8.0), grid=ss.Grid(8),
        records=ss.Records(probes=("test",)), scaling=ss.Unscaled(), jobs=1,
    )  # fmt: skip
    decided = ensemble.scores.values[:, 0, 0].argmax(-1)
    by_class = [ss.multiplicity.disagreement(decided == digit) for digit in range(10)]
    assert private_digits[1].disagreement == pytest.approx(np.array(by_class).T)
    mean = ss.multiplicity.one_vs_rest_disagreement(decided, 10)
    assert private_digits[1].disagreement.mean(axis=1) == pytest.approx(mean)


def test_more_privacy_by_dpsgd_is_less_accurate_and_more_arbitrary(private_digits: list[images.ImageOutcome]) -> None:
    noisy, clear = private_digits
    assert noisy.accuracy.mean() < clear.accuracy.mean()
    assert noisy.disagreement.mean() > clear.disagreement.mean()


def test_rows_by_dpsgd_stand_beside_the_papers_cifar_only(private_digits: list[images.ImageOutcome]) -> None:
    cifar = replace(private_digits[0], data="cifar10-small", epsilon=2.22)
    rows = {row.quantity: row for row in images.image_rows(cifar, study.PUBLISHED)}
    assert (rows["accuracy mean"].paper, rows["disagreement mean"].paper) == (65.38, 0.11)
    assert rows["disagreement 95 pctl"].paper == 0.81  # over pairs of an image and a class, as ours
    assert rows["disagreement 95 pctl"].ours == np.quantile(cifar.disagreement, 0.95)
    assert rows["disagreement max"].ours > 0.4  # no mean over ten classes can be that large
    assert all(row.paper is None for row in images.image_rows(replace(cifar, data="mnist"), study.PUBLISHED))


@pytest.mark.paper_data
def test_dpsgd_on_images_is_more_arbitrary_the_more_private_as_in_the_paper(tmp_path: Path) -> None:
    found = study.run("small", ["cifar10-small"], tmp_path, jobs=2, quiet=True)
    ours = {(row.setting, row.quantity): row.ours for row in found.comparisons if row.data == "cifar10-small"}
    assert ours["ε=2.22", "disagreement mean"] > ours["ε=5.59", "disagreement mean"]
    assert ours["ε=2.22", "accuracy mean"] < ours["ε=5.59", "accuracy mean"]
    assert ours["ε=5.59", "accuracy mean"] > 45
    assert "figure-3-dpsgd" in found.charts


def test_errors_of_figure_8b_are_against_the_closed_form_and_shrink_with_the_models() -> None:
    data = bounded_data("synthetic")
    decided, truth = errors.sampled_decisions(data, 600)
    assert decided.shape == (errors.SAMPLES, 600)
    assert truth == pytest.approx(errors.AIM, abs=0.01)
    lower, upper = ss.multiplicity.disagreement_interval(decided.sum(), decided.size, 0.999)
    assert lower <= truth <= upper  # the closed form is the truth of the models that are drawn
    measured = [row for row in errors.error_rows(data, 600) if row["curve"] == "measured"]
    assert measured[-1]["error"] < measured[0]["error"] / 2
    assert measured[-1]["error"] > 1e-3  # against the same models it would tend to 0


def test_an_epsilon_at_which_noise_is_all_there_is_has_no_best_column() -> None:
    assert study.useful(Cell("synthetic", 1.0, study.BEST, 1))
    assert not study.useful(Cell("synthetic", 1e-4, study.BEST, 1))
    one = table_outcome(Cell("breast-cancer", 1.0, study.PAPER, 5))
    rows = study.table_rows(one, None, None)
    assert all(row.best is None and "refuses" in row.note for row in rows)


@pytest.mark.paper_data
def test_the_patient_is_the_papers_at_a_high_privacy_and_other_splits_reach_what_it_says_at_a_low_one() -> None:
    rows = {(row.setting, row.quantity): row for row in patient.patient_rows(2000, study.PAPER, study.BEST)}
    tossed = rows["ε=0.5", "disagreement"]
    assert tossed.ours == pytest.approx(present(tossed.paper), abs=0.02)
    assert rows["ε=0.5", "decided malignant"].ours == pytest.approx(0.58, abs=0.04)
    clear, others = rows["ε=2.5", "disagreement"], "ε=2.5, other splits"
    assert clear.ours > present(clear.paper) + 0.08  # not reached
    assert rows[others, "smallest disagreement"].ours < clear.ours < rows[others, "largest disagreement"].ours


@pytest.mark.paper_data
def test_the_patient_is_of_the_test_part_and_stays_the_same_in_other_splits() -> None:
    data = bounded_data("mammography")
    place = int(np.flatnonzero(data.test.rows == patient.PATIENT.row)[0])
    assert data.test_labels[place] == 1
    again = patient.other_split(data, 3)
    assert len(again.train) == len(data.train)
    np.testing.assert_array_equal(patient.patient_features(again), patient.patient_features(data))
