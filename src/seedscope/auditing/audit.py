"""The audit: levels of privacy examined together, with their verdict and everybody's numbers."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedscope.auditing import people as people_module
from seedscope.auditing.document import description_of, public_document, whole_document
from seedscope.auditing.judged import verdict_on
from seedscope.auditing.levels import ARBITRARY, Level, examine, level_labels
from seedscope.auditing.policy import Policy, read_policy
from seedscope.auditing.relations import Finding
from seedscope.auditing.sensitive import require_sensitive
from seedscope.auditing.verdict import Verdict
from seedscope.core import Number, require, require_path, require_probability, require_type
from seedscope.datasets import Dataset, Reading
from seedscope.report import charts, render_summary, write_report
from seedscope.storage import Ensemble

if TYPE_CHECKING:
    import pandas

Stored = Ensemble | str | Path


@dataclass(frozen=True, eq=False)
class Audit:
    """What many re-trainings say about a model and about each person: levels, verdict, people."""

    levels: tuple[Level, ...]
    confidence: float = 0.95
    command: str = ""
    made: str = ""
    reading: Reading | None = None
    policy: Policy | None = None
    data: Dataset | None = None
    findings: tuple[Finding, ...] = ()
    configuration: str = ""

    @cached_property
    def verdict(self) -> Verdict:
        """Release, look first, change or stop under the policy; why; and the numbers that matter."""
        return verdict_on(self.levels, self.policy, self.data)

    @cached_property
    def facts(self) -> tuple[dict[str, Number | None], ...]:
        """What a policy can be about, for each level."""
        return tuple(dict(facts) for facts in self.verdict.all_facts)

    @property
    def alarms(self) -> tuple[str, ...]:
        """What must not be overlooked: upper bounds that an attack beats, so that the training must have a bug."""
        return tuple(f"{level.label}: {sentence}" for level in self.levels for sentence in level.broken)

    @cached_property
    def individuals(self) -> pandas.DataFrame:
        """For every privacy level, one row for every input row in the original order."""
        return people_module.individuals(self.levels)

    def to_dataframe(self) -> pandas.DataFrame:
        """Return everybody's numbers, tidy: one row for each person and privacy level (a copy of `individuals`)."""
        return self.individuals.copy()

    def as_dict(self, public: bool = False) -> dict[str, Any]:
        """Return everything that the page shows, as plain values; `public` keeps what does not depend on the data."""
        return public_document(self) if public else whole_document(self)

    def save(self, folder: str | Path, public: bool = False, parquet: bool = False) -> list[Path]:
        """Write report.html, report.json, individuals.csv and its dictionary.csv; return the paths.

        A public report has no individuals. `parquet` writes them as individuals.parquet too (extra `parquet`).
        """
        require_path("folder", folder)
        return write_report(Path(folder), self.as_dict(public), None if public else self.individuals, parquet)

    def __repr__(self) -> str:
        levels = ", ".join(level.label for level in self.levels)
        return f"Audit({description_of(self).data.name!r}, {levels}: {self.verdict.headline})"

    def charts(self) -> Mapping[str, Any]:
        """Return the report's charts (Altair), by name, for a notebook."""
        return charts(self.as_dict())

    def _repr_html_(self) -> str:
        """The verdict, for a notebook."""
        return render_summary(self.as_dict())


def audit(
    *ensembles: Stored | tuple[Stored, Stored],
    data: Dataset | None = None,
    confidence: float = 0.95,
    command: str = "",
    policy: Policy | str | Path | None = None,
    fail_if: Sequence[str] = (),
    sensitive: Sequence[str] = (),
    candidates: int = 10,
) -> Audit:
    """Return the audit of one ensemble, or of several privacy levels of the same data.

    Runs every analysis that the records permit and says why it left another out. Nothing is trained.

    Args:
        ensembles: one for each privacy level, with scores on the test part, and with neighbours for membership; or a
            pair: many seeds on the base, and fewer seeds with neighbours. A folder's name opens what is stored there.
        data: what they were trained on, for the bounds on reconstruction; the rest needs no rows.
        confidence: of all intervals.
        command: how to run it again, for the report.
        policy: the rules of the verdict, or the name of their TOML file; default Seedscope's own, which then decide no
            exit code.
        fail_if: conditions that must not hold, like "advantage>0.1".
        sensitive: columns of which it is asked how well they can be told by one who knows the rest; "record" for all
            features at once. For objective perturbation and DP-SGD of logistic regression; the latter is trained anew.
        candidates: among how many values a sensitive number or record is guessed; a category has its levels.
    """
    rules = policy if isinstance(policy, Policy) else read_policy(policy)
    rules = (rules if policy is None else rules.enforced()).with_conditions(fail_if)
    require_probability("confidence", confidence)
    pairs = [_pair(ensemble) for ensemble in ensembles]
    require(len(pairs) > 0, "an audit needs at least one ensemble.")
    prints = {ensemble.description.data.fingerprint for pair in pairs for ensemble in pair if ensemble is not None}
    require(len(prints) == 1, "the ensembles of one audit must be of the same data, these are of different data.")
    if data is not None:
        require_type("data", data, Dataset, "give the data set that the ensembles were trained on")
    same = data is None or bool(prints & {data.fingerprint, data.former_fingerprint})
    require(same, "data must be what the ensembles were trained on; they were not.")
    require(not sensitive or data is not None, "sensitive columns need the rows themselves; give data=….")
    if data is not None:
        require_sensitive(data, tuple(sensitive), candidates)
    labels = level_labels([base for base, _ in pairs])
    levels = tuple(
        examine(
            base, shadows, label=label, data=data, confidence=confidence, sensitive=sensitive, candidates=candidates
        )
        for label, (base, shadows) in zip(labels, pairs, strict=True)
    )
    require(len(set(labels)) == len(labels), f"each privacy level must be there once, got {', '.join(labels)}.")
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Audit(levels, confidence, command, made, None if data is None else data.reading, rules, data)


def _pair(given: Stored | tuple[Stored, Stored]) -> tuple[Ensemble, Ensemble | None]:
    """Return the ensemble on the base and, where they are apart, that with neighbours."""
    return (_opened(given[0]), _opened(given[1])) if isinstance(given, tuple) else (_opened(given), None)


def _opened(ensemble: Stored) -> Ensemble:
    """Return the ensemble, opened if it is a folder's name."""
    opened = Ensemble.open(ensemble) if isinstance(ensemble, str | Path) else ensemble
    return opened if opened.mechanism.records_weights else opened.whole_seeds()


__all__ = ["ARBITRARY", "Audit", "audit"]
