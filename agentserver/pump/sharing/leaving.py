"""The way of conversations out of the pump's hands: by the shares that it loses.

Owns what of a conversation is forgotten when another process has it: everything, and nothing is decided about it any
more. Refuses to know how a loss is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, MutableMapping, Sequence

    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Engine, Share
    from agentserver.pump.calling.suspects import Probation
    from agentserver.pump.parsed import ParsedPayloads
    from agentserver.pump.sharing.shares import Shares
    from agentserver.pump.turns.accounts import Accounts
    from agentserver.pump.turns.editions import Editions
    from agentserver.pump.turns.schedule import RunQueue, Schedule
    from agentserver.pump.waiting import Waiting


@dataclass(slots=True)
class Leaving:
    """Lets conversations go.

    Args:
        kept: the engine, and the shares of the pump.
        work: conversations as last committed, payloads that were read of them, and the editions that they go by.
        bounds: what principals have in hand, and what waits for persons.
        turns: deliveries that wait for a worker, for their listener, and behind suspects.
        cancel: stops the handler that runs on a thread; its result is void.
        moved: is told of the conversations that were at work.
    """

    kept: tuple[Engine, Shares]
    work: tuple[MutableMapping[str, Conversation], ParsedPayloads, Editions]
    bounds: tuple[Accounts, Waiting]
    turns: tuple[RunQueue, Schedule, Probation]
    cancel: Callable[[str], None]
    moved: Callable[[Sequence[Conversation]], None]

    def let_go(self, lost: Collection[Share]) -> None:
        """Forget the conversations of shares that are this process's no more."""
        engine, shares = self.kept
        live, _, _ = self.work
        accounts, _ = self.bounds
        shares.held = shares.held.difference(lost)
        gone = set()
        for key in {*live, *shares, *accounts.conversations}:
            share = shares.get(key) or engine.share_of(key)
            opened = key in live and key not in shares  # and not begun: perhaps under a share before this one
            if share is None or share in lost or (opened and share not in shares.held):
                gone.add(key)
        found = [live[key] for key in gone if key in live]
        for key in gone:
            self.forget(key)
        self._drop(gone)
        self.moved(found)

    def forget(self, conversation: str) -> None:
        """Forget a conversation with all that is at work in it; what waits for its turn finds it gone."""
        _, shares = self.kept
        live, parsed, editions = self.work
        accounts, waiting = self.bounds
        one = live.pop(conversation, None)
        shares.pop(conversation, None)
        for thread in () if one is None else one.tree.nodes.values():
            self.cancel(thread.id)
            parsed.forget(thread.waiting())
        if editions.earlier:
            editions.forget(conversation)
        accounts.close(conversation)
        if waiting.known:
            waiting.forget(conversation)

    def _drop(self, gone: set[str]) -> None:
        """Forget what waits for its turn."""
        queue, schedule, probation = self.turns
        schedule.drop(gone)
        for delivery in queue.drop(gone):
            schedule.done(delivery.to)
        probation.drop(gone)
