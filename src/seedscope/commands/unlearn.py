"""`seedscope unlearn`: which deletion requests can be honoured without training again?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands import options
from seedscope.commands.terminal import say
from seedscope.core import Number, SeedscopeError

if TYPE_CHECKING:
    import numpy as np

    from seedscope.analyses.per_instance import Decision, Divergence, PerInstancePrivacy
    from seedscope.storage import Ensemble


UNSEEN = "requests were made without seeing the model"
EARLIER_STILL_IN = "a later person's divergence is what it was with the earlier people still in the data"
FEWER_ROWS = "rows are drawn a little more often the fewer there are; --public-size keeps their chance as it is"


def unlearn(
    store: Annotated[Path, typer.Argument(help="A folder of DP-SGD models with recorded gradient norms.")],
    person: Annotated[list[str], typer.Option(help="The identifier of a row to delete; repeatable, in order.")],
    after: Annotated[
        list[Path] | None,
        typer.Option(
            help="Runs on what was left before each later request: a folder for every person but the first, in order."
        ),
    ] = None,
    budget: Annotated[
        float, typer.Option(help="β: how far the released model may be from training without them.")
    ] = 1.0,
    order: Annotated[float, typer.Option(help="Rényi order α of that distance.")] = 2.0,
    l2: Annotated[
        float | None, typer.Option(help="Noisy fine-tuning (logistic): weight of the L2 penalty, bias included.")
    ] = None,
    noise_scale: Annotated[
        float, typer.Option(help="Standard deviation of the noise that a fine-tuning step adds to each weight.")
    ] = 0.05,
    radius: Annotated[
        float, typer.Option(help="The weights are projected onto a ball of this radius before fine-tuning.")
    ] = 10.0,
    row_norm: Annotated[float, typer.Option(help="No row, with a bias column of 1, may be longer than this.")] = 1.0,
    as_json: options.Json = False,
) -> None:
    """Say for a sequence of deletion requests when the model may stay and when it must be trained again.

    Uses each person's own divergence between training with and without them, estimated from the runs in the folder. It
    holds for requests that were made without seeing the model; people who ask because of what it says are not covered.
    A later person's divergence is that of training without the earlier ones: runs on what they left are named by
    --after. Where they are not, it is taken from runs that still have the earlier people, and the output says so.
    With --l2 it also says, for logistic regression, how many noisy gradient steps on what is left stand in for training
    again: that is proved, and about the model compared with training without them and the same steps.

    \b
    Example:
      seedscope unlearn runs/patients-dpsgd --person 17 --person 402 --budget 0.5
      seedscope unlearn runs/patients-dpsgd --person 17 --person 402 --after runs/patients-without-17
      seedscope unlearn runs/patients-dpsgd --person 17 --budget 0.01 --l2 0.1 --row-norm 1
    """
    from seedscope.analyses.per_instance import UnlearningSchedule, orders_needed, unlearning_decisions  # start-up
    from seedscope.storage import Ensemble  # start-up

    UnlearningSchedule(order, budget)  # refuses what is out of range before anything is read
    later = list(after or ())
    if later and len(later) != len(person) - 1:
        raise SeedscopeError(
            f"--after must name a folder for every --person but the first, {len(person) - 1}, got {len(later)}; "
            "train on what is left before each of these requests."
        )
    ensembles = [Ensemble.open(place) for place in (store, *later)]
    requests, runs = _requests(ensembles, person, orders_needed(order, len(person)))
    decisions = unlearning_decisions(requests, order, budget)
    summary = summarise(decisions, order, budget, runs, assumed(ensembles[0], len(person), bool(later)))
    if l2 is not None:
        summary["fine_tuning"] = _fine_tuning(ensembles[0], order, budget, l2, noise_scale, radius, row_norm)
    return options.print_json(summary) if as_json else print_decisions(summary)


def assumed(ensemble: Ensemble, requests: int, continued: bool) -> str:
    """Return what decisions about requests rest on; `continued` where there are runs on what is left."""
    if requests == 1:
        return UNSEEN
    fixed = ensemble.description.described_mechanism.get("public_size") is not None
    more = [] if continued and fixed else [FEWER_ROWS if continued else EARLIER_STILL_IN]
    return ", and ".join([UNSEEN, *more])


def _requests(
    ensembles: list[Ensemble], people: list[str], orders: np.ndarray
) -> tuple[list[tuple[str, Divergence]], int]:
    """Return each person with their divergence, and from how many runs at least it is known.

    It is that of the ensemble on what was left before their request; of one ensemble for all where it is the only one.
    """
    from seedscope.analyses.per_instance import per_instance_privacy  # start-up

    privacies = [per_instance_privacy(ensemble, orders=orders) for ensemble in ensembles]
    requests = []
    for place, person in enumerate(people):
        own = min(place, len(ensembles) - 1)
        ensemble, privacy = ensembles[own], privacies[own]
        if own:
            _require_continued(ensembles[0], ensemble, privacy, people[:place])
        requests.append((person, privacy.divergence(_row(ensemble, privacy, person))))
    return requests, min(privacy.runs for privacy in privacies)


def _require_continued(first: Ensemble, later: Ensemble, privacy: PerInstancePrivacy, gone: list[str]) -> None:
    """Require that later runs are of the same training, on the first runs' data without those who are gone."""
    before, now = first.description, later.description
    same = before.described_mechanism == now.described_mechanism and before.model == now.model
    if not same:
        raise SeedscopeError(f"--after must name runs of the same training, got {now.model.name} by {now.mechanism!r}.")
    names = set(later.texts("person_id")[privacy.people])
    still = [person for person in gone if person in names]
    if still:
        raise SeedscopeError(
            f"--after must name runs without the people who left before, got runs with {still[0]!r}; train on what is "
            "left, with identifiers that stay (--id)."
        )
    if now.data.examples != before.data.examples - len(gone):
        raise SeedscopeError(
            f"--after must name runs on the first runs' rows but {len(gone)}, {before.data.examples - len(gone):,}, "
            f"got {now.data.examples:,} rows; leave out those who asked before and nobody else."
        )


def summarise(decisions: tuple[Decision, ...], order: float, budget: float, runs: int, assumes: str) -> dict[str, Any]:
    """Return the decisions, with what they rest on."""
    listed = [
        {
            "person": decision.person,
            "retrain": not decision.kept,
            "divergence": decision.divergence.as_dict(),
            **({} if decision.refused is None else {"without_retraining": decision.refused}),
        }
        for decision in decisions
    ]
    return {
        "order": order,
        "budget": budget,
        "requests": listed,
        "retrainings": sum(request["retrain"] for request in listed),
        "runs": runs,
        "kind": "estimate",
        "assumes": assumes,
    }


def _print_fine_tuning(tuning: dict[str, Any]) -> None:
    """Print what stands in for training again."""
    say(
        f"In the place of training again: project the weights onto the ball of radius {tuning['radius']:g}, then "
        f"{tuning['steps']} whole-batch gradient steps without the person (L2 {tuning['l2']:g}, learning rate "
        f"{tuning['learning_rate']:.4g}, noise {tuning['noise_scale']:g} on each weight). Proved "
        f"{tuning['divergence']['note']}: {tuning['divergence']['value']:.3g} from training without them and the same "
        "steps. A request after that needs the same again."
    )


def print_decisions(summary: dict[str, Any]) -> None:
    """Print one line for each request, then the sum."""
    for request in summary["requests"]:
        if request["retrain"]:
            reason = f"keeping it would cost {request['without_retraining']:.3g}, above {summary['budget']:g}"
            say(f"{request['person']}: train again ({reason})")
        else:
            say(f"{request['person']}: keep the model (divergence {request['divergence']['value']:.3g})")
    if summary.get("fine_tuning") and summary["retrainings"]:
        _print_fine_tuning(summary["fine_tuning"])
    say(
        f"{summary['retrainings']} of {len(summary['requests'])} requests need training again. "
        f"Order {summary['order']:g}; an estimate from {summary['runs']} runs, if {summary['assumes']}."
    )


def _fine_tuning(ensemble: Ensemble, order: float, budget: float, l2: float, *settings: float) -> dict[str, Any]:
    """Return how many noisy steps stand in for training again, and what they are."""
    from seedscope.analyses.per_instance import FineTuning  # start-up

    noise_scale, radius, row_norm = settings
    model, classes = ensemble.description.model.name, len(ensemble.description.data.classes)
    if model != "Logistic()":
        raise SeedscopeError(f"fine-tuning is proved for logistic regression, the models are {model}; leave out --l2.")
    tuning = FineTuning(l2, row_norm, noise_scale, radius, classes)
    steps = tuning.steps_needed(order, budget)
    divergence = Number(tuning.divergence(steps, order), "proved", note=f"if no row is longer than {row_norm:g}")
    return {"steps": steps, "learning_rate": tuning.learning_rate, "divergence": divergence.as_dict()} | asdict(tuning)


def _row(ensemble: Ensemble, privacy: PerInstancePrivacy, name: str) -> int:
    """Return the training row of a person's identifier, among those whose norms were recorded."""
    names = ensemble.texts("person_id")[privacy.people]
    places = [place for place, person in enumerate(names) if person == name]
    if not places:
        raise SeedscopeError(
            f"no gradient norms were recorded of a row with identifier {name!r}; train with norms of the training part."
        )
    return int(privacy.rows[places[0]])
