"""The endings of deliveries, as the rows of a journal tell them."""

from __future__ import annotations

from agentserver.engines.journal.rows import DeliveryEnd


def endings(connection, conversation):
    """The ending of each delivery of a conversation; None for one in the queue."""
    rows = connection.execute(
        "select d.id, case when d.number in (select delivery from queue) then null else d.state end from step s join conversation c on c.number = s.conversation join delivery d"
        " on d.number >= s.first_delivery and d.number < s.first_delivery + s.deliveries where c.id = ?",
        (conversation,),
    )
    return {key: None if state is None else DeliveryEnd(state) for key, state in rows}
