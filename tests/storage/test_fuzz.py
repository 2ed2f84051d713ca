"""Whatever is in a store, a table or a report: a right answer or one clear error, in time, and no stray files."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from seedscope import Ensemble, Grid, ObjectivePerturbation, read_table, train
from seedscope.core.errors import SeedscopeError
from seedscope.execution.run import train_into
from seedscope.planning.chunks import ChunkShape
from seedscope.planning.plan import make_plan
from seedscope.report.folder import write_page
from seedscope.report.schema import JSON_NAME, read_report, report_json
from seedscope.storage.folder import open_store
from tests.helpers.report_sample import sample_report
from tests.helpers.small_data import table

pytestmark = pytest.mark.optimised  # it is about bits

MECHANISM, GRID = ObjectivePerturbation(epsilon=1.0), Grid(seeds=3, neighbours=1)
QUICK = {"store": 20, "resume": 8, "table": 60, "report": 30}
MANY = {"store": 700, "resume": 150, "table": 7700, "report": 1500}  # 10,050 in all
PHASES = [Phase.explicit, Phase.generate, Phase.shrink]


def cases(kind: str) -> list[object]:
    """Return a few cases for every run and many for the slow one."""
    return [pytest.param(QUICK[kind], id="few"), pytest.param(MANY[kind], id="many", marks=pytest.mark.slow)]


def fuzz(check: Callable[..., None], count: int, **inputs: st.SearchStrategy[object]) -> None:
    """Run a check on many inputs; five seconds for one of them are too many."""
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
    limits = settings(max_examples=count, deadline=30_000, suppress_health_check=quiet, database=None, phases=PHASES)
    limits(given(**inputs)(check))()


Answer = TypeVar("Answer")


def answered(read: Callable[[], Answer]) -> Answer | None:
    """Return what reading gives, or None where it is refused in one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except SeedscopeError as error:
        said = str(error)
    assert said
    listed = said.startswith("the table has ")  # all its problems at once, a line each
    assert listed or "\n" not in said
    return None


KINDS = ["flip", "cut", "insert", "digit", "swap", "zero", "noise", "empty", "gone", "repeat"]
DAMAGES = st.tuples(st.sampled_from(KINDS), st.floats(0, 1), st.integers(0, 255))  # how, where, and a number to do it


def damaged(content: bytes, kind: str, place: float, number: int) -> bytes:
    """Return content after one accident."""
    at = min(int(place * len(content)), max(0, len(content) - 1))
    after = content[at + 1 :]
    if not content or kind == "empty":
        return b""
    if kind == "flip":
        return content[:at] + bytes([content[at] ^ (1 << number % 8)]) + after
    if kind == "cut":
        return content[:at]
    if kind == "insert":
        return content[:at] + bytes([number]) + content[at:]
    if kind == "digit":
        digits = [k for k, one in enumerate(content) if 48 <= one <= 57]
        at = digits[int(place * (len(digits) - 1))] if digits else at
        return content[:at] + bytes([48 + number % 10]) + content[at + 1 :]
    if kind == "swap":
        return content[at:] + content[:at]
    if kind == "repeat":
        return content + content[at:]
    return bytes(len(content)) if kind == "zero" else os.urandom(len(content))


class Folder:
    """A folder that can be made again what it was: faster than a copy for each case."""

    def __init__(self, path: Path) -> None:
        self.path, self.good = path, files_of(path)

    def restore(self) -> None:
        """Write what is damaged or gone, and remove what is new."""
        found = files_of(self.path)
        for file in found.keys() - self.good.keys():
            file.unlink()
        for file, content in self.good.items():
            if found.get(file) != content:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)


def files_of(path: Path) -> dict[Path, bytes]:
    """Return the bytes of every file in a folder."""
    return {file: file.read_bytes() for folder, _, names in os.walk(path) for file in map(Path(folder).joinpath, names)}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A filled store, with all that it says."""
    plan = make_plan(table(), MECHANISM, grid=GRID, chunk=ChunkShape(2, 1))
    path = tmp_path_factory.mktemp("stores") / "store"
    whole = Ensemble(train_into(open_store(path, plan), plan, 1), path)
    return path, contents(whole)


@pytest.fixture
def store(filled: tuple[Path, Any], tmp_path: Path) -> tuple[Folder, Any]:
    """A copy to damage, with all that it said before."""
    return Folder(shutil.copytree(filled[0], tmp_path / "store")), filled[1]


def contents(ensemble: Ensemble) -> dict[str, object]:
    """Return everything that an ensemble says."""
    said = {str(name): one.values.tolist() for name, one in ensemble.dataset.variables.items()}
    plain: dict[str, object] = json.loads(json.dumps(said))
    return plain | {"description": ensemble.description}


accidents = st.lists(st.tuples(st.floats(0, 1), DAMAGES, st.floats(0, 1)), min_size=1, max_size=3)


def wreck(files: list[Path], accidents: list[tuple[float, tuple[str, float, int], float]]) -> None:
    """Damage some files, or exchange them."""
    for which, (kind, place, number), other in accidents:
        file = files[int(which * (len(files) - 1))]
        if kind == "gone":
            file.unlink(missing_ok=True)
        elif kind == "swap" and number % 2:
            source = files[int(other * (len(files) - 1))]
            if source.exists() and source != file:
                shutil.copy(source, file)
        elif file.exists():
            file.write_bytes(damaged(file.read_bytes(), kind, place, number))


def fuzz_store(store: tuple[Folder, object], count: int, read: Callable[[Path], Ensemble]) -> None:
    """Check that a damaged store is read right or refused, and that nothing is left beside it."""
    folder, truth = store
    files = sorted(folder.good)

    def check(accidents: Any) -> None:
        folder.restore()
        wreck(files, accidents)
        found = answered(lambda: contents(read(folder.path)))
        assert found is None or found == truth
        assert os.listdir(folder.path.parent) == ["store"]

    fuzz(check, count, accidents=accidents)


@pytest.mark.parametrize("count", cases("store"))
def test_a_damaged_store_is_read_right_or_refused(store: tuple[Folder, Any], count: int) -> None:
    fuzz_store(store, count, Ensemble.open)


@pytest.mark.parametrize("count", cases("resume"))
def test_a_damaged_store_is_mended_or_refused_by_training(
    store: tuple[Folder, Any], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # only a power cut would tell
    fuzz_store(store, count, lambda path: train(table(), MECHANISM, grid=GRID, store=path, jobs=1))


cells = st.one_of(
    st.sampled_from(
        ["", "1", "2.5", "-3e8", "NaN", "inf", "1e999", "true", "no", "a", "ü", '"', "=1+1", "0x1f", " ", "١"]
    ),
    st.text(max_size=8),
    st.integers().map(str),
    st.floats().map(str),
)
tables = st.lists(st.lists(cells, min_size=1, max_size=5), min_size=1, max_size=30)
names = st.sampled_from(["a", "b", "c", "y", "0", "", "ü"])


def as_csv(rows: list[list[str]], header: list[str]) -> bytes:
    """Return rows below a header as a table, quoted or not as they come."""
    return "\n".join(",".join(row) for row in (header, *rows)).encode("utf-8", "surrogatepass")


GOOD_TABLE = as_csv([[str(k % 7), "uvw"[k % 3], str(k % 2)] for k in range(40)], ["a", "b", "y"])
table_contents = st.one_of(
    st.builds(as_csv, tables, st.just(["a", "b", "y"]) | st.lists(names, min_size=1, max_size=5)),
    st.builds(lambda damage: damaged(GOOD_TABLE, *damage), DAMAGES),
    st.binary(max_size=200),
    st.text(max_size=200).map(str.encode),
)
table_names = st.sampled_from(["t.csv", "t.csv.gz", "t.parquet", "t"])
ten = st.integers(0, 9)


@st.composite
def table_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file that may be a table: cells of all kinds, accidents to a good one, compressed or not, or just bytes."""
    kind = draw(ten)
    content = damaged(parquet(), *draw(DAMAGES)) if kind == 0 else draw(table_contents)
    if kind == 1:
        content = damaged(gzip.compress(content), *draw(DAMAGES))
    return draw(table_names), content


@cache
def parquet() -> bytes:
    """Return a small Parquet file."""
    import pandas as pd

    file = io.BytesIO()
    pd.DataFrame({"a": range(40), "b": list("uv") * 20, "y": [0, 1] * 20}).to_parquet(file)
    return file.getvalue()


@pytest.mark.parametrize("count", cases("table"))
def test_a_file_that_may_be_a_table_is_read_or_refused(count: int, tmp_path: Path) -> None:
    def check(file: tuple[str, bytes], drop: bool, roles: Any) -> None:
        (tmp_path / file[0]).write_bytes(file[1])
        group, test, person = roles
        data = answered(
            lambda: read_table(tmp_path / file[0], target="y", groups=group, test=test, id=person, drop_missing=drop)
        )
        assert data is None or len(data.train) > 0
        (tmp_path / file[0]).unlink()
        assert os.listdir(tmp_path) == []

    check(("t.csv", GOOD_TABLE), False, ((), None, None))  # imports, outside of any case's time
    column = st.none() | names
    roles = st.tuples(st.lists(names, max_size=2), column, column) | st.just(((), None, None))
    fuzz(check, count, file=table_files(), drop=st.booleans(), roles=roles)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """Return the path to every value inside a report; of long lists only the first values."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    return [path, *(place for name, one in inside for place in places(one, (*path, name)))]


REPORT = json.loads(report_json(sample_report(people=8, epsilons=(0.5, 1.0))))
PLACES = places(REPORT)


def changed(report: Any, path: tuple[Any, ...], value: object, remove: bool) -> object:
    """Return a report with one value replaced or removed."""
    if not path:
        return value
    copy: Any = dict(report) if isinstance(report, dict) else list(report)
    if remove and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(copy[path[0]], path[1:], value, remove)
    return copy


WHOLE = json.dumps(REPORT).encode()
changes = st.tuples(st.sampled_from(PLACES), json_values, st.booleans())
changed_reports = changes.map(lambda change: json.dumps(changed(REPORT, *change)).encode())
damaged_reports = DAMAGES.map(lambda damage: damaged(WHOLE, *damage))
other_bytes = st.binary(max_size=200)


@st.composite
def reports(draw: st.DrawFn) -> bytes:
    """The text of a report with a value changed, with an accident, or of something else altogether."""
    kind = draw(ten)
    return draw(changed_reports if kind < 7 else damaged_reports if kind < 9 else other_bytes)


@pytest.mark.parametrize("count", cases("report"))
def test_a_report_that_may_be_damaged_is_shown_or_refused_and_nothing_is_written_elsewhere(
    count: int, tmp_path: Path
) -> None:
    run = tmp_path / "run"

    def check(content: bytes, render: int) -> None:
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir()
        (run / JSON_NAME).write_bytes(content)
        if answered(lambda: read_report(run)) is not None and render == 0:  # a page takes its time
            page = answered(lambda: write_page(run))
            assert page == run / "report.html"
        assert os.listdir(tmp_path) == ["run"]
        assert set(os.listdir(run)) <= {JSON_NAME, "report.html"}

    check(WHOLE, 0)  # imports, outside of any case's time
    assert (run / "report.html").exists()
    fuzz(check, count, content=reports(), render=st.integers(0, 49))
