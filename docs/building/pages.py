"""What the site shows beyond the pages in this folder: the reference of all public names, and the changelog.

MkDocs calls the functions that begin with `on_`.
"""

from __future__ import annotations

import re
from importlib import import_module
from inspect import ismodule
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
NAMESPACES = {
    "accounting": "seedscope.accounting",
    **{
        name: f"seedscope.analyses.{name}"
        for name in ("intrinsic", "membership", "multiplicity", "per_instance", "privacy_loss", "reconstruction")
    },
    "statistics": "seedscope.numerics.statistics",
    "datasets": "seedscope.datasets",
    "models": "seedscope.models",
    "training": "seedscope.training",
    "mechanisms": "seedscope.mechanisms",
    "core": "seedscope.core",
    "integrations": "seedscope.integrations",
}
NEED_AN_EXTRA = {"integrations": ["torch.Recorder"]}  # described without being imported
OUTSIDE = re.compile(r"\]\(\.\./((?:src|tests|benchmarks)/[^)]+|[A-Z]+\.md)\)")  # links from docs/ to the repository


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code and from the changelog."""
    for place, text in generated_pages().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files outside of the docs lead to the repository."""
    return OUTSIDE.sub(lambda link: f"]({config.repo_url}/blob/main/{link[1]})", markdown)


def generated_pages() -> dict[str, str]:
    """Return the pages that are made, by their place in the docs."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    reference = {f"reference/{name}.md": namespace_page(name, path) for name, path in NAMESPACES.items()}
    return {"changelog.md": changelog, "reference/index.md": front_page(), **reference}


def front_page() -> str:
    """Return the reference of what `import seedscope as ss` gives."""
    package = import_module("seedscope")
    spaces = ", ".join(f"[`{path.split('.')[-1]}`]({name}.md)" for name, path in NAMESPACES.items())
    title = f"# Reference\n\nWhat `import seedscope as ss` gives. More names are in {spaces}.\n"
    return title + entries("seedscope", [name for name in package.__all__ if not ismodule(getattr(package, name))])


def namespace_page(name: str, path: str) -> str:
    """Return the reference of one namespace: what it is for, and each of its names."""
    module = import_module(path)
    about = (module.__doc__ or "").strip().split("\n\n")[0]
    title = path if name in ("core", "mechanisms") else f"ss.{name}"  # the two are not among the package's own names
    return f"# {title}\n\n{about}\n" + entries(path, public_names(module) + NEED_AN_EXTRA.get(name, []))


def public_names(module: Any) -> list[str]:
    """Return what a namespace offers, its inner modules left out."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if is_own(module, name)]
    return [name for name in names if not is_module(module, name)]


def is_module(module: Any, name: str) -> bool:
    """Whether a name is an inner module, also one that cannot be loaded because it needs an extra."""
    try:
        return ismodule(getattr(module, name))
    except ModuleNotFoundError:
        return True


def is_own(module: Any, name: str) -> bool:
    """Whether a public name was made in the module itself."""
    return not name.startswith("_") and getattr(getattr(module, name), "__module__", "") == module.__name__


def entries(path: str, names: list[str]) -> str:
    """Return the directives that let mkdocstrings describe each name."""
    return "".join(f"\n::: {path}.{name}\n" for name in sorted(names, key=str.lower))
