"""The step of a listener that sends several ordinary messages to its peers, and nothing else.

Owns no rule: it gives what the general step, ``concluding``, would give, or None for everything that needs a second
look. Tests hold it to that by deciding every step both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.decide import decisions, plain
from agentserver.core.drafts.routing import Route, Sender
from agentserver.core.messages import Drafts, Returned
from agentserver.core.records.audit import Event
from agentserver.core.records.outcome import Outcome
from agentserver.core.records.record_builder import RecordBuilder
from agentserver.core.state.overlay import changeable
from agentserver.core.state.requests import OpenRequest
from agentserver.core.state.threads import Thread, ThreadTree
from agentserver.payload.codec import SYSTEMS_OWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Draft, Finished, Moment
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
    drafts = _several(result)
    if thread is None or thread.parent is None or not drafts or element is None:
        return None
    if not _calm(conversation, finished, thread, rules, len(drafts)):
        return None
    moment = moment.not_before(conversation.touched)
    caller = conversation.tree.nodes[thread.parent]
    memory = rules.observe(conversation.memory, delivery, element, moment.now)
    place = Sender(rules.blueprint.listeners[delivery.to], thread.id, caller.owner, moment.now)
    proposals: list[Proposal] = []
    for draft in drafts:
        proposal = plain.heard(draft, place, rules, memory)
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
    delivery, tree = finished.delivery, conversation.tree
    nodes, ids, messages = changeable(tree.nodes), moment.ids(), conversation.messages
    thread = nodes[delivery.thread]
    rest = thread.inbox[1:]
    nodes[thread.id] = thread = thread.with_inbox(rest)
    builder = RecordBuilder(conversation.id, moment.now, rules.redact, delivery.request, finished.took)
    builder.record(Event.HANDLED, delivery)
    added: list[Delivery] = []
    for proposal in proposals:
        tree = ThreadTree(tree.root, nodes, tree.opened)
        receiver, children = plain.receiver_of(tree, thread, proposal.to, messages, ids)
        nodes[thread.id] = thread = thread._replace(children=children, busy=thread.busy + 1)
        sent = plain.delivered(
            proposal, receiver, next(ids), conversation.id, delivery.request, delivery.hop + 1
        )
        nodes[receiver.id] = receiver.with_inbox((sent,))
        tree = ThreadTree(tree.root, nodes, tree.opened + (receiver.ordinal == tree.opened))
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


def _several(result: object) -> Sequence[Draft]:
    """The messages of a result that is nothing else, none of them the system's; empty for any other."""
    if not isinstance(result, Returned):
        return ()
    said, effects = result
    if not isinstance(said, Drafts) or said.repairs or said.deprecated or effects.stored or effects.closed:
        return ()
    return () if any(draft.root.startswith(SYSTEMS_OWN) for draft in said.drafts) else said.drafts


def _calm(conversation: Conversation, finished: Finished, thread: Thread, rules: Rules, many: int) -> bool:
    """True when the last of so many messages would have room, and nothing is held back, narrowed or refused."""
    delivery, limits = finished.delivery, rules.blueprint.limits
    request = conversation.requests.get(delivery.request)
    if request is None or delivery.to not in rules.blueprint.listeners:
        return False
    if request.messages + many > limits.messages:
        return False
    if conversation.messages + many > limits.conversation_messages:
        return False
    return plain.calm(conversation, thread, request, rules, delivery.hop + 1)
