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
from agentserver.core.messages import Delta, DeltaKind, Reply
from agentserver.payload.json.elements import value_of
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
        self.publish, self.wanted = publish, wanted
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
        again = None if outcome.retry is None else outcome.retry.id
        for key, stream in tuple(self.open.items()):
            delivery = stream.accepted.delivery
            if delivery.conversation != outcome.conversation.id:
                continue
            if key in {outcome.done, again} or delivery.thread in outcome.closed:
                self._compare(stream, outcome)

    def _compare(self, stream: AnswerStream, outcome: Outcome) -> None:
        delivery = stream.accepted.delivery
        answer = next((each for each in outcome.replies if _answers(each, delivery)), None)
        if answer is None:
            stream.reset(UNANSWERED)
            return
        assert isinstance(answer, Reply)
        text = _read_text(answer, stream.member, self._editions.rules_of(outcome.conversation.id))
        if not stream.begins(text):
            self.differences += 1
            place = {"conversation": delivery.conversation, "thread_id": delivery.thread}
            logger.warning("the pieces of an answer of %s differ from the answer", delivery.to, extra=place)
            self.publish(stream.make_delta(DeltaKind.DIFFERENCE))
        del self.open[delivery.id]

    def forget(self, conversation: str) -> None:
        """Void the pieces of a conversation that ended or moved to another process."""
        for stream in tuple(self.open.values()):
            if stream.accepted.delivery.conversation == conversation:
                stream.reset(UNANSWERED)


def _answers(event: object, delivery: Delivery) -> bool:
    if not isinstance(event, Reply) or event.error:
        return False
    return event.request == delivery.request and event.sender == delivery.to


def _read_text(reply: Reply, member: str, rules: Rules) -> str:
    """Return the text of an answer; empty if it has none."""
    read = envelope.read_envelope(reply.message, rules.bounds)
    codec = None if isinstance(read, envelope.Malformed) else rules.codecs.for_root(str(read.payload.tag))
    if codec is None or isinstance(read, envelope.Malformed):
        return ""
    value: Any = value_of(codec, read.payload)
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
        if not self.streams.wanted(self.accepted.delivery.conversation):
            return False
        if self._seen is None or not self.streams.is_current(self._seen):
            self._seen = self.streams.find_permitted(self.accepted)
        return self._seen is not None

    def reset(self, why: str) -> None:
        """Void the pieces so far."""
        self._size, self._hash = 0, sha256()
        if self.streams.open.pop(self.accepted.delivery.id, None) is not None:
            self.streams.publish(self.make_delta(DeltaKind.RESET)._replace(text=why))

    def begins(self, answer: str) -> bool:
        """Return whether the pieces are the beginning of an answer."""
        same = sha256(answer[: self._size].encode("utf-8", "backslashreplace")).digest()
        return len(answer) >= self._size and same == self._hash.digest()

    def make_delta(self, kind: DeltaKind) -> Delta:
        """Make a delta of this answer."""
        delivery = self.accepted.delivery
        return Delta(delivery.conversation, delivery.request, delivery.to, kind)
