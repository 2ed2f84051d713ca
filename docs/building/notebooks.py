"""Notebooks as pages: each `docs/notebooks/*.ipynb` is run from top to bottom while the site is built.

A cell that fails stops the build. What a notebook needs beyond this environment is in its metadata (`seedscope.needs`);
without that it is shown, and the page says that it was not run. MkDocs calls the functions that begin with `on_`.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "notebooks"
NOT_RUN = "!!! note\n    Not run when this page was built: it needs `{}`, which was not installed.\n"


def notebooks() -> list[Path]:
    """Return the notebooks in their order."""
    return sorted(FOLDER.glob("*.ipynb"))


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each notebook."""
    from mkdocs.structure.files import File

    for path in notebooks():
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page(path)))
    return files


def page(path: Path) -> str:
    """Return a notebook as Markdown, with what its cells printed."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    needs = notebook["metadata"].get("seedscope", {}).get("needs")
    runs = needs is None or find_spec(needs) is not None
    cells = [("".join(cell["source"]), cell["cell_type"]) for cell in notebook["cells"]]
    shown = run(cells, path.name) if runs else [_as_markdown(text, kind, "") for text, kind in cells]
    note = [] if runs else [NOT_RUN.format(needs)]
    return "\n\n".join([shown[0], *note, *shown[1:], f"[Download this notebook]({path.name})"]) + "\n"


def run(cells: list[tuple[str, str]], name: str) -> list[str]:
    """Return the cells as Markdown after running them one after the other in a folder of their own."""
    names: dict[str, Any] = {"__name__": "a_notebook"}
    with _elsewhere():
        return [_as_markdown(text, kind, _output(text, names, name) if kind == "code" else "") for text, kind in cells]


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Work in a new folder, and come back."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(here)


def _output(code: str, names: dict[str, Any], name: str) -> str:
    """Return what a cell prints, and the value of its last line where that is one."""
    tree, printed = ast.parse(code), io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            if value is not None:
                print(value)
    return printed.getvalue().rstrip()


def _as_markdown(text: str, kind: str, output: str) -> str:
    """Return a cell as Markdown."""
    if kind == "markdown":
        return text
    shown = f"``` {{ .python }}\n{text}\n```"
    return f"{shown}\n\n```text\n{output}\n```" if output else shown
