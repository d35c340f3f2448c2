"""The steps that nearly every step is: one message in, at most one message on, and nothing else.

Owns no rule: it gives what the general steps, ``concluding`` and ``receiving``, would give, or None for everything that
needs a second look. Tests hold it to that by deciding every step both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.decide.admission import hear
from agentserver.core.drafts.routing import Route, Sender
from agentserver.core.messages import NO_EFFECTS, Call, Delivery, Done, Drafts, EventPlace, Reply, Returned
from agentserver.core.records.audit import Event
from agentserver.core.records.outcome import Outcome
from agentserver.core.records.record_builder import RecordBuilder
from agentserver.core.refusals import Refusal
from agentserver.core.state import siblings
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.overlay import Overlay, changeable
from agentserver.core.state.requests import NO_REQUESTS, OpenRequest
from agentserver.core.state.threads import Thread, ThreadTree, followed, narrowed
from agentserver.payload.codec import SYSTEMS_OWN
from agentserver.payload.names import local
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping, Sequence

    from agentserver.core.decide.admission import AuditNote
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Draft, Finished, Moment, Outside
    from agentserver.core.state.siblings import Kind, Siblings

_new = tuple.__new__
"""Makes a tuple without the call of Python that its class would make; tests/test_tuples.py counts the fields."""


def plain(conversation: Conversation, finished: Finished, rules: Rules, moment: Moment) -> Outcome | None:
    """The outcome of an invocation that sent one ordinary message, to a peer, to its caller or out of the server.

    Or of one that sent none while other work of its thread and request goes on, as when it gathers answers.
    """
    delivery, element, result, _ = finished
    thread = conversation.working_on(delivery)
    request = conversation.requests.get(delivery.request)
    listener = rules.blueprint.listeners.get(delivery.to)
    if thread is None or thread.parent is None or request is None or listener is None or element is None:
        return None
    drafts = ordinary(result)
    if drafts is None or len(drafts) > 1 or not (drafts or _goes_on(thread, request)):
        return None
    if not calm(conversation, thread, request, rules, delivery.hop + 1, 1):
        return None
    if moment.now < conversation.touched:
        moment = moment.not_before(conversation.touched)
    memory = rules.observe(conversation.memory, delivery, element, moment.now)
    builder = RecordBuilder(conversation.id, moment.now, rules.redact, delivery.request, finished.took)
    builder.record(Event.HANDLED, delivery)
    if not drafts:
        return _gathered(conversation, finished, builder, moment, memory)
    caller = conversation.tree.nodes[thread.parent]
    if thread.allowed is not None:
        listener = rules.narrowed(listener.name, thread.allowed).listener
    sender = _new(Sender, (listener, thread.id, caller.owner, moment.now, None))
    remarks: list[AuditNote] = []
    proposal = heard(drafts[0], sender, rules, memory, remarks)
    answers = proposal is not None and proposal.route is Route.ANSWER
    if proposal is None or (thread.children if answers else proposal.route is not Route.PEER):
        return None
    for event, to, detail in remarks:
        builder.note(event, thread=thread.id, sender=listener.name, to=to, detail=detail)
    then = _answered if answers and caller.parent is None else _passed_on
    return then(conversation, finished, builder, moment, memory, proposal)


def plain_request(
    conversation: Conversation, outside: Outside, rules: Rules, moment: Moment, draft: Draft
) -> Outcome | None:
    """The outcome of a message from outside that goes to one listener."""
    root = conversation.tree.nodes[conversation.tree.root]
    requests, limits = conversation.requests, rules.blueprint.limits
    if conversation.todos.watchers or draft.root in rules.rewritable or outside.request in requests:
        return None
    if limits.hops < 1 or limits.messages < 1 or conversation.messages >= limits.conversation_messages:
        return None
    if moment.now < conversation.touched:
        moment = moment.not_before(conversation.touched)
    memory = conversation.memory if conversation.version else rules.recall(conversation)
    who = rules.blueprint.principal(conversation.principal, conversation.rights.may)
    proposal = heard(draft, Sender(who, root.id, None, moment.now), rules, memory, [])
    if proposal is None or proposal.route is not Route.PEER:
        return None
    ids, messages, nodes = moment.ids(), conversation.messages, changeable(conversation.tree.nodes)
    call, requests = _new(Call, (messages, "", 0, False)), changeable(requests)
    receiver, children = receiver_of(conversation.tree, root, (proposal.to, None), call, ids)
    fresh = receiver.ordinal == conversation.tree.opened
    if receiver.request:  # an earlier request has been taken up on the thread
        return None
    sent = delivered(proposal, receiver, next(ids), (conversation.id, outside.request, 1), call)
    nodes[root.id], nodes[receiver.id] = root._replace(children=children), receiver.begun(sent)
    requests[outside.request] = OpenRequest(outside.request, (receiver.id,), 1, 0, False, 1)
    builder = RecordBuilder(conversation.id, moment.now, rules.redact, outside.request)
    builder.note(Event.RECEIVED, thread=root.id, sender=who.name, to=proposal.to, root=local(proposal.root))
    builder.record(Event.SENT, sent)
    tree = _new(ThreadTree, (root.id, nodes, conversation.tree.opened + fresh))
    return Outcome(
        conversation.version,
        following(conversation, tree, requests, messages + 1, memory, moment),
        added=(sent,),
        grown=len(sent.message),
        ready=(sent,),
        records=tuple(builder.records),
        parsed={sent.id: proposal.element},
        moment=moment,
        cause=outside,
        since=conversation,
    )


def _gathered(
    conversation: Conversation,
    finished: Finished,
    builder: RecordBuilder,
    moment: Moment,
    memory: Mapping[str, object],
) -> Outcome:
    """The outcome of a message that led to no other, on a thread that does not come to rest by it."""
    delivery, requests = finished.delivery, changeable(conversation.requests)
    nodes = changeable(conversation.tree.nodes)
    thread = nodes[delivery.thread]
    rest = thread.inbox[1:]
    nodes[thread.id] = thread.with_inbox(rest)
    name, threads, pending, *others = requests[delivery.request]
    requests[name] = _new(OpenRequest, (name, threads, pending - 1, *others))
    tree = _new(ThreadTree, (conversation.tree.root, nodes, conversation.tree.opened))
    return Outcome(
        conversation.version,
        following(conversation, tree, requests, conversation.messages, memory, moment),
        delivery.id,
        grown=-len(delivery.message),
        ready=rest[:1],
        records=tuple(builder.records),
        moment=moment,
        cause=finished,
        since=conversation,
    )


def _passed_on(
    conversation: Conversation,
    finished: Finished,
    builder: RecordBuilder,
    moment: Moment,
    memory: Mapping[str, object],
    proposal: Proposal,
) -> Outcome:
    """The outcome of a message to a peer or to a caller in the server."""
    delivery, tree, messages = finished.delivery, conversation.tree, conversation.messages
    ids, opened, nodes = moment.ids(), tree.opened, changeable(tree.nodes)
    thread = nodes[delivery.thread]
    rest = thread.inbox[1:]
    if proposal.route is Route.ANSWER:
        nodes[thread.id] = thread.with_inbox(rest)
        receiver = nodes[thread.parent or ""]
        call = delivery.call if delivery.origin == receiver.id else thread.call
        if not rest:
            children = receiver.children
            if children.resting is not None:
                children = children.moved(thread.id, None, (thread.owner, thread.allowed))
            receiver = _new(Thread, (*receiver[:5], children, *receiver[6:-1], receiver.busy - 1))
    else:
        call = _new(Call, (messages, delivery.id, 0, False))
        own, above = proposal.allowed, thread.allowed
        kind = proposal.to, own if above is None else narrowed(above, own)
        receiver, children = receiver_of(tree, thread, kind, call, ids)
        nodes[thread.id] = _new(Thread, (*thread[:5], children, rest, *thread[7:-1], thread.busy + 1))
        opened += receiver.ordinal == opened
    chain = conversation.id, delivery.request, delivery.hop + 1
    sent = delivered(proposal, receiver, next(ids), chain, call)
    nodes[receiver.id] = receiver.with_inbox((*receiver.inbox, sent))
    request, requests = conversation.requests[delivery.request], changeable(conversation.requests)
    requests[request.id] = _new(OpenRequest, (*request[:-1], request.messages + 1))
    builder.record(Event.SENT, sent)
    tree = _new(ThreadTree, (tree.root, nodes, opened))
    return Outcome(
        conversation.version,
        following(conversation, tree, requests, messages + 1, memory, moment),
        delivery.id,
        (sent,),
        grown=len(sent.message) - len(delivery.message),
        ready=(*rest[:1], *(() if receiver.inbox else (sent,))),
        records=tuple(builder.records),
        parsed={sent.id: proposal.element},
        moment=moment,
        cause=finished,
        since=conversation,
    )


def _answered(
    conversation: Conversation,
    finished: Finished,
    builder: RecordBuilder,
    moment: Moment,
    memory: Mapping[str, object],
    proposal: Proposal,
) -> Outcome:
    """The outcome of a message to the principal, which leaves the server."""
    delivery, principal, sender = finished.delivery, conversation.principal, proposal.sender.name
    version, nodes = conversation.version + 1, changeable(conversation.tree.nodes)
    thread = nodes[delivery.thread]
    rest = thread.inbox[1:]
    message = envelope.write(sender, principal, None, proposal.markup)
    name, threads, pending, held, _, spent = conversation.requests[delivery.request]
    _taken(nodes, conversation.tree.root, thread, threads if pending == 1 else ())
    replies: tuple[Reply | Done, ...] = (
        Reply(conversation.id, name, sender, proposal.root, message, place=EventPlace(version, 0)),
    )
    requests = changeable(conversation.requests)
    if pending > 1:
        requests[name] = OpenRequest(name, threads, pending - 1, held, True, spent + 1)
    else:
        del requests[name]
        replies += (Done(conversation.id, name, answered=True, place=EventPlace(version, 1)),)
    builder.note(
        Event.ANSWERED,
        thread=thread.id,
        sender=sender,
        to=principal,
        root=local(proposal.root),
        hop=delivery.hop + 1,
        message=message,
    )
    tree = _new(ThreadTree, (conversation.tree.root, nodes, conversation.tree.opened))
    return Outcome(
        conversation.version,
        following(conversation, tree, requests or NO_REQUESTS, conversation.messages, memory, moment),
        delivery.id,
        grown=-len(delivery.message),
        ready=rest[:1],
        replies=replies,
        records=tuple(builder.records),
        moment=moment,
        cause=finished,
        since=conversation,
    )


def _taken(nodes: MutableMapping[str, Thread], root: str, thread: Thread, over: tuple[str, ...]) -> None:
    """Take the first delivery of a thread of the principal's, which may come to rest; ``over`` have no request left."""
    nodes[thread.id] = thread.with_inbox(thread.inbox[1:])
    above = nodes[root]
    if above.children.resting is not None and len(thread.inbox) == 1:
        children = above.children.moved(thread.id, None, (thread.owner, thread.allowed))
        nodes[root] = above._replace(children=children)
    for each in over:
        if each in nodes:
            nodes[each] = _new(Thread, (*nodes[each][:-2], "", nodes[each].busy))


def heard(
    draft: Draft, sender: Sender, rules: Rules, memory: Mapping[str, object], remarks: list[AuditNote]
) -> Proposal | None:
    """The only proposal of a draft, if every guard lets it pass without a word; notes the rewriter's remark."""
    heard = hear(draft, sender, rules, memory, remarks)
    if isinstance(heard, Refusal) or len(heard) != 1 or heard[0].questions:
        return None
    if remarks and remarks[-1].event is not Event.ATTEMPTED:  # a guard's, which comes after the rewriter's
        return None
    return heard[0]


def delivered(
    proposal: Proposal, receiver: Thread, number: str, chain: tuple[str, str, int], call: Call
) -> Delivery:
    """The delivery of a proposal to a thread, under an id of its own.

    ``chain``: its conversation, its request and its hop. ``call``: the call that it is or answers.
    """
    sender = proposal.sender.name
    conversation, request, hop = chain
    return _new(
        Delivery,
        (
            number,
            conversation,
            request,
            receiver.id,
            proposal.thread,
            sender,
            receiver.owner,
            proposal.root,
            envelope.write(sender, receiver.owner, receiver.id, proposal.markup),
            hop,
            "",
            0,
            call,
        ),
    )


def following(
    before: Conversation,
    tree: ThreadTree,
    requests: Mapping[str, OpenRequest],
    messages: int,
    memory: Mapping[str, object],
    moment: Moment,
) -> Conversation:
    """The conversation after a step that changed no todo."""
    return _new(
        Conversation,
        (
            before.id,
            before.principal,
            tree,
            before.todos,
            requests,
            messages,
            memory,
            before.version + 1,
            moment.now,
            False,
            before.rights,
            before.spending,
        ),
    )


def ordinary(result: object) -> Sequence[Draft] | None:
    """The messages of a result that is nothing else, none of them the system's; None for any other result."""
    if not isinstance(result, Returned):
        return None
    said, effects = result
    if not isinstance(said, Drafts) or said.repairs or said.deprecated:
        return None
    if effects is not NO_EFFECTS and any(effects):
        return None
    for draft in said.drafts:
        if draft.root.startswith(SYSTEMS_OWN):
            return None
    return said.drafts


def _goes_on(thread: Thread, request: OpenRequest) -> bool:
    """True when neither the thread nor the request comes to rest with a message that leads to no other."""
    return request.pending > 1 and bool(thread.busy or thread.inbox[1:])


def calm(
    conversation: Conversation, thread: Thread, request: OpenRequest, rules: Rules, hop: int, many: int
) -> bool:
    """True when there is room for so many more messages, and nothing is held back, refused, asked, hidden."""
    limits = rules.blueprint.limits
    return not (
        hop > limits.hops
        or request.messages + many > limits.messages
        or conversation.messages + many > limits.conversation_messages
        or conversation.todos.watchers
        or not conversation.version
        or request.held
        or thread.refusals
        or thread.held
        or thread.approvals
        or thread.owner in rules.viewers
    )


def receiver_of(
    tree: ThreadTree, thread: Thread, kind: Kind, call: Call, ids: Iterator[str]
) -> tuple[Thread, Siblings]:
    """The oldest child of a kind that is at rest, or a new one; and the children with that one at work."""
    owner, allowed = kind
    held, children = tree.nodes, thread.children
    if children.resting is None:
        found = held.values_of(children) if type(held) is Overlay else map(held.__getitem__, children)
        for node in found:
            if node.owner == owner and not node.inbox and not node.busy and node.resting == kind:
                return node.called_by(call), children
    else:
        place = children.first(kind)
        if place is not None:
            node = held[children.ids[place]]
            return node.called_by(call), children.moved(node.id, kind, None)
    opened = Thread(next(ids), owner, thread.id, tree.opened, call, allowed=allowed)
    if children.size < siblings.FEW:
        return opened, children.followed_by(opened.id)
    return opened, followed(children, opened.id, held)
