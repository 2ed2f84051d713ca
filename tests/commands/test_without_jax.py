"""What needs no gradient steps works where JAX is not installed, and what does says how to install it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import seedscope as ss
from seedscope.core import NETWORKS
from seedscope.models import Model
from tests.helpers.command_line import run

FEW = ("--epsilon", "1", "--models", "8", "--neighbours", "2", "--neighbour-models", "4", "--jobs", "1")


@pytest.fixture
def no_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which JAX is not installed."""
    monkeypatch.setattr("seedscope.core.extras.find_spec", lambda package: None)


def test_an_audit_of_private_regression_never_loads_jax(tmp_path: Path) -> None:
    code = f"import sys; sys.argv = ['seedscope', 'audit', *{FEW}]\nfrom seedscope.commands.cli import main\n"
    loaded = f"[package for package in {NETWORKS} if package in sys.modules]"
    code += f"try: main()\nexcept SystemExit as done: print(done.code, {loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("audit --mechanism sgd", "SGD, which takes gradient steps,"),
        ("audit --mechanism dpsgd --epsilon 1", "DPSGD, which takes gradient steps,"),
        ("train --mechanism sgd --seeds 2", "SGD, which takes gradient steps,"),
    ],
)
def test_gradient_steps_without_jax_are_one_sentence(command: str, what: str, no_jax: None, tmp_path: Path) -> None:
    done = run(*command.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(f"{what} needs JAX, which is not installed: pip install 'seedscope[networks]'.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_without_jax_leaves_dpsgd_out_and_says_so(no_jax: None) -> None:
    data = ss.load("breast-cancer")
    compared = ss.compare(data, mechanisms=["gaussian-objective", "dpsgd"], models=8, jobs=1)
    assert [contender.name for contender in compared.contenders] == ["no privacy", "gaussian-objective"]
    assert "seedscope[networks]" in compared.left_out["dpsgd"]


def said_without(package: str, code: str, folder: Path) -> str:
    """Return what a process of its own says of its mistake where a package cannot be imported."""
    hidden = f"import sys; sys.modules[{package!r}] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", hidden + code], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode != 0
    return done.stderr.splitlines()[-1]


def test_a_network_that_needs_jax_is_one_sentence(tmp_path: Path) -> None:
    said = said_without("equinox", "import seedscope as ss; ss.lenet5()", tmp_path)
    assert said.endswith("lenet5 needs JAX, which is not installed: pip install 'seedscope[networks]'.")


def test_a_study_that_needs_jax_is_one_sentence(tmp_path: Path) -> None:
    command = "sys.argv = ['seedscope', 'reproduce', 'per-instance']; from seedscope.commands.cli import main; main()"
    assert "needs JAX, which is not installed" in said_without("jax", command, tmp_path)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("model", [ss.logistic(), ss.mlp((7, 3)), ss.mlp(4, dropout=0.5)])
def test_weights_of_dense_networks_are_counted_without_jax_as_with_it(model: Model, classes: int) -> None:
    assert model.parameters((3, 2), classes) == Model.parameters(model, (3, 2), classes)
