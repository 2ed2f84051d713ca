"""Errors in the features' own units: they scale with the units, agree with the bounds, and reach every file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest

import seedscope as ss
from seedscope.analyses.reconstruction import RecordBounds, record_bounds
from seedscope.auditing.own_units import SHOWN_FEATURES, errors_by_trace, own_units
from seedscope.report import write_sheet

YEARS = 12.0  # one unit of the first column is this many of its own
SMOOTH = ss.DPSGD(0.1, batch_size=20, steps=4, noise_multiplier=2.0, clipping=ss.SmoothClipping())
PLAIN = ss.DPSGD(0.1, batch_size=20, steps=4, noise_multiplier=2.0)


def people(years: float = YEARS) -> ss.Dataset:
    """Rows with an age and a length."""
    draw = np.random.default_rng(0)
    features = draw.normal(size=(80, 2)) * [years, 1.0]
    labels = (features[:, 0] / years + draw.normal(size=80) > 0).astype(int)
    parts = features[:60], labels[:60], features[60:], labels[60:]
    return ss.from_arrays(*parts, feature_names=("age", "length"), name="people")


def audited(mechanism: Any, data: ss.Dataset) -> ss.Audit:
    """An audit of 24 models, Fisher traces recorded where clipping is smooth."""
    traced: Literal["train"] | None = "train" if mechanism is SMOOTH else None
    records = ss.Records(probes=("test", "train"), fisher_traces=traced)
    ensemble = ss.train(data, mechanism, grid=ss.Grid(seeds=24), records=records, jobs=1)
    return ss.audit(ensemble, data=data)


@pytest.fixture(scope="module")
def objective() -> ss.Audit:
    return audited(ss.ObjectivePerturbation(2.0), people())


def errors_of(found: ss.Audit) -> dict[str, Any]:
    """What the JSON says in own units."""
    units: dict[str, Any] = found.as_dict()["levels"][0]["reconstruction"]["own_units"]
    return units


def test_the_most_exposed_persons_errors_are_those_of_the_record_bounds(objective: ss.Audit) -> None:
    level, data, units = objective.levels[0], people(), errors_of(objective)
    weights = level.ensemble.dataset["weights"].sel(neighbour=-1).isel(init=0, step=-1).values
    bounds = record_bounds(data, level.ensemble.mechanism, level.ensemble.scaling, released=weights)
    assert bounds.left is not None
    assert bounds.personal_error is not None
    exposed = int(np.argmin(bounds.left[0]))
    assert units["person"] == str(bounds.ids[exposed])
    assert [one["feature"] for one in units["features"]] == ["age", "length"]
    said = [one["error"] for one in units["features"]]
    np.testing.assert_allclose(said, bounds.personal_error[exposed], rtol=1e-5)
    np.testing.assert_allclose([one["spread"] for one in units["features"]], bounds.spreads, rtol=1e-5)


@pytest.mark.parametrize("mechanism", [SMOOTH, PLAIN, ss.OutputPerturbation(noise_scale=0.1)], ids=lambda one: one.name)
def test_errors_are_measured_in_the_columns_own_units(mechanism: Any) -> None:
    ours, months = (errors_of(audited(mechanism, people(years))) for years in (YEARS, 12 * YEARS))
    near = 0.15 if mechanism is SMOOTH else 1e-3  # other data, other draws of what is recorded
    assert (ours["person"] is None) == (mechanism is PLAIN)  # without traces all are alike
    for feature, ratio in (("age", 12.0), ("length", 1.0)):
        one, other = (next(row for row in found["features"] if row["feature"] == feature) for found in (ours, months))
        assert other["error"] / one["error"] == pytest.approx(ratio, rel=near)
        assert other["spread"] / one["spread"] == pytest.approx(ratio, rel=1e-3)


def test_a_trace_bounds_every_features_information() -> None:
    """Of information 3 and 1 about two features only the sum 4 is known: ±½ is below ±1/√3 and ±1."""
    bounds = RecordBounds(
        np.array(["a"]), ("x", "y"), np.full((1, 2), 0.1), np.ones(2), np.ones(2), "proved", steps=np.zeros(2)
    )
    np.testing.assert_allclose(errors_by_trace(bounds, np.array([4.0]), np.array([1.0, 10.0])), [[0.5, 5.0]])
    np.testing.assert_allclose(errors_by_trace(bounds, np.array([1e6]), np.ones(2)), [[0.1, 0.1]])  # everybody's


def test_of_many_features_those_are_kept_of_which_most_can_be_known() -> None:
    count = SHOWN_FEATURES + 5
    names, spreads = tuple(f"f{j}" for j in range(count)), np.ones(count)
    spreads[3] = 0.0  # never varies: nothing to guess
    errors = np.linspace(2.0, 1.0, count)[None]
    bounds = RecordBounds(np.array(["a"]), names, errors, spreads, np.ones(count), "proved")
    kept = own_units(bounds, errors, np.zeros(1, int), np.array([0.5]), "proved")
    assert kept.features == names[5:]
    np.testing.assert_array_equal(kept.errors, errors[:, 5:])


def test_page_table_and_sheet_have_the_same_numbers(objective: ss.Audit, tmp_path: Path) -> None:
    objective.save(tmp_path)
    units = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["levels"][0]["reconstruction"][
        "own_units"
    ]
    table = pd.read_csv(tmp_path / "individuals.csv", dtype={"id": str})
    own = table[table["id"] == units["person"]].iloc[0]
    assert (table["off_by_age"].notna() == (table["part"] == "train")).all()
    age = next(one["error"] for one in units["features"] if one["feature"] == "age")
    assert own["off_by_age"] == pytest.approx(age, rel=1e-5)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"±{age:.3g}" in page[page.index('id="own-units"') :].split("</details>")[0]
    assert f"±{age:.3g}" in write_sheet(tmp_path, units["person"]).read_text(encoding="utf-8")
    meanings = pd.read_csv(tmp_path / "dictionary.csv").set_index("column")
    assert meanings.loc["off_by_age", "kind"] == "estimate"
    assert "own units" in meanings.loc["off_by_age", "meaning"]


def test_a_public_page_says_nothing_of_it(objective: ss.Audit, tmp_path: Path) -> None:
    objective.save(tmp_path, public=True)
    assert "own-units" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "own_units" not in (tmp_path / "report.json").read_text(encoding="utf-8")
