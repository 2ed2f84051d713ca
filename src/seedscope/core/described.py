"""Frozen data that is checked on entry, can be written down as plain values, and read back.

Mechanisms, samplings, clippings, schedules and scalings are `Described`: dataclasses whose fields are numbers, texts,
truth values, or other described data. A field's annotation is its rule: `float` takes any real number and keeps a
Python `float` (so that 1, 1.0 and `numpy.float64(1)` are the same mechanism with the same fingerprint), `int` a whole
number, and a described class an instance of it. A new kind is known by its name as soon as its class exists.
"""

from __future__ import annotations

import types
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from seedscope.core.errors import SeedscopeError

KINDS: dict[str, type[Described]] = {}


class Described:
    """Base of frozen dataclasses that are checked, described and read back by their annotations."""

    written: ClassVar[tuple[str, ...]] = ()  # how an instance is written, for an error's remedy; default `Name()`
    later: ClassVar[tuple[str, ...]] = ()  # fields of a later version: not described while they have their default

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        known = KINDS.setdefault(cls.__name__, cls)
        if known.__module__ != cls.__module__:
            raise SeedscopeError(f"{cls.__name__} is a name of {known.__module__} already; give the class another one.")
        KINDS[cls.__name__] = cls

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, hint in field_types(kind).items():
            object.__setattr__(self, name, checked(name, getattr(self, name), hint))

    def describe(self) -> dict[str, Any]:
        """Return plain values that JSON has, the class under "type"."""
        values = {entry.name: (getattr(self, entry.name), entry.default) for entry in fields(self)}  # type: ignore[arg-type]
        said = {
            name: _plain(value) for name, (value, usual) in values.items() if name not in self.later or value != usual
        }
        return {"type": type(self).__name__} | said


def from_description(description: dict[str, Any]) -> Any:
    """Return what a description describes; one of a kind that nobody has defined is refused."""
    name = description.get("type")
    kind = KINDS.get(str(name))
    if kind is None:
        raise SeedscopeError(f"{name} is not known here; import the module that defines it first.")
    given = {entry.name: description[entry.name] for entry in fields(kind) if entry.init and entry.name in description}  # type: ignore[arg-type]
    return kind(**{key: _value(value) for key, value in given.items()})


@cache
def field_types(kind: Any) -> dict[str, Any]:
    """Return name → annotation of the fields that a caller gives."""
    hints = get_type_hints(kind)
    return {entry.name: hints[entry.name] for entry in fields(kind) if entry.init}


def checked(name: str, value: Any, hint: Any) -> Any:
    """Return the value as its annotation wants it, or raise with the rule.

    >>> checked("learning_rate", 4, float)
    4.0
    """
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for choice in choices:
        fitting = _fitted(value, choice)
        if fitting is not _UNFIT:
            return fitting
    raise SeedscopeError(f"{name} must be {_rule(choices)}, got {_shown(value)}.")


_UNFIT = object()


def _fitted(value: Any, hint: Any) -> Any:
    """Return the value as this one annotation wants it, `_UNFIT` where it does not fit."""
    if hint is bool:
        return value if isinstance(value, bool) else _UNFIT
    if hint is float:
        return float(value) if _is_number(value, Real) else _UNFIT
    if hint is int:
        return int(value) if _is_number(value, Integral) else _UNFIT
    if hint is type(None):
        return None if value is None else _UNFIT
    if get_origin(hint) is Literal:
        return value if isinstance(value, str) and value in get_args(hint) else _UNFIT
    if isinstance(hint, type) and issubclass(hint, Described):
        return value if isinstance(value, hint) else _UNFIT
    return value  # an annotation without a rule here: the class checks it


def _is_number(value: Any, kind: Any) -> bool:
    """Whether a value is a number of this kind; True and False are not, arrays of one number are not either."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _rule(choices: tuple[Any, ...]) -> str:
    """Return what a field takes, in words."""
    said: list[str] = []
    for choice in choices:
        if isinstance(choice, type) and issubclass(choice, Described):
            said += instances(choice)
        elif get_origin(choice) is Literal:
            said += [repr(literal) for literal in get_args(choice)]
        else:
            said.append({float: "a number", int: "a whole number", bool: "True or False"}.get(choice, str(choice)))
    said = ["None" if words == str(type(None)) else words for words in said]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} or {said[-1]}"


def instances(kind: type[Described]) -> list[str]:
    """Return how instances of a class, or of the classes derived from it, are written."""
    derived = [subclass for subclass in kind.__subclasses__() if subclass.__module__.startswith("seedscope.")]
    if derived:
        return [text for subclass in derived for text in instances(subclass)]
    return list(kind.written or (f"{kind.__name__}()",))


def _shown(value: Any) -> str:
    """Return a value as an error shows it."""
    if isinstance(value, type):
        return f"the class {value.__name__}; write {value.__name__}()"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _plain(value: Any) -> Any:
    """Return a field's value as plain values."""
    if isinstance(value, Described):
        return value.describe()
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _value(value: Any) -> Any:
    """Return a field's value from its description."""
    if isinstance(value, dict) and "type" in value:
        return from_description(value)
    return tuple(map(_value, value)) if isinstance(value, list) else value
