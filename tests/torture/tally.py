"""What happened: counts of each kind of torture, and their table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

SINS = ("lost", "different", "silent", "tracebacks", "hung")
COLUMNS = ("tries", "kills", "faults", "refused", "same bits", *SINS)


@dataclass
class Tally:
    """Counts by kind and column, and the first few things that went wrong, in words."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add(self, kind: str, **columns: int) -> None:
        """Count something that happened."""
        self.counts.setdefault(kind, Counter()).update({name.replace("_", " "): one for name, one in columns.items()})

    def sin(self, kind: str, column: str, story: str) -> None:
        """Count something that must not happen, and keep its story."""
        self.add(kind, **{column: 1})
        self.wrong.append(f"{kind}, {column}: {story}")

    @property
    def sins(self) -> int:
        """How often something happened that must not."""
        return sum(one[name] for one in self.counts.values() for name in SINS)

    def table(self) -> str:
        """Return the counts as a table in Markdown, with a sum."""
        whole = sum(self.counts.values(), Counter[str]())
        rows = [("torture", *COLUMNS), ("---", *["---:"] * len(COLUMNS))]
        rows += [_row(kind, one) for kind, one in self.counts.items()]
        rows.append(_row("all", whole))
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        return "\n".join("| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows)


def _row(kind: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return a row of the table."""
    return (kind, *(f"{counts.get(name, 0):,}" for name in COLUMNS))
