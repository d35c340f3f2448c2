"""Removal of closed conversations and of dead letters, and the check of a conversation's chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.engines.journal import records, suspension
from agentserver.engines.journal.connection import transaction
from agentserver.engines.journal.rows import DeliveryEnd, write_discard
from agentserver.engines.journal.seal import GENESIS, extend_chain, mark
from agentserver.engines.journal.walking import STEPS

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.core.encoding.history import RecordedConversation
    from agentserver.engines.journal.connection import Connection

AT_ONCE = 64
"""Most conversations removed in one transaction."""


def expire_conversations(connection: Connection, before: float) -> int:
    """Remove some of the conversations closed before a time. Returns their count."""
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


def remove_conversations(connection: Connection, numbers: Collection[int], steps_of: str = STEPS) -> None:
    """Remove conversations with all their rows.

    ``steps_of`` is the text for their steps ``s``, as in walking.py.
    """
    with transaction(connection):
        for number in numbers:
            steps = connection.execute(
                "select s.number, s.first_delivery, s.deliveries, s.first_event, s.events"  # noqa: S608
                f" from {steps_of}",
                (number, 0),
            ).fetchall()
            connection.executemany(
                "delete from delivery where number >= ? and number < ?",
                [(d, d + n) for _, d, n, _, _ in steps if n],
            )
            connection.executemany(
                "delete from event where number >= ? and number < ?",
                [(e, e + n) for *_, e, n in steps if n],
            )
            connection.executemany("delete from step where number = ?", [step[:1] for step in steps])
            connection.execute("delete from queue where conversation = ?", (number,))
            connection.execute("delete from value where conversation = ?", (number,))
            connection.execute("delete from state where conversation = ?", (number,))
            connection.execute("delete from facet where conversation = ?", (number,))
            connection.execute("delete from wordlist where conversation = ?", (number,))
            connection.execute("delete from completion where conversation = ?", (number,))
            suspension.remove_suspensions(connection, number)
            connection.execute(
                "delete from opening where conversation = (select id from conversation where number = ?)",
                (number,),
            )
            connection.execute("delete from receipt where conversation = ?", (number,))
            connection.execute("delete from conversation where number = ?", (number,))


def discard_letter(connection: Connection, delivery: str, by: str, at: float) -> bool:
    """Discard a dead letter, but keep its record. Returns False for an unknown id.

    Args:
        connection: to the journal.
        delivery: its id.
        by: the operator.
        at: seconds since the epoch.
    """
    row = connection.execute(
        "select number, reason from delivery where id = ? and state = ?", (delivery, DeliveryEnd.DEAD)
    ).fetchone()
    if row is None:
        return False
    number, reason = row
    ended = (int(DeliveryEnd.DISCARDED), write_discard(by, reason), at)
    connection.execute(
        "update delivery set state = ?, reason = ?, ended = ?, mark = ? where number = ?",
        (*ended, mark(number, *ended), number),
    )
    return True


def find_broken_link(recorded: RecordedConversation) -> int | None:
    """Find the first version whose step breaks the chain; None for an intact chain."""
    chain = GENESIS
    for expected, step in enumerate(recorded.steps, 1):
        chain = extend_chain(chain, *step.moment, step.cause, step.records, *step.rows)
        if chain != step.chain or step.version != expected:
            return expected
    return None
