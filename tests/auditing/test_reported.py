"""Whole audits of every mechanism: the report keeps to its schema, says what was left out, and is the same again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import seedscope as ss
from seedscope.analyses.reconstruction import RecordBounds, record_bounds
from seedscope.auditing.audit import audit
from seedscope.auditing.records import person_places, standardised_error
from seedscope.core.errors import SeedscopeError
from seedscope.datasets import scaling_from
from seedscope.mechanisms import Mechanism, mechanism_from
from seedscope.report import check_report, read_report, render_page
from seedscope.report.schema import schema

MECHANISMS = {
    "sgd": ss.SGD(steps=60, batch_size=16),
    "dpsgd": ss.DPSGD.calibrated(1.0, 1e-4, examples=90, batch_size=20, steps=25, learning_rate=2.0),
    "output": ss.OutputPerturbation(epsilon=4.0, l2=0.05),
    "objective": ss.ObjectivePerturbation(1.0),
}


def bounds_of(data: ss.Dataset, mechanism: Mechanism) -> RecordBounds:
    """Return the bounds as the audit has them."""
    return record_bounds(data, mechanism, regression=mechanism.regression(data, ss.Standardised().fit(data)))


def people(rows: int = 120) -> ss.Dataset:
    """Return people of three groups, one of them a single person, with continuous and categorical features."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, rows)
    features = draw.normal(size=(rows, 3)) + labels[:, None]
    features[:, 2] = draw.integers(0, 2, rows)
    group = draw.choice(["a", "b"], rows).astype("<U9")
    group[-1] = "alone"
    cut = 3 * rows // 4
    parts = features[:cut], labels[:cut], features[cut:], labels[cut:]
    return ss.from_arrays(*parts, groups={"team": group}, name="people")


def trained(name: str, store: Path | None = None) -> ss.Ensemble:
    norms = ss.Norms() if name == "dpsgd" else None
    records = ss.Records(probes=("test", "neighbours"), norms=norms)
    grid = ss.Grid(seeds=24, neighbours=8)
    return ss.train(people(), MECHANISMS[name], grid=grid, records=records, store=store, jobs=1)


@pytest.fixture(scope="module", params=MECHANISMS)
def found(request: pytest.FixtureRequest) -> ss.Audit:
    return audit(trained(request.param), data=people())


def mechanism(found: ss.Audit) -> str:
    return found.levels[0].ensemble.mechanism.name


def test_the_report_keeps_to_the_schema_in_every_detail(found: ss.Audit) -> None:
    from jsonschema import Draft202012Validator

    for public in (False, True):
        report = json.loads(json.dumps(found.as_dict(public), allow_nan=False))
        Draft202012Validator(schema()).validate(report)
        check_report(report)
        assert "<!doctype html>" in render_page(report)


def test_every_analysis_is_there_or_its_absence_explained(found: ss.Audit) -> None:
    level, left_out = found.levels[0], {one.analysis: one.reason for one in found.levels[0].left_out}
    best = "the best possible attack on everybody"  # here no losses were recorded; output perturbation needs none
    expected = {
        "SGD": {"ε of each person", "reconstruction", best},
        "DPSGD": {"intrinsic privacy", best},
        "OutputPerturbation": {"intrinsic privacy", "ε of each person"},
        "ObjectivePerturbation": {"intrinsic privacy", "ε of each person", best},
    }
    assert set(left_out) == expected[mechanism(found)]
    assert all(reason.endswith(".") for reason in left_out.values())
    assert (level.per_instance is None) == ("ε of each person" in left_out)
    assert (level.reconstruction is None) == ("reconstruction" in left_out)


def test_the_single_member_of_a_group_is_named_not_dropped(found: ss.Audit) -> None:
    group = found.as_dict()["groups"][0]
    assert group["levels"] == ["a", "alone", "b"]
    assert group["people"][1] == 1
    assert "alone (1)" in group["note"]
    part = group["by_level"][0]
    assert part["accuracy"][1]["note"] == "of one person"
    assert part["mean_disagreement"][1] is not None
    assert part["difference"]["lower"] <= part["difference"]["value"] <= part["difference"]["upper"]


def test_everybody_trained_on_has_the_reconstruction_bound_and_nobody_else(found: ss.Audit) -> None:
    table = found.individuals
    if mechanism(found) == "SGD":
        assert table["reconstruction"].isna().all()
        return
    if mechanism(found) == "DPSGD":  # without traces all have the same bound: it is said once
        assert table["reconstruction"].isna().all()
        told = found.as_dict()["levels"][0]["reconstruction"]
        assert told["everybody"]["value"] > 0
        assert told["left_smallest"] is None
        assert 0 < told["left_everybody"]["value"] < 1  # the Bayes form beside the unbiased bound
        assert "needs smooth clipping" in told["note"]
        return
    assert (table["reconstruction"].notna() == (table["part"] == "train")).all()
    assert (table["uncertainty_left"].notna() == (table["part"] == "train")).all()
    trained = table[table["part"] == "train"]
    assert ((trained["uncertainty_left"] > 0) & (trained["uncertainty_left"] <= 1)).all()
    assert (trained["uncertainty_left_lower"] <= trained["uncertainty_left_upper"]).all()
    assert trained["rank_uncertainty_left"].min() >= 1
    assert (table["reconstruction"].dropna() > 0).all()
    alike = table["reconstruction"].nunique() == 1
    assert not alike  # each their own
    assert table["rank_reconstruction"].isna().all() == alike


def test_ranks_start_with_the_most_exposed(found: ss.Audit) -> None:
    table = found.individuals
    if table["membership_advantage"].nunique() > 1:
        first = table["rank_membership"].idxmin()
        assert table["membership_advantage"][first] == table["membership_advantage"].max()
    else:
        assert table["rank_membership"].isna().all()
    if mechanism(found) == "OutputPerturbation":
        assert table["reconstruction"][table["rank_reconstruction"].idxmin()] == table["reconstruction"].min()


def test_the_attack_stays_below_the_limit_that_the_report_draws(found: ss.Audit) -> None:
    curve = found.as_dict()["levels"][0]["roc"]
    if mechanism(found) == "SGD":
        assert "true_positive_limit" not in curve
        return
    rates, limits = np.array(curve["false_positive_rate"]), np.array(curve["true_positive_limit"])
    assert np.all(limits >= rates - 1e-6)
    assert np.all(np.diff(limits) >= -1e-6)


def test_a_guarantee_says_what_it_means(found: ss.Audit) -> None:
    meaning = found.as_dict()["levels"][0]["guarantee"]["meaning"]
    if mechanism(found) == "SGD":
        assert meaning.startswith("Nothing limits")
    else:
        assert "times as probable" in meaning or "times what it is without them, plus" in meaning
        assert ("plus" in meaning) == (mechanism(found) != "ObjectivePerturbation")


def test_a_mechanism_is_found_again_in_its_description(found: ss.Audit) -> None:
    ensemble = found.levels[0].ensemble
    described = ensemble.description.described_mechanism
    assert json.loads(json.dumps(mechanism_from(described).describe())) == described
    assert ensemble.mechanism in MECHANISMS.values()


def test_an_audit_of_a_stored_ensemble_is_the_audit_of_it_in_memory(tmp_path: Path) -> None:
    in_memory = audit(trained("dpsgd", tmp_path / "run"), data=people()).as_dict()
    from_folder = audit(tmp_path / "run", data=people()).as_dict()
    opened = audit(ss.Ensemble.open(tmp_path / "run"), data=people()).as_dict()
    for report in (in_memory, from_folder, opened):
        report["provenance"].pop("made")
    assert in_memory == from_folder == opened


def test_what_was_saved_is_read_and_rendered_again_without_training(tmp_path: Path) -> None:
    from seedscope.report.folder import write_page

    saved = audit(trained("objective"), data=people())
    page, *_ = saved.save(tmp_path / "report")
    before = page.read_text()
    page.unlink()
    write_page(tmp_path / "report")
    assert page.read_text() == before
    assert read_report(tmp_path / "report")["verdict"]["headline"] == saved.verdict.headline


def test_places_of_rows_on_the_person_axis_are_those_of_the_ensemble() -> None:
    data = people()
    ensemble = ss.train(
        data, ss.ObjectivePerturbation(1.0), grid=ss.Grid(seeds=2), records=ss.Records(probes=("train",)), jobs=1
    )
    np.testing.assert_array_equal(person_places(data), ensemble.dataset["example_person"].values)


def test_reconstruction_errors_do_not_depend_on_the_features_units() -> None:
    draw = np.random.default_rng(0)
    features, labels = draw.normal(size=(80, 2)), draw.integers(0, 2, 80)
    metres, millimetres = (
        standardised_error(bounds_of(ss.from_arrays(features * unit, labels), mechanism))
        for unit, mechanism in zip((1.0, 1000.0), 2 * [MECHANISMS["output"]], strict=True)
    )
    np.testing.assert_allclose(metres, millimetres, rtol=1e-6)
    learned = bounds_of(ss.from_arrays(features, labels), MECHANISMS["output"])
    np.testing.assert_allclose(metres, learned.error_lower)


def test_the_scaling_that_was_trained_with_is_the_one_of_the_bound() -> None:
    for scaling in (ss.Standardised(), ss.Standardised(2.5), ss.Unscaled()):
        assert scaling_from(repr(scaling)) == scaling == scaling_from(scaling.describe())
    with pytest.raises(SeedscopeError, match="Mine is not known here"):
        scaling_from("Mine()")
    grid = ss.Grid(seeds=4)
    wider = ss.train(people(), MECHANISMS["output"], grid=grid, scaling=ss.Standardised(3.0), jobs=1)
    default = ss.train(people(), MECHANISMS["output"], grid=grid, jobs=1)
    found = [audit(one, data=people()).levels[0].reconstruction for one in (wider, default)]
    assert found[0] is not None
    assert found[1] is not None
    assert not np.allclose(found[0].error_lower, found[1].error_lower)


def test_other_data_than_the_models_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="data must be what the ensembles were trained on"):
        audit(trained("objective"), data=ss.load("breast-cancer"))
