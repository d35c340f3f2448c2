"""Runs of AG-UI: a front end says something to a listener and is told what becomes of it.

Owns that a thread of the front end is a conversation of its principal, when a run is interrupted, and whose answers to
interrupts count. Keeps nothing between two runs. Refuses to know sockets.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
from ag_ui.encoder import EventEncoder
from starlette.routing import Route

from agentserver.contract import Code
from agentserver.core.decide import approving
from agentserver.core.messages import Done, Progress, Reply
from agentserver.core.records.audit import Event
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.gateways.agui import asked as asking
from agentserver.gateways.agui import telling
from agentserver.gateways.http import forms
from agentserver.gateways.http.parts import DoorPart, acting, host, opened, read_body
from agentserver.gateways.http.problems import ProblemAnswer, by_code, stopping, unkept, unknown
from agentserver.gateways.http.routes.streams import ServerSent
from agentserver.ports import Ended, Lagged, OtherMessageError, Unkept, WatchEnd
from agentserver.supervision import Ending, start_errand

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from ag_ui.core import BaseEvent
    from anyio.streams.memory import MemoryObjectSendStream
    from starlette.requests import Request

    from agentserver.core.messages import EventPlace
    from agentserver.core.state.approvals import Approval
    from agentserver.gateways.agui.asked import InterruptAnswer, RunAsked
    from agentserver.gateways.http.held import HeldConnection
    from agentserver.gateways.http.parts import DoorHost
    from agentserver.gateways.principals import Caller
    from agentserver.ports import Submitted

    Item: TypeAlias = "Reply | Done | Progress | Ended | None"
    Say: TypeAlias = Callable[[BaseEvent], Awaitable[None]]

BEAT: Final = 15.0
"""Seconds after which a silent run is given a sign of life."""

_ENDS: Final = {
    WatchEnd.STOPPING: "The server is stopping: ask for the run again.",
    WatchEnd.GONE: "What became of this message is not kept any more.",
}


def part() -> DoorPart:
    """The routes of AG-UI."""
    return DoorPart("agui", (Route("/v1/agui/{listener}", run, methods=["POST"]),))


async def run(request: Request) -> ServerSent:
    """A run: its events, until it is over or interrupted."""
    who, server, listener = acting(request), host(request), request.path_params["listener"]
    if forms.media(request.headers.get("content-type", "")) != forms.JSON:
        raise ProblemAnswer(415, "The input of a run is application/json.", {"accept-post": forms.JSON})
    asked = await read_body(request, partial(asking.read, decides=who.decides))
    if request.app.holding.stopping:
        raise stopping()
    data = _message(asked, listener, who, server)
    conversation = await opened(server, who, asking.hashed("thread", asked.thread), kept=False)
    try:
        submitted = await server.submit(who.name, conversation, data, listener, request=asked.key)
    except LookupError:
        raise unknown() from None
    except OtherMessageError:
        raise ProblemAnswer(422, "Another message was sent under this id.") from None
    if isinstance(submitted.code, Unkept):
        raise unkept(submitted.code)
    _check(server, conversation, asked.answers, who)
    refused = [each for each in asked.answers if not await _counts(server, conversation, each, who)]
    following = Following(asked, who, server, conversation, submitted, refused)
    return ServerSent(following, request.app.holding, BEAT, written=_written)


def _message(asked: RunAsked, listener: str, who: Caller, server: DoorHost) -> bytes:
    may = who.principal.may
    codecs = tuple(forms.taken(server.rules, listener)) if may is None or listener in may else ()
    if not codecs:
        raise by_code(Code.ROUTING)
    value = asking.value_for(asked, codecs)
    return forms.message(server.rules, forms.JSON, forms.dumped(value), listener, asked.name, may)


def _check(server: DoorHost, conversation: str, answers: Sequence[InterruptAnswer], who: Caller) -> None:
    """Raise ProblemAnswer where the rules bar the caller from approving here, before anything has counted."""
    state = server.conversation(conversation)
    approves = any(each.answer not in (None, Answer.DENY) for each in answers)
    barred = approving.barred(state, who.name, server.rules) if state is not None and approves else ""
    if barred:
        raise ProblemAnswer(403, f"{barred}.")


async def _counts(server: DoorHost, conversation: str, said: InterruptAnswer, who: Caller) -> bool:
    """Give an answer. False when nothing waits for it here: it is stale, was given before, or is another's."""
    if said.answer is None:
        return True
    one = next((each for each in _waiting(server, conversation) if each.id == said.interrupt), None)
    if one is None:
        return False
    digest = said.digest or one.digest
    return await server.answer(conversation, ApprovalAnswer(one.id, digest, said.answer, who.name))


def _waiting(server: DoorHost, conversation: str, request: str = "") -> list[Approval]:
    """The messages of a conversation, or of one request of it, that wait for a person."""
    state = server.conversation(conversation)
    found = () if state is None else state.approvals()
    return [each for each in found if request in ("", each.delivery.request)]


@dataclass
class Following:
    """A run as a stream of events.

    Args:
        asked: what the front end asks for.
        caller: who asks.
        server: that is asked.
        conversation: that the thread is.
        submitted: the fate of the message.
        refused: answers to interrupts that count for nothing.
    """

    asked: RunAsked
    caller: Caller
    server: DoorHost
    conversation: str
    submitted: Submitted
    refused: Sequence[InterruptAnswer]
    over: bool = False
    words: int = 0
    result: Any = None

    async def run(self, say: Say) -> None:
        """Tell the events of the run, until it is over or interrupted."""
        await say(telling.started(self.asked))
        for each in self.refused:
            await say(telling.refused(each.interrupt))
        out, items = anyio.create_memory_object_stream["Item"]()
        async with anyio.create_task_group() as tasks, items, out:
            start_errand(tasks, "looks at a run", Ending.OWNER, partial(self._look, out))
            start_errand(tasks, "watches a run", Ending.OWNER, partial(self._watch, out))
            # After the records are read, so that nothing is missed.
            start_errand(tasks, "begins a run", Ending.OWNER, partial(out.send, None))
            async for item in items:
                for event in await self._told(item):
                    await say(event)
                if self.over:
                    break
            tasks.cancel_scope.cancel()

    def end(self, held: HeldConnection) -> BaseEvent | None:
        """The last word: none where the run has said that it is over."""
        return (
            None if self.over else telling.failed("The door has ended this stream.", held.why or "stopping")
        )

    async def _watch(self, out: MemoryObjectSendStream[Item]) -> None:
        """Pass on what leaves the conversation."""
        after: EventPlace | None = self.submitted.after
        while after is not None:
            after = await self._watched(out, after)

    async def _watched(self, out: MemoryObjectSendStream[Item], after: EventPlace) -> EventPlace | None:
        """Pass on what leaves after a place. Gives the place to go on at; None at the end."""
        async with aclosing(_items(self.server, self.caller.name, self.conversation, after)) as items:
            async for item in items:
                if isinstance(item, Ended) and item.reason is WatchEnd.LAGGED:
                    return item.after
                await out.send(item)
        return None

    async def _look(self, out: MemoryObjectSendStream[Item]) -> None:
        """Have it looked whether something waits for a person, whenever something new does."""
        async for records in self.server.records(self.caller.name):
            if isinstance(records, Lagged) or any(self._asks(each) for each in records):
                await out.send(None)

    def _asks(self, record: Any) -> bool:
        return record.event is Event.ASKED and record.conversation == self.conversation

    async def _told(self, item: Item) -> Sequence[BaseEvent]:
        """The events that an item is."""
        request = self.submitted.request
        match item:
            case None:
                return self._interrupted()
            case Ended():
                self.over = True
                closed = item.reason is WatchEnd.CLOSED
                return [
                    telling.cancelled(self.asked)
                    if closed
                    else telling.failed(_ENDS[item.reason], item.reason)
                ]
            case Progress(request=of) if of == request:
                self.words += 1
                return list(telling.progress(item, self.words, self.asked.run))
            case Reply(request=of) if of == request:
                return self._reply(item)
            case Done(request=of) if of == request:
                return [await self._done(item)]
        return ()

    async def _done(self, done: Done) -> BaseEvent:
        self.over = True
        if not done.answered and await self._closed():
            return telling.cancelled(self.asked)
        await self.server.confirm(self.caller.name, self.conversation, done.place)
        return telling.finished(self.asked, self.result)

    async def _closed(self) -> bool:
        try:
            return (await self.server.standing(self.caller.name, self.conversation)).over
        except LookupError:
            return True

    def _interrupted(self) -> Sequence[BaseEvent]:
        waiting = _waiting(self.server, self.conversation, self.submitted.request)
        if not waiting:
            return ()
        self.over = True
        decides = self.caller.decides
        shown = [telling.interrupt(each, self.server.rules, decides=decides) for each in waiting]
        return [telling.interrupted(self.asked, shown)]

    def _reply(self, reply: Reply) -> Sequence[BaseEvent]:
        found = telling.result(reply, self.server.rules)
        if reply.error:
            self.over = True
            value = found.get("value") or {}
            return [telling.failed(value.get("message", ""), value.get("code", str(Code.INTERNAL)))]
        self.result = found
        known = telling.reply_id(reply, self.conversation) in self.asked.told
        return () if known else list(telling.reply(reply, self.conversation, found))


async def _items(
    server: DoorHost, who: str, conversation: str, after: EventPlace
) -> AsyncGenerator[Any, None]:
    """A watch, which can be closed."""
    async for item in server.watch(who, conversation, after):
        yield item


def _written(event: BaseEvent | None) -> bytes:
    return b"" if event is None else EventEncoder().encode(event).encode()
