"""The pump's copies of conversations, from the claim to its loss.

Owns what is held in memory of a conversation at work, and that all of it is dropped at once. Refuses to know why a
conversation comes or goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence

    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Claim, Engine
    from agentserver.pump.accounts import Accounts
    from agentserver.pump.approvals import Waiting
    from agentserver.pump.claims.table import ClaimTable
    from agentserver.pump.editions import Editions
    from agentserver.pump.parsing import ParsedPayloads
    from agentserver.pump.poison_search import Probation
    from agentserver.pump.schedule import RunQueue, Schedule


@dataclass(slots=True)
class Copies:
    """Keeps and drops copies of conversations.

    Args:
        kept: the engine, and the claims of the pump.
        work: conversations as last committed, payloads that were read of them, and the editions that they go by.
        bounds: what principals have in hand, and what waits for persons.
        turns: deliveries that wait for a worker, for their listener, and behind suspects.
        cancel: stops the handler that runs on a thread; its result is void.
        moved: called with conversations that were dropped, as they were.
    """

    kept: tuple[Engine, ClaimTable]
    work: tuple[MutableMapping[str, Conversation], ParsedPayloads, Editions]
    bounds: tuple[Accounts, Waiting]
    turns: tuple[RunQueue, Schedule, Probation]
    cancel: Callable[[str], None]
    moved: Callable[[Sequence[Conversation]], None]

    def keep(self, conversation: Conversation, claim: Claim) -> None:
        """Have a conversation at work under a claim."""
        _, claims = self.kept
        live, _, _ = self.work
        accounts, waiting = self.bounds
        claims[conversation.id], live[conversation.id] = claim, conversation
        accounts.recount(conversation)
        waiting.add(conversation.approvals())

    def lose(self, conversation: str, claim: Claim) -> None:
        """Drop a conversation, unless it was claimed again."""
        _, claims = self.kept
        if claims.get(conversation) is claim:
            self.drop({conversation})

    def lose_outdated(self, conversations: Iterable[str]) -> None:
        """Drop those of some conversations that another process has or had since they were read."""
        engine, claims = self.kept
        self.drop([key for key in conversations if key in claims and engine.held(key) != claims[key]])

    def drop(self, conversations: Collection[str]) -> None:
        """Forget conversations with all that is queued of them: nothing is decided about them here any more."""
        live, _, _ = self.work
        gone = set(conversations)
        found = [live[key] for key in gone if key in live]
        for key in gone:
            self.forget(key)
        queue, schedule, probation = self.turns
        schedule.drop(gone)
        for delivery in queue.drop(gone):
            schedule.done(delivery.to)
        probation.drop(gone)
        self.moved(found)

    def forget(self, conversation: str) -> None:
        """Forget a conversation with all that is at work in it; what waits for its turn finds it gone."""
        _, claims = self.kept
        live, parsed, editions = self.work
        accounts, waiting = self.bounds
        one = live.pop(conversation, None)
        claims.pop(conversation, None)
        for thread in () if one is None else one.tree.nodes.values():
            self.cancel(thread.id)
            parsed.forget(thread.waiting())
        if editions.earlier:
            editions.forget(conversation)
        accounts.close(conversation)
        if waiting.known:
            waiting.forget(conversation)


def at_work(conversation: Conversation) -> bool:
    """True when a delivery of it is queued, is held, or waits for a person."""
    return not all(thread.quiet for thread in conversation.tree.nodes.values())
