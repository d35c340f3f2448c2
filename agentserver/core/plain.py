"""The step that nearly every step is: one message in, one message on, and nothing else.

Owns no rule: it gives what the general step of ``concluding`` would give, or None for everything that needs a second
look. Tests hold it to that by deciding every step both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core import envelope
from agentserver.core.admission import hear
from agentserver.core.audit import Event
from agentserver.core.conversation import Conversation
from agentserver.core.messages import Delivery, Drafts, Returned
from agentserver.core.minutes import Minutes
from agentserver.core.outcome import Outcome
from agentserver.core.overlay import changeable
from agentserver.core.payload.codec import of_system
from agentserver.core.refusals import Refusal
from agentserver.core.requests import Request
from agentserver.core.routing import Place, Route
from agentserver.core.step import PARSED_LIMIT
from agentserver.core.threads import Thread, ThreadTree

if TYPE_CHECKING:
    from agentserver.core.admission import Remark
    from agentserver.core.blueprint import Limits
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Draft, Finished, Moment


def plain(conversation: Conversation, finished: Finished, rules: Rules, moment: Moment) -> Outcome | None:
    """The outcome of an invocation that sent one ordinary message to a peer or to a caller in the server."""
    delivery, element, result = finished
    thread = conversation.working_on(delivery)
    request = conversation.requests.get(delivery.request)
    listener = rules.blueprint.listeners.get(delivery.to)
    if thread is None or thread.parent is None or request is None or listener is None or element is None:
        return None
    draft = _only(result)
    if draft is None or rules.rewriter is not None or not _calm(conversation, thread, request):
        return None
    if not _affordable(rules.blueprint.limits, conversation, request, delivery.hop + 1):
        return None
    moment = moment.not_before(conversation.touched)
    nodes = changeable(conversation.tree.nodes)
    caller = nodes[thread.parent]
    memory = rules.observe(conversation.memory, delivery, element, moment.now)
    remarks: list[Remark] = []
    heard = hear(draft, Place(listener, thread.id, caller.owner, moment.now), rules, memory, remarks)
    if isinstance(heard, Refusal) or remarks or len(heard) != 1 or heard[0].questions:
        return None
    route, opened, messages = heard[0].route, conversation.tree.opened, conversation.messages
    requests = changeable(conversation.requests)
    requests[request.id] = Request(*request[:-1], request.messages + 1)
    ids = moment.ids()
    rest = thread.inbox[1:]
    nodes[thread.id] = thread = thread.with_inbox(rest)
    if route is Route.PEER:
        receiver = _resting(conversation.tree, thread, heard[0].to)
        if receiver is None:
            receiver = Thread(next(ids), heard[0].to, thread.id, opened, messages)
            opened += 1
            nodes[thread.id] = thread._replace(children=thread.children.followed_by(receiver.id))
        else:
            receiver = receiver.called_at(messages)
    elif route is Route.ANSWER and caller.parent is not None and not thread.children:
        receiver = caller
    else:
        return None
    sent = Delivery(
        next(ids),
        conversation.id,
        delivery.request,
        receiver.id,
        thread.id,
        listener.name,
        receiver.owner,
        draft.root,
        envelope.write(listener.name, receiver.owner, receiver.id, draft.markup),
        delivery.hop + 1,
    )
    nodes[receiver.id] = receiver.with_inbox((*receiver.inbox, sent))
    minutes = Minutes(conversation.id, moment.now, rules.redact)
    minutes.record(Event.HANDLED, delivery)
    minutes.record(Event.SENT, sent)
    # In the order of their fields: to name them would cost as much again as to make them.
    after = Conversation(
        conversation.id,
        conversation.principal,
        ThreadTree(conversation.tree.root, nodes, opened),
        conversation.todos,
        requests,
        messages + 1,
        memory,
        conversation.version + 1,
        moment.now,
    )
    return Outcome(
        conversation.version,
        after,
        delivery.id,
        (sent,),
        grown=len(sent.message) - len(delivery.message),
        ready=(*rest[:1], *(() if receiver.inbox else (sent,))),
        records=tuple(minutes.records),
        parsed={sent.id: draft.element} if len(sent.message) <= PARSED_LIMIT else {},
        moment=moment,
        cause=finished,
        since=conversation,
    )


def _only(result: object) -> Draft | None:
    """The only message of a result that is nothing else, and not the system's."""
    if not isinstance(result, Returned):
        return None
    said, effects = result
    if not isinstance(said, Drafts) or len(said.drafts) != 1 or said.repairs or said.deprecated:
        return None
    if effects.stored or effects.closed or of_system(said.drafts[0].root):
        return None
    return said.drafts[0]


def _calm(conversation: Conversation, thread: Thread, request: Request) -> bool:
    """True when nothing is held back or narrowed, nothing was refused, and nothing waits for a person on the thread."""
    return not (
        conversation.todos.watchers
        or not conversation.version
        or request.held
        or thread.refusals
        or thread.held
        or thread.approvals
        or thread.allowed is not None
    )


def _affordable(limits: Limits, conversation: Conversation, request: Request, hop: int) -> bool:
    return (
        hop <= limits.hops
        and request.messages < limits.messages
        and conversation.messages < limits.conversation_messages
    )


def _resting(tree: ThreadTree, thread: Thread, owner: str) -> Thread | None:
    """The oldest child of a listener that is at rest."""
    for child in thread.children:
        node = tree.nodes[child]
        if node.owner == owner and node.allowed is None and tree.at_rest(node):
            return node
    return None
