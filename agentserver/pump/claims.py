"""Claims of the pump on conversations: found, taken over, released and lost.

Everything that the process holds in memory of a conversation is dropped when its claim is.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from agentserver.core.state.conversation import is_at_work
from agentserver.ports import DamagedError, EngineError, FencedError, GainedClaims
from agentserver.pump.editions import at_once
from agentserver.pump.schedule import Ticket, backoff

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Container,
        Coroutine,
        Iterable,
        Mapping,
        MutableMapping,
    )
    from typing import Any

    from agentserver.core.messages import Delivery
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Claim, Clock, Engine, LostClaims
    from agentserver.pump.accounts import Accounts
    from agentserver.pump.approvals import PendingApprovals
    from agentserver.pump.dispatch import Dispatcher
    from agentserver.pump.editions import Editions
    from agentserver.pump.owners import RemoteConversations
    from agentserver.pump.parsing import ParsedPayloads
    from agentserver.pump.poison_search import Probation
    from agentserver.pump.schedule import RunQueue, Schedule
    from agentserver.pump.steps import ClaimTable
    from agentserver.pump.timekeeper import Alarms


logger = logging.getLogger("agentserver.pump")


@dataclass(slots=True)
class Copies:
    """In-memory copies of conversations, kept from claim to loss.

    Args:
        storage: the engine, and the claims of the pump.
        work: conversations as last committed, their parsed payloads, and their editions.
        bounds: quotas of principals, and approvals.
        turns: deliveries that wait for a worker, for their listener, and behind suspects.
        cancel: stops the handler that runs on a thread; its result is void.
        alarms: of the conversations at work.
        moved: is called with the dropped conversations, each with whether it waits for a person.
    """

    storage: tuple[Engine, ClaimTable]
    work: tuple[MutableMapping[str, Conversation], ParsedPayloads, Editions]
    bounds: tuple[Accounts, PendingApprovals]
    turns: tuple[RunQueue, Schedule, Probation]
    cancel: Callable[[str], None]
    alarms: Alarms
    moved: Callable[[Mapping[str, bool]], None]

    def keep(self, conversation: Conversation, claim: Claim) -> None:
        """Keep a conversation at work under a claim."""
        _, claims = self.storage
        live, _, _ = self.work
        accounts, waiting = self.bounds
        claims[conversation.id], live[conversation.id] = claim, conversation
        accounts.recount(conversation)
        waiting.add(conversation.approvals())
        self.alarms.note(conversation)

    def lose(self, conversation: str, claim: Claim) -> None:
        """Drop a conversation, unless it was claimed again."""
        _, claims = self.storage
        if claims.get(conversation) is claim:
            self.drop({conversation})

    def lose_outdated(self, conversations: Iterable[str]) -> None:
        """Drop those of some conversations that another process has or had since they were read."""
        engine, claims = self.storage
        self.drop(
            [key for key in conversations if key in claims and engine.current_claim(key) != claims[key]]
        )

    def drop(self, conversations: Collection[str]) -> None:
        """Drop conversations with all their queued deliveries: no decision about them is made here any longer."""
        engine, _ = self.storage
        live, _, _ = self.work
        removed = set(conversations)
        owners = {key: live[key].principal for key in removed if key in live}
        lost = {key: bool((one := live.get(key)) and one.approvals()) for key in removed}
        for key in removed:
            self.forget(key)
        queue, schedule, probation = self.turns
        schedule.drop(removed)
        for delivery in queue.drop(removed):
            schedule.release(delivery.to)
        probation.drop(removed)
        if engine.shared:
            self.moved(lost)
        else:
            for key, principal in owners.items():
                self.bounds[0].open(key, principal)

    def forget(self, conversation: str) -> None:
        """Forget a conversation with all that is at work in it; what waits for its turn finds it gone."""
        _, claims = self.storage
        live, parsed, editions = self.work
        accounts, waiting = self.bounds
        one = live.pop(conversation, None)
        self.alarms.forget(conversation)
        claims.pop(conversation, None)
        for thread in () if one is None else one.tree.nodes.values():
            self.cancel(thread.id)
            parsed.forget(thread.list_waiting())
        if editions.earlier:
            editions.forget(conversation)
        accounts.close(conversation)
        if waiting.approvals:
            waiting.forget(conversation)


@dataclass(slots=True)
class Finder:
    """Finds conversations, and claims those that are not at work.

    Args:
        copies: those at work.
        suspend: suspends a conversation that cannot be read.
        gained: passes earlier events of claimed conversations to gateways, before new ones occur.
        remote: conversations that another process owned a moment ago.
    """

    copies: Copies
    suspend: Callable[[str, Exception], Awaitable[None]]
    gained: Callable[[Collection[str]], Awaitable[None]]
    remote: RemoteConversations

    async def find(self, conversation: str) -> Conversation | None:
        """Return an open conversation, claimed; None if it is closed or unknown.

        Raises FencedError if another process owns it, and EngineError.
        """
        live, _, _ = self.copies.work
        found = live.get(conversation)
        if found is not None:
            return found
        engine, claims = self.copies.storage
        claim = claims.get(conversation) or await self._claim(conversation)
        found = None if claim is None else await self._load(conversation)
        if claim is None or found is None:
            claims.pop(conversation, None)
            return None
        if engine.current_claim(conversation) != claim:
            raise FencedError("another process had the conversation meanwhile")
        if claims.get(conversation) == claim:  # another task was quicker, or the copy was out of date
            return live.setdefault(conversation, found)
        if engine.shared and is_at_work(found):
            raise FencedError("what waits in the conversation is taken up first")
        self.copies.keep(found, claim)
        return found

    async def _claim(self, conversation: str) -> Claim | None:
        """Claim a conversation; None if it is closed or unknown."""
        engine, _ = self.copies.storage
        if engine.current_claim(conversation) is None and self.remote.find(conversation) is not None:
            raise FencedError("another process has the conversation")
        claim = await engine.claim(conversation)
        if claim is None:
            found = await engine.find_conversation(conversation)
            if found is not None and not found.over:
                self.remote.note(found)
                raise FencedError("another process has the conversation")
        elif engine.shared:
            self.remote.forget(conversation)
            await self.gained([conversation])
        return claim

    async def _load(self, conversation: str) -> Conversation | None:
        engine, _ = self.copies.storage
        found = None
        try:
            found = await engine.load(conversation)
        except DamagedError as error:
            await self.suspend(conversation, error)
        if found is None and engine.shared:
            await engine.release([conversation])
        return found

    async def find_own(self, conversation: str) -> Conversation | None:
        """Return an open conversation that this process owns, otherwise None. Claims nothing. Raises EngineError."""
        _, claims = self.copies.storage
        with suppress(FencedError):
            return await self.find(conversation) if conversation in claims else None
        return None


@dataclass(slots=True)
class Takeover:
    """Takes over conversations that this process gains, and drops those that it loses.

    Args:
        copies: of the conversations at work.
        suspend: suspends a conversation that cannot be read.
        gained: passes earlier events of claimed conversations to gateways, before new ones occur.
        ways: the dispatcher, the probation of suspects before it, and the end of a poison message.
        clock: gives the time that a retry has waited.
    """

    copies: Copies
    suspend: Callable[[str, Exception], Awaitable[None]]
    gained: Callable[[Collection[str]], Awaitable[None]]
    ways: tuple[Dispatcher, Probation, Callable[[Delivery], Coroutine[Any, Any, None]]]
    clock: Clock
    _changes: AsyncIterator[GainedClaims | LostClaims] | None = None
    _started: bool = field(default=False)

    async def begin(self) -> None:
        """Take over conversations of an earlier run. Raises EngineError."""
        engine, _ = self.copies.storage
        accounts, _ = self.copies.bounds
        async for key, principal in engine.open_conversations():
            accounts.open(key, principal)
        self._changes = engine.changes()
        first = await anext(self._changes)
        if isinstance(first, GainedClaims):
            await self.take_up(first)

    async def follow(self) -> None:
        """Take over and drop conversations from now on. Raises EngineError if this process may not continue."""
        assert self._changes is not None  # it has begun
        async for change in self._changes:
            if isinstance(change, GainedClaims):
                await self._take_up(change)
            else:
                self.copies.lose_outdated(change.conversations)

    async def _take_up(self, gained: GainedClaims) -> None:
        """Take over conversations, with retries while the engine fails."""
        failures = 0
        while True:
            try:
                await self.take_up(gained)
            except FencedError:
                return
            except EngineError as error:
                failures += 1
                logger.error("conversations wait until they can be taken up: %s", error)  # noqa: TRY400 - the text says it all
                await anyio.sleep(backoff(failures))
            else:
                return

    async def take_up(self, gained: GainedClaims) -> None:
        """Schedule the queued deliveries of conversations, and show their approvals.

        None of them is at work before: a conversation with a waiting message is found only after this. Raises
        EngineError, and then none is taken over.
        """
        dispatcher, probation, bury = self.ways
        editions = dispatcher.editions
        bound, limits = editions.bound, editions.rules.blueprint.limits
        found = [(one, _list_tickets(one)) for one in await self._load(gained.claims)]
        queued = [each.delivery.id for _, waiting in found for each in waiting if each.delivery.to in bound]
        calls = limits.concurrency + sum(at_once(bound).values())
        verdict = await probation.look(
            gained.previous, queued, limits.fatal_ends, calls, starting=not self._started
        )
        self._started = True
        tickets: dict[str, tuple[Ticket, float]] = {}
        for one, waiting in found:
            if self._is_outdated(one.id, gained.claims[one.id]):
                continue
            self.copies.keep(one, gained.claims[one.id])
            for ticket in waiting:
                if ticket.delivery.to in bound:
                    tickets[ticket.delivery.id] = ticket, one.touched
                else:
                    dispatcher.dispatch(ticket)
        dead, others = probation.begin(verdict, [ticket for ticket, _ in tickets.values()])
        for ticket in dead:
            dispatcher.spawn(partial(bury, ticket.delivery))
        for ticket in others:
            dispatcher.resume(ticket, tickets[ticket.delivery.id][1], self.clock.moment().now)

    async def _load(self, claims: Mapping[str, Claim]) -> list[Conversation]:
        """Read the conversations that are still claimed."""
        engine, _ = self.copies.storage
        self.copies.lose_outdated(claims)
        current = [key for key, claim in claims.items() if not self._is_outdated(key, claim)]
        if engine.shared:
            await self.gained(current)
        found: list[Conversation] = []
        for key in current:
            try:
                one = await engine.load(key)
            except DamagedError as error:
                await self.suspend(key, error)
                continue
            if one is not None:
                found.append(one)
        return found

    def _is_outdated(self, conversation: str, claim: Claim) -> bool:
        """Return whether a conversation was lost since it was gained, or is at work already."""
        engine, claims = self.copies.storage
        return engine.current_claim(conversation) != claim or claims.get(conversation) == claim


def _list_tickets(conversation: Conversation) -> list[Ticket]:
    """List the deliveries of a conversation that may run, those of the earliest request first."""
    begun = {request: place for place, request in enumerate(conversation.requests)}
    heads = [thread.inbox[0] for thread in conversation.tree.nodes.values() if thread.inbox]
    heads.sort(key=lambda one: begun.get(one.request, len(begun)))
    return [Ticket(conversation.principal, each) for each in heads]


REST: Final = 20.0
"""Seconds without a step after which an idle conversation is released, and a sleeping one is unloaded.

REST plus LOOK is less than the 30 seconds after which another process may take it over.
"""

LOOK: Final = 5.0
"""Seconds between two checks for such conversations."""


class IdleReleaser:
    """Releases conversations that have no message at work and no recent step.

    Args:
        copies: of the conversations at work.
        busy: those with a step in progress.
        rest: seconds without a step.
        look: seconds between two checks.
    """

    def __init__(self, copies: Copies, busy: Container[str], rest: float = REST, look: float = LOOK) -> None:
        self._copies, self._busy = copies, busy
        self.idle_time, self._look = rest, look
        self._seen: dict[str, tuple[int, float]] = {}  # the version of each, and since when it was seen

    async def run(self) -> None:
        """Release idle conversations. Never returns."""
        while True:
            await anyio.sleep(self._look)
            await self.release()

    async def release(self) -> None:
        """Release conversations without a change since a check at least ``idle_time`` seconds ago."""
        live, _, _ = self._copies.work
        engine, _ = self._copies.storage
        now, before = anyio.current_time(), self._seen
        self._seen = {}
        rested = []
        for key, one in live.items():
            version, since = before.get(key, (0, now))
            if version == one.version and now - since >= self.idle_time and self._rests(one):
                rested.append(key)
            else:
                self._seen[key] = one.version, since if version == one.version else now
        self._copies.drop(rested)
        if rested:
            try:
                await engine.release(rested)
            except EngineError as error:
                logger.error("conversations cannot be given back at present: %s", error)  # noqa: TRY400 - the text says it all

    def _rests(self, one: Conversation) -> bool:
        engine, _ = self._copies.storage
        _, _, editions = self._copies.work
        if not engine.shared and one.sleeps_until is None:
            return False  # no other process wants it, and it is needed with its next message
        if one.id in self._busy or one.id in editions.earlier or not one.version:
            return False
        return not is_at_work(one)
