"""Steps of conversations, one at a time in each: decided, committed, then released to take effect."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, TypeAlias

import anyio

from agentserver.begun import begin
from agentserver.core.records.outcome import Outcome
from agentserver.ports import Claim, ConflictError, EngineError, FencedError, UnstorableError
from agentserver.pump.schedule import KeyedLock, backoff
from agentserver.pump.slices import run_in_slices, run_shielded, take_only_piece

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
    from typing import Any

    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Engine
    from agentserver.pump.slices import Decision

    ToItsEnd: TypeAlias = Callable[[Coroutine[Any, Any, EngineError | None]], Awaitable[EngineError | None]]

    Begun: TypeAlias = EngineError | Coroutine[Any, Any, EngineError | None] | None


logger = logging.getLogger("agentserver.pump")

_new = tuple.__new__


class UndecidedError(Exception):
    """A step could not be decided, or its outcome not be kept. The cause says why."""


class _HandedOver(NamedTuple):
    claim: Claim
    outcome: Outcome
    settled: Callable[[bool], None]
    committing: asyncio.Future[None]

    @property
    def error(self) -> BaseException | None:
        """The error of an ended commit; None if the outcome is kept."""
        return asyncio.CancelledError() if self.committing.cancelled() else self.committing.exception()


class Steps:
    """Takes steps, one at a time in each conversation.

    Args:
        engine: where conversations are kept.
        claims: of those at work; a step is committed under the claim of its conversation at the start.
        live: those at work, as last committed.
        find: loads one from the engine, if it is open.
        release: lets a committed step take effect.
        forget: is called with a closed conversation.
    """

    def __init__(
        self,
        engine: Engine,
        claims: ClaimTable,
        live: MutableMapping[str, Conversation],
        find: Callable[[str], Awaitable[Conversation | None]],
        release: Callable[[Outcome], None],
        forget: Callable[[str], None],
    ) -> None:
        self._engine, self._claims, self._live = engine, claims, live
        self._find, self._release, self._forget = find, release, forget
        self.lock = KeyedLock()
        self._thread = anyio.CapacityLimiter(1)
        self._committing: dict[str, _HandedOver] = {}
        self._watched: dict[str, asyncio.Future[None]] = {}
        self._some = asyncio.Event()
        self._over = self._failing = False
        self._ended = asyncio.Event()

    async def hand_over(self, conversation: str, decide: Decision, settled: Callable[[bool], None]) -> bool:
        """Decide, and hand the commit to the engine: ``let_go`` releases the step, and no worker waits.

        Returns False if the step has to be taken instead: another step is in progress, or the last commit failed, so
        that workers wait and start only handlers whose results can be kept. ``settled`` is called with whether the
        outcome was kept; if not, it has to be taken as well. Raises UndecidedError.
        """
        current = self._live.get(conversation)
        if current is None or self._failing or conversation in self.lock.inside:
            return False
        self.lock.take(conversation)
        try:
            begun = begin(self._attempt(current, decide, settled))
            failure = begun if begun is None or isinstance(begun, EngineError) else await run_shielded(begun)
        finally:
            if conversation not in self._committing:
                self.lock.leave(conversation)
        return failure is None

    def _commit(self, claim: Claim, outcome: Outcome, settled: Callable[[bool], None]) -> None:
        """Begin a commit. Engines end those of a principal in the order in which they began, unless they refuse one.

        So the first one of each wakes ``let_go`` for all of a transaction.
        """
        committing = self._engine.commit(claim, outcome)
        if not isinstance(committing, asyncio.Future):
            committing = asyncio.ensure_future(committing)
        principal = outcome.conversation.principal
        if principal not in self._watched:
            self._watched[principal] = committing
            committing.add_done_callback(self._wake)
        elif committing.done():
            committing.add_done_callback(self._wake)
        self._committing[outcome.conversation.id] = _new(_HandedOver, (claim, outcome, settled, committing))

    def _wake(self, _: asyncio.Future[None]) -> None:
        self._some.set()

    async def let_go(self) -> None:
        """Release committed steps. Never returns. Commits of one transaction wake it once."""
        while True:
            await self._some.wait()
            self._some.clear()
            self._let_go()

    def end(self) -> None:
        """Stop retrying: a step that cannot be kept now raises EngineError."""
        self._ended.set()

    async def stop(self) -> None:
        """Hand over no further commit, and release the pending ones."""
        self._over = True
        while self._committing:
            await asyncio.wait([one.committing for one in self._committing.values()])
            self._let_go()

    def _let_go(self) -> None:
        """Release the steps whose commits have ended, and have the first of the others of each principal wake."""
        watched, self._watched = self._watched, {}
        for conversation, one in [*self._committing.items()]:
            principal = one.outcome.conversation.principal
            if one.committing.done():
                del self._committing[conversation]
                self._settle(conversation, one)
            elif principal not in self._watched:
                self._watched[principal] = one.committing
                if watched.get(principal) is not one.committing:
                    one.committing.add_done_callback(self._wake)

    def _settle(self, conversation: str, one: _HandedOver) -> None:
        error = one.error
        fenced = isinstance(error, FencedError)
        self._failing = not (error is None or fenced)
        if fenced:
            self._claims.lost(conversation, one.claim)
        try:
            if error is None and self._claims.get(conversation) is one.claim:
                self._release(one.outcome)
        finally:
            self.lock.leave(conversation)
            one.settled(error is None)

    async def take(
        self,
        conversation: str,
        decide: Decision,
        *,
        patient: bool = True,
        to_its_end: ToItsEnd = run_shielded,
    ) -> bool:
        """Decide and commit, then release the step. A stale decision is repeated.

        Steps of a conversation run one at a time: a decision on a state that is not committed yet could be committed on
        top of another one. ``decide`` returns None to change nothing. Returns False if the conversation is closed.
        While the engine cannot commit, a patient step is retried until the pump ends, since the work of a handler
        cannot be refused; any other raises EngineError. Either raises FencedError if another process owns the
        conversation. ``to_its_end`` keeps a cancelled caller from interrupting an attempt: ``run_uncancelled`` for
        callers that are no tasks of the pump. Raises UndecidedError if the step is impossible.
        """
        begun: Begun = None
        current = self._live.get(conversation)
        if current is not None and self._engine.prompt and conversation not in self.lock.inside:
            begun = begin(self._attempt(current, decide))  # most steps end here: nothing can come between
            if begun is None:
                return True
            self.lock.take(conversation)
        else:
            await self.lock.enter(conversation)
        try:
            goes_on = await self._retry(conversation, decide, begun, patient=patient, to_its_end=to_its_end)
        finally:
            self.lock.leave(conversation)
        if not goes_on:
            self._forget(conversation)
        return goes_on

    async def _retry(
        self,
        conversation: str,
        decide: Decision,
        begun: Begun | Literal[False],
        *,
        patient: bool,
        to_its_end: ToItsEnd,
    ) -> bool:
        """Finish an attempt that was begun, and retry until it can be kept."""
        failures = 0
        while True:
            if begun is None:
                begun = await self._begin(conversation, decide)
            if begun is False:
                return False
            if begun is None or isinstance(begun, EngineError):
                failure = begun
            else:
                failure = await to_its_end(begun)
            begun = None
            if failure is None:
                return True
            if isinstance(failure, ConflictError):
                self._live.pop(conversation, None)
                continue
            if not patient or isinstance(failure, FencedError) or self._ended.is_set():
                raise failure
            failures += 1
            logger.error("a step waits until it can be kept: %s", failure)
            with anyio.move_on_after(backoff(failures)):
                await self._ended.wait()

    async def _begin(self, conversation: str, decide: Decision) -> Begun | Literal[False]:
        """Begin an attempt. Returns False if the conversation is closed, and the error if it cannot be read now."""
        try:
            current = self._live.get(conversation) or await self._find(conversation)
        except EngineError as error:
            return error
        if current is None:
            return False
        attempt = self._attempt(current, decide)
        return begin(attempt) if self._engine.prompt else attempt

    async def _attempt(
        self, current: Conversation, decide: Decision, settled: Callable[[bool], None] | None = None
    ) -> EngineError | None:
        """Decide, commit and release, or return why that is impossible at present. Raises UndecidedError.

        With ``settled`` the commit is only begun, and ``let_go`` releases the step.

        A cancelled caller or a stopping pump does not interrupt it: no step may be committed and never released.
        """
        claim = None
        try:
            claim = self._claims[current.id]
            found = decide(current)
            if found is None:
                return None
            outcome = found if isinstance(found, Outcome) else take_only_piece(found)
            if not isinstance(outcome, Outcome):
                outcome = await run_in_slices(outcome, self._thread)
            if settled is not None and not self._over:
                self._commit(claim, outcome, settled)
                return None
            await self._engine.commit(claim, outcome)
            self._failing = False
        except Exception as error:
            if isinstance(error, FencedError) and claim is not None:
                self._claims.lost(current.id, claim)
            if isinstance(error, EngineError) and not isinstance(error, UnstorableError):
                return error
            raise UndecidedError from error
        if self._claims.get(current.id) is claim:  # else another process has it, and releases this
            self._release(outcome)
        return None


class ClaimTable(dict[str, Claim]):
    """Claim of each conversation at work. Raises FencedError for any other conversation.

    A conversation keeps its claim until it is dropped, so that a decision under an earlier claim is refused, however
    soon the process claims the conversation again. ``lost`` is called with a conversation whose commit was fenced, and
    the claim it was made under.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lost: Callable[[str, Claim], None] = lambda _, __: None

    def __missing__(self, conversation: str) -> NoReturn:
        """Raise FencedError."""
        raise FencedError("this process does not have the conversation")

    async def keeps(self, conversation: str, meanwhile: Awaitable[object]) -> bool:
        """Wait for something. Returns whether the conversation kept its claim meanwhile."""
        claim = self.get(conversation)
        await meanwhile
        return claim is not None and self.get(conversation) is claim
