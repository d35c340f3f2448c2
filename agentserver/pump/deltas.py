"""Pieces of answers that running agents have not committed: who may see them, and how they compare with the answer.

A piece leaves only where the whole answer could not be refused: the caller is the principal, no guard may deny an
answer, and nothing rewrites it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from agentserver.core.guard import is_silenced, pass_answers
from agentserver.core.messages import SYSTEM_NAMES, Delta, DeltaKind, Reply
from agentserver.payload.json.elements import convert_value
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.core.decide.decisions import AcceptedDelivery
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.pump.editions import Editions
    from agentserver.pump.invoke import Stoppable

logger = logging.getLogger("agentserver.pump")

UNANSWERED = "the answer was not accepted"


class AnswerStreams:
    """Streamed answers of running invocations.

    Args:
        editions: rules of each conversation.
        live: the conversations at work, as last committed.
        publish: passes a delta to the watchers of its conversation.
        wanted: whether any watcher of a conversation takes deltas.
    """

    def __init__(
        self,
        editions: Editions,
        live: Mapping[str, Conversation],
        publish: Callable[[Delta], None],
        wanted: Callable[[str], bool],
    ) -> None:
        self._editions, self._live = editions, live
        self.publish, self.has_watchers = publish, wanted
        self.open: dict[str, AnswerStream] = {}
        """Streams of which a watcher has seen a piece, by the id of the delivery."""
        self.differences = 0
        """Streamed answers that differed from the committed ones."""

    def begin(self, accepted: AcceptedDelivery, call: Stoppable, member: str) -> AnswerStream:
        """Begin to stream the answer of an invocation. ``member`` names the text in the JSON form of the answer."""
        return AnswerStream(self, accepted, call, member)

    def find_permitted(self, accepted: AcceptedDelivery) -> Conversation | None:
        """Return the present state of the conversation if pieces of this answer may leave; else None."""
        delivery = accepted.delivery
        now = self._live.get(delivery.conversation)
        thread = None if now is None else now.working_on(delivery)
        if now is None or thread is None:
            return None
        caller = now.tree.nodes.get(thread.parent or "")
        rules = self._editions.rules_of(now.id)
        if caller is None or caller.parent is not None or delivery.to in rules.viewers:
            return None
        if not pass_answers(rules.guards):
            return None
        silenced = is_silenced(rules.guards, rules.recall(now), delivery, accepted.element, now.touched)
        return None if silenced else now

    def is_current(self, seen: Conversation) -> bool:
        """Return whether a state of a conversation is the present one."""
        return self._live.get(seen.id) is seen

    def settle(self, outcome: Outcome) -> None:
        """Compare the answers of a committed step with their pieces, before its events are released."""
        retried = None if outcome.retry is None else outcome.retry.id
        for key, stream in tuple(self.open.items()):
            delivery = stream.accepted.delivery
            if delivery.conversation != outcome.conversation.id:
                continue
            if key in {outcome.done, retried} or delivery.thread in outcome.closed:
                self._compare(stream, outcome)

    def _compare(self, stream: AnswerStream, outcome: Outcome) -> None:
        delivery = stream.accepted.delivery
        answer = next((each for each in outcome.replies if _answers(each, delivery)), None)
        if answer is None:
            stream.reset(UNANSWERED)
            return
        assert isinstance(answer, Reply)
        text = _read_member(answer.message, stream.member, self._editions.rules_of(outcome.conversation.id))
        if not stream.begins(text):
            self.differences += 1
            place = {"conversation": delivery.conversation, "thread_id": delivery.thread}
            logger.warning("the pieces of an answer of %s differ from the answer", delivery.to, extra=place)
            self.publish(stream.make_delta(DeltaKind.DIFFERENCE))
        del self.open[delivery.id]

    def show_calls(self, outcome: Outcome) -> None:
        """Show the calls that a committed step sent for the principal, and their ends, to watchers of deltas.

        They say what the trace shows to the principal: who is asked, and how it ended.
        """
        if not outcome.added or not self.has_watchers(outcome.conversation.id):
            return
        rules = self._editions.rules_of(outcome.conversation.id)
        for delivery in outcome.added:
            described = _describe_call(delivery, outcome.conversation, rules)
            if described is not None:
                self.publish(described)

    def forget(self, conversation: str) -> None:
        """Void the pieces of a conversation that ended or moved to another process."""
        for stream in tuple(self.open.values()):
            if stream.accepted.delivery.conversation == conversation:
                stream.reset(UNANSWERED)


def _describe_call(delivery: Delivery, conversation: Conversation, rules: Rules) -> Delta | None:
    """Describe a call by the listener that the principal addressed, or the end of one; None for other messages."""
    nodes, call = conversation.tree.nodes, delivery.call
    receiver = nodes.get(delivery.thread)
    if receiver is None or receiver.parent is None or not call.key:
        return None
    is_call = receiver.parent == delivery.origin
    failed = delivery.root == rules.failure
    if delivery.sender in SYSTEM_NAMES and not failed:  # an answer of a service
        return None
    caller = nodes[receiver.parent] if is_call else receiver
    if caller.parent is None or nodes[caller.parent].parent is not None:
        return None
    kind, name = (DeltaKind.CALL, delivery.to) if is_call else (DeltaKind.RESULT, delivery.about)
    code = _read_member(delivery.message, "code", rules) if failed and not is_call else ""
    key = f"{call.key}.{call.place}"
    named = name or delivery.sender
    return Delta(delivery.conversation, delivery.request, caller.owner, kind, code, id=key, name=named)


def _answers(event: object, delivery: Delivery) -> bool:
    if not isinstance(event, Reply) or event.error:
        return False
    return event.request == delivery.request and event.sender == delivery.to


def _read_member(message: bytes, member: str, rules: Rules) -> str:
    """Return a member of a message in its JSON form as text; empty if it has none."""
    read = envelope.read_sent(message, rules.bounds.names)
    codec = None if isinstance(read, envelope.Malformed) else rules.codecs.for_root(str(read.payload.tag))
    if codec is None or isinstance(read, envelope.Malformed):
        return ""
    value: Any = convert_value(codec, read.payload)
    return str(value.get(member, "")) if isinstance(value, dict) else ""


@dataclass(eq=False, slots=True)
class AnswerStream:
    """Stream of one answer; see ``agentserver.completion.AnswerWriter``.

    Args:
        streams: of all running invocations.
        accepted: the delivery of the invocation.
        call: its call.
        member: name of the text in the answer.
    """

    streams: AnswerStreams
    accepted: AcceptedDelivery
    call: Stoppable
    member: str
    _size: int = 0
    _hash: Any = field(default_factory=sha256)
    _seen: Conversation | None = None

    def write(self, text: str) -> None:
        """Publish a piece if it may leave. Otherwise it is only counted."""
        if not text or self.call.stopped or self.call.done():
            return
        offset, self._size = self._size, self._size + len(text)
        self._hash.update(text.encode())
        if not self._may_leave():
            return
        self.streams.open[self.accepted.delivery.id] = self
        self.streams.publish(self.make_delta(DeltaKind.TEXT)._replace(text=text, offset=offset))

    def _may_leave(self) -> bool:
        if not self.streams.has_watchers(self.accepted.delivery.conversation):
            return False
        if self._seen is None or not self.streams.is_current(self._seen):
            self._seen = self.streams.find_permitted(self.accepted)
        return self._seen is not None

    def reset(self, reason: str) -> None:
        """Void the pieces so far."""
        self._size, self._hash = 0, sha256()
        if self.streams.open.pop(self.accepted.delivery.id, None) is not None:
            self.streams.publish(self.make_delta(DeltaKind.RESET)._replace(text=reason))

    def begins(self, answer: str) -> bool:
        """Return whether the pieces are the beginning of an answer."""
        same = sha256(answer[: self._size].encode("utf-8", "backslashreplace")).digest()
        return len(answer) >= self._size and same == self._hash.digest()

    def make_delta(self, kind: DeltaKind) -> Delta:
        """Make a delta of this answer."""
        delivery = self.accepted.delivery
        return Delta(delivery.conversation, delivery.request, delivery.to, kind)
