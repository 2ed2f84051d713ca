"""The audit on data whose answer is planted, and what it must refuse or say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import seedscope as ss
from seedscope.auditing.audit import audit
from seedscope.auditing.levels import _scores_apart
from seedscope.auditing.people import shown_people
from seedscope.core.errors import SeedscopeError
from seedscope.mechanisms import Guarantee
from seedscope.report.rows import people_rows
from tests.helpers.present import present
from tests.helpers.small_data import given_scaling


def planted(rows: int = 300, seed: int = 0) -> ss.Dataset:
    """Return two clear classes, with a group of outliers whose labels contradict their place."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, rows)
    features = draw.normal(size=(rows, 3)) * 0.3 + np.where(labels, 1.0, -1.0)[:, None]
    outlier = np.arange(rows) % 30 == 0
    features[outlier] *= 6
    labels[outlier] = 1 - labels[outlier]
    group = np.where(outlier, "outlier", "ordinary")
    return ss.from_arrays(features, labels, groups={"kind": group}, name="planted", seed=seed)


@pytest.fixture(scope="module")
def objective() -> tuple[ss.Ensemble, ...]:
    grid = ss.Grid(seeds=60, neighbours=10)
    return tuple(ss.train(planted(), ss.ObjectivePerturbation(one), grid=grid, jobs=1) for one in (0.5, 4.0))


@pytest.fixture(scope="module")
def outliers() -> ss.Ensemble:
    data = planted()
    odd = np.flatnonzero(data.base.groups["kind"] == "outlier")[:4]
    plain = np.flatnonzero(data.base.groups["kind"] == "ordinary")[:8]
    grid = ss.Grid(seeds=60, neighbours=0, people=[*odd, *plain])
    return ss.train(data, ss.SGD(steps=400, batch_size=16), grid=grid, jobs=1)


def test_outliers_are_the_easiest_to_recognise(outliers: ss.Ensemble) -> None:
    level = audit(outliers).levels[0]
    assert level.membership is not None
    odd = level.ensemble.dataset["group_0"].values.astype(str)[level.audited] == "outlier"
    assert odd.sum() == 4
    assert level.membership.advantage[odd].min() > np.median(level.membership.advantage[~odd])


def test_more_noise_makes_decisions_more_arbitrary(objective: tuple[ss.Ensemble, ...]) -> None:
    strong, weak = audit(*objective).levels
    assert float(strong.multiplicity.mean) > float(weak.multiplicity.mean)
    assert strong.accuracies.mean() <= weak.accuracies.mean()


def test_random_labels_are_a_coin_toss_and_clear_classes_are_not() -> None:
    draw = np.random.default_rng(0)
    features, random = draw.normal(size=(120, 2)), draw.integers(0, 2, 120)
    grid, mechanism = ss.Grid(seeds=40), ss.ObjectivePerturbation(0.5)
    noise = audit(ss.train(ss.from_arrays(features, random), mechanism, grid=grid, jobs=1)).levels[0]
    clear = ss.from_arrays(4 * features, (features[:, 0] > 0).astype(int))
    sure = audit(ss.train(clear, ss.ObjectivePerturbation(50.0), grid=grid, jobs=1)).levels[0]
    assert float(noise.arbitrary_share) > 0.5 > 0.1 > float(sure.arbitrary_share)


def test_disagreement_is_twice_the_chance_to_differ_for_any_number_of_classes() -> None:
    draw = np.random.default_rng(0)
    features, labels = draw.normal(size=(90, 3)), np.arange(90) % 3
    groups = {"team": np.where(np.arange(90) % 2, "a", "b")}
    data = ss.from_arrays(features, labels, groups=groups)
    ensemble = ss.train(data, ss.SGD(steps=20, batch_size=8), grid=ss.Grid(seeds=30), jobs=1)
    level = audit(ensemble).levels[0]
    decided = ensemble.base_scores("test").argmax(-1)
    differ = np.mean([decided[i] != decided[j] for i in range(30) for j in range(30) if i != j], axis=0)
    np.testing.assert_allclose(level.multiplicity.disagreement, 2 * differ, atol=1e-12)
    assert float(level.arbitrary_share) == np.mean(differ >= 0.25)
    mean = level.multiplicity.mean
    assert present(mean.lower) <= float(mean) <= present(mean.upper)
    team = level.multiplicity.groups["team"]
    member = data.test.groups["team"] == "a"
    assert float(team["a"].disagreement) == pytest.approx(2 * differ[member].mean())


def test_too_few_models_to_know_are_no_reason_to_release() -> None:
    clear = np.random.default_rng(0).normal(size=(120, 2))
    clear[:, 0] += 9 * np.sign(clear[:, 0])
    data = ss.from_arrays(clear, (clear[:, 0] > 0).astype(int))
    few, many = (audit(ss.train(data, ss.SGD(steps=50), grid=ss.Grid(seeds=n), jobs=1)).verdict for n in (3, 200))
    for verdict, status in ((few, "open"), (many, "passed")):
        assert verdict.tone == "talk"  # nobody was attacked
        assert {one.rule.quantity: one.status for one in verdict.checks}["arbitrary"] == status


def test_duplicated_people_are_hidden_better_than_single_ones() -> None:
    draw = np.random.default_rng(1)
    features = draw.normal(size=(80, 4))
    labels = (features[:, 0] > 0).astype(int)
    copies, single = np.tile([0.0, 6.0, 0.0, 0.0], (12, 1)), np.array([[0.0, 0.0, 6.0, 0.0]])
    rows, targets = np.concatenate([features, single, copies]), np.concatenate([labels, np.zeros(13, int)])
    data = ss.from_arrays(rows, targets, features[:20], labels[:20])
    mechanism = ss.OutputPerturbation(noise_scale=0.2, l2=0.01)
    grid = ss.Grid(seeds=400, people=[80, 81])
    found = audit(ss.train(data, mechanism, grid=grid, scaling=given_scaling(data), jobs=1)).levels[0].membership
    assert found is not None
    assert found.advantage[0] > found.advantage[1] + 0.1


def test_no_attack_beats_a_proved_guarantee(objective: tuple[ss.Ensemble, ...]) -> None:
    assert not any(level.broken for level in audit(*objective).levels)


def test_forgotten_noise_is_reported_loudly(outliers: ss.Ensemble) -> None:
    guarantee = Guarantee("replace_one", ss.Number(0.1, "proved"), 0.0, "x")
    description = replace(outliers.description, guarantee=guarantee)
    claimed = ss.Ensemble(outliers.dataset.assign_attrs(description=description.text()))
    found = audit(claimed)
    assert found.levels[0].broken
    assert found.verdict.headline.startswith("Stop")


def test_every_input_row_has_its_row_in_the_original_order(objective: tuple[ss.Ensemble, ...]) -> None:
    data, table = planted(), audit(*objective).individuals
    rows = np.sort(np.concatenate([data.train.rows, data.test.rows]))
    assert table.groupby("level").size().to_dict() == dict.fromkeys(table["level"], len(rows))
    first = table[table["level"] == "ε = 0.5"]
    assert first["id"].tolist() == [str(row) for row in rows]
    assert (first["part"] == "test").sum() == len(data.test)
    assert first["disagreement"].notna().sum() == len(data.test) + 10
    assert (first["epsilon"] == 0.5).all()
    assert table.loc[table["part"] == "test", "epsilon_upper"].isna().all()


def test_a_page_too_small_for_everybody_has_the_audited_the_extremes_and_a_random_rest(
    objective: tuple[ss.Ensemble, ...],
) -> None:
    levels = audit(*objective).levels
    shown, words = shown_people(levels, limit=48)
    assert len(shown) == len(set(shown)) == 48
    assert set(levels[0].audited) <= set(shown)
    for level in levels:
        order = level.tested[np.argsort(-level.multiplicity.disagreement, kind="stable")]
        assert {*order[:4], *order[-4:]} <= set(shown)
    assert "the 10 people attacked, the 4 most and the 4 least arbitrary and the 4 most exposed" in words
    assert "drawn at random" in words
    everybody, words = shown_people(levels)
    assert set(everybody) == {*levels[0].tested, *levels[0].audited}
    assert words.startswith("Everybody")


@pytest.fixture(scope="module")
def everybody() -> ss.Audit:
    """An audit whose base models scored those they learned from, and recorded their privacy losses."""
    data, mechanism = planted(120), ss.ObjectivePerturbation(4.0)
    records = ss.Records(probes=("test", "train"), losses_of="train")
    base = ss.train(data, mechanism, grid=ss.Grid(seeds=40), records=records, jobs=1)
    shadows = ss.train(data, mechanism, grid=ss.Grid(seeds=20, neighbours=5), jobs=1)
    return audit((base, shadows))


def test_the_scatter_has_everybody_who_was_scored(everybody: ss.Audit) -> None:
    people = everybody.as_dict()["people"]
    drawn = [one for one in people_rows(everybody.as_dict(), 0) if one["exposure"] is not None]
    assert len(drawn) == people["shown"] == people["total"]
    assert all(one["disagreement"] is not None for one in drawn)
    assert {one["exposure"] for one in drawn if one["part"] == "test"} == {0.0}
    assert people["selection"] == "Everybody who was scored: the test part and everybody trained on."


def test_training_people_are_decided_by_models_without_them_where_there_are_such(everybody: ss.Audit) -> None:
    level, table = everybody.levels[0], everybody.individuals
    shadows = table.loc[level.audited]
    assert (shadows["in_models"] == 0).all()
    others = np.setdiff1d(level.trained, level.audited)
    assert (table.loc[others, "in_models"] == 1).all()
    assert (table.loc[level.tested, "in_models"] == 0).all()


def test_models_without_a_person_are_those_of_the_persons_own_data_set() -> None:
    shadows = ss.train(planted(60), ss.ObjectivePerturbation(4.0), grid=ss.Grid(seeds=10, neighbours=4), jobs=1)
    scores, example = shadows.dataset["scores"], shadows.dataset["example_person"].values
    found = _scores_apart(shadows)
    for k, person in enumerate(example[shadows.texts("example_part") == "neighbour"]):
        place = int(np.flatnonzero((example == person) & (shadows.texts("example_part") == "neighbour"))[0])
        np.testing.assert_array_equal(found[:, k], scores.isel(init=-1, neighbour=k + 1, example=place).values)


def test_a_person_without_analysis_has_empty_cells_not_zeros(objective: tuple[ss.Ensemble, ...]) -> None:
    table = audit(objective[0]).individuals
    unscored = table[table["disagreement"].isna()]
    assert len(unscored) > 0
    assert unscored["membership_advantage"].isna().all()


def test_the_same_seed_gives_the_same_numbers(objective: tuple[ss.Ensemble, ...]) -> None:
    grid = ss.Grid(seeds=60, neighbours=10)
    again = ss.train(planted(), ss.ObjectivePerturbation(0.5), grid=grid, jobs=1)
    first, second = audit(objective[0]).as_dict(), audit(again).as_dict()
    for report in (first, second):
        report["provenance"].pop("made")
    assert first == second


def test_the_audit_can_be_called_by_its_public_name_again_and_again(objective: tuple[ss.Ensemble, ...]) -> None:
    first, second = ss.audit(objective[0]), ss.audit(objective[0])
    assert first.verdict == second.verdict
    assert "Return the audit" in (ss.audit.__doc__ or "")


def test_a_pair_takes_seeds_from_the_base_and_neighbours_from_the_shadows() -> None:
    data, mechanism = planted(), ss.ObjectivePerturbation(1.0)
    base = ss.train(data, mechanism, grid=ss.Grid(seeds=50), records=ss.Records(probes=("test",)), jobs=1)
    shadows = ss.train(
        data, mechanism, grid=ss.Grid(seeds=20, neighbours=5), records=ss.Records(probes=("neighbours",)), jobs=1
    )
    level = audit((base, shadows)).levels[0]
    assert level.multiplicity.models == 50
    assert level.audited_multiplicity is not None
    assert level.audited_multiplicity.models == 20
    assert len(level.audited) == 5


def test_what_is_left_out_is_said() -> None:
    ensemble = ss.train(planted(), ss.ObjectivePerturbation(1.0), grid=ss.Grid(seeds=10), jobs=1)
    reasons = {one["analysis"]: one["reason"] for one in audit(ensemble).as_dict()["left_out"]}
    assert "no models without a person" in reasons["membership"]
    assert "plain SGD" in reasons["intrinsic privacy"]


def test_too_few_models_to_attack_are_mended_by_neighbour_models() -> None:
    few = ss.train(planted(60), ss.ObjectivePerturbation(4.0), grid=ss.Grid(seeds=4, neighbours=2), jobs=1)
    reasons = {one.analysis: one.reason for one in audit(few).levels[0].left_out}
    assert reasons["membership"].startswith("4 re-trainings with and without each person are too few, 8 are needed")
    assert reasons["membership"].endswith("train more neighbour models.")


def test_the_public_report_depends_on_no_data(objective: tuple[ss.Ensemble, ...]) -> None:
    other = ss.train(planted(seed=5), ss.ObjectivePerturbation(0.5), grid=ss.Grid(seeds=30), jobs=1)
    mine, theirs = (audit(one).as_dict(public=True) for one in (objective[0], other))
    for report in (mine, theirs):
        report["provenance"].pop("made")
    assert mine == theirs
    assert "accuracy" not in json.dumps(mine)
    level = mine["levels"][0]
    assert level["trade_off"]["advantage"]["value"] == pytest.approx(np.tanh(level["epsilon"] / 2))
    assert any("if it accuses 0.1 % of outsiders" in sentence for sentence in level["meanings"])


def test_the_report_is_plain_json(objective: tuple[ss.Ensemble, ...]) -> None:
    report = audit(*objective).as_dict()
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert [group["name"] for group in report["groups"]] == ["kind"]


def test_ensembles_of_different_data_or_the_same_level_twice_are_refused(objective: tuple[ss.Ensemble, ...]) -> None:
    other = ss.train(planted(seed=5), ss.ObjectivePerturbation(1.0), grid=ss.Grid(seeds=5), jobs=1)
    with pytest.raises(SeedscopeError, match="same data"):
        audit(objective[0], other)
    with pytest.raises(SeedscopeError, match="there once"):
        audit(objective[0], objective[0])
    with pytest.raises(SeedscopeError, match="at least one"):
        audit()


def test_levels_that_agree_to_four_digits_have_names_that_tell_them_apart() -> None:
    grid, records = ss.Grid(seeds=20), ss.Records(probes=("test",))
    near = [
        ss.train(planted(), ss.ObjectivePerturbation(one), grid=grid, records=records, jobs=1)
        for one in (1.0, 1.0000001)
    ]
    assert [level.label for level in audit(*near).levels] == ["ε = 1", "ε = 1.0000001"]
    with pytest.raises(SeedscopeError, match="each privacy level must be there once"):
        audit(near[0], near[0])
