"""The public tables, each prepared as the paper that uses it did.

A named table keeps the features of its paper; the groups of people in it are kept beside them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seedscope.datasets.dataset import Dataset, Part
from seedscope.datasets.named.downloads import damaged, read_arrays
from seedscope.datasets.named.originals import ADULT_COLUMNS
from seedscope.datasets.preprocessing import rows_on_sphere, standardised, unit_range
from seedscope.datasets.splits import first_tenth_validates, shuffled_split, stratified_split
from seedscope.datasets.tables import from_frame
from seedscope.datasets.understanding import understand

if TYPE_CHECKING:
    import pandas as pd

LEARNED = ("the columns' ranges",)
ON_ALL_ROWS = "the columns' means and deviations"  # test rows included, as in AD
_CREDIT = "A1,A2,A3,A4,A5,A6,A7,A8,A9,A10,A11,A12,A13,A14,A15,label"
_MAMMOGRAPHY = "birads,age,shape,margin,density,severity"
_CONTRACEPTION = (
    "age,wife_education,husband_education,children,wife_religion,wife_working,husband_occupation,"
    "living_standard,media_exposure,method"
)
_DERMATOLOGY = (
    "erythema,scaling,definite_borders,itching,koebner_phenomenon,polygonal_papules,follicular_papules,"
    "oral_mucosal_involvement,knee_and_elbow_involvement,scalp_involvement,family_history,melanin_incontinence,"
    "eosinophils_in_infiltrate,pnl_infiltrate,fibrosis_of_papillary_dermis,exocytosis,acanthosis,hyperkeratosis,"
    "parakeratosis,clubbing_of_rete_ridges,elongation_of_rete_ridges,thinning_of_suprapapillary_epidermis,"
    "spongiform_pustule,munro_microabcess,focal_hypergranulosis,disappearance_of_granular_layer,"
    "vacuolisation_and_damage_of_basal_layer,spongiosis,saw_tooth_appearance_of_retes,follicular_horn_plug,"
    "perifollicular_parakeratosis,inflammatory_mononuclear_infiltrate,band_like_infiltrate,age,disease"
)
_GERMAN = (
    "checking_account,months,credit_history,purpose,amount,savings,employment,instalment_rate,status_and_sex,"
    "other_debtors,residence_since,property,age,other_instalments,housing,credits,job,dependents,telephone,"
    "foreign_worker,risk"
)
_HEART = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,disease"


def adult(path: Path) -> Dataset:
    """Return the 1994 census: income above 50,000 (1) or not (0), rows of norm 1, with groups by sex and race.

    One-hot without the first level (`?` is a level), min–max on the training rows, rows scaled to norm 1: 100 features.
    """
    import pandas as pd

    frame = _csv(path, f"{ADULT_COLUMNS},split", header=True)
    train = (frame["split"] == "train").to_numpy()
    inputs = frame.drop(columns=["income", "split"])
    encoded = pd.get_dummies(inputs, drop_first=True, prefix_sep="=", dtype=float)
    labels = (frame["income"] == ">50K").to_numpy().astype(np.int64)
    groups = {name: frame[name].to_numpy(dtype=np.str_) for name in ("sex", "race")}
    rows = np.arange(len(frame))
    whole = Part(encoded.to_numpy(), labels, rows, rows, groups)
    names = tuple(encoded.columns)
    return _on_sphere("adult", whole, np.flatnonzero(train), np.flatnonzero(~train), names, ("<=50K", ">50K"))


def forest(path: Path) -> Dataset:
    """Return two kinds of forest, spruce (0) and lodgepole pine (1), rows of norm 1.

    Classes 1 and 2 of Covertype, a random 15 % to test, min–max on the training rows, constant columns dropped, rows
    scaled to norm 1: 49 features. The original is sorted, so the training rows are in a random order.
    """
    measures, cover, names = read_arrays(path, "X", "y", "feature_names")
    rows = np.flatnonzero(cover <= 2)
    whole = Part(measures[rows], (cover[rows] == 2).astype(np.int64), rows, rows)
    train, test = shuffled_split(len(rows), test_share=0.15)
    return _on_sphere("forest", whole, train, test, tuple(map(str, names)), ("spruce", "lodgepole pine"))


def credit(path: Path) -> Dataset:
    """Return credit applications, approved (1) or not (0)."""
    frame = _csv(path, _CREDIT, missing="?")
    return _standardised("credit", frame, "label", ["+"], ("-", "+"))


def contraception(path: Path) -> Dataset:
    """Return couples that use no contraception (1) or some method (0), with groups by the wife's age (AD Figure 5b)."""
    frame = _csv(path, _CONTRACEPTION)
    data = _standardised("contraception", frame, "method", [1], ("use", "no use"))
    age = frame["age"].to_numpy()
    return _with_group(data, "age", np.select([age <= 30, age <= 40], ["16–30", "31–40"], "41–49"))


def mammography(path: Path) -> Dataset:
    """Return masses in mammograms, malignant (1) or benign (0).

    Some copies say 55 where others say 5 in one BI-RADS cell, a scale that ends at 6: it is read as 5.
    """
    frame = _csv(path, _MAMMOGRAPHY, missing="?")
    frame["birads"] = frame["birads"].replace(55, 5)
    return _standardised("mammography", frame, "severity", [1], ("benign", "malignant"))


def dermatology(path: Path) -> Dataset:
    """Return skin diseases: psoriasis (1) or another (0)."""
    return _standardised("dermatology", _csv(path, _DERMATOLOGY, missing="?"), "disease", [1], ("other", "psoriasis"))


def german_credit(path: Path, *, seed: int = 0) -> Dataset:
    """Return loans of a German bank, good (1) or bad (0), encoded as `read_table` does, with groups by sex."""
    frame = _csv(path, _GERMAN)
    frame["risk"] = frame["risk"].map({1: "good", 2: "bad"})
    data = from_frame(frame, target="risk", seed=seed, name="german-credit")
    women = frame["status_and_sex"].isin(["A92", "A95"]).to_numpy()
    return _with_group(data, "sex", np.where(women, "female", "male"))


def heart(path: Path, *, seed: int = 0) -> Dataset:
    """Return patients of the Cleveland clinic with (1) or without (0) heart disease, with groups by sex.

    The 13 measurements stay numbers, as published; 6 rows with a missing one are dropped.
    """
    frame = _csv(path, _HEART, missing="?")
    women = (frame["sex"] == 0).to_numpy()
    frame["disease"] = np.where(frame["disease"] > 0, "present", "absent")
    data = from_frame(frame, target="disease", drop_missing=True, seed=seed, name="heart")
    return _with_group(data, "sex", np.where(women, "female", "male"))


def _csv(path: Path, columns: str, header: bool = False, missing: str | None = None) -> pd.DataFrame:
    """Return a data file with the given columns as a frame; nothing but the given mark means a missing cell."""
    import pandas as pd

    names = columns.split(",")
    marks = [""] if missing is None else ["", missing]
    try:
        frame = pd.read_csv(path, header=0 if header else None, names=names, na_values=marks, keep_default_na=False)
    except (OSError, ValueError, EOFError) as error:
        raise damaged(path, error) from None
    if frame[names[-1]].isna().any():
        raise damaged(path, f"a row has fewer than {len(names)} cells")
    return frame


def _on_sphere(
    name: str, whole: Part, train: np.ndarray, test: np.ndarray, names: tuple[str, ...], classes: tuple[str, ...]
) -> Dataset:
    """Return the parts min–max scaled by the training rows, without constant columns, rows scaled to norm 1."""
    varying, low, span = unit_range(whole.features[train])

    def scaled(rows: np.ndarray) -> Part:
        part = whole.take(rows)
        return replace(part, features=rows_on_sphere((part.features[:, varying] - low) / span))

    kept = tuple(names[column] for column in varying)
    parts = scaled(train), scaled(test)
    return first_tenth_validates(Dataset(name, *parts, kept, classes, name, norm_bound=1.0, learned=LEARNED))


def _standardised(
    name: str, frame: pd.DataFrame, target: str, positive: list[object], classes: tuple[str, str]
) -> Dataset:
    """Return a table as AD prepares it: complete rows, numbers standardised on all rows, text one-hot, 75/25 split."""
    frame = frame.dropna()
    labels = frame[target].isin(positive).to_numpy().astype(np.int64)
    columns = [_number_or_one_hot(frame[column]) for column in frame.columns if column != target]
    features = np.concatenate([values for _, values in columns], axis=1)
    names = tuple(feature for names, _ in columns for feature in names)
    rows = frame.index.to_numpy()
    whole = Part(features, labels, rows, rows)
    train, test = stratified_split(labels, seed=0)
    learned = (ON_ALL_ROWS, *(("the category levels",) if any("=" in feature for feature in names) else ()))
    return Dataset(name, whole.take(train), whole.take(test), names, classes, name, learned=learned)


def _number_or_one_hot(column: pd.Series) -> tuple[tuple[str, ...], np.ndarray]:
    """Return a numeric column standardised, or every level of a text column as 0/1, with the features' names."""
    from pandas.api.types import is_numeric_dtype

    if is_numeric_dtype(column.dtype):
        return (str(column.name),), standardised(column.to_numpy(dtype=np.float64)[:, None])
    levels = understand(column, "category").levels
    values = (levels.codes[:, None] == np.arange(len(levels.names))).astype(np.float64)
    return tuple(f"{column.name}={level}" for level in levels.names), values


def _with_group(data: Dataset, name: str, values: np.ndarray) -> Dataset:
    """Return the set with a group, given for each row of the original."""
    train, test = (replace(part, groups={name: values[part.rows]}) for part in (data.train, data.test))
    return replace(data, train=train, test=test)
