"""Describes plans as numbered sentences for people who approve them.

Nothing is left out, and every value is escaped and quoted, so that text between quotes is only the value. Equal plans
have equal descriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.characters.printing import escape_unseen
from agentserver.provenance.plans.arguments import AnyValue, DateOffset, FieldOf, Kind, Literal, OneOf
from agentserver.provenance.plans.moments import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from agentserver.provenance.plans.arguments import AllowedStep, Condition


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
    begun = "any token in the text of " if kind.within else "the "
    field = f"{_quote(kind.path, redact)}"
    what = f"a record of {_quote(kind.source, redact)}" if kind.source else "a record"
    if kind.step:
        what += f" that step {kind.step} returned"
    conditions = " and ".join(_describe_condition(each, redact) for each in kind.where)
    return f"{begun}{field} of {what}{f' whose {conditions}' if conditions else ''}"


def _describe_condition(condition: Condition, redact: Callable[[str], str]) -> str:
    verb = "holds" if condition.within else "is"
    said = describe_kind(condition.kind, redact)
    many = isinstance(condition.kind, OneOf) and len(condition.kind.kinds) > 1
    return f"{_quote(condition.path, redact)} {verb} {f'({said})' if many else said}"


def _describe_step(number: int, step: AllowedStep, redact: Callable[[str], str]) -> str:
    named = "; ".join(
        f"{_quote(name, redact)}: {describe_kind(kind, redact)}" for name, kind in step.arguments
    )
    what = named or "no argument except its content"
    return f"{number}. Call {_quote(step.sink, redact)}{_describe_times(step.times)} with {what}."


def _describe_times(times: int | None) -> str:
    if times is None:
        return ", any number of times,"
    return ", once," if times == 1 else f", at most {times} times,"


def _quote(text: str, redact: Callable[[str], str]) -> str:
    """Quote a value. A quote within it is escaped, so that the value ends at the closing quote."""
    shown = escape_unseen(redact(text)).replace('"', '\\"')
    return f'"{shown}"'
