"""The endings of deliveries, as the rows of a journal tell them."""

from __future__ import annotations

from agentserver.engines.journal.rows import DeliveryEnd


def endings(connection, conversation):
    """The ending of each delivery of a conversation."""
    rows = connection.execute(
        "select d.id, d.state from step s join conversation c on c.number = s.conversation join delivery d"
        " on d.number >= s.first_delivery and d.number < s.first_delivery + s.deliveries where c.id = ?",
        (conversation,),
    )
    return {key: DeliveryEnd(state) for key, state in rows}
