"""The table of suspended conversations: no step runs in one until an operator resumes or discards it.

A suspended conversation keeps its own rows unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.characters.printing import clean_line
from agentserver.core.encoding.history import SuspendedConversation
from agentserver.core.messages import EventPlace, Reply
from agentserver.core.suspension import REASON, end_suspended
from agentserver.engines.journal import events, seal
from agentserver.engines.journal.connection import transaction
from agentserver.engines.journal.rows import EVENT
from agentserver.engines.journal.seal import SealedColumns
from agentserver.engines.journal.walking import STEPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.messages import Done
    from agentserver.engines.journal.connection import Connection

_SUSPENDED = "select conversation from suspension where ended is null"

ACTIVE = f"closed is null and number not in ({_SUSPENDED})"
"""The condition for an open conversation that is not suspended."""


def is_suspended(connection: Connection, conversation: str) -> bool:
    """Check whether a conversation is suspended."""
    row = connection.execute(
        f"select 1 from conversation where id = ? and number in ({_SUSPENDED})",  # noqa: S608 - our own text
        (conversation,),
    ).fetchone()
    return row is not None


def find_damaged_suspensions(connection: Connection) -> list[str]:
    """List suspensions that fail their seals, a line each."""
    rows = connection.execute("select number, conversation, seal from suspension order by number").fetchall()
    return [
        f"the suspension of conversation {conversation} fails its seal"
        for number, conversation, sealed in rows
        if sealed != _digest(connection, number)
    ]


def count_suspension_events(connection: Connection) -> int:
    """Count the events that suspensions emitted."""
    (events,) = connection.execute("select coalesce(sum(events), 0) from suspension").fetchone()
    return int(events)


def list_suspended(connection: Connection) -> list[SuspendedConversation]:
    """List suspended conversations, oldest first."""
    rows = connection.execute(
        "select c.id, c.principal, a.at, a.reason,"
        " (select count(*) from queue q where q.conversation = c.number)"
        " from suspension a join conversation c on c.number = a.conversation where a.ended is null order by a.number"
    )
    return [SuspendedConversation(*row) for row in rows]


def suspend(
    connection: Connection,
    conversation: str,
    reason: str,
    at: float,
    draw: Callable[[int], int] | None = None,
) -> tuple[Reply | Done, ...]:
    """Suspend an open conversation, unless it is closed or unknown. Returns the events that leave it.

    ``draw`` reserves event numbers where several servers share them, and returns the first.
    """
    with transaction(connection):
        row = connection.execute(
            "select number, principal, version from conversation where id = ? and closed is null",
            (conversation,),
        ).fetchone()
        if row is None:
            return ()
        number, principal, version = row
        words = end_suspended(
            conversation,
            principal,
            _find_open_requests(connection, number),
            _find_last_place(connection, number, version),
        )
        first = _compute_next_event_number(connection) if draw is None else draw(len(words))
        for place, event in enumerate(words, first):
            connection.execute(EVENT, (place, number, *_collect_row(event)))
        connection.execute(
            "insert into suspension (conversation, at, reason, first_event, events, seal) values (?, ?, ?, ?, ?, x'')",
            (number, at, clean_line(reason, REASON), first, len(words)),
        )
        _seal(connection, number)
    return words


def read_suspension_events(
    connection: Connection, conversation: str, reason: str, at: float
) -> tuple[Reply | Done, ...]:
    """Read the events of the suspension with this time and reason. Returns none if there is no such suspension."""
    rows = connection.execute(
        f"select {events.EVENT} from conversation c join suspension a on a.conversation = c.number and a.ended is null"  # noqa: S608
        " join event e on e.number >= a.first_event and e.number < a.first_event + a.events"
        " and e.conversation = a.conversation"
        " where c.id = ? and a.reason = ? and a.at = ? order by e.number",
        (conversation, clean_line(reason, REASON), at),
    )
    return tuple(events.make_event(conversation, row) for row in rows)


def _compute_next_event_number(connection: Connection) -> int:
    (number,) = connection.execute("select coalesce(max(number), 0) + 1 from event").fetchone()
    return int(number)


def resume(connection: Connection, conversation: str, at: float) -> None:
    """Resume a suspended conversation at the next start. Raises LookupError when it is not suspended."""
    with transaction(connection):
        _end_suspension(connection, conversation, at)


def discard_suspended(connection: Connection, conversation: str, at: float) -> None:
    """Close a suspended conversation and drop its queued deliveries; it expires like any other.

    Raises LookupError when it is not suspended.
    """
    with transaction(connection):
        number = _end_suspension(connection, conversation, at)
        queued = connection.execute("select delivery from queue where conversation = ?", (number,))
        connection.executemany(
            "update delivery set state = 2, reason = '', ended = ?, mark = ? where number = ?",
            [(at, seal.mark(one, 2, "", at), one) for (one,) in queued.fetchall()],
        )
        connection.execute("delete from queue where conversation = ?", (number,))
        connection.execute("delete from value where conversation = ?", (number,))
        connection.execute("delete from state where conversation = ?", (number,))
        row = connection.execute(
            "select number, id, principal, root, opened, touched, version, last, closed, chain, state, rights, asks,"
            " due, tokens, money"
            " from conversation where number = ?",
            (number,),
        ).fetchone()
        columns = (
            SealedColumns(*row)
            ._replace(touched=at, closed=at, state=b"", asks=0, sleeps_until=None)
            .compute_seal(0)
        )
        connection.execute(
            "update conversation set closed = ?1, touched = ?1, state = x'', asks = 0, due = null, seal = ?2"
            " where number = ?3",
            (at, columns, number),
        )


def remove_suspensions(connection: Connection, number: int) -> None:
    """Delete the suspensions of a conversation with their events, in the caller's transaction."""
    rows = connection.execute(
        "select first_event, events from suspension where conversation = ?", (number,)
    ).fetchall()
    connection.executemany(
        "delete from event where number >= ? and number < ?",
        [(first, first + count) for first, count in rows],
    )
    connection.execute("delete from suspension where conversation = ?", (number,))


def _find_open_requests(connection: Connection, number: int) -> list[str]:
    """Find requests without an end, by their deliveries, in order. Those that wait are found without the steps."""
    rows = connection.execute(
        f"with found as (select d.number, d.request from {STEPS} join delivery d"  # noqa: S608 - our own text
        " on d.number >= s.first_delivery and d.number < s.first_delivery + s.deliveries"
        " and d.conversation = s.conversation"
        " union all select d.number, d.request from queue q join delivery d"
        " on d.number = q.delivery and d.conversation = q.conversation where q.conversation = ?1)"
        " select f.request from found f where not exists (select 1 from event e"
        " where e.request = f.request and e.conversation = ?1 and e.message is null)"
        " group by f.request order by min(f.number)",
        (number, 0),
    )
    return [request for (request,) in rows]


def _find_last_place(connection: Connection, number: int, version: int) -> EventPlace:
    """Find the last used event place, after the last step and earlier suspensions."""
    (steps,) = connection.execute(
        "select coalesce(sum(s.events), 0) from conversation c join step s on s.number = c.last"
        " and s.conversation = c.number where c.number = ?",
        (number,),
    ).fetchone()
    (asides,) = connection.execute(
        "select coalesce(sum(events), 0) from suspension where conversation = ?", (number,)
    ).fetchone()
    return EventPlace(version, steps + asides - 1)


def _end_suspension(connection: Connection, conversation: str, at: float) -> int:
    """End the suspension of a conversation. Returns the number of its row."""
    row = connection.execute(
        f"select number from conversation where id = ? and number in ({_SUSPENDED})",  # noqa: S608 - our own text
        (conversation,),
    ).fetchone()
    if row is None:
        raise LookupError(conversation)
    connection.execute(
        "update suspension set ended = ? where conversation = ? and ended is null", (at, row[0])
    )
    _seal(connection, row[0])
    return int(row[0])


def _seal(connection: Connection, conversation: int) -> None:
    """Seal the suspensions of a conversation."""
    rows = connection.execute(
        "select number from suspension where conversation = ?", (conversation,)
    ).fetchall()
    connection.executemany(
        "update suspension set seal = ? where number = ?",
        [(_digest(connection, number), number) for (number,) in rows],
    )


def _digest(connection: Connection, number: int) -> bytes:
    """Compute the digest of a suspension and its events."""
    row = connection.execute(
        "select number, conversation, at, reason, first_event, events, ended from suspension where number = ?",
        (number,),
    ).fetchone()
    _, conversation, _, _, first, count, _ = row
    events = connection.execute(
        "select number, version, position, request, sender, root, message, flag from event"
        " where number >= ? and number < ? order by number",
        (first, first + count),
    ).fetchall()
    return seal.digest(row, *(seal.digest_event(conversation, one) for one in events))


def _collect_row(event: Reply | Done) -> tuple[object, ...]:
    if isinstance(event, Reply):
        return (*event.place, event.request, event.sender, event.root, event.message, event.error)
    return (*event.place, event.request, None, None, None, event.answered)
