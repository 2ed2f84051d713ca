"""Options of commands that judge: the policy, conditions that must not hold, files for pipelines, and the exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands.terminal import say

if TYPE_CHECKING:
    from seedscope.auditing import Policy, Verdict

PolicyFile = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="FILE", help="Rules in TOML that must be kept (exit code 1 if not), or 'default'."
    ),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(metavar="CONDITION", help='Exit with 1 if it holds, like "advantage>0.1"; repeatable.'),
]
JUnit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also write the verdict as JUnit XML.")]
Sarif = Annotated[Path | None, typer.Option("--sarif", metavar="FILE", help="Also write the verdict as SARIF.")]


@dataclass(frozen=True)
class Judging:
    """What was asked of the verdict."""

    policy: str | None = None
    fail_if: Sequence[str] = ()
    junit: Path | None = None
    sarif: Path | None = None

    def rules(self) -> Policy:
        """Return the policy; only one that was asked for decides the exit code, and conditions always do."""
        from seedscope.auditing import read_policy  # start-up

        rules = read_policy(self.policy)
        return (rules if self.policy is None else rules.enforced()).with_conditions(self.fail_if)

    def write(self, report: Mapping[str, Any]) -> list[Path]:
        """Write the files for pipelines; return their paths."""
        from seedscope.report import write_for_pipelines  # start-up

        return write_for_pipelines(report, self.junit, self.sarif)


def print_verdict(verdict: Verdict) -> None:
    """Print the advice, its reasons and the numbers that matter."""
    say(verdict.headline)
    helps = {check.sentence: ways for check, ways in zip(verdict.checks, verdict.ways_out, strict=True) if ways}
    for sentence in verdict.sentences:
        say(f"  {sentence}")
        if sentence in helps:
            say(f"    What helps: {' '.join(helps[sentence])}")
    for number in verdict.numbers:
        note = f", {number.number.note}" if number.number.kind == "estimate" and number.number.note else ""
        say(f"  {number.name}: {number.number}{note}")


def leave(verdict: Verdict, alarms: Sequence[str]) -> None:
    """Say loudly what is wrong, and end with the exit code: 1 where a rule is not kept, 3 where a claim is beaten."""
    for alarm in alarms:
        say(f"seedscope: AN ATTACK BEATS WHAT IS CLAIMED at {alarm}", err=True)
    unkept = [check for check in verdict.checks if check.rule.enforced and check.status != "passed"]
    for check in unkept:
        say(f"seedscope: policy not kept: {check.rule.words}. {check.sentence}", err=True)
    if alarms or verdict.exit_code:
        raise typer.Exit(3 if alarms else verdict.exit_code)
