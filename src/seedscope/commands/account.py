"""`seedscope account`: the epsilon of a DP-SGD set-up, or the noise it needs, and what that means in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands import options
from seedscope.commands.terminal import say
from seedscope.core import RELATION_WORDS, Relation, require

if TYPE_CHECKING:
    from seedscope.accounting import TradeOff

PRIORS = (0.001, 0.1)  # chances of guessing a record without the model

Noise = Annotated[
    float | None, typer.Option("--noise", help="Noise multiplier: standard deviation over clipping norm.")
]
Epsilon = Annotated[float | None, typer.Option(help="Instead of --noise: find the least noise that reaches this ε.")]
Epochs = Annotated[float | None, typer.Option(help="Instead of --steps: passes over the data.")]
Advantage = Annotated[
    float | None, typer.Option(help="Instead of --noise: the least noise that keeps any attack's advantage below this.")
]
Tpr = Annotated[float | None, typer.Option(help="Instead of --noise: the largest true-positive rate, at --fpr.")]
Fpr = Annotated[float | None, typer.Option(help="The false-positive rate that --tpr is at.")]


def account(
    examples: Annotated[int, typer.Option(help="Training rows N.")],
    batch_size: Annotated[int, typer.Option(help="Expected batch size; each row is drawn with this over N.")] = 128,
    steps: Annotated[int | None, typer.Option(help="Steps of training.")] = None,
    epochs: Epochs = None,
    noise: Noise = None,
    epsilon: Epsilon = None,
    advantage: Advantage = None,
    tpr: Tpr = None,
    fpr: Fpr = None,
    delta: Annotated[float, typer.Option(help="δ, well below 1/N.")] = 1e-5,
    relation: Annotated[str, typer.Option(help="Neighbours: add_or_remove or replace_one.")] = "add_or_remove",
    as_json: options.Json = False,
) -> None:
    """Say how private DP-SGD with Poisson batches is for any data, and what an attack can achieve at most.

    \b
    Examples:
      seedscope account --examples 60000 --batch-size 128 --epochs 10 --noise 1.1
      seedscope account --examples 60000 --steps 4690 --epsilon 2 --delta 1e-6 --json
      seedscope account --examples 60000 --epochs 10 --advantage 0.1
      seedscope account --examples 60000 --epochs 10 --tpr 0.05 --fpr 0.01
    """
    for name, count in (("--examples", examples), ("--batch-size", batch_size), ("--steps", steps)):
        require(count is None or count >= 1, f"{name} must be at least 1, got {count}.")
    length = _steps(steps, epochs, examples, batch_size)
    aims = [noise is not None, epsilon is not None, advantage is not None, tpr is not None or fpr is not None]
    require(sum(aims) == 1, "give one of --noise, --epsilon, --advantage, or --tpr with --fpr.")
    nothing = "--epsilon inf is no privacy at all: it is kept without any noise; give a finite number."
    require(epsilon is None or epsilon < math.inf, nothing)
    require(batch_size <= examples, f"--batch-size must be at most --examples, {examples}, got {batch_size}.")
    if noise is None:
        noise = least_noise(batch_size / examples, length, relation, epsilon, delta, advantage, tpr, fpr)
    accounted = account_for(examples, batch_size, length, noise, delta, relation)
    return options.print_json(accounted.as_dict()) if as_json else print_account(accounted)


def least_noise(
    rate: float,
    steps: int,
    relation: Any,
    epsilon: float | None = None,
    delta: float = 1e-5,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
) -> float:
    """Return the least noise multiplier that reaches ε, or keeps every attack within a risk."""
    from seedscope import accounting  # start-up

    if epsilon is not None:
        return accounting.dpsgd_noise_multiplier(epsilon, delta, rate, steps, relation=relation)
    return accounting.dpsgd_noise_for_risk(accounting.Risk(advantage, tpr, fpr), rate, steps, relation)


@dataclass(frozen=True, eq=False)
class Account:
    """What is known of a DP-SGD set-up whatever the data: its ε by each way, its curve, what reconstruction can reach.

    `reconstruction` has pairs: the chance to guess a record right without the model, and at most with it.
    """

    examples: int
    batch_size: int
    steps: int
    noise_multiplier: float
    delta: float
    relation: Relation
    epsilon: Mapping[str, float]
    curve: TradeOff
    reconstruction: tuple[tuple[float, float], ...]

    @property
    def sampling_probability(self) -> float:
        """The chance of a row to be in a batch."""
        return self.batch_size / self.examples

    def as_dict(self) -> dict[str, Any]:
        """Return the account as JSON has it."""
        described = self.curve.as_dict()
        names = ("examples", "batch_size", "steps", "sampling_probability", "noise_multiplier", "delta", "relation")
        return {name: getattr(self, name) for name in names} | {
            "epsilon": dict(self.epsilon),
            "kind": "proved",
            "mu": described["mu"],
            "membership_advantage": float(self.curve.advantage),
            "true_positive_rates": described["true_positive_rates"],
            "trade_off": described["curve"],
            "reconstruction_success": [
                {"without_the_model": prior, "at_most": most} for prior, most in self.reconstruction
            ],
        }


def account_for(examples: int, batch_size: int, steps: int, noise: float, delta: float, relation: Any) -> Account:
    """Return the account: the set-up, ε by each way, and what it bounds."""
    from seedscope import accounting  # start-up

    q = batch_size / examples
    curve = accounting.trade_off(noise_multiplier=noise, sampling_probability=q, steps=steps, relation=relation)
    renyi = float(accounting.dpsgd_epsilon(noise, q, steps, delta, relation=relation))
    exact = math.inf if relation == "replace_one" else float(curve.epsilon(delta))
    tight = {"pld": exact} if exact < math.inf else {}
    success = accounting.reconstruction_success_upper(PRIORS, noise, q, steps)
    pairs = tuple((prior, float(most)) for prior, most in zip(PRIORS, success, strict=True))
    return Account(examples, batch_size, steps, noise, delta, relation, {"rdp": renyi} | tight, curve, pairs)


def print_account(account: Account) -> None:
    """Print the account, first the numbers, then what they mean."""
    from seedscope.accounting import plain_meanings  # start-up

    numbers = account.as_dict()
    ways = ", ".join(f"{value:.4g} by {_WAYS[name]}" for name, value in account.epsilon.items())
    say(
        f"{account.steps:,} steps, each row in a batch with probability {account.sampling_probability:.4g}, noise "
        f"{account.noise_multiplier:.4g} times the clipping norm:"
    )
    say(f"  ε = {ways}, at δ = {account.delta:g} (proved, {RELATION_WORDS[account.relation]})")
    where = numbers["mu"].get("note", "exactly")
    say(f"  μ = {numbers['mu']['value']:.4g}: no easier to tell apart than N(0, 1) and N(μ, 1) ({where})")
    say("What that bounds, whatever the data and whoever looks at the trained model:")
    rates, least = numbers["true_positive_rates"], min(account.epsilon.values())
    for sentence in plain_meanings(least, numbers["membership_advantage"], rates, account.reconstruction):
        say(f"  · {sentence}")
    say("Only for Poisson batches: shuffled ones have another, generally worse, guarantee.")


_WAYS = {"rdp": "Rényi orders", "pld": "privacy-loss distributions"}


def _steps(steps: int | None, epochs: float | None, examples: int, batch_size: int) -> int:
    """Return the number of steps that was given, one way or the other."""
    require((steps is None) != (epochs is None), "give either --steps or --epochs, not both and not neither.")
    if steps is not None:
        return steps
    require(epochs > 0, f"--epochs must be above 0, got {epochs}.")  # type: ignore[operator]
    return max(1, round(epochs * examples / batch_size))  # type: ignore[operator]
