"""Stored data and budgets by owner: an operator of a tenant reads only its conversations."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import anyio

from agentserver.core.encoding.history import EVERY_CONVERSATION, Condition, ConversationFilter
from agentserver.core.state.principals import owns
from agentserver.spending import Amount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agentserver.completion import RecordedCompletion
    from agentserver.core.encoding.history import (
        ActivitySum,
        ChargeSum,
        ConversationPage,
        DeadLetter,
        DecidedApproval,
        RecordedConversation,
        Summary,
    )
    from agentserver.gateways.principals import Caller
    from agentserver.ports import EngineReader
    from agentserver.ports.schedules import ScheduleOrder
    from agentserver.ports.servers import ServerState

T = TypeVar("T")

FRESH: Final = 5.0
"""Seconds between two sums of charges."""


SEEN: Final = 5000
"""Latest dead letters and decisions of all owners that a list for one owner filters."""


class OwnedReader:
    """Reader of an engine that hides the conversations of other owners.

    Args:
        reader: of everything.
        owner: a principal, or the scope of a tenant.
    """

    def __init__(self, reader: EngineReader, owner: str) -> None:
        self._reader, self._owner = reader, owner

    def conversations(self) -> Iterable[Summary]:
        """List the conversations, the last touched first."""
        return (each for each in self._reader.conversations() if owns(self._owner, each.principal))

    def list_conversations(
        self, chosen: ConversationFilter = EVERY_CONVERSATION, after: str = "", limit: int = 50
    ) -> ConversationPage:
        """List a page of the conversations that match, the last opened first. Raises ValueError."""
        own = Condition("owner", "=", self._owner)
        return self._reader.list_conversations(ConversationFilter((*chosen.conditions, own)), after, limit)

    def recorded_conversation(self, conversation: str) -> RecordedConversation:
        """Return everything that is recorded of a conversation. Raises LookupError."""
        found = self._reader.recorded_conversation(conversation)
        if not owns(self._owner, found.beginning.principal):
            raise LookupError(conversation)
        return found

    def list_completions(self, conversation: str) -> Sequence[RecordedCompletion]:
        """List the recorded completions of a conversation. Raises LookupError."""
        self.recorded_conversation(conversation)
        return self._reader.list_completions(conversation)

    def list_decisions(self, limit: int = 100) -> Sequence[DecidedApproval]:
        """List the latest decisions of people."""
        found = self._reader.list_decisions(SEEN)
        return [each for each in found if owns(self._owner, each.principal)][:limit]

    def list_charges(self, since: float = 0.0) -> Sequence[ChargeSum]:
        """Sum the charges since a time."""
        return [each for each in self._reader.list_charges(since) if owns(self._owner, each.principal)]

    def list_activity(self, since: float, until: float, parts: int) -> Sequence[ActivitySum]:
        """Sum up the owner's conversations that were opened in a time."""
        return self._reader.list_activity(since, until, parts, self._owner)

    def list_servers(self) -> Sequence[ServerState]:
        """List no servers: they work for all owners."""
        return ()

    def list_schedule_orders(self) -> Sequence[ScheduleOrder]:
        """List no orders: schedules are the organism's own."""
        return ()

    def dead(self, limit: int | None = None, prefix: str = "") -> Sequence[DeadLetter]:
        """List the latest dead letters."""
        found = [each for each in self._reader.dead(SEEN, prefix) if owns(self._owner, each.principal)]
        return found if limit is None else found[-limit:]

    def list_discarded(self, limit: int) -> Sequence[DeadLetter]:
        """List the latest discarded letters."""
        found = self._reader.list_discarded(SEEN)
        return [each for each in found if owns(self._owner, each.principal)][-limit:]


class ChargeReader(Protocol):
    """The budgets' needs of a server."""

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read what the engine has stored."""


class SpentBudgets:
    """Spending of callers, tenants and groups within sliding windows, as last read from the engine.

    Args:
        server: whose engine has the charges, of all servers that share it.
        now: seconds since the epoch.
        steady: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        server: ChargeReader,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server, self._now, self._steady = server, now, steady
        self._read: dict[float, tuple[float, Sequence[ChargeSum]]] = {}
        self._lock = anyio.Lock()

    async def find_overspent(self, caller: Caller) -> str | None:
        """Find the owner of an exhausted budget: the caller, its tenant or a group. Raises EngineError."""
        for owner, budget in caller.budgets:
            spent = Amount()
            for each in await self._list_charges(budget.window):
                if owns(owner, each.principal) or owner in each.payers:
                    spent += Amount(each.tokens, each.money)
            if any(
                maximum is not None and used >= maximum
                for used, maximum in ((spent.tokens, budget.tokens), (spent.money, budget.money))
            ):
                return owner
        return None

    async def _list_charges(self, window: float) -> Sequence[ChargeSum]:
        async with self._lock:
            read, found = self._read.get(window, (float("-inf"), ()))
            if self._steady() - read >= FRESH:
                since = self._now() - window
                found = await self._server.read(lambda reader: reader.list_charges(since))
                self._read[window] = (self._steady(), found)
            return found
