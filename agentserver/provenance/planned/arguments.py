"""The values that a step of a plan allows one argument.

Owns the kinds of allowed values, as values, and their plain form for JSON. Refuses to know whether a value is of a
kind: ``granting`` finds that out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeAlias

DEPTH: Final = 8
"""Kinds that may stand inside one another."""


@dataclass(frozen=True, slots=True)
class Exactly:
    """One value. Numbers, dates and places are compared as such, everything else as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value of any of these kinds; none of an empty set."""

    kinds: tuple[Kind, ...]
    by_key: dict[str, tuple[Kind, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The kinds that a value may be of by its key, once ``granting`` has found them out: for many of them."""

    @classmethod
    def texts(cls, *texts: str) -> OneOf:
        """The set of some literals."""
        return cls(tuple(map(Exactly, texts)))


@dataclass(frozen=True, slots=True)
class Anything:
    """Any value. Lineage goes on judging it."""


@dataclass(frozen=True, slots=True)
class InTrustedWords:
    """A value that stands in the principal's own words."""


@dataclass(frozen=True, slots=True)
class Shifted:
    """A date, a moment or a time of day of another kind, so much later."""

    base: Kind
    by: timedelta


@dataclass(frozen=True, slots=True)
class Condition:
    """A field of the same record, and its value. ``within``: the value stands in the field's text as whole words."""

    path: str
    kind: Kind
    within: bool = False


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A leaf of a recorded observation.

    Args:
        path: of the field from the root of the output, without indices: ``email``, ``contacts.email``.
        source: the listener whose output it was; empty for that of the step.
        step: number of the step, from 1, whose call the output answered; 0 for the output of any call.
        where: what else the record has to say.
        within: the value stands in the leaf's text as a whole token. That leaves the choice to the text's author.
    """

    path: str
    source: str = ""
    step: int = 0
    where: tuple[Condition, ...] = ()
    within: bool = False


Kind: TypeAlias = Exactly | OneOf | Anything | InTrustedWords | Shifted | FieldOf
"""The values that one argument may have."""


@dataclass(frozen=True, slots=True)
class AllowedStep:
    """A call that the plan allows.

    Args:
        sink: the listener.
        arguments: the kind of each argument that is named.
        times: calls at most; None for no bound.
        rest: True where arguments that are not named may hold anything, as in plans of before there were relations.
    """

    sink: str
    arguments: tuple[tuple[str, Kind], ...] = ()
    times: int | None = None
    rest: bool = False

    def kind(self, name: str) -> Kind | None:
        """The kind of a named argument."""
        return next((kind for known, kind in self.arguments if known == name), None)


def moved(kind: Kind, by: int) -> Kind:
    """The kind with every number of a step raised: a plan that extends another one counts on from it."""
    match kind:
        case OneOf(kinds):
            return OneOf(tuple(moved(inner, by) for inner in kinds))
        case Shifted(base, later):
            return Shifted(moved(base, by), later)
        case FieldOf(path, source, step, where, within):
            inner = tuple(Condition(each.path, moved(each.kind, by), each.within) for each in where)
            return FieldOf(path, source, step + by if step else 0, inner, within)
    return kind


def moved_step(step: AllowedStep, by: int) -> AllowedStep:
    """The step with every number that it holds raised."""
    arguments = tuple((name, moved(kind, by)) for name, kind in step.arguments)
    return AllowedStep(step.sink, arguments, step.times, step.rest)


def dump(step: AllowedStep) -> list[Any]:
    """A step as plain data."""
    return [step.sink, [[name, _dump(kind)] for name, kind in step.arguments], step.times, step.rest]


def load(data: list[Any]) -> AllowedStep:
    """The step that ``dump`` wrote, or that was kept as a sink and lists of literals.

    Raises ValueError, LookupError or TypeError for other data.
    """
    if len(data) == 2:  # noqa: PLR2004  a step of before there were relations
        sink, pairs = data
        return AllowedStep(sink, tuple((name, OneOf.texts(*texts)) for name, texts in pairs), rest=True)
    sink, pairs, times, rest = data
    return AllowedStep(sink, tuple((name, _load(kind)) for name, kind in pairs), times, rest)


def _dump(kind: Kind) -> list[Any]:
    match kind:
        case Exactly(text):
            return ["exactly", text]
        case OneOf(kinds):
            return ["one", list(map(_dump, kinds))]
        case Shifted(base, by):
            return ["shifted", _dump(base), by.total_seconds()]
        case FieldOf(path, source, step, where, within):
            conditions = [[each.path, _dump(each.kind), each.within] for each in where]
            return ["field", path, source, step, conditions, within]
        case InTrustedWords():
            return ["said"]
    return ["any"]


def _load(data: list[Any]) -> Kind:
    match data:
        case ["exactly", text]:
            return Exactly(text)
        case ["one", kinds]:
            return OneOf(tuple(map(_load, kinds)))
        case ["shifted", base, seconds]:
            return Shifted(_load(base), timedelta(seconds=seconds))
        case ["field", path, source, step, where, within]:
            conditions = tuple(Condition(name, _load(kind), inside) for name, kind, inside in where)
            return FieldOf(path, source, step, conditions, within)
        case ["said"]:
            return InTrustedWords()
        case ["any"]:
            return Anything()
    raise ValueError(f"no kind of argument: {data[:1]}")
