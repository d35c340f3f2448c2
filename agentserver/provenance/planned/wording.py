"""Plans in words: a sentence for each step, in the order of the plan.

Owns the sentences. Refuses to leave anything out, and to show a value otherwise than escaped and in quotes, so that
what stands between the quotes is the value and nothing else. Equal plans give equal words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.characters.printing import escape_unseen
from agentserver.provenance.planned.arguments import Anything, Exactly, FieldOf, Kind, OneOf, Shifted
from agentserver.provenance.planned.moments import spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from agentserver.provenance.planned.arguments import AllowedStep, Condition


def sentences(
    steps: Sequence[AllowedStep], redact: Callable[[str], str] = str, first: int = 1
) -> tuple[str, ...]:
    """Each step as a sentence, numbered from ``first``.

    Args:
        steps: of a plan.
        redact: takes secrets out, before anything is escaped.
        first: number of the first one.
    """
    return tuple(_sentence(number, step, redact) for number, step in enumerate(steps, first))


def phrase(kind: Kind, redact: Callable[[str], str] = str) -> str:
    """The values of one kind, in words."""
    match kind:
        case Exactly(text):
            return _quoted(text, redact)
        case OneOf(kinds):
            return " or ".join(phrase(inner, redact) for inner in kinds) or "nothing"
        case Shifted(base, by):
            return f"{_length(by)} ({phrase(base, redact)})"
        case FieldOf():
            return _leaf(kind, redact)
    return "anything" if isinstance(kind, Anything) else "a value of the request's own words"


def _length(by: timedelta) -> str:
    words = spoken(by)
    return f"{words.removeprefix('-')} before" if words.startswith("-") else f"{words} after"


def _leaf(kind: FieldOf, redact: Callable[[str], str]) -> str:
    begun = "whatever stands in the text of " if kind.within else "the "
    field = f"{_quoted(kind.path, redact)}"
    what = f"a record of {_quoted(kind.source, redact)}" if kind.source else "a record"
    if kind.step:
        what += f" that step {kind.step} gave back"
    conditions = " and ".join(_condition(each, redact) for each in kind.where)
    return f"{begun}{field} of {what}{f' whose {conditions}' if conditions else ''}"


def _condition(condition: Condition, redact: Callable[[str], str]) -> str:
    verb = "holds" if condition.within else "is"
    said = phrase(condition.kind, redact)
    many = isinstance(condition.kind, OneOf) and len(condition.kind.kinds) > 1
    return f"{_quoted(condition.path, redact)} {verb} {f'({said})' if many else said}"


def _sentence(number: int, step: AllowedStep, redact: Callable[[str], str]) -> str:
    named = "; ".join(f"{_quoted(name, redact)}: {phrase(kind, redact)}" for name, kind in step.arguments)
    rest = ["any other argument: anything"] if step.rest else []
    what = "; ".join([named, *rest] if named else rest) or "no argument but what it says"
    return f"{number}. Call {_quoted(step.sink, redact)}{_often(step.times)} with {what}."


def _often(times: int | None) -> str:
    if times is None:
        return ", any number of times,"
    return ", once," if times == 1 else f", at most {times} times,"


def _quoted(text: str, redact: Callable[[str], str]) -> str:
    """A value in quotes. A quote in it is escaped, so that the value ends where it seems to."""
    shown = escape_unseen(redact(text)).replace('"', '\\"')
    return f'"{shown}"'
