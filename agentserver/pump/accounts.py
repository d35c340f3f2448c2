"""Quotas of principals: messages and bytes at work, open conversations.

A change costs as much as the step that it counts. The counts of a conversation are dropped with it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentserver.ports import QuotaError

if TYPE_CHECKING:
    from agentserver.core.blueprint import Limits
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation


@dataclass(slots=True)
class Tally:
    """Counts of the messages of one conversation that has any.

    Args:
        principal: whose conversation it is.
        messages: queued, held or running; without those that wait for a person or for their time.
        bytes: of messages that are queued, held, running, or wait for a person or for their time.
    """

    principal: str
    messages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Account:
    """Counts of one principal with messages: those at work or arriving, and their bytes."""

    messages: int = 0
    bytes: int = 0


class Accounts:
    """Accounts of all principals.

    Args:
        limits: of the server. A principal counts towards ``queue`` with at most its ``principal_queue``, so that what
            handlers send for one principal does not make the messages of others ``busy``.

    ``pending`` is the number of messages at work in the whole server; ``idle`` is set while it is zero.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._principals: dict[str, str] = {}
        """The principal of each open conversation. Most are idle, and have only this."""
        self._open_counts: dict[str, int] = {}
        """Open conversations of each principal."""
        self._accounts: dict[str, _Account] = {}
        self._tallies: dict[str, Tally] = {}
        self._shared = 0
        self.pending = 0
        self.idle = asyncio.Event()
        self.idle.set()

    def limit(self, limits: Limits) -> None:
        """Apply other limits from now on. Messages at work stay at work."""
        self._limits = limits
        self._shared = sum(min(one.messages, limits.principal_queue) for one in self._accounts.values())

    def admits(self, principal: str, size: int) -> bool:
        """Return whether a message of this size may come in. The first one always may, however large it is."""
        account = self._accounts.get(principal)
        if self._shared >= self._limits.queue:
            return False
        if account is None:
            return True
        oversized = account.bytes + size > self._limits.principal_bytes
        return account.messages < self._limits.principal_queue and not (oversized and account.messages)

    @property
    def principals(self) -> frozenset[str]:
        """Principals with an open conversation or a message at work."""
        return frozenset((*self._open_counts, *self._accounts))

    def counts_of(self, principal: str) -> tuple[int, int, int]:
        """Return the messages, bytes and open conversations of a principal."""
        account, conversations = self._accounts.get(principal), self._open_counts.get(principal, 0)
        return (0, 0, conversations) if account is None else (account.messages, account.bytes, conversations)

    def check(self, principal: str, own: int | None = None, count: int | None = None) -> None:
        """Raise QuotaError if the principal has as many conversations open as it may.

        Args:
            principal: that wants another.
            own: limit of this principal; None for the limit of all others.
            count: conversations that it has open, over all processes; None if all are counted here.
        """
        maximum = self._limits.principal_conversations
        if own is not None and own <= maximum:
            maximum, reason = own, "as many as this principal may have"
        else:
            reason = "which is limits.principal_conversations"
        if (self.counts_of(principal)[2] if count is None else count) >= maximum:
            raise QuotaError(f"{principal} has {maximum} conversations open, {reason}: close some first")

    def open(self, conversation: str, principal: str) -> None:
        """Count an open conversation without messages, unless it is counted already."""
        if conversation not in self._principals:
            self._principals[conversation] = principal
            self._open_counts[principal] = self._open_counts.get(principal, 0) + 1

    @property
    def conversations(self) -> tuple[str, ...]:
        """The open conversations that are counted."""
        return tuple(self._principals)

    def close(self, conversation: str) -> None:
        """Drop a closed conversation and all its counts."""
        principal, tally = self._principals.pop(conversation, None), self._tallies.pop(conversation, None)
        if principal is None:
            return
        remaining = self._open_counts.pop(principal) - 1
        if remaining:
            self._open_counts[principal] = remaining
        if tally is not None:
            self._change(principal, -tally.messages, -tally.bytes)
            self._pend(-tally.messages)

    def recount(self, conversation: Conversation) -> None:
        """Count a conversation in its current state."""
        self.close(conversation.id)
        waiting = len(conversation.approvals()) + len(conversation.timers)
        messages = sum(request.pending for request in conversation.requests.values()) - waiting
        size = sum(
            len(one.message) for node in conversation.tree.nodes.values() for one in node.list_waiting()
        )
        self._add(conversation, messages, size)

    def book(self, outcome: Outcome) -> None:
        """Count what a committed step changed."""
        remaining = len(outcome.dropped) + (outcome.done is not None)
        messages = len(outcome.added) - remaining - outcome.asking - outcome.delaying
        tally = self._tallies.get(outcome.conversation.id)
        if messages or tally is None or not tally.messages:
            self._add(outcome.conversation, messages, outcome.grown)
        else:  # most steps take a message and send one: only the size changes
            tally.bytes += outcome.grown
            self._accounts[tally.principal].bytes += outcome.grown

    def arrive(self, principal: str, size: int) -> None:
        """Count a message that is on its way in, until ``arrived``; by then it is committed, or refused."""
        self._change(principal, 1, size)

    def finish_arrival(self, principal: str, size: int) -> None:
        """Stop counting a message as arriving: it is counted with its conversation."""
        self._change(principal, -1, -size)

    def _add(self, conversation: Conversation, messages: int, size: int) -> None:
        tally = self._tallies.get(conversation.id)
        if tally is None:
            self.open(conversation.id, conversation.principal)
            tally = self._tallies[conversation.id] = Tally(conversation.principal)
        tally.messages += messages
        tally.bytes += size
        if not (tally.messages or tally.bytes):
            del self._tallies[conversation.id]
        self._change(conversation.principal, messages, size)
        self._pend(messages)

    def _change(self, principal: str, messages: int, size: int) -> None:
        account = self._accounts.get(principal)
        if account is None:
            account = self._accounts[principal] = _Account()
        maximum, before = self._limits.principal_queue, account.messages
        after = account.messages = before + messages
        account.bytes += size
        if before <= maximum and after <= maximum:
            self._shared += messages
        else:
            self._shared += min(after, maximum) - min(before, maximum)
        if not (after or account.bytes):
            del self._accounts[principal]

    def _pend(self, messages: int) -> None:
        before = self.pending
        self.pending += messages
        if not self.pending:
            self.idle.set()
        elif not before:
            self.idle.clear()
