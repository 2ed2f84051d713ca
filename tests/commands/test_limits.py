"""Extremes: vast numbers are answered by closed forms, no privacy is said, and what diverged is a failure."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from seedscope import accounting
from seedscope.accounting.loss_distribution import NOTHING, sampled_gaussian_rates, slack, total_variation
from seedscope.analyses.multiplicity import interval_error, models_needed_exact
from seedscope.core import SeedscopeWarning
from tests.helpers.command_line import run

FEW = ("--models", "4", "--neighbours", "0", "--jobs", "1")


@pytest.mark.parametrize(
    "setup",
    [
        ("--examples", "1000000000000", "--batch-size", "1000", "--steps", "1000", "--noise", "1"),
        ("--examples", "1000000000000", "--epochs", "10", "--epsilon", "1", "--relation", "replace_one"),
        ("--examples", "60000", "--steps", "1000000000", "--noise", "1"),
        ("--examples", "60000", "--steps", "1000000000", "--advantage", "0.1"),
        ("--examples", "1000000000000000", "--steps", "1000000000000000", "--noise", "1"),
    ],
    ids=lambda setup: " ".join(setup),
)
def test_an_account_of_vast_numbers_is_finite_and_answered(setup: tuple[str, ...]) -> None:
    done = run("account", *setup, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(0 <= value < math.inf for value in found["epsilon"].values())
    assert 0 <= found["membership_advantage"] <= 1


def test_the_closed_form_of_rare_rows_is_the_distance_that_brute_force_finds() -> None:
    noise, q = 0.7, 0.3
    x = np.linspace(-12, 13, 2_000_001)
    with_person = (1 - q) * np.exp(-(x**2) / (2 * noise**2)) + q * np.exp(-((x - 1) ** 2) / (2 * noise**2))
    apart = np.abs(with_person - np.exp(-(x**2) / (2 * noise**2))).sum() / 2
    distance = apart * (x[1] - x[0]) / (noise * math.sqrt(2 * math.pi))
    assert total_variation(noise, q, 1) == pytest.approx(distance, rel=1e-6)
    assert total_variation(noise, q, 1) == pytest.approx(q * (2 * ndtr(0.5 / noise) - 1))


@pytest.mark.parametrize(("noise", "q", "steps"), [(1.0, 0.01, 3), (2.0, 0.1, 50), (0.5, 0.001, 10)])
def test_the_closed_form_is_never_below_the_composed_curve(noise: float, q: float, steps: int) -> None:
    rates = sampled_gaussian_rates(noise, q, steps)
    reached = float((rates.true_positive - rates.false_positive).max())
    assert reached <= total_variation(noise, q, steps) + slack(steps)
    if steps == 3:
        assert reached > 0.5 * total_variation(noise, q, steps)


def test_rows_that_are_hardly_ever_drawn_have_an_epsilon_of_zero_at_a_larger_delta() -> None:
    curve = accounting.trade_off(noise_multiplier=1.0, sampling_probability=1e-9, steps=1000)
    assert float(curve.epsilon(1e-5)) == 0
    assert float(curve.advantage) <= total_variation(1.0, 1e-9, 1000) * (1 + 1e-9)


def test_rounding_is_allowed_for_by_the_number_of_steps() -> None:
    assert slack(10**9) == pytest.approx(1e-5)
    assert sampled_gaussian_rates(1.0, 0.5, 10**13) is NOTHING


def test_a_vast_plan_is_enough_and_not_much_more_than_enough() -> None:
    error, confidence, people = 0.001, 0.95, 143
    models = models_needed_exact(error, confidence, people)
    worst = np.arange(int(0.13 * models), int(0.16 * models), 997)  # where the exact interval is widest
    assert interval_error(worst, models, confidence, people).max() <= error
    fewer = int(models / 1.003)
    assert interval_error(worst * fewer // models, fewer, confidence, people).max() > error


def test_a_plan_for_a_tiny_error_is_answered() -> None:
    found = json.loads(run("plan", "--error", "0.0001", "--jobs", "1", "--json").stdout)
    assert found["ways"]["exact interval"]["models"] > 10**9


@pytest.mark.parametrize("command", ["account --examples 1000 --steps 10", "audit --mechanism dpsgd"])
def test_an_infinite_epsilon_is_refused_with_what_it_means(command: str) -> None:
    done = run(*command.split(), "--epsilon", "inf")
    assert (done.returncode, "no privacy at all" in done.stderr) == (2, True)


def test_a_level_without_privacy_says_so_on_every_way(tmp_path: Path) -> None:
    with pytest.warns(SeedscopeWarning, match="there is no privacy"):
        done = run("audit", "--epsilon", "1", "--epsilon", "inf", *FEW, "--out", "report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert [level["label"] for level in report["levels"]] == ["ε = 1", "no privacy (ε = ∞)"]


@pytest.mark.parametrize("command", ["train --seeds 4", "audit --models 4 --neighbours 0"])
def test_training_that_diverges_is_a_failed_run(command: str, tmp_path: Path) -> None:
    wild = ("--mechanism", "sgd", "--learning-rate", "1e30", "--steps", "20", "--jobs", "1", "--store", "kept")
    done = run(*command.split(), *wild, cwd=tmp_path)
    assert done.returncode == 8
    assert "training diverged: seeds 0, 1, 2, 3 gave" in done.stderr
    assert not (tmp_path / "seedscope-report" / "report.html").exists()


@pytest.mark.slow
def test_a_terminal_that_knows_no_letters_but_ascii_gets_a_report(tmp_path: Path) -> None:
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "seedscope", "audit", *FEW, "--out", str(tmp_path / "report")]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=plain, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert "ε = 1" in (tmp_path / "report" / "report.json").read_text(encoding="utf-8")
