"""The public names are what their stub says: to a type checker, which reads this file too, and to Python."""

import ast
import inspect
import pydoc
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest

import seedscope as ss
from tests.helpers.small_data import table

SOURCES = Path(ss.__file__).parent
PUBLIC: list[str] = vars(ss)["__all__"]
FUNCTIONS = [name for name in PUBLIC if inspect.isfunction(getattr(ss, name))]


def test_a_checker_and_python_agree_on_what_the_public_names_give() -> None:
    """Were a name without a type, mypy would refuse each `assert_type`, and each ignored error as none."""
    data = assert_type(table(), ss.Dataset)
    ensemble = assert_type(ss.train(data, ss.ObjectivePerturbation(epsilon=1.0), grid=ss.Grid(seeds=3)), ss.Ensemble)
    assert_type(ensemble.accuracy(), np.ndarray)
    assert isinstance(assert_type(ss.audit(ensemble), ss.Audit), ss.Audit)
    with pytest.raises(TypeError, match="seeds"):
        ss.train(data, ss.SGD(), seeds=3)  # type: ignore[call-arg]
    with pytest.raises(ss.SeedscopeError, match="mechanism must be"):
        ss.train(data, "sgd")  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="trian"):
        ss.trian  # type: ignore[attr-defined]  # noqa: B018


def test_every_public_name_is_there_and_no_other() -> None:
    stub = ast.parse((SOURCES / "__init__.pyi").read_text())
    named = [one.name for line in stub.body if isinstance(line, ast.ImportFrom) for one in line.names]
    assert sorted(PUBLIC) == sorted([*named, "__version__"])
    assert all(getattr(ss, name) is not None for name in PUBLIC)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_shows_a_function_with_its_signature(name: str) -> None:
    function: Callable[..., Any] = getattr(ss, name)
    assert f"function {name} in module {function.__module__}" in pydoc.plain(pydoc.render_doc(function))
    signature = inspect.signature(function)
    hints = [signature.return_annotation, *(one.annotation for one in signature.parameters.values())]
    assert inspect.Parameter.empty not in hints


def test_audit_and_train_are_among_the_functions() -> None:
    assert {"audit", "train", "train_until", "load"} <= set(FUNCTIONS)


def test_what_tells_checkers_of_types_is_packaged() -> None:
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    packaged = {
        file
        for pattern in settings["tool"]["setuptools"]["package-data"]["seedscope"]
        for file in SOURCES.glob(pattern)
    }
    assert {SOURCES / "py.typed", *SOURCES.rglob("*.pyi")} <= packaged


def test_every_package_that_loads_its_names_late_has_a_stub_beside_it() -> None:
    late = [file for file in SOURCES.rglob("__init__.py") if "lazy_loader.attach_stub" in file.read_text()]
    assert SOURCES / "__init__.py" in late
    assert all(file.with_suffix(".pyi").is_file() for file in late)
