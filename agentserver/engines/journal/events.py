"""Queries for events that left conversations, with steps or on suspension. Read-only."""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING

from agentserver.core.encoding import codecs, decision_codec
from agentserver.core.messages import Done, EventPlace, Reply
from agentserver.core.receipts import refused_with
from agentserver.engines.journal.walking import APART, STEPS_UNTIL
from agentserver.ports.engine import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.engines.journal.connection import Connection

EVENT = "e.version, e.position, e.request, e.sender, e.root, e.message, e.flag"
"""The columns that ``make_event`` reads."""
_OF_STEPS = (
    "with sizes as materialized (select e.number, e.version, e.position, coalesce(length(e.message), 0) as size"  # noqa: S608 - our own text
    f" from {STEPS_UNTIL} cross join event e"
    " where e.number >= s.first_event and e.number < s.first_event + s.events and e.conversation = s.conversation"
    " and s.version <= ?3 and s.events > 0 and (e.version, e.position) > (?4, ?5)),"
    " found as materialized (select number, sum(size) over (order by version, position) - size as before from sizes)"
    f" select {EVENT} from found f join event e on e.number = f.number and e.conversation = ?1"
    f" where f.before <= {PAGE} order by e.version, e.position"
)
"""Events of steps without those that follow a page of messages, which are not read."""


def make_event(conversation: str, row: Sequence[object], *, again: bool = False) -> Reply | Done:
    """Make an event from its columns."""
    version, position, request, sender, root, message, flag = row
    place = EventPlace(version, position)  # type: ignore[arg-type]
    if message is None:
        return Done(conversation, request, bool(flag), again, place)  # type: ignore[arg-type]
    return Reply(conversation, request, sender, root, message, bool(flag), again, place)  # type: ignore[arg-type]


def read_events_after(
    connection: Connection, conversation: str, after: EventPlace, limit: int
) -> list[Reply | Done]:
    """Read the first events after a place, acknowledged or not. Raises LookupError for an unknown conversation."""
    row = connection.execute(
        "select number, version from conversation where id = ?", (conversation,)
    ).fetchone()
    if row is None:
        raise LookupError(conversation)
    number, version = row
    found: list[Reply | Done] = []
    size = 0
    steps = _iter_step_events(connection, number, version, after)
    for columns in merge(steps, _find_suspension_events(connection, number, after), key=_place):
        event = make_event(conversation, columns)
        size += len(event.message) if isinstance(event, Reply) else 0
        if len(found) >= limit or (found and size > PAGE):
            break
        found.append(event)
    return found


def _iter_step_events(
    connection: Connection, number: int, last: int, after: EventPlace
) -> Iterator[tuple[object, ...]]:
    """Yield the rows of events of steps from a place on, as many steps at a time as are next to an indexed one."""
    version = max(after[0] - 1, 0)  # the first step is 1
    while version < last:
        until = (version // APART + 1) * APART
        yield from connection.execute(_OF_STEPS, (number, version, until, *after)).fetchall()
        version = until


def _find_suspension_events(
    connection: Connection, number: int, after: EventPlace
) -> list[tuple[object, ...]]:
    """Find the rows of events that suspensions emitted: two for each request that was open."""
    return connection.execute(
        f"select {EVENT} from suspension a join event e"  # noqa: S608 - our own text
        " on e.number >= a.first_event and e.number < a.first_event + a.events and e.conversation = a.conversation"
        " where a.conversation = ? and (e.version, e.position) > (?, ?) order by e.version, e.position",
        (number, *after),
    ).fetchall()


def _place(row: Sequence[object]) -> tuple[object, object]:
    return row[0], row[1]


def find_refusal(connection: Connection, number: int, name: str, request: str) -> str:
    """Find the code with which the step that received a message refused it; empty when it was accepted."""
    (version,) = connection.execute(
        "select min(version) from event where request = ? and conversation = ?", (request, number)
    ).fetchone()
    if version is None:
        return ""
    row = connection.execute(
        f"select s.cause, s.records from {STEPS_UNTIL} where s.version = ?3",  # noqa: S608 - our own text
        (number, version - 1, version),
    ).fetchone()
    if row is None:
        return ""
    cause, records = row
    receipt = decision_codec.read_receipt(cause)
    if receipt is None or receipt[0] != name:
        return ""
    return refused_with(codecs.load_records(records, "", 0.0, {}, ()))
