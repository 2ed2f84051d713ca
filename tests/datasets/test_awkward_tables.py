"""Tables as people have them: each is read right, or refused with a sentence that solves it on the second try."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from seedscope.core import SeedscopeError, SeedscopeWarning
from seedscope.datasets import ColumnReading, Dataset, TableError, from_frame, read_table

ROWS = 60
NUMBER = np.arange(ROWS)
AGES = (37 * NUMBER) % 50 + 20
SICK = np.array(["no", "yes"])[(NUMBER * 7 // 3) % 2]


def lines(*columns: Any, header: str, mark: str = ",", end: str = "\n") -> str:
    """Return a table's text: the header, and a row for each person with their age, the columns, and the outcome."""
    rows = zip(AGES.tolist(), *([str(one) for one in column] for column in columns), SICK.tolist(), strict=True)
    body = [mark.join(map(str, row)) for row in rows]
    return end.join([mark.join(["age", *header.split(","), "sick"]), *body]) + end


def spread(*values: Any) -> list[Any]:
    """Return a column that goes through these values again and again."""
    return [values[row % len(values)] for row in range(ROWS)]


WEIGHTS = [f"{50 + row % 40 + 0.5 * (row % 2)}" for row in range(ROWS)]
KG = [float(one) for one in WEIGHTS]
COMMAS = [one.replace(".", ",") for one in WEIGHTS]
CITIES = spread("Köln", "Zürich", "Málaga")


def german(encoding: str) -> bytes:
    """Return a hospital's export: semicolons, decimal commas, umlauts, record numbers, blood pressures."""
    numbers = [f"{17 + row:06d}" for row in range(ROWS)]
    pressures = [f"{110 + row % 30}/{70 + row % 15}" for row in range(ROWS)]
    return lines(numbers, COMMAS, pressures, CITIES, header="Fallnr,Größe,RR,Ort", mark=";", end="\r\n").encode(
        encoding
    )


@dataclass(frozen=True)
class Awkward:
    """A file, what reading it must give, and for a refused one the sentence and the arguments of the second try."""

    content: bytes
    kinds: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    said: str = ""
    refused: str = ""
    then: dict[str, Any] = field(default_factory=dict)
    name: str = "table.csv"
    needs: str | None = None


def zipped(content: bytes) -> bytes:
    """Return an archive with one file."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export/table.csv", content)
    return memory.getvalue()


def spreadsheet() -> bytes:
    """Return a spreadsheet as its XML: two sheets, the first with a text cell that looks like a number, and dates."""
    cells = []
    for row, (age, city, sick) in enumerate([("age", "city", "sick"), *zip(AGES, CITIES, SICK, strict=True)], start=1):
        number = f'<c r="A{row}"><v>{age}</v></c>' if row > 1 else _text_cell("A1", age)
        cells.append(f'<row r="{row}">{number}{_text_cell(f"B{row}", city)}{_text_cell(f"C{row}", sick)}</row>')
    sheet = f"<sheetData>{''.join(cells)}</sheetData>"
    schemas = "http://schemas.openxmlformats.org"
    main, document = f"{schemas}/spreadsheetml/2006/main", f"{schemas}/officeDocument/2006/relationships"
    relations = f'Relationships xmlns="{schemas}/package/2006/relationships"'
    kinds = "application/vnd.openxmlformats-package.relationships+xml"
    names = '<sheet name="people" sheetId="1" r:id="r1"/><sheet name="notes" sheetId="2" r:id="r2"/>'
    links = [f'<Relationship Id="r{k}" Type="{document}/worksheet" Target="worksheets/sheet{k}.xml"/>' for k in (1, 2)]
    top = f'<Relationship Id="r1" Type="{document}/officeDocument" Target="xl/workbook.xml"/>'
    types = f'<Default Extension="rels" ContentType="{kinds}"/><Default Extension="xml" ContentType="application/xml"/>'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{schemas}/package/2006/content-types">{types}</Types>',
        "_rels/.rels": f"<{relations}>{top}</Relationships>",
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{document}"><sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f"<{relations}>{''.join(links)}</Relationships>",
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}">{sheet}</worksheet>',
        "xl/worksheets/sheet2.xml": f'<worksheet xmlns="{main}"><sheetData/></worksheet>',
    }
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as book:
        for name, text in parts.items():
            book.writestr(name, text)
    return memory.getvalue()


def _text_cell(place: str, text: object) -> str:
    """Return a spreadsheet's cell with text in it."""
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


HOSPITAL: dict[str, Any] = {
    "kinds": {"Fallnr": "codes", "Größe": "numbers", "RR": "pairs of numbers", "Ort": "words", "sick": "words"},
    "values": {"Größe": KG, "RR (first)": [110 + row % 30 for row in range(ROWS)], "Ort=Köln": spread(1, 0, 0)},
}
PLAIN = lines(WEIGHTS, CITIES, header="kg,city").encode()
SAME: dict[str, Any] = {"kinds": {"kg": "numbers", "city": "words"}, "values": {"kg": KG, "city=Köln": spread(1, 0, 0)}}

AWKWARD = {
    "latin-1 hospital export": Awkward(german("latin-1"), **HOSPITAL, said="Windows-1252"),
    "utf-8 with a mark": Awkward(german("utf-8-sig"), **HOSPITAL, said="semicolons"),
    "utf-16": Awkward(german("utf-16"), **HOSPITAL, said="UTF-16"),
    "utf-16 without a mark": Awkward(german("utf-16-le"), **HOSPITAL, said="UTF-16-LE"),
    "tabs": Awkward(PLAIN.replace(b",", b"\t"), **SAME, said="tabs", name="table.tsv"),
    "bars": Awkward(PLAIN.replace(b",", b"|"), **SAME, said="bars"),
    "declared separator": Awkward(b"sep=;\r\n" + PLAIN.replace(b",", b";"), **SAME),
    "title above the header": Awkward(b"Export of ward 7\n\n" + PLAIN, **SAME, said="above the header"),
    "separator at the end of lines": Awkward(PLAIN.replace(b"\n", b",\n"), **SAME),
    "blank lines": Awkward(PLAIN.replace(b"\n", b"\n\n") + b",,,\n", **SAME),
    "gzip": Awkward(gzip.compress(PLAIN), **SAME, name="table.csv.gz"),
    "bzip2": Awkward(bz2.compress(PLAIN), **SAME, name="table.csv.bz2"),
    "xz": Awkward(lzma.compress(PLAIN), **SAME, name="table.csv.xz"),
    "zip": Awkward(zipped(PLAIN), **SAME, name="table.zip"),
    "spreadsheet": Awkward(
        spreadsheet(),
        {"age": "numbers", "city": "words"},
        {"city=Köln": spread(1, 0, 0), "age": AGES.astype(float)},
        said="The sheet 'people' is read, not 'notes'",
        name="table.xlsx",
        needs="python_calamine",
    ),
    "thousands": Awkward(
        lines([f'"{1000 * (1 + row % 9):,}.50"' for row in range(ROWS)], header="income").encode(),
        {"income": "numbers"},
        {"income": [1000 * (1 + row % 9) + 0.5 for row in range(ROWS)]},
    ),
    "thousands with points": Awkward(
        lines(COMMAS, [f"{1 + row % 9}.000" for row in range(ROWS)], header="kg,income", mark=";").encode(),
        {"kg": "numbers", "income": "numbers"},
        {"kg": KG, "income": [1000 * (1 + row % 9) for row in range(ROWS)]},
    ),
    "percent and units": Awkward(
        lines([f"{row % 30}%" for row in NUMBER], [f"{one} kg" for one in WEIGHTS], header="share,weight").encode(),
        {"share": "numbers", "weight": "numbers"},
        {"share": [row % 30 for row in range(ROWS)], "weight": KG},
    ),
    "words for yes and no": Awkward(
        lines(spread("yes", "Yes", "yes", " YES", "no", "No "), spread("ja", "nein"), header="smoker,raucher").encode(),
        {"smoker": "words"},
        {"smoker=yes": spread(1, 1, 1, 1, 0, 0), "raucher=nein": spread(0, 1)},
    ),
    "true, false and ticks": Awkward(
        lines(spread("TRUE", "false"), spread("x", "", ""), header="smoker,diabetic").encode(),
        {"smoker": "true/false", "diabetic": "true/false"},
        {"smoker": spread(1, 0), "diabetic": spread(1, 0, 0)},
    ),
    "dates": Awkward(
        lines([f"{1 + row % 28:02d}.03.2021" for row in NUMBER], [f"2021-3-{1 + row % 28} 12:00" for row in NUMBER],
              [f"3/{1 + row % 28}/2021" for row in range(ROWS)], spread("08:30", "17:15"), header="a,b,c,d").encode(),
        {"a": "dates", "b": "dates", "c": "dates", "d": "times of day"},
        {"a": [18687 + row % 28 for row in range(ROWS)], "b": [18687.5 + row % 28 for row in range(ROWS)],
         "c": [18687 + row % 28 for row in range(ROWS)], "d": spread(8.5, 17.25)},
    ),
    "dates that cannot be told": Awkward(
        lines([f"0{1 + row % 9}/04/2021" for row in range(ROWS)], header="visit").encode(),
        refused=r"'visit' has dates such as 01/04/2021 in which day and month cannot be told apart",
        then={"ignore": "visit"},
    ),
    "years of two digits": Awkward(
        lines([f"{1 + row % 28}.03.51" for row in range(ROWS)], header="born").encode(),
        refused=r"'born' has dates such as 1.03.51 whose year has two digits",
        then={"ignore": ["born"]},
    ),
    "words for a missing value": Awkward(
        lines(["?", "-", "unknown", *WEIGHTS[3:]], header="kg").encode(),
        refused=r"there are empty cells in column 'kg' \(3\).*leave 3 of 60 rows out \(drop_missing\)",
        then={"drop_missing": True},
        kinds={"kg": "numbers"},
    ),
    "own word for a missing value": Awkward(
        lines(["-999", "refused", *WEIGHTS[2:]], header="kg").encode(),
        refused=r"column 'kg' holds numbers, but row 1 has 'refused'; if that means a missing value say so \(missing\)",
        then={"missing": ["-999", "refused"], "fill": {"kg": 70}},
        values={"kg": [70, 70, *KG[2:]]},
    ),
    "empty cells filled": Awkward(
        lines(["", *WEIGHTS[1:]], ["", *CITIES[1:]], header="kg,city").encode(),
        refused=r"empty cells in columns 'kg' \(1\), 'city' \(1\)",
        then={"fill": {"kg": 60, "city": "Köln"}},
        values={"kg": [60.0, *KG[1:]], "city=Köln": spread(1, 0, 0)},
    ),
    "unnamed row numbers, one constant, one empty": Awkward(
        ("," + "\n".join(f"{place - 1},{line}" if place else line for place, line in enumerate(
            lines(spread("B"), spread(""), WEIGHTS, header="ward,fax,kg").splitlines()))).encode(),
        {"column 1": "numbers", "ward": "words", "fax": "empty", "kg": "numbers"},
        {"kg": KG},
    ),
    "postal codes": Awkward(
        lines(spread("01069", "10115", "80331"), header="plz").encode(),
        {"plz": "codes"},
        {"plz=01069": spread(1, 0, 0)},
    ),
    "numbers that are codes": Awkward(
        lines(spread("3", "14", "15"), header="ward").encode(),
        then={"category": ["ward"]},
        values={"ward=14": spread(0, 1, 0)},
    ),
    "names and free text": Awkward(
        lines([f"Person {row}" for row in range(ROWS)], WEIGHTS, header="name,kg").encode(),
        {"name": "words", "kg": "numbers"},
        {"kg": KG},
    ),
}  # fmt: skip


def column(data: Dataset, name: str) -> np.ndarray:
    """Return a feature's values in the table's order."""
    place = data.feature_names.index(name)
    values = np.empty(len(data.train) + len(data.test))
    for part in (data.train, data.test):
        values[np.searchsorted(np.sort(np.r_[data.train.rows, data.test.rows]), part.rows)] = part.features[:, place]
    return values


def readings(data: Dataset) -> dict[str, ColumnReading]:
    """Return how each column was read, by its name."""
    assert data.reading is not None
    return {one.name: one for one in data.reading.columns}


@pytest.mark.parametrize("table", AWKWARD.values(), ids=AWKWARD.keys())
def test_an_awkward_table_is_read_right_or_on_the_second_try(table: Awkward, tmp_path: Path) -> None:
    if table.needs:
        pytest.importorskip(table.needs)
    path = tmp_path / table.name
    path.write_bytes(table.content)
    if table.refused:
        with pytest.raises(SeedscopeError, match=table.refused):
            read_table(path, target="sick")
    data = read_table(path, target="sick", **table.then)
    assert {name: readings(data)[name].kind for name in table.kinds} == table.kinds
    for name, values in table.values.items():
        np.testing.assert_allclose(column(data, name), values)
    assert table.said in " ".join(data.reading.file if data.reading else ())
    assert data.class_names == ("no", "yes")


def test_there_are_at_least_25_of_them() -> None:
    assert len(AWKWARD) >= 25


def test_record_numbers_names_and_constants_are_left_out_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(AWKWARD["unnamed row numbers, one constant, one empty"].content)
    found = readings(read_table(path, target="sick"))
    assert found["column 1"].became.startswith("it numbers the rows")
    assert found["ward"].became == "it has the same value in every row (B)"
    assert found["fax"].became == "it is empty in every row"
    names = from_frame(
        pd.DataFrame(
            {"PatientID": 7 * AGES + NUMBER * 1000, "name": [f"P {row}" for row in NUMBER], "kg": KG, "y": SICK}
        ),
        target="y",
    )
    assert names.feature_names == ("kg",)
    asked = from_frame(pd.DataFrame({"row_id": NUMBER, "kg": KG, "y": SICK}), target="y", numeric="row_id")
    assert asked.feature_names == ("row_id", "kg")


def test_a_remark_that_some_rows_have_is_not_said_to_be_in_every_row() -> None:
    frame = pd.DataFrame({"age": AGES, "remark": spread("moved ward", None, None), "sick": SICK})
    assert readings(from_frame(frame, target="sick"))["remark"].became == (
        "it has the same value wherever it is not empty (moved ward)"
    )


def test_identifiers_stay_texts(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(german("utf-8"))
    data = read_table(path, target="sick", id="Fallnr")
    assert "000017" in {*data.train.ids.tolist(), *data.test.ids.tolist()}


def test_every_problem_is_in_one_message_with_one_way_out() -> None:
    frame = pd.DataFrame(
        {
            "dose": [*WEIGHTS[:-2], "high", "low"],
            "visit": [f"0{1 + row % 9}/04/2021" for row in range(ROWS)],
            "kg": [None, *KG[1:]],
            "age": AGES,
            "sick": SICK,
        }
    )
    with pytest.raises(TableError) as caught:
        from_frame(frame, target="sick")
    for words in ("has 3 problems", "'dose' holds numbers, but row 58 has 'high'", "'visit' has dates", "'kg' (1)"):
        assert words in str(caught.value)
    data = from_frame(frame, target="sick", **caught.value.remedy)
    assert data.feature_names == ("dose", "kg", "age")
    assert data.reading is not None
    assert data.reading.dropped == 3


def test_a_group_without_a_value_is_a_group_and_drops_nobody() -> None:
    frame = pd.DataFrame({"age": AGES, "sex": spread("f", "m", None), "sick": SICK})
    data = from_frame(frame, target="sick", groups="sex")
    assert len(data.train) + len(data.test) == ROWS
    assert set(data.groups["sex"]) == {"f", "m", "(missing)"}


def test_a_column_that_alone_tells_the_target_is_warned_of() -> None:
    frame = pd.DataFrame({"age": AGES, "discharged": np.where(SICK == "yes", "ward", "home"), "sick": SICK})
    with pytest.warns(SeedscopeWarning, match="'discharged' alone tells 'sick' for every row"):
        from_frame(frame, target="sick")
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeedscopeWarning)
        from_frame(frame, target="sick", ignore="discharged")


def test_a_target_of_numbers_is_refused_with_the_way_to_classes() -> None:
    frame = pd.DataFrame({"age": AGES, "cost": KG})
    with pytest.raises(SeedscopeError, match=r"is it a regression target\?.*its middle 64.75"):
        from_frame(frame, target="cost")
    data = from_frame(frame, target="cost", above=69.75)
    assert data.class_names == ("up to 69.75", "above 69.75")
    with pytest.raises(SeedscopeError, match="above must leave rows on both sides, got 1000"):
        from_frame(frame, target="cost", above=1000)


def test_features_choose_and_ignore_leaves_out() -> None:
    frame = pd.DataFrame({"age": AGES, "kg": KG, "city": CITIES, "sick": SICK})
    assert from_frame(frame, target="sick", features=["kg"]).feature_names == ("kg",)
    assert from_frame(frame, target="sick", ignore=["city"]).feature_names == ("age", "kg")
    with pytest.raises(SeedscopeError, match="Did you mean 'city'"):
        from_frame(frame, target="sick", ignore=["cty"])
    with pytest.raises(SeedscopeError, match="named both as target and as column to ignore"):
        from_frame(frame, target="sick", ignore=["sick"])


def test_how_a_table_was_read_does_not_change_what_it_is() -> None:
    frame = pd.DataFrame({"age": AGES, "kg": KG, "sick": SICK})
    texts = frame.astype(str)
    assert from_frame(frame, target="sick").fingerprint == from_frame(texts, target="sick").fingerprint


@pytest.mark.parametrize("write", [str, repr])
def test_numbers_are_read_to_the_last_bit(write: Callable[[float], str], tmp_path: Path) -> None:
    draw = np.random.default_rng(0).normal(size=ROWS) * 10.0 ** np.arange(-30, 30)
    text = "x,y\n" + "".join(f"{write(float(one))},{row % 2}\n" for row, one in enumerate(draw))
    (tmp_path / "x.csv").write_text(text)
    np.testing.assert_array_equal(column(read_table(tmp_path / "x.csv", target="y"), "x"), draw)


def test_decimal_commas_in_every_column_do_not_pass_for_separators(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    rows = [f"{one};{two};{three}" for one, two, three in zip(COMMAS, COMMAS[::-1], spread("0,0", "1,0"), strict=True)]
    path.write_text("\n".join(["kg;dose;sick", *rows]))
    data = read_table(path, target="sick")
    assert data.feature_names == ("kg", "dose")
    np.testing.assert_allclose(column(data, "kg"), KG)
    assert data.reading is not None
    assert data.reading.file == ("Cells are separated by semicolons.",)


def test_times_of_day_are_shown_as_times() -> None:
    found = readings(from_frame(pd.DataFrame({"at": spread("08:30", "17:05", "9:10"), "sick": SICK}), target="sick"))
    assert (found["at"].kind, found["at"].values) == ("times of day", "08:30 to 17:05")


@pytest.mark.parametrize("name", ["patient_id", "MRN", "Kundennummer"])
@pytest.mark.parametrize("text", [False, True])
def test_people_who_have_several_rows_are_not_learned_from(name: str, text: bool) -> None:
    whose = [f"P{row // 2}" for row in NUMBER] if text else NUMBER // 2
    frame = pd.DataFrame({name: whose, "kg": KG, "sick": SICK})
    data = from_frame(frame, target="sick")
    assert data.feature_names == ("kg",)
    assert "(person)" in readings(data)[name].became
    assert from_frame(frame, target="sick", person=name, rows_per_person=2).feature_names == ("kg",)
    assert name in " ".join(from_frame(frame, target="sick", category=name).feature_names)


def test_a_ward_with_few_codes_is_learned_from_whatever_its_name() -> None:
    data = from_frame(pd.DataFrame({"user_code": spread(1, 2, 3), "kg": KG, "sick": SICK}), target="sick")
    assert data.feature_names == ("user_code", "kg")


@pytest.mark.parametrize("mark", [-999, 9999])
def test_a_number_that_stands_for_nothing_is_warned_of(mark: int) -> None:
    frame = pd.DataFrame({"kg": [mark, mark, *KG[2:]], "sick": SICK})
    with pytest.warns(SeedscopeWarning, match=rf"column 'kg' has {mark} in 2 rows, .* say so \(missing\)"):
        data = from_frame(frame, target="sick")
    assert data.reading is not None
    assert any("'kg'" in one for one in data.reading.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeedscopeWarning)
        from_frame(frame, target="sick", missing=[str(mark)], drop_missing=True)
        from_frame(frame.assign(kg=[mark, *KG[1:]]), target="sick")  # once: an outlier
        from_frame(frame.assign(kg=[mark + row % 40 for row in range(ROWS)]), target="sick")  # one among its like


@pytest.mark.parametrize(("no", "yes"), [("nein", "ja"), ("no", "Yes"), ("non", "oui")])
def test_yes_is_class_1_in_every_language(no: str, yes: str) -> None:
    data = from_frame(pd.DataFrame({"kg": KG, "sick": np.where(SICK == "yes", yes, no)}), target="sick")
    assert data.class_names == (no, yes)
    labels = np.empty(ROWS, int)
    for part in (data.train, data.test):
        labels[part.rows] = part.labels
    assert labels.tolist() == (SICK == "yes").tolist()
