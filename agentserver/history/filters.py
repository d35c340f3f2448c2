"""Filters of conversations, as operators type them.

A filter is a list of conditions that must all hold, separated by spaces: ``principal=anna cost>0.5 duration>=10s``.
"""

from __future__ import annotations

import operator
import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.core.encoding.history import Condition, ConversationFilter, ConversationPage
from agentserver.core.encoding.search import FAILED, REFUSED, Facet, split_words
from agentserver.core.state.principals import owns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from agentserver.core.encoding.history import ListedConversation
    from agentserver.ports import EngineReader

STATES = ("open", "suspended", "finished")
"""States of a conversation that ``state=`` accepts."""

STARTS = "^="
"""The sign of a text that begins with the value, such as a principal with the scope of a tenant. Not parsed."""

_CONDITION = re.compile(r'([a-z]+)(!=|<=|>=|=|<|>)("[^"]*"|[^\s"]+)(?:\s+|$)')
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    STARTS: str.startswith,
}
_OPENED = re.compile(r"\d{1,12}(\.\d{1,9})?")
_NUMBER = re.compile(r"\d{1,19}")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SECONDS_OF_DAY: Final = 86_400

TIMES: Final = ("opened", "touched")
"""Fields with a time; one without hours is the whole day."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class Candidate(NamedTuple):
    """Conversation as far as filters compare it."""

    row: ListedConversation
    facets: AbstractSet[Facet] = frozenset()
    words: AbstractSet[str] = frozenset()


def match_conversation(one: Candidate, chosen: ConversationFilter) -> bool:
    """Check whether a conversation meets all conditions."""
    return all(_matches(one, each) for each in chosen.conditions)


def _matches(one: Candidate, condition: Condition) -> bool:
    if condition.field == "text":
        return (split_words(str(condition.value)) <= one.words) == (condition.sign == "=")
    if condition.field == "owner":
        return owns(str(condition.value), one.row.summary.principal)
    if condition.field in FACETS:
        facet, absent = FACETS[condition.field](str(condition.value))
        return ((facet in one.facets) != absent) == (condition.sign == "=")
    return _COMPARE[condition.sign](_FIELDS[condition.field].read(one.row), condition.value)


def cut_page(
    listed: Iterable[tuple[int, Candidate]], chosen: ConversationFilter, after: str, limit: int
) -> ConversationPage:
    """Cut a page from all conversations, each with its number.

    Raises ValueError for a malformed cursor.
    """
    last = parse_cursor(after)
    places = sorted(
        ((one.row.summary.opened, number), one.row)
        for number, one in listed
        if (last is None or (one.row.summary.opened, number) < last) and match_conversation(one, chosen)
    )
    found = places[: -limit - 1 : -1]
    has_more = len(places) > limit
    return ConversationPage(tuple(one for _, one in found), format_cursor(*found[-1][0]) if has_more else "")


def format_cursor(opened: float, number: int) -> str:
    """Format the cursor that follows a conversation."""
    return f"{opened!r}-{number}"


def parse_cursor(text: str) -> tuple[float, int] | None:
    """Parse a cursor to the time and number of a conversation; None for the beginning of a list.

    Raises ValueError for a malformed cursor.
    """
    if not text:
        return None
    opened, _, number = text.partition("-")
    if not (_OPENED.fullmatch(opened) and _NUMBER.fullmatch(number)):
        raise ValueError("the cursor is not one that a list returned")
    return float(opened), int(number)


PAGE: Final = 200
"""Conversations that are listed at once."""


def list_ids(reader: EngineReader, chosen: ConversationFilter, last: int | None) -> list[str]:
    """List the ids of matching conversations, the last opened first; ``last`` is their largest number."""
    found, after = list[str](), ""
    while last is None or len(found) < last:
        page = reader.list_conversations(
            chosen, after, PAGE if last is None else min(PAGE, last - len(found))
        )
        found += [one.summary.id for one in page.rows]
        after = page.after
        if not after:
            break
    return found


def parse_filter(text: str) -> ConversationFilter:
    """Parse a filter. Raises ValueError, which names the condition and the likely correction."""
    text, place, found = text.strip(), 0, list[Condition]()
    while place < len(text):
        match = _CONDITION.match(text, place)
        if match is None:
            raise ValueError(
                f"column {place + 1}: {text[place:][:40]!r} is not a condition; write a field, one of"
                ' = != < <= > >= and a value without spaces between them, as in cost>0.5 or principal="a b"'
            )
        found += _parse_condition(match[1], match[2], match[3].strip('"'))
        place = match.end()
    return ConversationFilter(tuple(found))


def _parse_condition(name: str, sign: str, value: str) -> tuple[Condition, ...]:
    field = _FIELDS.get(name)
    if field is None:
        raise ValueError(f"{name}: no such field; the fields are {', '.join(_FIELDS)}")
    if field.words and sign not in {"=", "!="}:
        raise ValueError(f"{name}{sign}{value}: {name} has no order; use = or !=")
    try:
        if name in TIMES and _DAY.fullmatch(value):
            return tuple(Condition(name, *one) for one in _compare_day(sign, _parse_time(value)))
        return (Condition(name, sign, field.parse(value)),)
    except (ValueError, InvalidOperation, OverflowError):
        raise ValueError(f"{name}{sign}{value}: {value!r} is not {field.form}") from None


def _compare_day(sign: str, start: Decimal) -> tuple[tuple[str, Decimal], ...]:
    """Compare with a whole day of UTC. Raises ValueError for all but that day, which two conditions cannot say."""
    end = start + SECONDS_OF_DAY
    if sign == "!=":
        raise ValueError(sign)
    sides = {"=": ((">=", start), ("<", end)), ">": ((">=", end),), "<=": (("<", end),)}
    return sides.get(sign, ((sign, start),))


def _parse_number(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    return number


def _parse_money(text: str) -> Decimal:
    return _parse_number(text) * 1_000_000


def _parse_duration(text: str) -> Decimal:
    unit = _SECONDS.get(text[-1:])
    if unit is None:
        raise ValueError(text)
    return _parse_number(text[:-1]) * unit


def _parse_time(text: str) -> Decimal:
    time = datetime.fromisoformat(text)
    return Decimal((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())


def _parse_state(text: str) -> str:
    if text not in STATES:
        raise ValueError(text)
    return text


def _find_mark(facet: Facet) -> Callable[[str], tuple[Facet, bool]]:
    return lambda value: (facet, value == "no")


def _find_facet(kind: str) -> Callable[[str], tuple[Facet, bool]]:
    return lambda value: (Facet(kind, value), False)


FACETS: Mapping[str, Callable[[str], tuple[Facet, bool]]] = {
    "listener": _find_facet("listener"),
    "code": _find_facet("code"),
    "approver": _find_facet("approver"),
    "refused": _find_mark(REFUSED),
    "failed": _find_mark(FAILED),
}
"""The facet that a field's value asks for, and whether it must be absent."""


def _parse_answer(text: str) -> str:
    if text not in {"yes", "no"}:
        raise ValueError(text)
    return text


def _parse_text(text: str) -> str:
    if not split_words(text):
        raise ValueError(text)
    return text


_TIME_FORM: Final = "a time such as 2026-11-28 or 2026-11-28T09:30; a day has no !="


class _Field(NamedTuple):
    read: Callable[[ListedConversation], object]
    parse: Callable[[str], str | Decimal]
    form: str
    words: bool = False


_FIELDS: Mapping[str, _Field] = {
    "principal": _Field(lambda one: one.summary.principal, str, "a name", words=True),
    "state": _Field(lambda one: one.state, _parse_state, f"one of {', '.join(STATES)}", words=True),
    "opened": _Field(lambda one: one.summary.opened, _parse_time, _TIME_FORM),
    "touched": _Field(lambda one: one.summary.touched, _parse_time, _TIME_FORM),
    "duration": _Field(
        lambda one: one.summary.touched - one.summary.opened, _parse_duration, "a duration such as 10s or 2h"
    ),
    "cost": _Field(lambda one: one.summary.money, _parse_money, "an amount of US dollars such as 0.5"),
    "tokens": _Field(lambda one: one.summary.tokens, _parse_number, "a number"),
    "steps": _Field(lambda one: one.summary.steps, _parse_number, "a number"),
    "listener": _Field(lambda one: one.listeners, str, "a name", words=True),
    "code": _Field(lambda one: one.codes, str, "a code", words=True),
    "approver": _Field(lambda one: one.approvers, str, "a name", words=True),
    "refused": _Field(lambda one: one.refused, _parse_answer, "yes or no", words=True),
    "failed": _Field(lambda one: one.failed, _parse_answer, "yes or no", words=True),
    "text": _Field(lambda one: one.first, _parse_text, "a text with a word", words=True),
    "waiting": _Field(lambda one: one.summary.waiting, _parse_number, "a number"),
    "id": _Field(lambda one: one.summary.id, str, "an id", words=True),
}
