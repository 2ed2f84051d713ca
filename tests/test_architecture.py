"""The tree is the architecture: rooms in an order, entered by their front door."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TypeGuard

import pytest

import seedscope as ss
from seedscope import mechanisms
from seedscope.mechanisms import Mechanism
from tests.architecture import REASONS, ROOMS, SOURCES, Import, imports_of, is_package, our_imports, picture, tree_of

ORDER = list(ROOMS)
TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
OUTSIDE = {"helpers", "torture", "__pycache__"}  # folders of tests that are no room's
PUBLIC_PACKAGES = {
    "seedscope",
    *(f"seedscope.{room}" for room in ("accounting", "core", "datasets", "models", "training")),
    *("seedscope.training.dpsgd", "seedscope.training.gradient"),
    *(
        f"seedscope.analyses.{folder.name}"
        for folder in (SOURCES / "analyses").iterdir()
        if (folder / "__init__.py").is_file()
    ),
}


def wrong_way(statement: Import) -> bool:
    """Whether an import goes to the same room's own package from outside, or to a room that comes later."""
    if statement.importer not in ORDER or statement.imported not in ORDER:
        return False  # the package's own names, which only `reproduce` may use: see below
    return ORDER.index(statement.imported) > ORDER.index(statement.importer)


def past_the_door(statement: Import) -> bool:
    """Whether another room's inner module is imported instead of its package."""
    if statement.imported in ("", statement.importer) or statement.importer not in ORDER:
        return False
    return not is_package(statement.module)


def unexplained(statement: Import) -> bool:
    """Whether an import of ours inside a function does not say why it stands there."""
    return statement.inside and not statement.text.endswith(REASONS)


def test_every_folder_is_a_room() -> None:
    folders = {folder.name for folder in SOURCES.iterdir() if (folder / "__init__.py").is_file()}
    assert folders <= set(ROOMS)


def test_rooms_import_only_rooms_before_them() -> None:
    assert [str(statement) for statement in our_imports() if wrong_way(statement)] == []


def test_rooms_are_entered_through_their_init() -> None:
    assert [str(statement) for statement in our_imports() if past_the_door(statement)] == []


def test_imports_inside_functions_say_why() -> None:
    assert [str(statement) for statement in our_imports() if unexplained(statement)] == []


def test_only_studies_use_the_package_as_its_users_do() -> None:
    users = [
        statement
        for statement in our_imports()
        if statement.module == "seedscope" and statement.names != ("__version__",)
    ]
    assert [str(statement) for statement in users if statement.importer not in ("reproduce", "integrations")] == []


def test_studies_use_public_names_only() -> None:
    outside = [
        statement
        for statement in our_imports()
        if statement.importer == "reproduce" and statement.imported != "reproduce"
    ]
    private = [statement for statement in outside if statement.module not in PUBLIC_PACKAGES]
    assert [str(statement) for statement in private] == []
    for statement in outside:
        assert set(statement.names) <= set(import_module(statement.module).__all__), str(statement)


def test_analyses_never_train_and_never_import_each_other() -> None:
    inside = [statement for statement in our_imports() if statement.importer == "analyses"]
    assert [str(statement) for statement in inside if statement.imported in ("training", "execution", "models")] == []
    assert [
        str(statement)
        for statement in inside
        if statement.imported == "analyses" and _package(statement) != _own(statement)
    ] == []


def test_only_from_ensemble_reads_an_ensemble() -> None:
    readers = [
        statement for statement in our_imports() if statement.importer == "analyses" and statement.imported == "storage"
    ]
    assert [str(statement) for statement in readers if not statement.file.endswith("from_ensemble.py")] == []


def test_an_analysis_is_everywhere_where_people_look_for_it() -> None:
    folders = {folder.name for folder in (SOURCES / "analyses").iterdir() if (folder / "__init__.py").is_file()}
    root = SOURCES.parents[1]
    menu, builder = (root / "mkdocs.yml").read_text(), (root / "docs" / "building" / "pages.py").read_text()
    stubs = [(SOURCES / "__init__.pyi").read_text(), (SOURCES / "analyses" / "__init__.pyi").read_text()]
    assert [name for name in folders if not all(f" {name} as {name}" in stub for stub in stubs)] == []
    assert [name for name in folders if f"- reference/{name}.md" not in menu or f'"{name}"' not in builder] == []
    assert [name for name in folders if not (TESTS / "analyses" / name).is_dir()] == []
    assert [name for name in folders if f"`ss.{name}`" not in (DOCS / "public.md").read_text()] == []


def test_tests_have_the_rooms_of_the_package() -> None:
    folders = {folder.name for folder in TESTS.iterdir() if folder.is_dir()} - OUTSIDE
    assert folders <= set(ROOMS)


def test_nobody_but_the_mechanisms_asks_of_which_class_a_mechanism_is() -> None:
    questions = [f"{file.relative_to(SOURCES)}:{line}" for file in SOURCES.rglob("*.py") for line in class_tests(file)]
    assert [question for question in questions if not question.startswith("mechanisms/")] == []


@pytest.mark.parametrize(
    "line",
    ["isinstance(one, DPSGD)", "isinstance(one, (int, ss.SGD))", "type(one) is SGD", "one.name == 'DPSGD'"],
)
def test_a_planted_question_for_a_class_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "planted.py").write_text(f"def asked(one):\n    return {line}\n")
    assert class_tests(tmp_path / "planted.py") == [2]


def test_only_one_function_brings_files_to_the_disk() -> None:
    files = [file for file in SOURCES.rglob("*.py") if "fsync" in file.read_text()]
    assert [file.relative_to(SOURCES).as_posix() for file in files] == ["core/files.py"]


def test_the_docs_show_the_picture_that_the_imports_draw() -> None:
    assert picture() in (DOCS / "architecture.md").read_text(), "put what `python -m tests.architecture` prints there"


@pytest.mark.parametrize(
    ("file", "line", "rule"),
    [
        ("numerics/newton.py", "from seedscope.storage import Ensemble", wrong_way),
        ("numerics/newton.py", "def solve():\n    from seedscope.storage import Ensemble  # start-up", wrong_way),
        ("storage/folder.py", "from seedscope.planning.plan import Plan", past_the_door),
        ("storage/folder.py", "def open():\n    from seedscope.planning import Plan", unexplained),
    ],
)
def test_a_planted_breach_is_found(tmp_path: Path, file: str, line: str, rule: object) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(line)
    (statement,) = imports_of(tmp_path / file, tmp_path)
    assert callable(rule)
    assert rule(statement)


def test_functions_are_short() -> None:
    """Half the functions fit in six lines, nine in ten in sixteen; a docstring is not counted."""
    trees = [tree_of(file) for file in SOURCES.rglob("*.py")]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    lengths = sorted(_length(function) for function in functions)
    assert lengths[len(lengths) // 2] <= 6
    assert lengths[9 * len(lengths) // 10] <= 16


def test_the_public_packages_say_what_is_in_them() -> None:
    assert all(import_module(package).__all__ for package in PUBLIC_PACKAGES)
    assert {"training", "models", "datasets", "accounting"} <= set(vars(ss)["__all__"])


def class_tests(file: Path) -> list[int]:
    """Return the lines that ask whether something is of a mechanism's class: by `isinstance`, type or name."""
    own = {name for name, value in vars(mechanisms).items() if isinstance(value, type) and issubclass(value, Mechanism)}
    asked = [node for node in ast.walk(tree_of(file)) if _compares(node)]
    return [
        node.lineno for node in asked if _words(node) & (own - {"Mechanism"})
    ]  # to be a mechanism at all is a check


def _compares(node: ast.AST) -> TypeGuard[ast.Call | ast.Compare]:
    """Whether a piece of code compares, or asks for a class."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(node, ast.Compare) or (isinstance(called, ast.Name) and called.id in ("isinstance", "issubclass"))


def _words(node: ast.AST) -> set[str]:
    """Return the names, attributes and texts in a piece of code."""
    every = [
        (getattr(part, "id", ""), getattr(part, "attr", ""), getattr(part, "value", "")) for part in ast.walk(node)
    ]
    return {word for words in every for word in words if isinstance(word, str)}


def _package(statement: Import) -> str:
    """Return the analysis that an import names."""
    return ".".join(statement.module.split(".")[:3])


def _own(statement: Import) -> str:
    """Return the analysis that a file belongs to; the room's own `__init__` belongs to all."""
    return "seedscope." + ".".join(statement.file.split("/")[:2])


def _length(function: ast.FunctionDef) -> int:
    """Return how many lines a function's body has, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
