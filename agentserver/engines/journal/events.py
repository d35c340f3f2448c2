"""Queries for events that left conversations, with steps or on suspension. Read-only."""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING

from agentserver.core.encoding import codecs, decision_codec
from agentserver.core.messages import Done, EventPlace, Reply
from agentserver.core.receipts import refused_with
from agentserver.ports.engine import PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.engines.journal.connection import Connection

EVENT = "e.version, e.position, e.request, e.sender, e.root, e.message, e.flag"
"""The columns that ``make_event`` reads."""


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
    row = connection.execute("select number from conversation where id = ?", (conversation,)).fetchone()
    if row is None:
        raise LookupError(conversation)
    steps = connection.execute(
        f"select {EVENT} from step s cross join event e"  # noqa: S608 - our own text
        " where e.number >= s.first_event and e.number < s.first_event + s.events and e.conversation = s.conversation"
        " and s.conversation = ?1 and s.version >= ?2 and s.events > 0 and (e.version, e.position) > (?2, ?3)"
        " order by s.version, e.number",
        (row[0], *after),
    )
    found: list[Reply | Done] = []
    size = 0
    for columns in merge(steps, _find_suspension_events(connection, row[0], after), key=_place):
        event = make_event(conversation, columns)
        size += len(event.message) if isinstance(event, Reply) else 0
        if len(found) >= limit or (found and size > PAGE):
            break
        found.append(event)
    return found


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
    row = connection.execute(
        "select s.cause, s.records from step s where s.conversation = ?1 and s.version ="
        " (select min(version) from event where request = ?2 and conversation = ?1)",
        (number, request),
    ).fetchone()
    if row is None:
        return ""
    cause, records = row
    receipt = decision_codec.read_receipt(cause)
    if receipt is None or receipt[0] != name:
        return ""
    return refused_with(codecs.load_records(records, "", 0.0, {}, ()))
