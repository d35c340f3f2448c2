"""Conversations of a journal that are set aside: they cannot go on, and nothing is decided about them until they can.

Owns the table that says which and why, and the condition by which everything else leaves them out. Their own rows stay
as they are until an operator puts them back or discards them. Refuses to know why one cannot go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.characters.printing import clean_line
from agentserver.core.aside import REASON, end_suspended
from agentserver.core.encoding.recorded import SuspendedConversation
from agentserver.core.messages import EventPlace, Reply
from agentserver.engines.journal import events, seal
from agentserver.engines.journal.connection import transaction
from agentserver.engines.journal.rows import EVENT
from agentserver.engines.journal.seal import Sealed

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.messages import Done
    from agentserver.engines.journal.connection import Connection

_SUSPENDED = "select conversation from suspension where ended is null"

ACTIVE = f"closed is null and number not in ({_SUSPENDED})"
"""The condition for the row of a conversation that is open and not set aside."""


def is_suspended(connection: Connection, conversation: str) -> bool:
    """True when a conversation is aside now."""
    row = connection.execute(
        f"select 1 from conversation where id = ? and number in ({_SUSPENDED})",  # noqa: S608 - our own text
        (conversation,),
    ).fetchone()
    return row is not None


def find_damaged_suspensions(connection: Connection) -> list[str]:
    """The damage to rows that say what is aside, and to the events that left then."""
    rows = connection.execute("select number, conversation, seal from suspension order by number").fetchall()
    return [
        f"why conversation {conversation} was set aside is not what was written"
        for number, conversation, sealed in rows
        if sealed != _digest(connection, number)
    ]


def count_suspension_events(connection: Connection) -> int:
    """Count the events that left conversations when they were set aside: no step has let them go."""
    (events,) = connection.execute("select coalesce(sum(events), 0) from suspension").fetchone()
    return int(events)


def list_suspended(connection: Connection) -> list[SuspendedConversation]:
    """The conversations that are aside, oldest first."""
    rows = connection.execute(
        "select c.id, c.principal, a.at, a.reason,"
        " (select count(*) from delivery d where d.conversation = c.number and d.state = 0)"
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
    """Set an open conversation aside; gives what leaves it. One that is closed or unknown stays as it is.

    ``draw`` gives the first of so many numbers of events, where several servers number them.
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
        first = _next_event_number(connection) if draw is None else draw(len(words))
        for place, event in enumerate(words, first):
            connection.execute(EVENT, (place, number, *_row(event)))
        connection.execute(
            "insert into suspension (conversation, at, reason, first_event, events, seal) values (?, ?, ?, ?, ?, x'')",
            (number, at, clean_line(reason, REASON), first, len(words)),
        )
        _seal(connection, number)
    return words


def read_suspension_events(
    connection: Connection, conversation: str, reason: str, at: float
) -> tuple[Reply | Done, ...]:
    """Read what left a conversation when it was set aside at this time for this reason; nothing where it was not."""
    rows = connection.execute(
        f"select {events.EVENT} from conversation c join suspension a on a.conversation = c.number and a.ended is null"  # noqa: S608
        " join event e on e.number >= a.first_event and e.number < a.first_event + a.events"
        " and e.conversation = a.conversation"
        " where c.id = ? and a.reason = ? and a.at = ? order by e.number",
        (conversation, clean_line(reason, REASON), at),
    )
    return tuple(events.make_event(conversation, row) for row in rows)


def _next_event_number(connection: Connection) -> int:
    (number,) = connection.execute("select coalesce(max(number), 0) + 1 from event").fetchone()
    return int(number)


def resume(connection: Connection, conversation: str, at: float) -> None:
    """Let a conversation that is aside go on with the next start. Raises LookupError when it is not aside."""
    with transaction(connection):
        _end_suspension(connection, conversation, at)


def discard_suspended(connection: Connection, conversation: str, at: float) -> None:
    """End a conversation that is aside: what is queued in it is dropped, and it ages out like any other.

    Raises LookupError when it is not aside.
    """
    with transaction(connection):
        number = _end_suspension(connection, conversation, at)
        queued = connection.execute(
            "select number from delivery where conversation = ? and state = 0", (number,)
        )
        connection.executemany(
            "update delivery set state = 2, reason = '', ended = ?, mark = ? where number = ?",
            [(at, seal.mark(one, 2, "", at), one) for (one,) in queued.fetchall()],
        )
        connection.execute("delete from value where conversation = ?", (number,))
        connection.execute("delete from state where conversation = ?", (number,))
        row = connection.execute(
            "select number, id, principal, root, opened, touched, version, closed, chain, state, rights, asks"
            " from conversation where number = ?",
            (number,),
        ).fetchone()
        whole = Sealed(*row)._replace(touched=at, closed=at, state=b"", asks=0).seal(0)
        connection.execute(
            "update conversation set closed = ?1, touched = ?1, state = x'', asks = 0, seal = ?2 where number = ?3",
            (at, whole, number),
        )


def remove_suspensions(connection: Connection, number: int) -> None:
    """Forget that a conversation was ever aside, with what left it then. In a transaction of the caller's."""
    rows = connection.execute(
        "select first_event, events from suspension where conversation = ?", (number,)
    ).fetchall()
    connection.executemany(
        "delete from event where number >= ? and number < ?",
        [(first, first + count) for first, count in rows],
    )
    connection.execute("delete from suspension where conversation = ?", (number,))


def _find_open_requests(connection: Connection, number: int) -> list[str]:
    """The requests that have not come to rest, as far as deliveries tell, in order."""
    rows = connection.execute(
        "select d.request from step s join delivery d"
        " on d.number >= s.first_delivery and d.number < s.first_delivery + s.deliveries"
        " and d.conversation = s.conversation where s.conversation = ?1"
        " and not exists (select 1 from event e"
        " where e.request = d.request and e.conversation = ?1 and e.message is null)"
        " group by d.request order by min(d.number)",
        (number,),
    )
    return [request for (request,) in rows]


def _find_last_place(connection: Connection, number: int, version: int) -> EventPlace:
    """The last place that is taken: what comes now follows what the last step, or an earlier aside, let go."""
    (steps,) = connection.execute(
        "select coalesce(sum(events), 0) from step where conversation = ? and version = ?", (number, version)
    ).fetchone()
    (asides,) = connection.execute(
        "select coalesce(sum(events), 0) from suspension where conversation = ?", (number,)
    ).fetchone()
    return EventPlace(version, steps + asides - 1)


def _end_suspension(connection: Connection, conversation: str, at: float) -> int:
    """Mark it as aside no more; gives the number of its row."""
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
    """Seal what was written of a conversation's being aside."""
    rows = connection.execute(
        "select number from suspension where conversation = ?", (conversation,)
    ).fetchall()
    connection.executemany(
        "update suspension set seal = ? where number = ?",
        [(_digest(connection, number), number) for (number,) in rows],
    )


def _digest(connection: Connection, number: int) -> bytes:
    """The digest of a row and of the events that left then."""
    row = connection.execute(
        "select number, conversation, at, reason, first_event, events, ended from suspension where number = ?",
        (number,),
    ).fetchone()
    _, conversation, _, _, first, count, _ = row
    left = connection.execute(
        "select number, version, position, request, sender, root, message, flag from event"
        " where number >= ? and number < ? order by number",
        (first, first + count),
    ).fetchall()
    return seal.digest(row, *(seal.event(conversation, one) for one in left))


def _row(event: Reply | Done) -> tuple[object, ...]:
    if isinstance(event, Reply):
        return (*event.place, event.request, event.sender, event.root, event.message, event.error)
    return (*event.place, event.request, None, None, None, event.answered)
