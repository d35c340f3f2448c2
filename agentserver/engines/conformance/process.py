"""Process on shared storage for conformance checks: it makes decisions without a pump."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from agentserver.core.decide import answers, decisions
from agentserver.core.messages import UNDECIDED, OutsideMessage
from agentserver.core.receipts import refused_with
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.engines.conformance.sample import BrokenPromiseError, hold
from agentserver.ports import Arrival, ArrivalOutcome, FencedError, GainedClaims, RepeatedError
from agentserver.supervision import cancel_and_wait

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from agentserver.core.messages import Done, Reply
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.engines.conformance.sample import SampleConversation
    from agentserver.ports import Claim, Engine

NAP = 0.01
"""Seconds between two polls of an engine."""


@dataclass(frozen=True, slots=True)
class SharedSubject:
    """Storage that several engines share at once.

    Args:
        open: returns the engine of the process with this name.
        still: stops a process, as SIGSTOP does, and returns when its lease has expired.
        moving: resumes a stopped process.
        outage: context in which no process reaches the storage, for ten seconds of the storage's clock.
        wait_until_claimable: waits until idle conversations can be claimed by another process; no lease expires.
        prompt: seconds, less than a lease, within which released conversations are taken over.
    """

    open: Callable[[str], Engine]
    still: Callable[[str], Awaitable[None]]
    moving: Callable[[str], Awaitable[None]]
    outage: Callable[[], AbstractAsyncContextManager[None]]
    wait_until_claimable: Callable[[], Awaitable[None]]
    prompt: float = 1.0


class Process:
    """Engine on shared storage. An async context manager: entering opens the engine.

    Args:
        engine: of the process; not yet open.

    ``gained`` maps each gained conversation to its previous lease.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.gained: dict[str, int] = {}
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Open the engine and follow its claims."""
        await self.engine.__aenter__()
        self._following = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the engine."""
        assert self._following is not None
        await cancel_and_wait([self._following])
        await self.engine.__aexit__(kind, error, trace)

    async def _follow(self) -> None:
        async for change in self.engine.changes():
            if isinstance(change, GainedClaims):
                self.gained.update(dict.fromkeys(change.claims, change.previous))
            else:
                for key in change.conversations:
                    self.gained.pop(key, None)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        while not condition():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(NAP)

    async def wait_for_ownership(self, conversation: str) -> None:
        """Wait until this process has gained a conversation."""
        await self.wait_until(
            lambda: conversation in self.gained and self.engine.current_claim(conversation) is not None
        )

    async def wait_until_listed(self, conversation: str) -> None:
        """Wait until this process lists a sleeping conversation."""
        while conversation not in [one.id for one in await self.engine.list_sleeping(99)]:  # noqa: ASYNC110 - as above
            await asyncio.sleep(NAP)

    async def claim(self, conversation: str) -> Claim:
        """Claim a conversation as soon as possible."""
        while (claim := await self.engine.claim(conversation)) is None:  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(NAP)
        return claim

    async def sees(self, outcome: Outcome) -> None:
        """Wait until a commit of another process can be read here."""
        while await self.engine.load(outcome.conversation.id) != outcome.conversation:  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(NAP)

    def current_claim(self, conversation: str) -> Claim:
        """Return the claim that this process has on a conversation."""
        claim = self.engine.current_claim(conversation)
        hold(claim is not None, "an owner holds a claim")
        assert claim is not None
        return claim

    async def commit(self, outcome: Outcome) -> None:
        """Commit as the owner."""
        await self.engine.commit(self.current_claim(outcome.conversation.id), outcome)

    async def expect_fenced(self, claim: Claim, outcome: Outcome) -> None:
        """Check that a commit under a lost claim is refused, and that the claim is no longer held."""
        with suppress(FencedError):
            await self.engine.commit(claim, outcome)
            raise BrokenPromiseError("a commit under a claim that was lost raises FencedError")
        hold(self.engine.current_claim(outcome.conversation.id) != claim, "a fenced claim is not held")

    def begin(self, sample: SampleConversation) -> Conversation:
        """Begin a conversation of this process."""
        conversation = sample.start()
        self.engine.begin_claim(conversation.id)
        return conversation

    @asynccontextmanager
    async def decide_arrivals(self, sample: SampleConversation) -> AsyncIterator[list[Outcome]]:
        """Decide arrivals for this process as an owner does, and yield the outcomes."""
        decided: list[Outcome] = []
        task = asyncio.create_task(self._decide(sample, decided))
        try:
            yield decided
        finally:
            await cancel_and_wait([task])

    async def _decide(self, sample: SampleConversation, decided: list[Outcome]) -> None:
        async for arrival in self.engine.arrivals():
            now = await self.engine.load(arrival.conversation)
            claim = self.engine.current_claim(arrival.conversation)
            if now is None:
                self.engine.settle(arrival, ArrivalOutcome("over"))
            elif claim is not None:
                with suppress(FencedError):
                    self.engine.settle(arrival, await self._fate(now, claim, arrival, sample, decided))

    async def _fate(
        self,
        now: Conversation,
        claim: Claim,
        arrival: Arrival,
        sample: SampleConversation,
        decided: list[Outcome],
    ) -> ArrivalOutcome:
        content = arrival.content
        if isinstance(content, ApprovalAnswer):
            outcome = answers.decide(now, content, sample.rules, sample.moment())
            if outcome is None:
                return ArrivalOutcome("no")
            await self.engine.commit(claim, outcome)
            decided.append(outcome)
            return ArrivalOutcome()
        hold(isinstance(content, OutsideMessage), "an arrival keeps its content")
        assert isinstance(content, OutsideMessage)
        if content.request in now.requests:  # an earlier owner decided it, and its answer was lost
            return ArrivalOutcome(request=content.request)
        outcome = decisions.receive(now, content, sample.rules, sample.moment())
        try:
            await self.engine.commit(claim, outcome)
        except RepeatedError as error:
            return ArrivalOutcome(
                error.receipt.code, error.receipt.request, again=error.receipt.request != content.request
            )
        decided.append(outcome)
        return ArrivalOutcome(refused_with(outcome.records), content.request, outcome.before)

    @asynccontextmanager
    async def listen_to(self, conversation: str) -> AsyncIterator[EventListener]:
        """Read the events of another process's conversation whenever news arrives."""
        listener = EventListener(self, conversation)
        task = asyncio.create_task(listener.listen())
        try:
            yield listener
        finally:
            await cancel_and_wait([task])

    @asynccontextmanager
    async def follow_questions(self) -> AsyncIterator[set[str]]:
        """Collect conversations of other processes that start or stop waiting for a person."""
        asking: set[str] = set()

        async def listen() -> None:
            async for news in self.engine.news(tuple):
                if news.asks:
                    asking.add(news.conversation)

        task = asyncio.create_task(listen())
        try:
            yield asking
        finally:
            await cancel_and_wait([task])


class EventListener:
    """Gateway's view of a conversation that another process owns.

    Args:
        process: of the gateway.
        conversation: the id.
    """

    def __init__(self, process: Process, conversation: str) -> None:
        self._process, self._conversation = process, conversation
        self._events: list[Reply | Done] = []
        self._over = False

    async def listen(self) -> None:
        """Read new events after each piece of news."""
        engine = self._process.engine
        async for news in engine.news(lambda: [self._conversation]):
            conversation = news.conversation
            if conversation != self._conversation:
                continue
            last = self._events[-1].place if self._events else UNDECIDED
            while page := await engine.read_events(conversation, last, 2):
                self._events += page
                last = page[-1].place
            found = await engine.find_conversation(conversation)
            self._over = found is not None and found.over

    async def wait_until(self, events: Sequence[Reply | Done], *, over: bool = False) -> None:
        """Wait for as many events, and check that they are these."""
        await self._process.wait_until(lambda: len(self._events) >= len(events) and self._over >= over)
        plain = [event._replace(redelivered=False) for event in self._events]
        hold(plain == list(events), "events of another process are read once, in order")


def make_arrival(conversation: Conversation, content: OutsideMessage | ApprovalAnswer) -> Arrival:
    """Make an arrival for a conversation, from an operator."""
    return Arrival(str(uuid4()), conversation.id, None, content)
