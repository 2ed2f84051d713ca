"""The one model to publish: proved, on a grid, loadable elsewhere, and refused where nothing is proved."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import seedscope as ss
from seedscope.commands.abstain import summarise
from seedscope.core import SeedscopeWarning
from seedscope.datasets import FittedScaling, from_frame
from seedscope.mechanisms import Mechanism
from seedscope.planning import make_plan
from seedscope.releasing.card import model_card
from seedscope.releasing.release import all_rows
from seedscope.training import SystemDraws
from tests.helpers.command_line import run
from tests.helpers.small_data import table

RANGES = ((-3.0,) * 3, (3.0,) * 3)
DP = ss.DPSGD.calibrated(2.0, 1e-5, examples=40, batch_size=10, steps=10)
PROVED: dict[str, Mechanism] = {
    "objective": ss.ObjectivePerturbation(1.0),
    "output": ss.OutputPerturbation(1.0, 1e-5),
    "dpsgd": DP,
}


@pytest.mark.parametrize("name", PROVED)
def test_what_is_proved_is_released_with_its_curve(name: str) -> None:
    found = ss.release(table(norm_bound=1.0), PROVED[name])
    assert found.guarantee.is_proved
    assert found.curve is not None
    assert found.curve.advantage.kind == "proved"
    assert 1.0 <= float(found.guarantee.epsilon or 0) <= 2.0


@pytest.mark.parametrize("name", PROVED)
def test_two_releases_are_never_the_same(name: str) -> None:
    first, second = (ss.release(table(norm_bound=1.0), PROVED[name]).weights for _ in range(2))
    assert np.abs(first - second).max() > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", PROVED)
def test_released_weights_are_of_the_law_of_audited_ones(name: str) -> None:
    data, mechanism = table(norm_bound=1.0), PROVED[name]
    audited = ss.train(data, mechanism, grid=ss.Grid(200), records=ss.Records(probes=()), jobs=1).weights.values
    count = 8 if name == "dpsgd" else 60
    released = np.array([ss.release(data, mechanism).weights for _ in range(count)])
    for column in range(released.shape[1]):
        assert stats.ks_2samp(released[:, column], audited[:, 0, 0, -1, column]).pvalue > 1e-4


@pytest.mark.parametrize("name", ["objective", "output"])
def test_every_weight_is_a_step_of_one_public_grid(name: str) -> None:
    for seed in (0, 1):
        found = ss.release(table(seed=seed, norm_bound=1.0), PROVED[name])
        steps = found.weights * 2.0**48  # the steps are powers of two, at least this large
        np.testing.assert_array_equal(steps, np.round(steps))


@pytest.mark.parametrize("mechanism", [ss.SGD(steps=3, batch_size=4), ss.DPSGD(noise_multiplier=0, batch_size=4)])
def test_without_a_proof_nothing_is_released_unless_told(mechanism: Mechanism) -> None:
    with pytest.raises(ss.SeedscopeError, match="nothing is proved for this model"):
        ss.release(table(norm_bound=1.0), mechanism)


def test_a_learned_scaling_is_refused_and_said_on_the_card_if_told(tmp_path: Path) -> None:
    with pytest.raises(ss.SeedscopeError, match="proved only if the scaling were public"):
        ss.release(table(), PROVED["objective"])
    found = ss.release(table(), PROVED["objective"], unproved=True)
    found.save(tmp_path / "model")
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "(estimate)" in card
    assert "Learned from the rows and not covered: the scaling." in card


def test_plain_sgd_is_released_if_told() -> None:
    found = ss.release(table(norm_bound=1.0), ss.SGD(steps=3, batch_size=4), unproved=True)
    assert found.guarantee.epsilon is None
    assert found.weights.shape == (4,)


def test_only_what_is_proved_is_tagged_as_private() -> None:
    proved = ss.release(table(norm_bound=1.0), PROVED["objective"])
    others = [
        ss.release(table(), PROVED["objective"], unproved=True),
        ss.release(table(norm_bound=1.0), ss.SGD(steps=3, batch_size=4), unproved=True),
    ]
    tagged = ["- differential-privacy" in model_card(one.as_dict()) for one in (proved, *others)]
    assert tagged == [True, False, False]


def test_a_model_is_read_back_and_is_scikit_learns(tmp_path: Path) -> None:
    data = ss.load("breast-cancer")
    found = ss.release(data, ss.ObjectivePerturbation(4.0))
    written = found.save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == sorted(path.name for path in written)
    again = ss.load_released(tmp_path / "model")
    np.testing.assert_array_equal(again.weights, found.weights)
    chances = again.predict_proba(data.test_features)
    theirs = again.as_scikit_learn().predict_proba(again.scaling.apply(data.test_features))
    np.testing.assert_allclose(chances, theirs, atol=1e-12)
    assert again.guarantee == found.guarantee


def test_what_is_written_tells_nothing_of_how_many_rows_there_are(tmp_path: Path) -> None:
    found = ss.release(table(rows=41, norm_bound=1.0), PROVED["objective"])
    found.save(tmp_path / "model")
    facts = json.loads((tmp_path / "model" / "model.json").read_text())
    kept: dict[str, Any] = {name: value for name, value in facts.items() if name not in ("coefficients", "intercept")}
    assert "41" not in json.dumps(kept["guarantee"]) + json.dumps(kept["mechanism"])


@pytest.mark.parametrize("mechanism", [ss.OutputPerturbation(1.0), ss.GaussianObjectivePerturbation(2.0)])
def test_a_delta_that_would_tell_how_many_rows_there_are_is_refused(mechanism: Mechanism) -> None:
    with pytest.raises(ss.SeedscopeError, match="δ would follow the number of rows"):
        ss.release(table(norm_bound=1.0), mechanism)


def test_the_card_says_what_counts_as_public_and_what_is_not_covered(tmp_path: Path) -> None:
    ss.release(table(norm_bound=1.0), PROVED["objective"]).save(tmp_path / "model")
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "Counted as public knowledge: the columns' names" in card
    assert "The choice of a level or a setting by results on private data" in card
    assert "The people of a test part: no ε is about them" in card


@pytest.mark.slow
def test_a_release_whose_number_of_rows_could_show_says_so(tmp_path: Path) -> None:
    given = ("breast-cancer", "--mechanism", "dpsgd", "--steps", "300", "--batch-size", "20")
    with pytest.warns(SeedscopeWarning, match="give --public-size"):
        run("release", *given, "--out", str(tmp_path / "a"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("release", *given, "--public-size", "600", "--out", str(tmp_path / "b"))


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ss.SeedscopeError, match="is not empty"):
        ss.release(table(norm_bound=1.0), PROVED["objective"]).save(tmp_path)


def test_rows_that_were_drawn_for_testing_are_trained_on_too() -> None:
    drawn = ss.load("breast-cancer")
    whole = all_rows(drawn)
    assert len(whole.base) == len(drawn.train) + len(drawn.test)
    assert whole.base.rows.tolist() == sorted(whole.base.rows.tolist())
    given = table()
    assert all_rows(given) is given


def test_smoothing_costs_a_thousandth_of_epsilon() -> None:
    data = table(norm_bound=1.0)
    own = float(make_plan(data, PROVED["objective"]).guarantee.epsilon or 0)
    assert float(ss.release(data, PROVED["objective"]).guarantee.epsilon or 0) == own * (1 + 2**-10)


def test_the_command_releases_at_the_epsilon_asked_for(tmp_path: Path) -> None:
    for name in ("objective", "output", "gaussian-objective"):
        out = tmp_path / name
        said = json.loads(run("release", "breast-cancer", "--mechanism", name, "--out", str(out), "--json").stdout)
        assert said["guarantee"]["epsilon"]["value"] == pytest.approx(1.0, abs=1e-12)
        assert said["guarantee"]["epsilon"]["kind"] == "proved"
    refused = run("release", "breast-cancer", "--mechanism", "sgd", "--out", str(tmp_path / "sgd"))
    assert refused.returncode == 2
    assert "(--unproved)" in refused.stderr


def test_a_model_by_output_perturbation_says_its_noise_and_whoever_has_it_can_abstain(tmp_path: Path) -> None:
    data, mechanism = table(norm_bound=1.0), ss.OutputPerturbation(4.0, 1e-5)
    ss.release(data, mechanism).save(tmp_path / "model")
    model = ss.load_released(tmp_path / "model")
    assert model.noise_scale == pytest.approx(mechanism.noise(make_plan(all_rows(data), mechanism).conditions))
    scaled = model.scaling.apply(data.features)
    scores, norms = scaled @ model.weights[:-1] + model.weights[-1], np.sqrt((scaled**2).sum(1) + 1)
    by_hand = ss.multiplicity.released_model_disagreement(scores, norms, float(model.noise_scale or 0))
    np.testing.assert_allclose(model.arbitrariness(data.features).upper, by_hand.upper)
    assert "noise on each weight" in (tmp_path / "model" / "MODEL_CARD.md").read_text()


def test_intervals_from_released_models_cover_what_re_trainings_would_show() -> None:
    data, mechanism = table(norm_bound=1.0), ss.OutputPerturbation(4.0, 1e-5)
    plan = make_plan(all_rows(data), mechanism)
    clean = mechanism.regression(plan.data, plan.fitted_scaling)
    scaled = plan.fitted_scaling.apply(data.features)
    norms = np.sqrt((scaled**2).sum(1) + 1)
    truth = ss.multiplicity.output_perturbation_disagreement(
        scaled @ clean.weights[:-1] + clean.weights[-1], norms, clean.noise_scale
    )
    found = [ss.release(data, mechanism).arbitrariness(data.features, 0.8) for _ in range(60)]
    covered = np.mean([((one.lower <= truth) & (truth <= one.upper)).mean() for one in found])
    assert covered > 0.8 - 0.12  # people of one model share its noise: few independent draws


def test_abstaining_needs_no_number_but_the_model(tmp_path: Path) -> None:
    run("release", "breast-cancer", "--mechanism", "output", "--epsilon", "8", "--out", str(tmp_path / "model"))
    found = json.loads(run("abstain", str(tmp_path / "model"), "breast-cancer", "--json").stdout)
    assert found["people"] == 569
    assert found["certain"] + len(found["abstained"]) == 569
    assert found["noise_scale"] == json.loads((tmp_path / "model" / "model.json").read_text())["noise_scale"]


def test_a_model_of_three_classes_tells_by_itself_too(tmp_path: Path) -> None:
    data, mechanism = table(norm_bound=1.0, classes=3, rows=300), ss.OutputPerturbation(8.0, 1e-4)
    ss.release(data, mechanism).save(tmp_path / "model")
    model = ss.load_released(tmp_path / "model")
    found = model.arbitrariness(data.features)
    np.testing.assert_array_equal(found.decided, model.predict_proba(data.features).argmax(1))
    said = summarise(model, data, 0.75, 0.95)
    assert said["certain"] + len(said["abstained"]) == said["people"]
    assert "model.arbitrariness(rows)" in (tmp_path / "model" / "MODEL_CARD.md").read_text()


def test_a_model_whose_noise_went_elsewhere_cannot_tell() -> None:
    found = ss.release(table(norm_bound=1.0), PROVED["objective"])
    assert found.noise_scale is None
    with pytest.raises(ss.SeedscopeError, match="noise of a known scale on the weights; this model is by objective"):
        found.arbitrariness(np.zeros((1, 3)))


def test_every_minimiser_is_released_at_the_epsilon_that_was_asked_for(tmp_path: Path) -> None:
    out = str(tmp_path / "model")
    found = run(
        "release", "breast-cancer", "--mechanism", "gaussian-objective", "--epsilon", "2", "--out", out, "--json"
    )
    assert json.loads(found.stdout)["guarantee"]["epsilon"]["value"] == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("most", [None, 2])
def test_people_who_were_drawn_for_testing_have_no_more_rows_than_others(most: int | None) -> None:
    import pandas

    draw = np.random.default_rng(0)
    owners = np.repeat(np.arange(40), 5)
    frame = pandas.DataFrame({"who": owners, "age": draw.normal(50, 9, 200), "ill": owners % 2})
    known: dict[str, Any] = {"bounds": {"age": (0, 120)}, "person": "who", "rows_per_person": most}
    whole = all_rows(from_frame(frame, target="ill", **known))
    assert whole.rows_per_person == (most or 5)
    assert np.bincount(whole.base.persons).max() == whole.rows_per_person  # type: ignore[arg-type]
    assert (whole.learned == ()) == (most is not None)


def test_private_moments_are_whole_steps_of_a_grid_that_no_row_moves_far() -> None:
    data, private = table(rows=50), ss.PrivateMoments(*RANGES, epsilon=1.0)
    sums = private.whole_sums(data.features)
    slow = [sum(round(2**16 * min(max(one / 3, -1), 1)) for one in column) for column in data.features.T]
    assert sums[:3].tolist() == slow
    assert sums[-1] == 50 * 2**16
    far = np.array([[9e9, -9e9, 3.0]])
    replaced, removed = np.concatenate([data.features[1:], far]), data.features[1:]
    for other in (replaced, removed):
        assert np.linalg.norm(private.whole_sums(other) - sums) <= 2**16 * private.sensitivity


def test_noise_on_private_moments_is_exact_and_the_operating_systems() -> None:
    asked: list[tuple[float, int]] = []

    class Watched(SystemDraws):
        def rounded_normals(self, scale: float, count: int) -> np.ndarray:
            asked.append((scale, count))
            return super().rounded_normals(scale, count)

    private = ss.PrivateMoments(*RANGES, epsilon=0.5, delta=1e-5)
    found = ss.release(table(rows=200), PROVED["objective"], scaling=private, draws=Watched())
    assert asked == [(2**16 * private.noise_scale, 7)]
    assert float(ss.accounting.gaussian_epsilon(private.sensitivity, private.noise_scale, 1e-5)) <= 0.5
    assert found.guarantee.is_proved
    assert float(found.guarantee.epsilon or 0) == pytest.approx(1.5 * (1 + 2**-10))
    assert found.guarantee.delta == 1e-5


def test_private_moments_depend_on_the_noisy_sums_alone_and_not_on_how_many_rows_there_are() -> None:
    private, rows = ss.PrivateMoments(*RANGES), table(rows=20).features
    noisy = np.arange(1.0, 8) * 2**16

    def scaled(people: np.ndarray) -> FittedScaling:
        return private.refit(people, lambda _scale, _count: noisy - private.whole_sums(people))

    found = [scaled(rows[:n]) for n in (8, 7)]
    np.testing.assert_array_equal(found[0].mean, found[1].mean)
    np.testing.assert_array_equal(found[0].deviation, found[1].deviation)


SCALINGS: dict[str, Any] = {
    "public ranges": ss.Bounded(*RANGES),
    "no scaling, rows within a norm": None,
    "given moments": ss.Standardised(mean=(0.1, 0.2, 0.3), deviation=(1.0, 2.0, 3.0)),
}


@pytest.mark.parametrize("name", SCALINGS)
def test_an_onnx_file_gives_the_chances_of_rows_as_they_are_in_the_table(name: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    data = table(norm_bound=1.0 if SCALINGS[name] is None else None)
    model = ss.release(data, ss.ObjectivePerturbation(4.0), scaling=SCALINGS[name])
    written = model.save(tmp_path / "model", onnx=True)
    assert sorted(path.name for path in written) == ["MODEL_CARD.md", "model.json", "model.npz", "model.onnx"]
    graph = onnx.load(str(tmp_path / "model" / "model.onnx"))
    rows = np.concatenate([data.features, 1000 * data.features[:5]])  # beyond ranges and norms too
    answer: Any = ReferenceEvaluator(graph).run(None, {"features": rows})
    chances, labels = answer
    expected = model.predict_proba(rows)
    np.testing.assert_allclose(chances, expected, atol=1e-12)
    assert labels.tolist() == [data.class_names[one] for one in expected.argmax(1)]
    assert "seedscope" in graph.producer_name


@pytest.mark.parametrize("mechanism", [ss.ObjectivePerturbation(8.0), ss.OutputPerturbation(8.0, 1e-5), DP])
def test_a_model_of_three_classes_predicts_by_itself_as_scikit_learns_and_by_onnx(
    mechanism: Mechanism, tmp_path: Path
) -> None:
    draw = np.random.default_rng(0)
    rows, labels = draw.uniform(-0.5, 0.5, (40, 3)), np.arange(40) % 3
    data = ss.from_arrays(rows, labels, rows[:9], labels[:9], norm_bound=1.0)
    model = ss.release(data, mechanism)
    assert model.weights.shape == (12,)
    coefficients, intercepts = model.weights[:9].reshape(3, 3), model.weights[9:]
    slow = [[np.exp(coefficients[k] @ row + intercepts[k]) for k in range(3)] for row in rows]
    expected = np.array(slow) / np.sum(slow, axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(rows), expected, atol=1e-12)
    np.testing.assert_allclose(model.as_scikit_learn().predict_proba(rows), expected, atol=1e-12)
    model.save(tmp_path / "model")
    assert ss.load_released(tmp_path / "model").predict_proba(rows).tolist() == model.predict_proba(rows).tolist()
    pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    answer: Any = ReferenceEvaluator(model.as_onnx()).run(None, {"features": rows})
    np.testing.assert_allclose(answer[0], expected, atol=1e-12)


LOUD = [
    ss.ObjectivePerturbation(50.0),
    ss.DPSGD(learning_rate=4.0, steps=60, batch_size=150, noise_multiplier=0.3),
]


@pytest.mark.parametrize("mechanism", LOUD)
def test_released_weights_of_three_classes_are_in_the_order_of_the_classes(mechanism: Mechanism) -> None:
    draw = np.random.default_rng(1)
    labels = np.arange(300) % 3
    rows = 0.3 * draw.uniform(-0.5, 0.5, (300, 3)) + 0.7 * np.eye(3)[labels]
    data = ss.from_arrays(rows, labels, rows, labels, norm_bound=1.0)
    assert (ss.release(data, mechanism).predict_proba(rows).argmax(1) == labels).mean() > 0.9


def test_onnx_is_for_linear_models() -> None:
    with pytest.raises(ss.SeedscopeError, match="only linear models are written as ONNX"):
        ss.release(table(norm_bound=1.0), DP, model=ss.mlp(4)).as_onnx()


@pytest.mark.parametrize("proved", [True, False])
def test_what_is_proved_may_be_read_by_all_and_what_is_not_by_its_owner_only(proved: bool, tmp_path: Path) -> None:
    found = ss.release(table(norm_bound=1.0 if proved else None), PROVED["objective"], unproved=not proved)
    modes = {path.stat().st_mode & 0o777 for path in found.save(tmp_path / "model")}
    assert modes == ({0o644} if proved else {0o600})
