"""The reconstruction study: its pictures are what they show, its numbers agree with the paper's where they can."""

import base64
import struct
import zlib

import numpy as np
import pytest

from seedscope.errors import SeedscopeError
from seedscope.reproduce import reconstruction as study
from seedscope.reproduce.reconstruction.pictures import data_uri, picture_rows


def decoded(uri):
    """The pixels of a PNG without filters."""
    content = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    width, height, depth, kind = struct.unpack(">IIBB", content[16:26])
    start = content.index(b"IDAT") + 4
    lines = np.frombuffer(zlib.decompress(content[start : content.index(b"IEND") - 8]), np.uint8)
    assert depth == 8
    return lines.reshape(height, -1)[:, 1:].reshape(height, width, {0: 1, 2: 3}[kind])


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_holds_the_images_pixels(channels):
    image = np.random.default_rng(0).uniform(-0.2, 1.2, size=(5, 7, channels))
    np.testing.assert_array_equal(decoded(data_uri(image)), np.rint(255 * image.clip(0, 1)))


def test_pictures_become_a_drawing(tmp_path):
    rows = [np.zeros((2, 4, 4, 1)), np.ones((2, 4, 4, 1))]
    picture_rows(rows, [["a", "b"], ["c", "d"]], ["black", "white"]).save(str(tmp_path / "rows.svg"))
    drawn = (tmp_path / "rows.svg").read_text(encoding="utf-8")
    assert drawn.count("<image ") == 4
    assert "white" in drawn


def test_another_data_set_is_refused(tmp_path):
    with pytest.raises(SeedscopeError, match="unknown data set of this study"):
        study.run("small", ["adult"], tmp_path, None, True)


@pytest.mark.paper_data
def test_figures_of_the_logistic_regression(tmp_path, monkeypatch):
    monkeypatch.setitem(study.TRIALS, "small", 500)
    done = study.run("small", ["mnist"], tmp_path, None, True)
    for one in done.comparisons:
        if one.paper is not None and "corrected" not in one.quantity and "error bound" not in one.quantity:
            assert one.ours == pytest.approx(one.paper, rel=2e-3, abs=1e-9), one.quantity
    written = {path.name for path in done.save(tmp_path)}
    assert {"figure-2-bounds.svg", "figure-3-attack.svg", "figure-4-reconstructions.svg"} <= written
