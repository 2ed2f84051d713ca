"""Stores of older versions, which wrote a mechanism's and a scaling's numbers as they were given, serve as before."""

import json
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from seedscope import DPSGD, SGD, Ensemble, Grid, ObjectivePerturbation, Standardised, train
from seedscope.core import SeedscopeError, SeedscopeWarning
from seedscope.planning import fingerprint_of
from tests.helpers.small_data import table
from tests.helpers.stores import bits

GRID = Grid(seeds=4, neighbours=2)
DP: dict[str, Any] = {"batch_size": 8, "steps": 4, "noise_multiplier": 1.0}

# What is asked for now, and the texts that the older version wrote instead of today's.
OLDER: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "ObjectivePerturbation(1)": ({"mechanism": ObjectivePerturbation(1)}, {'"epsilon": 1.0': '"epsilon": 1'}),
    "learning_rate=4": (
        {"mechanism": SGD(learning_rate=4, batch_size=8, steps=4)},
        {'"learning_rate": 4.0': '"learning_rate": 4'},
    ),
    "clipping_norm=1": (
        {"mechanism": DPSGD(learning_rate=0.5, clipping_norm=1, **DP)},
        {'"clipping_norm": 1.0': '"clipping_norm": 1'},
    ),
    "Standardised(2)": (
        {"mechanism": ObjectivePerturbation(1.0), "scaling": Standardised(2)},
        {"(norm_bound=2.0)": "(norm_bound=2)", '"norm_bound": 2.0': '"norm_bound": 2'},
    ),
    "Standardised(np.float64(2))": (
        {"mechanism": ObjectivePerturbation(1.0), "scaling": Standardised(np.float64(2))},
        {"(norm_bound=2.0)": "(norm_bound=np.float64(2.0))"},
    ),
}


def older(store: Path, texts: dict[str, str]) -> Path:
    """Return the store after it was made what an older version would have written: plan, markers and description."""
    plan = json.loads((store / "plan.json").read_text())
    del plan["signed"]
    (store / "layout.json").unlink()
    plan["identity"] = json.loads(replaced(json.dumps(plan["identity"]), texts))
    plan["fingerprint"] = fingerprint_of(plan["identity"])
    (store / "plan.json").write_text(json.dumps(plan))
    for marker in (store / "done").iterdir():
        marker.write_text(json.dumps(json.loads(marker.read_text()) | {"plan": plan["fingerprint"]}))
    group = zarr.open_group(store / "models.zarr", mode="r+", use_consolidated=False)
    written = json.loads(str(group.attrs["description"]))
    written["preprocessing"]["scaling"] = plan["identity"]["scaling"]  # it was a text there too
    text = replaced(json.dumps(written), texts)
    known = json.loads(str(group.attrs["checksums"])) | {"description": zlib.crc32(text.encode())}
    group.attrs.update({"description": text, "checksums": json.dumps(known)})
    zarr.consolidate_metadata(str(store / "models.zarr"))
    return store


def replaced(text: str, texts: dict[str, str]) -> str:
    """Return a text with others in it replaced."""
    for now, then in texts.items():
        text = text.replace(now, then)
    return text


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
@pytest.mark.parametrize("name", OLDER)
def test_an_older_store_opens_and_goes_on_without_training_anything_again(tmp_path: Path, name: str) -> None:
    choices, texts = OLDER[name]
    call = choices | {"grid": GRID, "store": tmp_path / "store"}
    now = bits(train(table(), **call))
    today = (tmp_path / "store" / "plan.json").read_text()
    older(tmp_path / "store", texts)
    assert json.loads((tmp_path / "store" / "plan.json").read_text()) != json.loads(today)
    with pytest.warns(SeedscopeWarning, match="made by an older version, which did not sign its metadata"):
        opened = Ensemble.open(tmp_path / "store")
    assert opened.mechanism == choices["mechanism"]
    assert opened.scaling == choices.get("scaling", Standardised())
    assert bits(opened) == now
    seen = []
    assert bits(train(table(), progress=lambda *models: seen.append(models), **call)) == now
    assert seen == [(12, 12)]  # all were there
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeedscopeWarning)  # it is signed now
        assert bits(Ensemble.open(tmp_path / "store")) == now
    more = train(table(), **(call | {"grid": Grid(seeds=6, neighbours=2)}))
    assert more.dataset.sizes["seed"] == 6


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
def test_another_number_in_an_older_store_is_another_plan(tmp_path: Path) -> None:
    choices, texts = OLDER["Standardised(np.float64(2))"]
    call = choices | {"grid": GRID, "store": tmp_path / "store"}
    train(table(), **call)
    older(tmp_path / "store", texts)
    with pytest.raises(SeedscopeError, match=r"scaling is Standardised\(norm_bound=2.0\), not .*norm_bound=3.0"):
        train(table(), **(call | {"scaling": Standardised(3)}))
