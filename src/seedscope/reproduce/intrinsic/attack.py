"""The membership attack of IP2 §8 on a convolutional network, with the seed known or hidden (IP2 Table 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import seedscope as ss
from seedscope.analyses.membership import SeedKnownOrHidden, seed_known_or_hidden
from seedscope.core import model_progress
from seedscope.reproduce.comparison import Comparison, Run
from seedscope.reproduce.intrinsic.settings import ATTACKED, Attack
from seedscope.reproduce.intrinsic.tables import row


def study_attack(attack: Attack, data: ss.Dataset, run: Run) -> Iterator[Comparison]:
    """Yield IP2 Table 6: the attack at each step, on as many models as the run's scale has."""
    ensemble = attacked_models(attack, data, run)
    for step in attack.steps:
        yield from attack_rows(attack, step, attacked(ensemble, step))


def attacked_models(attack: Attack, data: ss.Dataset, run: Run) -> ss.Ensemble:
    """Return models of the data set with their losses on members and non-members at every step that is attacked."""
    with model_progress(f"{attack.data}-attack", run.quiet) as progress:
        return ss.train(
            data,
            ss.SGD(attack.learning_rate, attack.batch_size, max(attack.steps)),
            model=attack.network,
            grid=ss.Grid(attack.seeds, checkpoints=attack.steps),
            records=ss.Records(probes=("train", "test"), scores_at_checkpoints=True),
            store=attack_store(attack, run),
            jobs=run.jobs,
            progress=progress,
        )


def attack_store(attack: Attack, run: Run) -> Path | None:
    """Return the folder of the models: the paper's network takes so long that it is kept at every scale."""
    if attack.data != ATTACKED:
        return run.store(f"{attack.data}-attack")
    return replace(run, scale="paper").store(f"{attack.data}-vgg")


def attacked(ensemble: ss.Ensemble, step: int) -> SeedKnownOrHidden:
    """Return what knowing the seed is worth to an attacker after this many steps."""
    members, others = (losses_at(ensemble, part, step) for part in ("train", "test"))
    return seed_known_or_hidden(members, others)


def losses_at(ensemble: ss.Ensemble, part: str, step: int) -> np.ndarray:
    """Return the losses [model, example] on a part of the data after this many steps."""
    return ensemble.on(part)["losses"].isel(neighbour=0, init=0).sel(step=step).values


def attack_rows(attack: Attack, step: int, outcome: SeedKnownOrHidden) -> Iterator[Comparison]:
    """Yield the row of IP2 Table 6 for one step, a comparison for each column."""
    columns = {
        "accuracy, seed known": outcome.accuracy_same.mean(),
        "accuracy, seed hidden": outcome.accuracy_different.mean(),
        "accuracy gain": outcome.accuracy_gain.value,
        "ε, seed known": outcome.epsilon_same.mean(),
        "ε, seed hidden": outcome.epsilon_different.mean(),
        "ε gain": outcome.epsilon_gain.value,
        "p-value": outcome.p_value,
        "models": attack.seeds,
        "loss ratio": outcome.loss_ratio,
    }
    for quantity, value in columns.items():
        note = difference(attack) if quantity == "models" else ""
        yield row("IP2 Table 6", attack.data, f"T={step}", quantity, float(value), note)


def difference(attack: Attack) -> str:
    """Return in what the attacked models differ from the paper's, if in anything."""
    if attack.data != ATTACKED:
        return "of a smaller network and set than the paper's"
    return "too few to resolve the paper's gain" if attack.seeds < Attack().seeds else ""
