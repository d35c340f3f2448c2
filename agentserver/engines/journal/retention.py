"""The end of what a journal keeps: ageing out, discarding, and the check of a chain.

Owns what is removed and when. Must not touch an open conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.engines.journal import records, suspension
from agentserver.engines.journal.connection import transaction
from agentserver.engines.journal.rows import DeliveryEnd
from agentserver.engines.journal.seal import GENESIS, chained, mark

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.core.encoding.recorded import RecordedConversation
    from agentserver.engines.journal.connection import Connection

AT_ONCE = 64
"""Conversations that one transaction removes."""


def expire_conversations(connection: Connection, before: float) -> int:
    """Remove some of the conversations that were closed before; gives how many."""
    rows = connection.execute(
        "select number from conversation where touched < ?1 and closed < ?1 and closed is not null"
        " order by touched limit ?2",
        (before, AT_ONCE),
    ).fetchall()
    if rows:
        remove_conversations(connection, [number for (number,) in rows])
    else:
        records.forget_names(connection, before)
    return len(rows)


def remove_conversations(connection: Connection, numbers: Collection[int]) -> None:
    """Remove conversations with everything that belongs to them."""
    with transaction(connection):
        for number in numbers:
            steps = connection.execute(
                "select first_delivery, deliveries, first_event, events from step where conversation = ?",
                (number,),
            ).fetchall()
            connection.executemany(
                "delete from delivery where number >= ? and number < ?",
                [(d, d + n) for d, n, _, _ in steps if n],
            )
            connection.executemany(
                "delete from event where number >= ? and number < ?",
                [(e, e + n) for _, _, e, n in steps if n],
            )
            connection.execute("delete from step where conversation = ?", (number,))
            connection.execute("delete from value where conversation = ?", (number,))
            connection.execute("delete from state where conversation = ?", (number,))
            suspension.remove_suspensions(connection, number)
            connection.execute(
                "delete from opening where conversation = (select id from conversation where number = ?)",
                (number,),
            )
            connection.execute("delete from receipt where conversation = ?", (number,))
            connection.execute("delete from conversation where number = ?", (number,))


def discard_letter(connection: Connection, delivery: str) -> bool:
    """Take a dead letter off the list; what is recorded of it stays. False when there is none of that id."""
    row = connection.execute(
        "select number, reason, ended from delivery where id = ? and state = ?", (delivery, DeliveryEnd.DEAD)
    ).fetchone()
    if row is None:
        return False
    number, *rest = row
    connection.execute(
        "update delivery set state = ?, mark = ? where number = ?",
        (DeliveryEnd.DISCARDED, mark(number, DeliveryEnd.DISCARDED, *rest), number),
    )
    return True


def find_broken_link(recorded: RecordedConversation) -> int | None:
    """The first version of a conversation whose step is not what was written; None when all are."""
    chain = GENESIS
    for expected, step in enumerate(recorded.steps, 1):
        chain = chained(chain, *step.moment, step.cause, step.records, *step.rows)
        if chain != step.chain or step.version != expected:
            return expected
    return None
