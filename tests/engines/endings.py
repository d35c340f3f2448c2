"""The endings of deliveries, as the rows of a journal tell them."""

from __future__ import annotations

from agentserver.engines.journal.rows import DeliveryEnd
from agentserver.engines.journal.walking import STEPS


def endings(connection, conversation):
    """The ending of each delivery of a conversation; None for one in the queue."""
    (number,) = connection.execute("select number from conversation where id = ?", (conversation,)).fetchone()
    rows = connection.execute(
        "select d.id, case when d.number in (select delivery from queue) then null else d.state end"
        f" from {STEPS} join delivery d"
        " on d.number >= s.first_delivery and d.number < s.first_delivery + s.deliveries",
        (number, 0),
    )
    return {key: None if state is None else DeliveryEnd(state) for key, state in rows}
