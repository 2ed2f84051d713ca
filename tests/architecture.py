"""The rooms of the package, read from its imports: `python -m tests.architecture` prints their picture.

A room imports only rooms before it, through their `__init__`; `tests/test_architecture.py` holds that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "seedscope"
ROOMS = {
    "core": "errors, numbers with their kind, relations, plain values, units, files, threads, progress",
    "numerics": "statistics and a Newton solver on arrays",
    "accounting": "what noise guarantees: Gaussian, sampled Gaussian, conversions",
    "datasets": "`Dataset`, named sets, anybody's table, scaling",
    "models": "networks as (init, apply) pairs",
    "training": "one chunk in, arrays out",
    "mechanisms": "what is randomised and what that guarantees, as frozen data",
    "planning": "grid, chunks, records, and the identity of a plan",
    "storage": "a folder that survives being killed, and the ensemble that analyses read",
    "analyses": "functions of arrays; where one reads an ensemble, in its `from_ensemble`",
    "execution": "chunks go to workers, results are written once",
    "releasing": "the one model to publish, and its card",
    "report": "page, JSON, CSV, charts: shows, computes nothing",
    "auditing": "all analyses put together: levels, people, groups, verdict",
    "integrations": "models and predictions from elsewhere",
    "reproduce": "the papers' studies, by public names only",
    "commands": "parse, call, print",
}
REASONS = ("# JAX", "# start-up", "# extra")  # why an import of ours may stand inside a function


@dataclass(frozen=True)
class Import:
    """An import of one of our modules: where it stands, what it names, and whether it stands inside a function."""

    file: str
    line: int
    text: str
    module: str
    names: tuple[str, ...]
    inside: bool

    @property
    def importer(self) -> str:
        """The room that imports."""
        return room_of(self.file.removesuffix(".py").replace("/", "."))

    @property
    def imported(self) -> str:
        """The room that is imported; empty for the package itself."""
        return room_of(self.module.removeprefix("seedscope").removeprefix("."))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def room_of(dotted: str) -> str:
    """Return the first part of a module's name inside the package."""
    return dotted.split(".")[0]


@cache
def tree_of(file: Path) -> ast.Module:
    """Return a file's syntax; each file is read once."""
    return ast.parse(file.read_text())


@cache
def our_imports(sources: Path = SOURCES) -> tuple[Import, ...]:
    """Return every import of our own modules, those inside functions and for type checkers too."""
    return tuple(statement for file in sorted(sources.rglob("*.py")) for statement in imports_of(file, sources))


def imports_of(file: Path, sources: Path = SOURCES) -> Iterator[Import]:
    """Yield one file's imports of our modules, `from seedscope import accounting` as one of that room."""
    lines, tree = file.read_text().splitlines(), tree_of(file)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {id(child) for function in functions for child in ast.walk(function)}
    for node in ast.walk(tree):
        for module, names in _named(node, sources):
            written = lines[node.lineno - 1].strip()  # type: ignore[attr-defined]
            place = file.relative_to(sources).as_posix()
            yield Import(place, node.lineno, written, module, names, id(node) in inside)  # type: ignore[attr-defined]


def _named(node: ast.AST, sources: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the modules of ours that a statement imports, each with the names taken from it."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, ()) for alias in node.names if is_ours(alias.name))
    if isinstance(node, ast.ImportFrom) and node.module and is_ours(node.module):
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            named = node.module != "seedscope" and alias.name in exported(node.module, sources)
            yield (inner, ()) if is_module(inner, sources) and not named else (node.module, (alias.name,))


def exported(module: str, sources: Path = SOURCES) -> set[str]:
    """Return the names that a package's `__init__`, or its stub where they are loaded late, takes from its modules."""
    place = sources.joinpath(*module.split(".")[1:]) / "__init__.py"
    front = stub if (stub := place.with_suffix(".pyi")).is_file() else place
    lines = tree_of(front).body if front.is_file() else []
    return {alias.name for line in lines if isinstance(line, ast.ImportFrom) for alias in line.names}


def is_ours(module: str) -> bool:
    """Whether a module belongs to the package."""
    return module.split(".")[0] == "seedscope"


def is_module(module: str, sources: Path = SOURCES) -> bool:
    """Whether a dotted name of ours is a file or a folder rather than a name inside one."""
    place = sources.joinpath(*module.split(".")[1:])
    return place.with_suffix(".py").is_file() or is_package(module, sources)


def is_package(module: str, sources: Path = SOURCES) -> bool:
    """Whether a dotted name of ours is a folder with an `__init__`."""
    return (sources.joinpath(*module.split(".")[1:]) / "__init__.py").is_file()


def uses() -> dict[str, list[str]]:
    """Return room → the rooms it imports, in their order."""
    pairs = {(statement.importer, statement.imported) for statement in our_imports()}
    return {room: [other for other in ROOMS if (room, other) in pairs and other != room] for room in ROOMS}


def picture() -> str:
    """Return the rooms in their order as a table for the docs: what each is, and which it imports."""
    rows = [
        f"| `{room}/` | {what} | {', '.join(uses()[room]) or '–'} |"
        for room, what in ROOMS.items()
        if (SOURCES / room).is_dir()
    ]
    return "\n".join(["| room | what it is | imports |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(picture())
