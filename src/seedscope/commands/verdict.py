"""`seedscope verdict`: judge a stored report, under another policy if you like, without training anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedscope.commands import policy_options
from seedscope.commands.options import Json, print_json
from seedscope.commands.terminal import say
from seedscope.core import require

if TYPE_CHECKING:
    from seedscope.auditing import Verdict


def verdict(
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="The folder that 'seedscope audit' wrote, or its report.json.")
    ] = None,
    policy: policy_options.PolicyFile = None,
    fail_if: policy_options.FailIf = None,
    junit: policy_options.JUnit = None,
    sarif: policy_options.Sarif = None,
    quantities: Annotated[
        bool, typer.Option("--quantities", help="List what rules and conditions can be about.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Judge a report by a policy: release, look first, change, or stop.

    Exit codes: 0 every rule that was asked for is kept, 1 not, 2 a mistake in the command, 3 an attack beats what is
    claimed.

    \b
    Examples:
      seedscope verdict seedscope-report
      seedscope verdict seedscope-report --policy policy.toml --junit verdict.xml
      seedscope verdict seedscope-report --fail-if "advantage>0.1" --fail-if "arbitrary>5%"
      seedscope verdict --quantities
    """
    from seedscope.auditing import judge_report  # start-up
    from seedscope.report import read_report  # start-up

    if quantities:
        return _print_quantities(as_json)
    require(run is not None, "give the folder of a report, or --quantities.")
    judging = policy_options.Judging(policy, fail_if or (), junit, sarif)
    rules = judging.rules()
    report = read_report(run or Path())
    require(not report["public"], "a public report has no numbers to judge; give the internal one.")
    judged = judge_report(report, rules)
    report["verdict"] |= plain_parts(judged)
    written = judging.write(report)
    if as_json:
        print_json({**plain_parts(judged), "written": [str(path) for path in written]})
    else:
        policy_options.print_verdict(judged)
    return policy_options.leave(judged, report.get("alarms", []))


def plain_parts(judged: Verdict) -> dict[str, object]:
    """Return what a judgement renews in a report's verdict."""
    from seedscope.auditing import plain_judgement  # start-up

    return plain_judgement(judged)


def _print_quantities(as_json: bool) -> None:
    """Print what rules can be about."""
    from seedscope.auditing import QUANTITIES  # start-up

    if as_json:
        return print_json(
            {name: {"title": quantity.title, "meaning": quantity.meaning} for name, quantity in QUANTITIES.items()}
        )
    for name, quantity in QUANTITIES.items():
        say(f"{name:18} {quantity.title}. {quantity.meaning}")
    return None
