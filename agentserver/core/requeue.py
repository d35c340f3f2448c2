"""A dead letter on its way again.

Owns when that is possible: while its thread lives, because only then somebody waits for what comes of it. Refuses to
know where dead letters are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.messages import Requeued
from agentserver.core.step import Step

if TYPE_CHECKING:
    from agentserver.core.conversation import Conversation
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Moment
    from agentserver.core.outcome import Outcome


def requeue(conversation: Conversation, delivery: Delivery, rules: Rules, moment: Moment) -> Outcome:
    """Queue a delivery once more on its thread, under its own id and with all its attempts before it.

    The request it belongs to is open again; its answer goes where the first one went. Raises LookupError when its
    thread is closed or the delivery waits already.
    """
    thread = conversation.tree.get(delivery.thread)
    if conversation.closed or thread is None or thread.parent is None:
        raise LookupError("its thread is closed: nobody waits for what would come of it")
    if any(waiting.id == delivery.id for waiting in thread.waiting()):
        raise LookupError("it waits already")
    step = Step(conversation, rules, moment)
    step.cause = Requeued(delivery)
    if delivery.request not in conversation.requests:
        step.requests.begin(delivery.request)
    top = thread
    while top.parent is not None and top.parent != conversation.tree.root:
        top = conversation.tree.nodes[top.parent]
    if conversation.tree.at_rest(top):
        step.requests.began_on(delivery.request, top.id)
    step.revive(delivery._replace(attempt=0))
    return step.finish()
