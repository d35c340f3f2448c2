"""Kinds of values that a plan's step allows for an argument, with their plain form for JSON.

A description of a plan leaves nothing out, and every value is escaped and quoted, so that text between quotes is only
the value. Equal plans have equal descriptions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agentserver.characters.printing import escape_unseen
from agentserver.provenance.plans.moments import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEPTH: Final = 8
"""Nesting limit of kinds."""


@dataclass(frozen=True, slots=True)
class Literal:
    """One value. Numbers, dates and places compare by meaning, everything else as written."""

    text: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """Value of any of these kinds. An empty set allows no value."""

    kinds: tuple[Kind, ...]
    by_key: dict[str, tuple[Kind, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Index of a large set by value key, which ``grants`` fills."""

    @classmethod
    def texts(cls, *texts: str) -> OneOf:
        """Build a set of literals."""
        return cls(tuple(map(Literal, texts)))


@dataclass(frozen=True, slots=True)
class AnyValue:
    """Any value. Lineage still judges it."""


@dataclass(frozen=True, slots=True)
class RequestedValue:
    """Value that occurs in the principal's request."""


@dataclass(frozen=True, slots=True)
class DateOffset:
    """Date, moment or time of day at an offset from another kind."""

    base: Kind
    by: timedelta


@dataclass(frozen=True, slots=True)
class Condition:
    """Required value of another field of the same record. ``within``: whole words of the field's text suffice."""

    path: str
    kind: Kind
    within: bool = False


@dataclass(frozen=True, slots=True)
class FieldOf:
    """Leaf of a recorded observation.

    Args:
        path: of the field from the root of the output, without indices: ``email``, ``contacts.email``.
        source: listener of the output; empty for the listener of the step.
        step: number of the step, from 1, whose call returned the output; 0 for the output of any call.
        where: conditions on the same record.
        within: the value is a whole token of the leaf's text, which leaves the choice to the text's author.
    """

    path: str
    source: str = ""
    step: int = 0
    where: tuple[Condition, ...] = ()
    within: bool = False


Kind: TypeAlias = Literal | OneOf | AnyValue | RequestedValue | DateOffset | FieldOf
"""Values that an argument may have."""


@dataclass(frozen=True, slots=True)
class AllowedStep:
    """Call that the plan allows.

    Args:
        sink: the listener.
        arguments: the kind of each named argument.
        times: maximal number of calls; None for no limit.
    """

    sink: str
    arguments: tuple[tuple[str, Kind], ...] = ()
    times: int | None = None

    def find_kind(self, name: str) -> Kind | None:
        """Return the kind of a named argument."""
        return next((kind for known, kind in self.arguments if known == name), None)


def shift_kind(kind: Kind, by: int) -> Kind:
    """Add an offset to every step number in a kind, as when a plan extends another one."""
    match kind:
        case OneOf(kinds):
            return OneOf(tuple(shift_kind(inner, by) for inner in kinds))
        case DateOffset(base, offset):
            return DateOffset(shift_kind(base, by), offset)
        case FieldOf(path, source, step, conditions, within):
            inner = tuple(Condition(each.path, shift_kind(each.kind, by), each.within) for each in conditions)
            return FieldOf(path, source, step + by if step else 0, inner, within)
    return kind


def shift_step(step: AllowedStep, by: int) -> AllowedStep:
    """Add an offset to every step number in a step."""
    arguments = tuple((name, shift_kind(kind, by)) for name, kind in step.arguments)
    return AllowedStep(step.sink, arguments, step.times)


def dump_step(step: AllowedStep) -> list[Any]:
    """Convert a step to plain data."""
    return [step.sink, [[name, _dump_kind(kind)] for name, kind in step.arguments], step.times]


def load_step(data: list[Any]) -> AllowedStep:
    """Restore a step from ``dump_step``.

    Raises ValueError, LookupError or TypeError for other data.
    """
    sink, pairs, times = data
    return AllowedStep(sink, tuple((name, _load_kind(kind)) for name, kind in pairs), times)


def _dump_kind(kind: Kind) -> list[Any]:
    match kind:
        case Literal(text):
            return ["exactly", text]
        case OneOf(kinds):
            return ["one", list(map(_dump_kind, kinds))]
        case DateOffset(base, by):
            return ["shifted", _dump_kind(base), by.total_seconds()]
        case FieldOf(path, source, step, selected_by, within):
            conditions = [[each.path, _dump_kind(each.kind), each.within] for each in selected_by]
            return ["field", path, source, step, conditions, within]
        case RequestedValue():
            return ["said"]
    return ["any"]


def _load_kind(data: list[Any]) -> Kind:
    match data:
        case ["exactly", text]:
            return Literal(text)
        case ["one", kinds]:
            return OneOf(tuple(map(_load_kind, kinds)))
        case ["shifted", base, seconds]:
            return DateOffset(_load_kind(base), timedelta(seconds=seconds))
        case ["field", path, source, step, selected_by, within]:
            conditions = tuple(
                Condition(name, _load_kind(kind), inside) for name, kind, inside in selected_by
            )
            return FieldOf(path, source, step, conditions, within)
        case ["said"]:
            return RequestedValue()
        case ["any"]:
            return AnyValue()
    raise ValueError(f"no kind of argument: {data[:1]}")


def describe_steps(
    steps: Sequence[AllowedStep], redact: Callable[[str], str] = str, first: int = 1
) -> tuple[str, ...]:
    """Describe each step in a sentence, numbered from ``first``.

    Args:
        steps: of a plan.
        redact: removes secrets before values are escaped.
        first: number of the first step.
    """
    return tuple(_describe_step(number, step, redact) for number, step in enumerate(steps, first))


def describe_kind(kind: Kind, redact: Callable[[str], str] = str) -> str:
    """Describe the values of a kind."""
    match kind:
        case Literal(text):
            return _quote(text, redact)
        case OneOf(kinds):
            return " or ".join(describe_kind(inner, redact) for inner in kinds) or "nothing"
        case DateOffset(base, by):
            return f"{_describe_offset(by)} ({describe_kind(base, redact)})"
        case FieldOf():
            return _describe_leaf(kind, redact)
    return "anything" if isinstance(kind, AnyValue) else "a value from the request"


def _describe_offset(by: timedelta) -> str:
    words = format_duration(by)
    return f"{words.removeprefix('-')} before" if words.startswith("-") else f"{words} after"


def _describe_leaf(kind: FieldOf, redact: Callable[[str], str]) -> str:
    opening = "any token in the text of " if kind.within else "the "
    field = f"{_quote(kind.path, redact)}"
    record = f"a record of {_quote(kind.source, redact)}" if kind.source else "a record"
    if kind.step:
        record += f" that step {kind.step} returned"
    conditions = " and ".join(_describe_condition(each, redact) for each in kind.where)
    return f"{opening}{field} of {record}{f' whose {conditions}' if conditions else ''}"


def _describe_condition(condition: Condition, redact: Callable[[str], str]) -> str:
    verb = "holds" if condition.within else "is"
    description = describe_kind(condition.kind, redact)
    many = isinstance(condition.kind, OneOf) and len(condition.kind.kinds) > 1
    return f"{_quote(condition.path, redact)} {verb} {f'({description})' if many else description}"


def _describe_step(number: int, step: AllowedStep, redact: Callable[[str], str]) -> str:
    arguments = "; ".join(
        f"{_quote(name, redact)}: {describe_kind(kind, redact)}" for name, kind in step.arguments
    )
    shown = arguments or "no argument except its content"
    return f"{number}. Call {_quote(step.sink, redact)}{_describe_times(step.times)} with {shown}."


def _describe_times(times: int | None) -> str:
    if times is None:
        return ", any number of times,"
    return ", once," if times == 1 else f", at most {times} times,"


def _quote(text: str, redact: Callable[[str], str]) -> str:
    """Quote a value. A quote within it is escaped, so that the value ends at the closing quote."""
    shown = escape_unseen(redact(text)).replace('"', '\\"')
    return f'"{shown}"'
