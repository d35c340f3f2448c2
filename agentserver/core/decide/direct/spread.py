"""The step of a listener that sends several ordinary messages to its peers, and nothing else.

Owns no rule: it gives what the general step, ``concluding``, would give, or None for everything that needs a second
look. Tests hold it to that by deciding every step both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.decide import decisions, plain
from agentserver.core.drafts.routing import Route, Sender
from agentserver.core.messages import Call
from agentserver.core.records.audit import Event
from agentserver.core.records.outcome import Outcome
from agentserver.core.records.record_builder import RecordBuilder
from agentserver.core.state.overlay import changeable
from agentserver.core.state.requests import OpenRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Finished, Moment
    from agentserver.core.pieces import Pieces
    from agentserver.core.state.conversation import Conversation


def concluding(
    conversation: Conversation, finished: Finished, rules: Rules, moment: Moment
) -> Pieces[Outcome]:
    """Decide what follows from an invocation: directly, or else by the general step."""
    spread = yield from spreading(conversation, finished, rules, moment)
    if spread is not None:
        return spread
    return (yield from decisions.concluding(conversation, finished, rules, moment))


def spreading(
    conversation: Conversation, finished: Finished, rules: Rules, moment: Moment
) -> Pieces[Outcome | None]:
    """The outcome of an invocation that sent several messages to peers; a piece for each message."""
    delivery, element, result, _ = finished
    thread = conversation.working_on(delivery)
    request = conversation.requests.get(delivery.request)
    listener = rules.blueprint.listeners.get(delivery.to)
    if thread is None or thread.parent is None or request is None or listener is None or element is None:
        return None
    drafts = plain.ordinary(result)
    if not drafts or thread.allowed is not None or any(draft.root in rules.rewritable for draft in drafts):
        return None
    if not plain.calm(conversation, thread, request, rules, delivery.hop + 1, len(drafts)):
        return None
    moment = moment.not_before(conversation.touched)
    caller = conversation.tree.nodes[thread.parent]
    memory = rules.observe(conversation.memory, delivery, element, moment.now)
    sender = Sender(listener, thread.id, caller.owner, moment.now)
    proposals: list[Proposal] = []
    for draft in drafts:
        proposal = plain.heard(draft, sender, rules, memory, [])
        if proposal is None or proposal.route is not Route.PEER:
            return None
        proposals.append(proposal)
        yield
    return (yield from _sent(conversation, finished, rules, moment, memory, proposals))


def _sent(
    conversation: Conversation,
    finished: Finished,
    rules: Rules,
    moment: Moment,
    memory: Mapping[str, object],
    proposals: Sequence[Proposal],
) -> Pieces[Outcome]:
    delivery, nodes = finished.delivery, changeable(conversation.tree.nodes)
    tree = conversation.tree._replace(nodes=nodes)
    ids, messages = moment.ids(), conversation.messages
    chain = conversation.id, delivery.request, delivery.hop + 1
    thread = nodes[delivery.thread]
    rest = thread.inbox[1:]
    nodes[thread.id] = thread = thread.with_inbox(rest)
    builder = RecordBuilder(conversation.id, moment.now, rules.redact, delivery.request, finished.took)
    builder.record(Event.HANDLED, delivery)
    added: list[Delivery] = []
    for place, proposal in enumerate(proposals):
        call = Call(messages, delivery.id, place)
        receiver, children = plain.receiver_of(tree, thread, (proposal.to, None), call, ids)
        nodes[thread.id] = thread = thread._replace(children=children, busy=thread.busy + 1)
        sent = plain.delivered(proposal, receiver, next(ids), chain, call)
        nodes[receiver.id] = receiver.with_inbox((sent,))
        tree = tree._replace(opened=tree.opened + (receiver.ordinal == tree.opened))
        messages += 1
        builder.record(Event.SENT, sent)
        added.append(sent)
        yield
    requests = changeable(conversation.requests)
    name, threads, pending, held, answered, spent = requests[delivery.request]
    many = len(added)
    requests[name] = OpenRequest(name, threads, pending + many - 1, held, answered, spent + many)
    return Outcome(
        conversation.version,
        plain.following(conversation, tree, requests, messages, memory, moment),
        delivery.id,
        tuple(added),
        grown=sum(len(sent.message) for sent in added) - len(delivery.message),
        ready=(*rest[:1], *added),
        records=tuple(builder.records),
        parsed={sent.id: proposal.element for sent, proposal in zip(added, proposals, strict=True)},
        moment=moment,
        cause=finished,
        since=conversation,
    )
