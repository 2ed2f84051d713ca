"""The reconstruction study: its pictures are what they show, its numbers agree with the paper's where they can."""

import base64
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seedscope as ss
from seedscope.analyses import reconstruction as rc
from seedscope.core import SeedscopeError, data_uri
from seedscope.models.convolutional import CNN, StridedLayer
from seedscope.reproduce import reconstruction as study
from seedscope.reproduce.comparison import Study
from seedscope.reproduce.reconstruction import networks
from seedscope.reproduce.reconstruction.network_figures import frontier, sample_chart
from seedscope.reproduce.reconstruction.pictures import picture_rows
from tests.helpers.small_data import images

WAYS = ("as printed", "corrected")


def decoded(uri: str) -> np.ndarray:
    """The pixels of a PNG without filters."""
    content = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    width, height, depth, kind = struct.unpack(">IIBB", content[16:26])
    start = content.index(b"IDAT") + 4
    lines = np.frombuffer(zlib.decompress(content[start : content.index(b"IEND") - 8]), np.uint8)
    assert depth == 8
    return lines.reshape(height, -1)[:, 1:].reshape(height, width, {0: 1, 2: 3}[kind])


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_holds_the_images_pixels(channels: int) -> None:
    image = np.random.default_rng(0).uniform(-0.2, 1.2, size=(5, 7, channels))
    np.testing.assert_array_equal(decoded(data_uri(image)), np.rint(255 * image.clip(0, 1)))


def test_pictures_become_a_drawing(tmp_path: Path) -> None:
    rows = [np.zeros((2, 4, 4, 1)), np.ones((2, 4, 4, 1))]
    picture_rows(rows, [["a", "b"], ["c", "d"]], ["black", "white"]).save(str(tmp_path / "rows.svg"))
    drawn = (tmp_path / "rows.svg").read_text(encoding="utf-8")
    assert drawn.count("<image ") == 4
    assert "white" in drawn


def test_the_texts_examples_are_the_papers() -> None:
    error, years, narrow = study.text_examples()
    assert error.ours == pytest.approx(391.3, abs=0.05)
    assert error.paper == 391
    assert int(years.ours) == years.paper == 19
    assert narrow.ours == pytest.approx(0.25, rel=1e-3)
    assert narrow.paper == 0.25


def test_the_gallery_shows_records_above_their_reconstructions(tmp_path: Path) -> None:
    found = study.run("small", ["digits"], tmp_path, None, True)
    assert list(found.charts) == ["gallery-digits"]
    found.charts["gallery-digits"].save(str(tmp_path / "gallery.svg"))
    drawn = (tmp_path / "gallery.svg").read_text(encoding="utf-8")
    assert drawn.count("<image ") == 12 * 5
    errors = [
        float(one["caption"].split()[1]) for one in _values(found.charts["gallery-digits"]) if "error" in one["caption"]
    ]
    most, least = np.reshape(errors, (4, 2, 6)).mean(axis=2).T
    assert np.all(most[:3] < least[:3] / 100)  # the exposed are reconstructed better, until noise drowns everybody
    assert np.all(np.diff(most) > 0)


def _values(chart: Any) -> list[dict[str, Any]]:
    """The rows of a chart's data."""
    rows: list[dict[str, Any]] = next(iter(chart.to_dict()["datasets"].values()))
    return rows


def test_another_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SeedscopeError, match="unknown data set of this study"):
        study.run("small", ["adult"], tmp_path, None, True)


@pytest.mark.paper_data
def test_figures_of_the_logistic_regression(tmp_path: Path) -> None:
    part = study.study_linear(500)
    for one in part.comparisons:
        if one.paper is not None and "corrected" not in one.quantity and "error bound" not in one.quantity:
            assert one.ours == pytest.approx(one.paper, rel=2e-3, abs=1e-9), one.quantity
    found = {one.quantity: one.ours for one in part.comparisons if one.place == "BR Figure 2"}
    assert found["median bound by the spectral norm"] < found["median dFIL bound"]  # d/Tr I ≥ 1/‖I‖
    written = {path.name for path in Study("reconstruction", "small", part.comparisons, part.charts).save(tmp_path)}
    assert {"figure-2-bounds.svg", "figure-3-attack.svg", "figure-4-reconstructions.svg"} <= written


@pytest.mark.slow
def test_networks_train_once_and_draw_their_trade_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny sweep on small images instead of MNIST; the second time everything is in the stores."""
    model = CNN((StridedLayer(2, 4, "same", 2, stride=2),), activation="tanh", pool="average")
    monkeypatch.setattr(ss, "load", lambda name: images(40, 9), raising=False)
    sweep = networks.Sweep("mnist", 30, 4, 6, (2, 4), (5.0,), (2.0,), (0.1,), 2, lambda: model)
    monkeypatch.setitem(networks.SWEEPS, ("mnist", "small"), sweep)
    part = study.study_trade_off("mnist", "small", tmp_path, 1, True)
    assert len(part.comparisons) == 8 + 2 * 11
    again = study.study_trade_off("mnist", "small", tmp_path, 1, True)
    assert [one.ours for one in again.comparisons] == pytest.approx([one.ours for one in part.comparisons], nan_ok=True)
    bounds = {one.quantity: one.ours for one in part.comparisons if one.setting.startswith("σ=5, C=2, ρ=0.1, T=4")}
    assert bounds["error bound: RDP, corrected"] < bounds["error bound: RDP, as printed"]
    kappas = rc.amplification_estimate(5.0, 0.2, 1e-5, "subset", classical=True), rc.amplification_exact(0.2, 5.0)
    for record in ("worst", "median"):
        printed, corrected = (bounds[f"error bound: dFIL of the {record} record, {one}"] for one in WAYS)
        assert printed * 4 * kappas[0] == pytest.approx(corrected * kappas[1])  # 1/σ² as printed, 1/(σC)² corrected
        coded = bounds[f"error bound: dFIL of the {record} record, authors' code"]
        code = rc.amplification_estimate(5.0, 0.2, 1e-9, "subset", classical=True)
        assert coded * code == pytest.approx(corrected * kappas[1])  # the same division by C, another κ
    part.charts["figure-5-trade-off-mnist"].save(str(tmp_path / "five.svg"))
    last = list(networks.network_outcomes(sweep, tmp_path, 1, True))[-1]
    sample_chart(last, sweep).save(str(tmp_path / "six.svg"))
    assert (tmp_path / "six.svg").read_text(encoding="utf-8").count("<image ") == 16


def test_the_grids_at_the_papers_scale_are_its_tables() -> None:
    settings = {name: networks.SWEEPS[name, "paper"] for name in ("mnist", "cifar10-small")}
    assert {name: len(sweep.settings) * len(sweep.checkpoints) for name, sweep in settings.items()} == {
        "mnist": 6 * 6 * 3 * 4,
        "cifar10-small": 5 * 8 * 3 * 5,
    }
    for scale in ("small", "medium"):  # Figure 6's setting is trained with the panel
        panel, shown = networks.SWEEPS["cifar10-small", scale], networks.SAMPLED[scale]
        assert len(shown.settings) == 1
        assert set(shown.settings) <= set(panel.settings)
        assert shown.checkpoints == panel.checkpoints
    drawn = networks.SAMPLED["paper"]
    assert (drawn.checkpoints, drawn.settings) == ((5000,), [(0.5, 1.0, 0.1)])  # the text below Figure 6


def test_the_papers_two_panels_are_not_taken_for_each_other() -> None:
    quantity = "best accuracy % with a bound of at least 1: RDP, as printed"
    published = {data: study.PUBLISHED["BR Figure 5", data, "grid", quantity] for data in ("mnist", "cifar10-small")}
    assert published == {"mnist": 95, "cifar10-small": 55}


def test_the_best_trade_offs_are_those_that_nothing_beats() -> None:
    rows = [{"accuracy": a, "bound": b} for a, b in [(1, 5), (2, 4), (2, 3), (3, 4), (4, 1)]]
    assert [(row["accuracy"], row["bound"]) for row in frontier(rows)] == [(1, 5), (3, 4), (4, 1)]
