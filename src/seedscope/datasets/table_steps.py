"""A table on its way to a data set, one step after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from seedscope.core import SeedscopeError, SeedscopeWarning, require
from seedscope.datasets import columns, roles, understanding
from seedscope.datasets.choices import Choices
from seedscope.datasets.columns import Column, shown
from seedscope.datasets.dataset import Dataset, Part
from seedscope.datasets.dictionary import COLUMNS, WRITING, encoded, learned_levels
from seedscope.datasets.fill_values import IMPUTED
from seedscope.datasets.imputation import imputed, rule_on_features, with_fill_note, with_typical_values
from seedscope.datasets.leaks import predicts_alone
from seedscope.datasets.persons import alone_with_a_level, split_by_person, with_persons
from seedscope.datasets.reading import ColumnReading, Problem, Reading, raise_problems
from seedscope.datasets.splits import stratified_split

if TYPE_CHECKING:
    import pandas as pd

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class TableSteps:
    """A table on its way to a data set: each property is one step, in the order in which they are taken."""

    frame: pd.DataFrame
    choices: Choices

    @cached_property
    def understood(self) -> dict[str, Column]:
        """Every column that is not ignored and is not the identifier, as it is understood."""
        aside = {self.choices.id, *self._unwanted}
        wanted = [name for name in self.frame.columns if name not in aside]
        understood = {name: self._understand(name, self.choices.decimal) for name in wanted}
        if self.choices.decimal is None and any(
            "a comma separates decimals" in column.note for column in understood.values()
        ):
            understood = {name: self._understand(name, ",") for name in wanted}
        return understood

    def _understand(self, name: str, decimal: str | None) -> Column:
        """Return a column as it is understood, empty cells filled if a value is given."""
        forced, words = self.choices.forced(name), self.choices.missing
        column = understanding.understand(self.frame[name], forced, decimal, words)
        if column.problem and name in (self.choices.target, self.choices.test, *self.choices.groups):
            return understanding.understand(self.frame[name], "category", decimal, words)  # levels, whatever they are
        if name not in self.choices.fill or not column.missing or column.problem:
            return column
        value = self.choices.fill[name]
        filled = self.frame[name].astype(object).where(column.codes >= 0, value)
        note = f"{column.missing} empty cells are filled with {value}"
        again = understanding.understand(filled.map(str) if isinstance(value, str) else filled, forced, decimal, words)
        return replace(again, note="; ".join(filter(None, [again.note, note])))

    @property
    def _unwanted(self) -> dict[str, str]:
        """The columns that are left out because somebody said so, with the reason."""
        named = {self.choices.target, self.choices.test, self.choices.id, *self.choices.groups}
        reasons = dict.fromkeys(self.choices.ignore, "it is to be ignored")
        if self.choices.features:
            wanted = named | set(self.choices.features)
            reasons |= {name: "it is not among the features" for name in self.frame.columns if name not in wanted}
        return reasons

    @property
    def candidates(self) -> list[str]:
        """The columns to learn from unless they say nothing."""
        choices = self.choices
        aside = {choices.target, choices.test, choices.person} | (
            set() if choices.groups_as_features else set(choices.groups)
        )
        return [name for name in self.understood if name not in aside]

    @cached_property
    def kept_rows(self) -> np.ndarray:
        """The rows without an empty cell in a column that is used."""
        return np.flatnonzero(~self.holes.any(axis=1)) if self.holes.shape[1] else np.arange(len(self.frame))

    @cached_property
    def holes(self) -> np.ndarray:
        """Which cells [row, column] are empty, of the columns that are used."""
        whole = np.zeros(len(self.frame), bool)  # of a column with a problem of its own
        read = [self.understood[name] for name in self.needed]
        imputed_later = set(self.candidates) if self.choices.impute else set()
        empty = [whole if column.problem or column.name in imputed_later else column.codes < 0 for column in read]
        if self.choices.id is not None:
            empty.append(understanding.empty_cells(self.frame[self.choices.id], self.choices.missing))
        return np.column_stack(empty) if empty else np.zeros((len(self.frame), 0), bool)

    @cached_property
    def needed(self) -> list[str]:
        """The columns in which a cell must not be empty: target, test column and what is learned from."""
        learned = [name for name in self.candidates if self.early_reasons[name] is None]
        needed = [name for name in (self.choices.target, self.choices.test) if name is not None]
        return [*needed, *learned]

    @cached_property
    def early_reasons(self) -> dict[str, str | None]:
        """For each column to learn from, why it is left out before rows are dropped, or None."""
        return {name: self._reason(self.understood[name]) for name in self.candidates}

    def _reason(self, column: Column) -> str | None:
        """Return why a column is left out, None if it is not, or if its owner wants it."""
        if column.name in self.choices.dictionary.columns:
            return None  # what the rows say of it must not matter
        asked = column.name in (*self.choices.features, *self.choices.numeric, *self.choices.category)
        nothing = len(column.values) < 2
        return columns.says_nothing(column) if nothing or not asked else None

    @cached_property
    def used(self) -> dict[str, Column]:
        """The columns that are used, with the rows that are kept."""
        rows = self.kept_rows
        names = [*self.needed, *(name for name in self.choices.groups if name not in self.needed)]
        return {name: self.understood[name].take(rows) for name in names}

    @cached_property
    def reasons(self) -> dict[str, str]:
        """For every column that is left out, why."""
        early = {name: reason for name, reason in self.early_reasons.items() if reason is not None}
        late = {name: self._reason(self.used[name]) for name in self.candidates if name not in early}
        constant = {name: why for name, why in late.items() if why and len(self.used[name].values) < 2}
        return self._unwanted | early | constant

    @property
    def learned(self) -> list[str]:
        """The columns that are learned from."""
        return [name for name in self.candidates if name not in self.reasons]

    def problems(self) -> list[Problem]:
        """Return everything that keeps the table from being read."""
        alone = [problem for name in self.needed if (problem := self._problem(name))]
        hollow = self._empty_cells()
        return [*alone, *([hollow] if hollow else [])]

    def _problem(self, name: str) -> Problem | None:
        """Return a needed column's problem: a role has its own rules for levels."""
        column = self.understood[name]
        return column.problem if name in (self.choices.target, self.choices.test) else columns.unusable(column)

    def _empty_cells(self) -> Problem | None:
        """Return the problem of empty cells, unless rows may be dropped and some are left."""
        counts = self.holes.sum(0)
        names = [*self.needed, *([self.choices.id] if self.choices.id is not None else [])]
        holed = sorted((place for place in range(len(counts)) if counts[place]), key=lambda place: -counts[place])
        if not holed or (self.choices.drop_missing and len(self.kept_rows)):
            return None
        first, rows = names[holed[0]], len(self.frame)
        if len(self.kept_rows) == 0:
            worst = [names[place] for place in holed if counts[place] > rows / 2 and names[place] in self.candidates]
            example = f"every row has an empty cell, for example in column {shown(first)}"
            sentence = f"{example}; fill them first (fill) or by a rule (impute), or leave such columns out (ignore)."
            return Problem(sentence, {"ignore": worst, "drop_missing": True} if worst else None, "ignore")
        cells = ", ".join(f"{shown(names[place])} ({counts[place]:,})" for place in holed[:8])
        more = f" and {len(holed) - 8} more columns" if len(holed) > 8 else ""
        dropped = rows - len(self.kept_rows)
        return Problem(
            f"there are empty cells in column{'s' * (len(holed) > 1)} {cells}{more}; fill them (fill) or by "
            f"a rule (impute), leave a column out (ignore), or leave {dropped:,} of {rows:,} rows out (drop_missing).",
            {"drop_missing": True},
            "drop_missing",
        )

    def dataset(self, name: str, source: str, read: tuple[str, ...]) -> Dataset:
        """Return the data set, or raise everything that is wrong with the table."""
        problems = self.problems()
        if len(self.kept_rows) == 0:
            raise_problems(problems)
        target = self.used[self.choices.target]
        classes = _noted(problems, partial(roles.classes, target, self.choices.above))
        for group in self.choices.groups:
            _noted(problems, partial(roles.group, self.used[group]))
        raise_problems(problems)
        require(len(self.learned) > 0, self._nothing_left())
        assert classes is not None  # else a problem was raised
        return self._assembled(classes, name, source, read)

    def _nothing_left(self) -> str:
        """Return the sentence for a table without anything to learn from."""
        why = "; ".join(f"{shown(name)}: {reason}" for name, reason in list(self.reasons.items())[:5])
        needs = "the table needs at least one besides target, groups and id"
        return f"no column is left to learn from; {needs}{f' ({why})' if why else ''}."

    def _assembled(self, classes: columns.Levels, name: str, source: str, read: tuple[str, ...]) -> Dataset:
        """Return the data set of a table without problems."""
        choices, rows = self.choices, self.kept_rows
        ids = rows if choices.id is None else roles.identifiers(self.frame[choices.id].iloc[rows])
        groups = {group: roles.group(self.used[group]) for group in choices.groups}
        train, test = self._parts(classes)
        order = np.concatenate([train, test])  # so that the parts are views of one array of features
        features = self._filled(classes)
        encoding = encoded([features[learned] for learned in self.learned], choices.dictionary, order)
        empty = {feature: self.used[feature] for feature in self.learned if self.used[feature].missing}
        rule = rule_on_features(choices.impute, encoding, bool(empty))
        holes = encoding.holes(column.take(order) for column in empty.values()) if rule is not None and empty else None
        persons = None if self._persons is None else self._persons[order]
        groups = {group: levels[order] for group, levels in groups.items()}
        labels = classes.codes[order].astype(np.int64)
        whole = Part(encoding.values, labels, ids[order], rows[order], groups, persons, holes)
        data = Dataset(
            name, whole.take(slice(len(train))), whole.take(slice(len(train), None)), encoding.names, classes.names,
            source, ranges=encoding.ranges, learned=(*encoding.learned, *self._told_by_rows()),
            drawn_test=choices.test is None, imputation=rule,
        )  # fmt: skip
        data = with_typical_values(with_persons(data, choices.rows_per_person))
        known = choices.dictionary
        by_rows = learned_levels([features[learned] for learned in self.learned], known)
        data = replace(data, alone=alone_with_a_level(by_rows, data.base, whole))
        filled = {
            feature: with_fill_note(features[feature], empty[feature], encoding, data, known) for feature in empty
        }
        reading = self._reading(classes, read, features | filled)
        for warning in reading.warnings:
            warnings.warn(warning, SeedscopeWarning, stacklevel=5)
        return replace(data, reading=reading)

    def _filled(self, classes: columns.Levels) -> dict[str, Column]:
        """Return the columns that are used; where a rule imputes, without empty cells, by the training rows alone."""
        rule = self.choices.impute
        if rule is None:
            return self.used
        training, _ = self._parts(classes)
        bounds = self.choices.dictionary.bounds
        return self.used | {name: imputed(self.used[name], rule, bounds, training) for name in self.learned}

    def _parts(self, classes: columns.Levels) -> tuple[np.ndarray, np.ndarray]:
        """Return which of the kept rows train and which test: as the test column marks them, or a stratified draw."""
        labels, seed = classes.codes.astype(np.int64), self.choices.seed
        if self.choices.test is not None:
            return _marked(labels, classes.names, roles.marked_as_test(self.used[self.choices.test]))
        if self._persons is not None:
            return split_by_person(labels, self._persons, seed)
        return stratified_split(labels, seed)

    @property
    def _persons(self) -> np.ndarray | None:
        """Whose the kept rows are; None where every row is a person."""
        person = self.choices.person
        return None if person is None else roles.persons(self.frame[person].iloc[self.kept_rows])

    def _told_by_rows(self) -> tuple[str, ...]:
        """Return what else of the reading depends on the rows: columns left out, and how declared numbers are written.

        Without a dictionary everything does, and scaling says so.
        """
        bounds, mark = self.choices.dictionary.bounds, self.choices.decimal or "."
        left_out = bool(self.choices.dictionary.columns) and bool(set(self.reasons) - set(self._unwanted))
        declared = [name for name in self.learned if name in bounds]
        sniffed = any(
            not understanding.read_alone(self.frame[column], self.understood[column], mark) for column in declared
        )
        holes = any(self.used[name].missing for name in self.learned)
        imputed_from_rows = self.choices.impute == "typical" and holes
        told = {COLUMNS: left_out, WRITING: sniffed, IMPUTED: imputed_from_rows}
        return tuple(what for what, has in told.items() if has)

    def _reading(self, classes: columns.Levels, read: tuple[str, ...], used: Mapping[str, Column]) -> Reading:
        """Return how the table was read."""
        shares = {name: predicts_alone(used[name], classes.codes) for name in self.learned}
        leaks = tuple(_leak(name, self.choices.target, share) for name, share in shares.items() if share is not None)
        odd = {name: columns.stands_for_nothing(used[name]) for name in self.learned}
        empty = tuple(_placeholder(used[name], value) for name, value in odd.items() if value is not None)
        rows = len(self.frame)
        described = tuple(
            replace(self._described(name), note=used[name].note) if name in used else self._described(name)
            for name in self.frame.columns
        )
        return Reading(described, rows, rows - len(self.kept_rows), read, leaks + empty)

    def _described(self, name: str) -> ColumnReading:
        """Return how one column was read."""
        named = {self.choices.target: "target", self.choices.test: "test", self.choices.id: "identifier"}
        named |= {self.choices.person: "person"} if self.choices.person not in (None, *named) else {}
        role = named.get(name) or ("group" if name in self.choices.groups else "feature")
        left_out = self.reasons.get(name) if role == "feature" else None
        if name not in self.understood:
            return ColumnReading(
                name, "left out" if left_out else role, "not read", "–", 0, left_out or "kept as texts"
            )
        column = self.understood[name]
        became = left_out or self._became(name, role)
        return ColumnReading(
            name,
            "left out" if left_out else role,
            column.kind,
            column.shown_values,
            column.missing,
            became,
            column.note,
        )

    def _became(self, name: str, role: str) -> str:
        """Return what became of a column that is used."""
        if name not in self.learned:
            words = {"target": "what is predicted", "test": "marks test rows", "person": "whose each row is"}
            return words.get(role, "compared by, not learned from")
        known = np.flatnonzero(self.used[name].codes >= 0)[:1]
        names = columns.features(self.used[name].take(known)).names if self.used[name].is_numeric else ()
        count = len(names) or (1 if len(self.used[name].values) == 2 else len(self.used[name].values))
        return "1 feature" if count == 1 else f"{count} features"


def _leak(name: str, target: str, share: float) -> str:
    """Return the warning about a column that alone tells the target."""
    known = "every row" if share == 1 else f"{100 * share:.1f} % of the rows"
    told = f"column {shown(name)} alone tells {shown(target)} for {known}"
    return f"{told}; if it is only known after the outcome, leave it out (ignore)."


def _placeholder(column: Column, value: float) -> str:
    """Return the warning about a number that may mean that nothing is known."""
    rows = int((column.values[column.codes] == value).sum())
    return (
        f"column {shown(column.name)} has {value:g} in {rows:,} rows, far from all its other numbers; if it means that "
        f"nothing is known say so (missing), else it is learned from as a number."
    )


def _noted(problems: list[Problem], attempt: Callable[[], Found]) -> Found | None:
    """Return what an attempt gives, or None with its complaint among the problems."""
    try:
        return attempt()
    except SeedscopeError as error:
        problems.append(Problem(str(error), None, error.argument))
        return None


def _marked(labels: np.ndarray, classes: tuple[str, ...], marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that are not marked and those that are; raise where a class is among the latter only."""
    absent = np.setdiff1d(np.arange(len(classes)), labels[~marks])
    require(
        len(absent) == 0,
        f"class {shown(classes[absent[0]]) if len(absent) else ''} is in the test part only; "
        "the training part needs every class.",
    )
    return np.flatnonzero(~marks), np.flatnonzero(marks)
