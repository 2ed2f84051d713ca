"""Images on the page: who is shown, that guesses are the attack's, and that no public page has them."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seedscope as ss
from seedscope.auditing.pictures import GUESSED, NOT_GUESSED, SHOWN
from seedscope.datasets import image_shape


def audited(*mechanisms: Any, data: ss.Dataset, **options: Any) -> ss.Audit:
    """An audit of a level for each mechanism."""
    records = ss.Records(probes=("test",), **options)
    ensembles = [ss.train(data, one, grid=ss.Grid(seeds=24), records=records, jobs=1) for one in mechanisms]
    return ss.audit(*ensembles, data=data)


@pytest.fixture(scope="module")
def by_output() -> ss.Audit:
    return audited(*(ss.OutputPerturbation(noise_scale=one) for one in (1e-6, 0.1)), data=ss.load("digits-binary"))


def pixels(address: str, shape: tuple[int, int]) -> np.ndarray:
    """The pixels of a grey PNG as `data_uri` writes it."""
    content = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    start = content.index(b"IDAT") + 4
    lines = np.frombuffer(zlib.decompress(content[start : content.index(b"IEND") - 8]), np.uint8)
    return lines.reshape(shape[0], shape[1] + 1)[:, 1:] / 255


def test_rows_are_images_by_their_axes_or_their_features_names() -> None:
    draw = np.random.default_rng(0)
    images = draw.random((20, 3, 4, 1))
    assert image_shape(ss.from_arrays(images, np.arange(20) % 2)) == (3, 4, 1)
    assert image_shape(ss.load("digits")) == (8, 8, 1)
    names = ss.load("digits").feature_names
    for some in (names[:-1], names[::-1], [f"x{k}" for k in range(64)]):
        assert image_shape(ss.from_arrays(draw.random((20, len(some))), np.arange(20) % 2, feature_names=some)) is None


def test_the_most_and_the_least_exposed_are_shown_and_little_noise_gives_them_away(by_output: ss.Audit) -> None:
    data, found = ss.load("digits-binary"), by_output.as_dict()["images"]
    left = by_output.levels[0].reconstruction.left[0]  # type: ignore[union-attr, index]
    order = np.argsort(left, kind="stable")
    expected = [str(data.base.ids[k]) for k in np.append(order[:SHOWN], order[-SHOWN:])]
    assert [one["person"] for one in found["people"]] == expected
    rows = dict(zip(map(str, data.base.ids), data.base.features, strict=True))
    for name, address in zip(expected, found["records"], strict=True):
        np.testing.assert_allclose(pixels(address, (8, 8)).ravel(), rows[name], atol=0.003)
    clear, drowned = found["guesses"]
    assert [one["label"] for one in found["guesses"]] == [level.label for level in by_output.levels]
    assert max(clear["errors"][:SHOWN]) < 1e-3 < 0.02 < min(drowned["errors"][:SHOWN])
    for name, address, error in zip(expected, clear["pictures"], clear["errors"], strict=True):
        assert ((pixels(address, (8, 8)).ravel() - rows[name]) ** 2).mean() == pytest.approx(error, abs=1e-4)
    assert found["note"] == GUESSED


def test_the_page_has_the_pictures_and_the_public_one_has_none(by_output: ss.Audit, tmp_path: Path) -> None:
    by_output.save(tmp_path / "all")
    page = (tmp_path / "all" / "report.html").read_text(encoding="utf-8")
    assert page.count('<img src="data:image/png') == 2 * SHOWN * 3
    by_output.save(tmp_path / "public", public=True)
    assert all(b"data:image/png" not in file.read_bytes() for file in (tmp_path / "public").iterdir() if file.is_file())


def test_objective_perturbation_is_attacked_through_its_tilt() -> None:
    found = audited(ss.ObjectivePerturbation(1e6), data=ss.load("digits-binary")).as_dict()["images"]
    assert max(found["guesses"][0]["errors"][:SHOWN]) < 1e-3  # hardly any tilt: the record itself


def test_networks_have_no_guesses_but_say_who_is_exposed() -> None:
    draw = np.random.default_rng(0)
    data = ss.from_arrays(draw.random((40, 4, 4, 1)), np.arange(40) % 2)
    steps = ss.DPSGD(0.1, batch_size=10, steps=3, noise_multiplier=2.0, clipping=ss.SmoothClipping())
    found = audited(steps, data=data, fisher_traces="train").as_dict()["images"]
    assert found["guesses"] == []
    assert found["note"] == NOT_GUESSED
    assert len(found["records"]) == 2 * SHOWN


def test_tables_have_no_pictures() -> None:
    assert "images" not in audited(ss.OutputPerturbation(noise_scale=0.1), data=ss.load("synthetic")).as_dict()
