"""`seedscope account`: the epsilon of a DP-SGD set-up, or the noise it needs, and what that means in plain words."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from seedscope.commands import options
from seedscope.errors import require

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
PRIORS = (0.001, 0.1)  # chances of guessing a record without the model

Noise = Annotated[
    float | None, typer.Option("--noise", help="Noise multiplier: standard deviation over clipping norm.")
]
Epsilon = Annotated[float | None, typer.Option(help="Instead of --noise: find the least noise that reaches this ε.")]
Epochs = Annotated[float | None, typer.Option(help="Instead of --steps: passes over the data.")]
Pld = Annotated[bool, typer.Option("--pld", help="Also by privacy-loss distributions, a tighter bound (extra 'pld').")]


def account(
    examples: Annotated[int, typer.Option(help="Training rows N.")],
    batch_size: Annotated[int, typer.Option(help="Expected batch size; each row is drawn with this over N.")] = 128,
    steps: Annotated[int | None, typer.Option(help="Steps of training.")] = None,
    epochs: Epochs = None,
    noise: Noise = None,
    epsilon: Epsilon = None,
    delta: Annotated[float, typer.Option(help="δ, well below 1/N.")] = 1e-5,
    relation: Annotated[str, typer.Option(help="Neighbours: add_or_remove or replace_one.")] = "add_or_remove",
    pld: Pld = False,
    as_json: options.Json = False,
) -> None:
    """Say how private DP-SGD with Poisson batches is for any data, and what an attack can achieve at most.

    \b
    Examples:
      seedscope account --examples 60000 --batch-size 128 --epochs 10 --noise 1.1
      seedscope account --examples 60000 --steps 4690 --epsilon 2 --delta 1e-6 --json
    """
    length = _steps(steps, epochs, examples, batch_size)
    require((noise is None) != (epsilon is None), "give either --noise or --epsilon, not both and not neither.")
    require(batch_size <= examples, f"--batch-size must be at most --examples, {examples}, got {batch_size}.")
    found = account_for(examples, batch_size, length, noise, epsilon, delta, relation, pld)
    return options.print_json(found) if as_json else print_account(found)


def account_for(
    examples: int,
    batch_size: int,
    steps: int,
    noise: float | None,
    epsilon: float | None,
    delta: float,
    relation: str,
    pld: bool,
) -> dict[str, Any]:
    """Return the account: the set-up, ε by each way, and what it bounds."""
    from seedscope import accounting
    from seedscope.analyses import per_instance, reconstruction

    q, orders = batch_size / examples, accounting.DEFAULT_ORDERS
    options_ = {"orders": orders, "relation": relation}
    if noise is None:
        noise = accounting.dpsgd_noise_multiplier(epsilon, delta, q, steps, **options_)  # type: ignore[arg-type]
    rdp = steps * accounting.sampled_gaussian_rdp(1.0, noise, q, orders, relation)  # type: ignore[arg-type]
    reached = float(accounting.rdp_to_epsilon(rdp, orders, delta))
    found = {"rdp": reached}
    if pld:
        require(relation == "add_or_remove", "--pld is for the relation add_or_remove only.")
        found["pld"] = accounting.pld_epsilon(noise, q, steps, delta)
    least = min(found.values())
    rates = [_true_positive_rate(rdp, orders, least, delta, rate) for rate in FALSE_POSITIVE_RATES]
    advantage = min(
        float(per_instance.membership_advantage(rdp, orders)), float(per_instance.epsilon_advantage(least, delta))
    )
    return {
        "examples": examples,
        "batch_size": batch_size,
        "steps": steps,
        "sampling_probability": q,
        "noise_multiplier": noise,
        "delta": delta,
        "relation": relation,
        "epsilon": found,
        "kind": "proved",
        "membership_advantage": advantage,
        "true_positive_rates": [
            {"false_positive_rate": rate, "at_most": most}
            for rate, most in zip(FALSE_POSITIVE_RATES, rates, strict=True)
        ],
        "reconstruction_success": [
            {"without_the_model": prior, "at_most": float(most)}
            for prior, most in zip(
                PRIORS, reconstruction.reconstruction_success_upper(PRIORS, noise, q, steps), strict=True
            )
        ],
    }


def print_account(found: dict[str, Any]) -> None:
    """Print the account, first the numbers, then what they mean."""
    least = min(found["epsilon"].values())
    ways = ", ".join(f"{value:.4g} by {_WAYS[name]}" for name, value in found["epsilon"].items())
    typer.echo(
        f"{found['steps']:,} steps, each row in a batch with probability {found['sampling_probability']:.4g}, noise "
        f"{found['noise_multiplier']:.4g} times the clipping norm:"
    )
    typer.echo(f"  ε = {ways}, at δ = {found['delta']:g} (proved, {_RELATIONS[found['relation']]})")
    typer.echo("What that bounds, whatever the data and whoever looks at the trained model:")
    typer.echo(f"  · any outcome is at most {_factor(least)} times likelier because of one person, up to δ")
    typer.echo(
        f"  · a membership attack is right at most {100 * found['membership_advantage']:.3g} points beyond chance"
    )
    for one in found["true_positive_rates"]:
        typer.echo(
            f"  · if it accuses {100 * one['false_positive_rate']:g} % of outsiders, it finds at most "
            f"{100 * one['at_most']:.3g} % of the members"
        )
    for one in found["reconstruction_success"]:
        typer.echo(
            f"  · whoever would guess a record right {100 * one['without_the_model']:g} % of the time anyway "
            f"does so at most {100 * one['at_most']:.3g} % of the time with the model"
        )
    typer.echo("Only for Poisson batches: shuffled ones have another, generally worse, guarantee.")


_WAYS = {"rdp": "Rényi orders", "pld": "privacy-loss distributions"}
_RELATIONS = {"add_or_remove": "one row more or less", "replace_one": "one row exchanged"}


def _factor(epsilon: float) -> str:
    """Return e^ε in few digits."""
    import math

    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else "∞"


def _true_positive_rate(rdp: Any, orders: Any, epsilon: float, delta: float, rate: float) -> float:
    """Return the largest true-positive rate that the divergences and the (ε, δ) both allow."""
    from seedscope.analyses import per_instance

    by_rdp = per_instance.true_positive_rate(rdp, orders, rate)
    return min(float(by_rdp), float(per_instance.epsilon_true_positive_rate(epsilon, delta, rate)))


def _steps(steps: int | None, epochs: float | None, examples: int, batch_size: int) -> int:
    """Return the number of steps that was given, one way or the other."""
    require((steps is None) != (epochs is None), "give either --steps or --epochs, not both and not neither.")
    if steps is not None:
        return steps
    require(epochs > 0, f"--epochs must be above 0, got {epochs}.")  # type: ignore[operator]
    return max(1, round(epochs * examples / batch_size))  # type: ignore[operator]
