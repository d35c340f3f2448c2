"""The bridge from an agent's output stream: its handoffs become messages of a principal.

The organism's intents judge each message. A handoff that no message can express is recorded here, so that none is lost
silently.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio import from_thread, to_thread

from agentserver.core.handoffs import Handoff, Param
from agentserver.core.messages import Reply
from agentserver.handoff import audit
from agentserver.handoff.judgement import Facts, RejectedRequest
from agentserver.handoff.managed.agents import SourceLost
from agentserver.handoff.managed.orchestrate import current_time
from agentserver.handoff.requests import RequestRefusal
from agentserver.payload.generate import Unencodable
from agentserver.supervision import EndEffect, start_errand
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agentserver.core.state.principals import Principal
    from agentserver.handoff.audit import AuditSink
    from agentserver.handoff.managed.stream import Attempt
    from agentserver.handoff.requests import HandoffRequest
    from agentserver.payload.codec import Codec
    from agentserver.ports import ConversationHandle, Ingress

__all__ = ["Bridge", "handoff"]

logger = logging.getLogger("agentserver.bridge")


class AgentOutput(Protocol):
    """An agent's output. Its methods are called in a thread, and may block."""

    def attempts(self) -> Iterator[Attempt]:
        """Iterate over the handoff attempts until the output ends."""

    def answer(self, call: str, *, accepted: bool) -> None:
        """Return the outcome of its call to the agent."""


def handoff(request: HandoffRequest) -> Handoff | RequestRefusal:
    """Build the message of a request, or return its refusal. The target is passed on unchecked."""
    if request.fault not in {None, RequestRefusal.LEGACY_PAYLOAD}:
        return request.fault or RequestRefusal.SCHEMA
    params = [(name, _format_text(value)) for name, value in request.params]
    if any(value is None for _, value in params):
        return RequestRefusal.PARAMS_SCHEMA
    values = tuple(Param(name, str(value)) for name, value in params)
    return Handoff(request.intent or "", request.target, values, None, request.event or None)


def _format_text(value: object) -> str | None:
    """Format a JSON value as the text of a parameter; None for other types."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None


def _log_reply(reply: Reply) -> None:
    logger.info("%s answered", reply.sender)


@dataclass
class Bridge:
    """Sends the handoffs of one agent to a running server, on behalf of a principal.

    Args:
        ingress: the server.
        codec: of Handoff, as the server has it.
        principal: the agent, by its name on the record; its text is never an instruction.
        sink: records the attempts that no message can express; it may block.
        heard: called with every reply.
    """

    ingress: Ingress
    codec: Codec
    principal: Principal
    sink: AuditSink
    heard: Callable[[Reply], None] = _log_reply
    _open: set[str] = field(default_factory=set)
    _idle: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, source: AgentOutput) -> None:
        """Forward attempts until the output ends and every request has finished.

        All of them are one conversation. Raises SourceLost if the source cannot be read.
        """
        handle = await self.ingress.open(self.principal)
        lost: SourceLost | None = None
        async with anyio.create_task_group() as tasks:
            start_errand(tasks, "passes answers on", EndEffect.OWNER, partial(self._answers, handle))
            try:
                await to_thread.run_sync(self._listen, source, handle, abandon_on_cancel=True)
            except SourceLost as error:
                lost = error
            while self._open:
                self._idle = anyio.Event()
                await self._idle.wait()
            await handle.close()
        if lost is not None:
            raise lost

    def _listen(self, source: AgentOutput, handle: ConversationHandle) -> None:
        """Runs in a thread, since the source blocks."""
        for attempt in source.attempts():
            found = self._message(attempt.request)
            if isinstance(found, RequestRefusal):
                facts = Facts(self.principal.name, attempt.request)
                self.sink.append(audit.record(RejectedRequest(found, facts), current_time()))
                accepted = False
            else:
                accepted = from_thread.run(self._send, handle, found)
            if attempt.call:
                source.answer(attempt.call, accepted=accepted)

    def _message(self, request: HandoffRequest) -> bytes | RequestRefusal:
        found = handoff(request)
        if isinstance(found, RequestRefusal):
            return found
        try:
            data = self.codec.encode(found).encode()
        except Unencodable:
            return RequestRefusal.SCHEMA
        element = envelope.read_payload(data)
        sound = not isinstance(element, envelope.Malformed) and self.codec.valid(element)
        return data if sound else RequestRefusal.SCHEMA

    async def _send(self, handle: ConversationHandle, data: bytes) -> bool:
        """Send a message; True if the server accepted it. A request that has finished already is not awaited."""
        request, code, *_ = await handle.send(data)
        conversation = self.ingress.conversation(handle.id)
        if conversation is not None and request in conversation.requests:
            self._open.add(request)
        return code is None

    async def _answers(self, handle: ConversationHandle) -> None:
        async for event in handle.events():
            if isinstance(event, Reply):
                self.heard(event)
            else:
                self._open.discard(event.request)
                self._idle.set()
