"""A policy: which numbers a level must have before its model may be released, and where each limit comes from.

Policy                a name, rules, and what its owner declares
Rule.check(number)    passed, look, open or failed, with a sentence
read_policy(path)     from a TOML file; without a path the defaults in policy.toml beside this module
parse_condition(text) a rule from text like "advantage>0.1", which must not hold
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from seedscope.auditing.quantities import QUANTITIES, Quantity
from seedscope.core import Number, SeedscopeError, require, unknown_name, without_places

Status = Literal["passed", "look", "open", "failed"]
STATUS_WORDS: dict[Status, str] = {"passed": "kept", "look": "look first", "open": "not shown", "failed": "broken"}
By = Literal["bound", "value"]
DEFAULT = "default"
LEAST_CONFIDENCE = 0.95  # of an interval by which a rule is shown to be kept
CONDITION = re.compile(r"\s*([a-z_]+)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*(%?)\s*")
KEYS = {"at_most": float, "at_least": float, "look": float, "by": str, "needed": bool, "source": str}
TYPES = {float: "a number", str: "a text", bool: "true or false"}


@dataclass(frozen=True)
class Rule:
    """A limit on one quantity.

    With `by="bound"` the worse end of the number's interval is compared, with `by="value"` its value. Beyond `look` a
    person has to look first. `strict` excludes the limit itself. `enforced` rules decide a command's exit code.
    """

    quantity: str
    at_most: float | None = None
    at_least: float | None = None
    look: float | None = None
    by: By = "bound"
    needed: bool = True
    source: str = ""
    strict: bool = False
    enforced: bool = False

    def __post_init__(self) -> None:
        if self.quantity not in QUANTITIES:
            raise unknown_name("quantity", self.quantity, QUANTITIES)
        one_side = (self.at_most is None) != (self.at_least is None)
        require(one_side, f"a rule on {self.quantity} needs either at_most or at_least.")
        finite = all(end is None or math.isfinite(end) for end in (self.at_most, self.at_least, self.look))
        require(finite, f"limits of {self.quantity} must be finite numbers.")
        require(self.by in ("bound", "value"), f"'by' of {self.quantity} must be 'bound' or 'value', got {self.by!r}.")

    @property
    def limit(self) -> float:
        """The limit, on whichever side."""
        return float(self.at_most if self.at_most is not None else self.at_least or 0.0)

    @property
    def words(self) -> str:
        """The rule in words."""
        of = QUANTITIES[self.quantity]
        look = "" if self.look is None else f"; look from {of.shown(self.look)} on"
        return f"{of.title}: {self._limit_words}{look}"

    @property
    def _limit_words(self) -> str:
        """The limit in words, with its side."""
        side = {(True, False): "at most", (True, True): "below", (False, False): "at least", (False, True): "above"}
        return f"{side[self.at_most is not None, self.strict]} {QUANTITIES[self.quantity].shown(self.limit)}"

    def check(self, number: Number | None) -> Check:
        """Return whether a number keeps to the rule; what is not known does not, unless the rule lets it be missing."""
        of = QUANTITIES[self.quantity]
        if number is None:
            status: Status = "open" if self.needed else "passed"
            return Check(self, None, status, f"{of.title}: {'not known' if self.needed else 'nothing to check'}.")
        worse, better = self._ends(number)
        if self._beyond(better):
            status = "failed"
        elif self._beyond(worse) or math.isnan(worse) or self._unsure(number):
            status = "open"
        else:
            status = "look" if self.look is not None and self._beyond(number.value, self.look) else "passed"
        return Check(self, number, status, f"{of.sentence(number)} {self._said(status)}")

    def _ends(self, number: Number) -> tuple[float, float]:
        """Return the worse and the better end of what a number may be."""
        if self.by == "value":
            return number.value, number.value
        low, high = (number.value if end is None else end for end in (number.lower, number.upper))
        return (high, low) if self.at_most is not None else (low, high)

    def _unsure(self, number: Number) -> bool:
        """Whether a bound is of a confidence that shows nothing."""
        sure = number.confidence is None or number.confidence >= LEAST_CONFIDENCE
        return self.by == "bound" and number.kind == "statistical" and not sure

    def _beyond(self, value: float, limit: float | None = None) -> bool:
        """Whether a value is on the wrong side of the limit."""
        than = self.limit if limit is None else limit
        if self.strict and value == than:
            return True
        return value > than if self.at_most is not None else value < than

    def _said(self, status: Status) -> str:
        """Return in words what the status means, with the limit."""
        limit = self._limit_words
        if status == "look":
            return f"A person has to look first (from {QUANTITIES[self.quantity].shown(self.look or 0.0)} on)."
        return {
            "passed": f"That is {limit}.",
            "open": f"It is not shown to be {limit}.",
            "failed": f"It has to be {limit}.",
        }[status]


@dataclass(frozen=True)
class Check:
    """A rule held against a number."""

    rule: Rule
    number: Number | None
    status: Status
    sentence: str

    @property
    def quantity(self) -> Quantity:
        """What the rule is about."""
        return QUANTITIES[self.rule.quantity]


@dataclass(frozen=True)
class Policy:
    """Rules under which a model may be released, and what whoever releases it declares."""

    name: str
    rules: tuple[Rule, ...]
    declared: Mapping[str, str | float] = field(default_factory=dict)
    origin: str = ""

    def check(self, facts: Mapping[str, Number | None]) -> tuple[Check, ...]:
        """Return every rule held against what is known of one level."""
        return tuple(rule.check(facts.get(rule.quantity)) for rule in self.rules)

    def enforced(self) -> Policy:
        """Return the policy with every rule deciding the exit code."""
        return replace(self, rules=tuple(replace(rule, enforced=True) for rule in self.rules))

    def with_conditions(self, conditions: Sequence[str]) -> Policy:
        """Return the policy with further rules, that decide the exit code, from conditions that must not hold.

        A condition on what a rule of the policy is about takes that rule's place.
        """
        further = tuple(map(parse_condition, conditions))
        about = {rule.quantity for rule in further}
        return replace(self, rules=(*(rule for rule in self.rules if rule.quantity not in about), *further))


def read_policy(path: str | Path | None = None) -> Policy:
    """Return the policy in a TOML file; without one, or by the name "default", Seedscope's own.

    >>> read_policy().name
    "Seedscope's default policy"
    """
    if path is None or str(path) == DEFAULT:
        text = files("seedscope.auditing").joinpath("policy.toml").read_text(encoding="utf-8")
        return _policy(tomllib.loads(text), "shipped with Seedscope")
    try:
        return _policy(tomllib.loads(Path(path).read_text(encoding="utf-8")), without_places(str(path)))
    except OSError as error:
        raise SeedscopeError(f"cannot read the policy {path}: {error.strerror or error}.", "policy") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SeedscopeError(f"the policy {path} is not TOML: {error}.", "policy") from error
    except SeedscopeError as error:
        raise SeedscopeError(f"the policy {path} cannot be used: {error}", "policy") from error


def parse_condition(text: str) -> Rule:
    """Return the rule that is broken when a condition like "advantage>0.1" holds.

    >>> parse_condition("advantage > 10 %").words
    "Most exposed person's advantage: at most 0.1"
    >>> parse_condition("accuracy<=0.8").words
    'Accuracy: above 80.0 %'
    """
    condition = CONDITION.fullmatch(text)
    try:
        limit = float(condition[3]) / (100 if condition[4] else 1) if condition else None
    except ValueError:
        limit = None
    if condition is None or limit is None:
        raise SeedscopeError(
            f"a condition is a quantity, <, <=, > or >=, and a number, like advantage>0.1; got {text!r}."
        )
    side = "at_most" if ">" in condition[2] else "at_least"
    return Rule(condition[1], **{side: limit}, strict="=" in condition[2], enforced=True)  # type: ignore[arg-type]


def _policy(written: Mapping[str, Any], origin: str) -> Policy:
    """Return the policy that a file has."""
    for name in written:
        if name not in ("name", "rules", "declared"):
            raise unknown_name("part of a policy", name, ("name", "rules", "declared"))
    rules, declared = written.get("rules", {}), written.get("declared", {})
    tables = isinstance(rules, dict) and isinstance(declared, dict)
    require(tables, "'rules' and 'declared' must be tables, like [rules.advantage].")
    plain = all(isinstance(value, str | int | float) for value in declared.values())
    require(plain, "what is declared must be texts or numbers.")
    name = str(written.get("name", Path(origin).stem))
    return Policy(name, tuple(_rule(quantity, body) for quantity, body in rules.items()), dict(declared), origin)


def _rule(quantity: str, written: Any) -> Rule:
    """Return one rule of a file."""
    require(isinstance(written, dict), f"the rule on {quantity} must be a table like [rules.{quantity}].")
    for key, value in written.items():
        if key not in KEYS:
            raise unknown_name(f"key of the rule on {quantity}", key, KEYS)
        number = KEYS[key] is float and isinstance(value, int | float) and not isinstance(value, bool)
        right = number or (KEYS[key] is not float and isinstance(value, KEYS[key]))
        require(right, f"{key!r} of the rule on {quantity} must be {TYPES[KEYS[key]]}, got {value!r}.")
    return Rule(quantity, **written)
