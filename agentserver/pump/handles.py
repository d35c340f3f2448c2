"""Handles of the conversations that gateways hold, and views of those that other processes own."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from agentserver.contract import Code
from agentserver.core import receipts
from agentserver.core.messages import LAST, UNDECIDED, EventPlace, OutsideMessage
from agentserver.ports import (
    DamagedError,
    EngineError,
    FencedError,
    MessageConflictError,
    RejectReason,
    RemoteStep,
    RepeatedError,
    SubmitResult,
)
from agentserver.pump.handle import NO_PLACES, Returns, ServerHandle
from agentserver.pump.schedule import backoff
from agentserver.pump.watches import AT_ONCE
from agentserver.supervision import EndEffect, start_helper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from agentserver.core.messages import Done, Progress, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Clock, Engine
    from agentserver.pump.owners import Owners
    from agentserver.pump.watches import Watches


_new = tuple.__new__


class Receiver(Protocol):
    """Entrance of messages into the server."""

    @property
    def receive(self) -> Callable[[str, str, OutsideMessage], Awaitable[SubmitResult]]:
        """Commits an outside message of a principal in a conversation, or returns why it is not kept.

        Raises RepeatedError and FencedError.
        """

    async def close(self, conversation: str) -> None:
        """End a conversation."""

    async def version(self, conversation: str) -> int | None:
        """Return the version of an open conversation, wherever it is owned. Raises EngineError."""


class Handles:
    """Handles of all gateways.

    Args:
        engine: where conversations are kept.
        clock: time and randomness.
        receiver: admits messages.
        owners: submits messages for conversations of other processes.
    """

    def __init__(self, engine: Engine, clock: Clock, receiver: Receiver, owners: Owners) -> None:
        self._engine, self._clock = engine, clock
        self._receiver = receiver
        self.owners = owners
        self._delivered: dict[str, frozenset[EventPlace]] = {}
        self._stopped = False
        self.handles: dict[str, ServerHandle] = {}
        self._returns = Returns(self.handles)

    def open(self, principal: str, conversation: str) -> ServerHandle:
        """Return a handle for a conversation that no gateway holds."""
        delivered = self._delivered.pop(conversation, NO_PLACES)
        handle = self.handles[conversation] = ServerHandle(self, principal, conversation, delivered)
        return handle

    async def conversations_of(self, principal: str, door: str = "") -> tuple[str, ...]:
        """Return the principal's conversations that no gateway holds and that can be resumed, oldest first.

        With ``door`` only those that this door has opened.
        """
        found = [key async for key in self._engine.conversations_of(principal) if key not in self.handles]
        return tuple([key for key in found if not door or await self._opened_by(principal, door, key)])

    async def _opened_by(self, principal: str, door: str, conversation: str) -> bool:
        name = receipts.opened_by(principal, door, conversation)
        return await self._engine.find_named(name) == conversation

    async def resume(self, principal: str, conversation: str) -> ServerHandle:
        """Return a handle with its earlier events. Raises LookupError if the principal has no such conversation."""
        found = await self.conversations_of(principal)
        taken = conversation in self.handles  # another gateway may have been quicker meanwhile
        if taken or conversation not in found:
            raise LookupError("no such conversation")
        return await self._attach(principal, conversation)

    async def take(self, principal: str, conversation: str) -> ServerHandle:
        """Return a handle with its earlier events. A gateway that holds the conversation is detached."""
        known = self.handles.get(conversation)
        if known is not None:
            known.detach()
        return await self._attach(principal, conversation)

    async def _attach(self, principal: str, conversation: str) -> ServerHandle:
        with ExitStack() as undo:
            undo.callback(self.detach, conversation)  # or it could not be resumed any more
            handle = self.open(principal, conversation)
            handle.listen()
            version = await self._receiver.version(conversation)
            remaining = await self.outbox(conversation)
            if version is not None and not handle.over:
                handle.catch_up(remaining, EventPlace(version, LAST))
            else:  # once it is over, nothing says what was delivered before
                handle.catch_up((event._replace(redelivered=True) for event in remaining), UNDECIDED)
                handle.finish()
            undo.pop_all()
        return handle

    def deliver(self, conversation: str, events: Iterable[Reply | Done]) -> None:
        """Pass on the events of a conversation."""
        handle = self.handles.get(conversation)
        if handle is not None:
            handle.deliver(events)

    async def catch_up(self, conversation: str) -> None:
        """Pass on the events of a conversation that another process owns, or owned. Raises EngineError."""
        handle = self.handles.get(conversation)
        while handle is not None and not handle.over:
            try:
                page = await self._engine.read_events(conversation, handle.latest, AT_ONCE, gaps=True)
            except LookupError:
                return
            handle.deliver(page)
            if not page:
                return

    def tell(self, progress: Progress) -> None:
        """Pass on progress, if a gateway holds the conversation."""
        handle = self.handles.get(progress.conversation)
        if handle is not None:
            handle.tell(progress)

    def finish(self, conversation: str) -> None:
        """Finish the handle of a closed conversation: its gateway keeps it until it has the last events."""
        self._delivered.pop(conversation, None)
        handle = self.handles.get(conversation)
        if handle is not None:
            handle.finish()

    def settle(self) -> None:
        """Acknowledge everything: the server and every gateway stop in good order."""
        for handle in tuple(self.handles.values()):
            handle.settle()

    def stop(self) -> None:
        """Release every waiting caller. Events that are delivered from now on will be redelivered."""
        self._stopped = True
        for handle in tuple(self.handles.values()):
            handle.finish()

    # For handles

    @property
    def returns(self) -> Returns:
        """Registry of the tasks that hold events."""
        return self._returns

    def make_outside(
        self, principal: str, conversation: str, data: bytes, to: str | None, own: str | None
    ) -> OutsideMessage:
        """Make a message with an id of the server's, and of the sender's. Raises ValueError if ``own`` is no id."""
        key = None if own is None else receipts.make_key(principal, conversation, own, data, to)
        return _new(OutsideMessage, (data, self._clock.moment().id(0), to, key))

    async def submit(self, principal: str, conversation: str, outside: OutsideMessage) -> SubmitResult:
        """Commit an outside message, or submit it to the process that owns the conversation.

        Raises MessageConflictError if its key belongs to another message, LookupError if no process knows the
        conversation, EngineError if that cannot be read.
        """
        try:
            return await self.keep(principal, conversation, outside)
        except FencedError:
            return await self.owners.submit(principal, conversation, outside)

    async def keep(self, principal: str, conversation: str, outside: OutsideMessage) -> SubmitResult:
        """Commit an outside message here. One that was sent before returns its earlier result.

        Raises MessageConflictError, and EngineError, which includes FencedError.
        """
        try:
            submitted = await self._receiver.receive(principal, conversation, outside)
        except RepeatedError as repeated:
            return await self._find_result(conversation, outside) or _repeat_result(repeated.receipt, outside)
        if submitted.code is RejectReason.OVER:
            return await self._find_result(conversation, outside) or submitted
        return submitted

    async def _find_result(self, conversation: str, outside: OutsideMessage) -> SubmitResult | None:
        """Return the result of a message that was sent before; None if it is unknown."""
        key = outside.key
        receipt = None if key is None else await self._engine.receipt(conversation, key.name)
        return None if receipt is None else _repeat_result(receipt, outside)

    async def events_of(self, conversation: str, request: str) -> list[Reply | Done]:
        """Return all events of a request with a key."""
        return [event async for event in self._engine.read_request_events(conversation, request)]

    async def outbox(self, conversation: str) -> list[Reply | Done]:
        """Return the unacknowledged events of the conversation."""
        return [event async for event in self._engine.outbox(conversation)]

    async def next_events(self, conversation: str, after: EventPlace) -> Sequence[Reply | Done] | None:
        """Return the next kept events after a place; None once the engine is closed. Raises EngineError."""
        try:
            return await self._engine.read_events(conversation, after, AT_ONCE, gaps=True)
        except LookupError:
            return ()
        except (EngineError, RuntimeError):  # its thread may be gone
            if self._stopped:
                return None
            raise

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Acknowledge an event."""
        if not self._stopped:
            self._engine.acknowledge(conversation, place)

    def detach(self, conversation: str) -> None:
        """Release a conversation from its gateway."""
        handle = self.handles.pop(conversation, None)
        if handle is not None:
            delivered = handle.delivered
            if delivered and not handle.over:
                self._delivered[conversation] = delivered
            handle.finish()

    async def close(self, conversation: str) -> None:
        """Close a conversation for its gateway and discard its events."""
        await self._receiver.close(conversation)
        self.abandon(conversation)

    def abandon(self, conversation: str) -> None:
        """Discard the events of a conversation for its principal."""
        self._engine.abandon(conversation)
        self._delivered.pop(conversation, None)


def _repeat_result(receipt: Receipt, outside: OutsideMessage) -> SubmitResult:
    """Return the result of a message that was sent before. Raises MessageConflictError if that was another message."""
    if outside.key is None or receipt.content != outside.key.content:
        raise MessageConflictError(receipt.request)
    return SubmitResult(receipt.request, Code(receipt.code) if receipt.code else None, again=True)


logger = logging.getLogger("agentserver.pump")

SEEN: Final = 1_000
"""Conversations that stay in memory though no gateway holds them and no approval waits in them."""


class Views:
    """Shows gateways of this process the conversations that other processes own.

    Args:
        engine: reports their news, and loads them.
        handles: of this process's gateways.
        watches: of this process's gateways.
        miss: counts a step elsewhere that asks a person as missed by readers of records.
    """

    def __init__(
        self, engine: Engine, handles: Handles, watches: Watches, miss: Callable[[str], None]
    ) -> None:
        self._engine = engine
        self._handles, self._watches, self._miss = handles, watches, miss
        self.conversations: dict[str, Conversation] = {}
        self._closed: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
        self._unread: dict[str, bool] = {}  # with whether a person is asked
        self._missed = asyncio.Event()

    def approvals(self) -> list[Approval]:
        """Return the messages that wait for a person elsewhere."""
        return [each for one in self.conversations.values() for each in one.approvals()]

    async def begin(self) -> None:
        """Find approvals of other processes. Raises EngineError."""
        if self._engine.shared:
            for conversation in await self._engine.read(lambda reader: reader.list_asking()):
                if self._engine.current_claim(conversation) is None:
                    await self.look(conversation)

    async def follow(self, wake: Callable[[], None]) -> None:
        """Show news from the engine until it closes; ``wake`` is called when a person is asked."""
        async with anyio.create_task_group() as tasks:
            start_helper(tasks, "shows moved conversations", EndEffect.SERVER, self._follow_moves)
            start_helper(tasks, "shows missed news", EndEffect.SERVER, partial(self._show_again, wake))
            async for news in self._engine.news(self._list_wanted):
                await self.show(news)
                if news.asks:
                    wake()
            tasks.cancel_scope.cancel()

    async def _follow_moves(self) -> None:
        """Keep showing conversations that moved to another process."""
        while True:
            conversation, asks = await self._closed.get()
            await self._see(RemoteStep(conversation, UNDECIDED, asks=asks))

    async def _show_again(self, wake: Callable[[], None]) -> None:
        """Retry news that could not be read when it came."""
        failures = 1
        while True:
            await self._missed.wait()
            await anyio.sleep(backoff(failures))
            self._missed.clear()
            unread, self._unread = self._unread, {}
            for conversation, asks in unread.items():
                await self.show(RemoteStep(conversation, UNDECIDED, asks=asks))
                if asks:
                    wake()
            failures = failures + 1 if self._unread else 1

    async def show(self, news: RemoteStep) -> None:
        """Show news of a conversation, later if it cannot be read now."""
        found = await self._see(news)
        if news.asks and found is not None:
            self._miss(found.principal)

    async def _see(self, news: RemoteStep) -> Conversation | None:
        """Pass on the events of a conversation, and load it if its state may be needed."""
        conversation, asks = news.conversation, news.asks
        try:
            if news.since is not None:
                self._watches.deliver_remote(conversation, news.since, news.events)
                await self._handles.catch_up(conversation)
            elif self._looked_at(conversation):
                await self._show(news)
            if asks or conversation in self.conversations or conversation in self._handles.handles:
                return await self.look(conversation)
        except DamagedError as error:
            logger.error("events of another process cannot be read: %s", error)  # noqa: TRY400 - the text says it all
        except EngineError as error:
            logger.error("events of another process cannot be read at present: %s", error)  # noqa: TRY400 - the text says it all
            self._unread[conversation] = asks or self._unread.get(conversation, False)
            self._missed.set()
        return None

    async def _show(self, news: RemoteStep) -> None:
        """Pass on the events and the end of a conversation."""
        conversation, ended = news.conversation, news.over
        if ended is None:
            found = await self._engine.find_conversation(conversation)
            ended = found is not None and found.over
        self._watches.nudge(conversation, news.place)
        await self._handles.catch_up(conversation)
        if ended:
            self._handles.finish(conversation)
            self._watches.close(conversation)

    async def look(self, conversation: str) -> Conversation | None:
        """Load a conversation of another process. Raises EngineError."""
        try:
            found = await self._engine.load(conversation)
        except DamagedError:  # its owner deals with that
            found = None
        if found is None or self._engine.current_claim(conversation) is not None:
            self.conversations.pop(conversation, None)
        else:
            self.conversations[conversation] = found
            self._forget()
        return found

    def _forget(self) -> None:
        if len(self.conversations) > SEEN:
            wanted = self._handles.handles
            self.conversations = {
                key: one for key, one in self.conversations.items() if key in wanted or one.approvals()
            }

    def _looked_at(self, conversation: str) -> bool:
        return conversation in self._handles.handles or conversation in self._watches.of

    def _list_wanted(self) -> list[str]:
        """Return the conversations of other processes that gateways here hold or watch."""
        looked_at = {*self._handles.handles, *self._watches.of}
        return [key for key in looked_at if self._engine.current_claim(key) is None]

    # Moves

    async def show_gained(self, conversations: Collection[str]) -> None:
        """Show the earlier events of conversations that this process has gained. Raises EngineError."""
        for conversation in conversations:
            if self._looked_at(conversation):
                await self._show(RemoteStep(conversation, UNDECIDED))
            self.conversations.pop(conversation, None)

    def keep_showing(self, lost: Mapping[str, bool]) -> None:
        """Keep showing conversations that this process has lost, each with whether it waits for a person.

        One that was not in memory counts too: its events go to watchers here.
        """
        for conversation, asks in lost.items():
            if asks or self._looked_at(conversation):
                self._closed.put_nowait((conversation, asks))
