"""Todos: which replies a thread waits for, which have come, and the reminder of those that are complete.

Owns watchers and the text of the nudge. Refuses to know how a reply travels; the delivery tells it all it needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentserver.core.messages import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from agentserver.contract import TodoUntil
    from agentserver.core.messages import Delivery


@dataclass(frozen=True, slots=True)
class Watcher:
    """One todo of one thread.

    Args:
        watcher_id: opaque.
        thread: the thread that waits.
        wait_for: element name of the reply, with or without ``{namespace}``.
        from_listener: the only listener whose replies count, or None.
        label: what the nudge calls it.
        count: replies that complete it.
        hold: whether replies are kept back until all are there.
        kept: replies kept back or released so far.
        seen: replies that the thread has been given.
    """

    watcher_id: str
    thread: str
    wait_for: str
    from_listener: str | None
    label: str
    count: int
    hold: bool
    kept: int = 0
    seen: int = 0

    @property
    def raised(self) -> bool:
        """Whether every reply has come."""
        return self.seen >= self.count

    @property
    def description(self) -> str:
        """What the nudge calls it."""
        return self.label

    def matches(self, delivery: Delivery) -> bool:
        """Whether the delivery is one of the awaited replies; a SystemError about the listener counts as one."""
        if delivery.thread != self.thread:
            return False
        if delivery.sender == SYSTEM:
            return self.from_listener in (None, delivery.about)
        return self.from_listener in (None, delivery.sender) and self.wait_for in (
            delivery.root,
            delivery.root.rpartition("}")[2],
        )


@dataclass(frozen=True, slots=True)
class TodoBook:
    """The watchers of a conversation by id. Every change gives a new book."""

    watchers: Mapping[str, Watcher] = field(default_factory=dict)

    def watch(self, thread: str, until: TodoUntil, watcher_id: str) -> TodoBook:
        """Register a watcher for a thread."""
        subject = until.from_listener or until.wait_for.rpartition("}")[2]
        label = " ".join(until.description.split()) or f"{subject} response"
        watcher = Watcher(
            watcher_id, thread, until.wait_for, until.from_listener, label, until.count, until.hold
        )
        return TodoBook({**self.watchers, watcher_id: watcher})

    def holder(self, delivery: Delivery) -> Watcher | None:
        """The watcher that keeps this delivery back, if one does."""
        if not self.watchers:
            return None
        for watcher in self.watchers.values():
            if watcher.hold and watcher.kept < watcher.count and watcher.matches(delivery):
                return watcher
        return None

    def keep(self, watcher: Watcher) -> TodoBook:
        """Note that one more delivery is kept back for the watcher."""
        return self._put(replace(watcher, kept=watcher.kept + 1))

    def notice(self, delivery: Delivery) -> TodoBook:
        """Count a delivery that its thread is being given."""
        if not self.watchers:
            return self
        book = self
        for watcher in self.watchers.values():
            if not watcher.raised and watcher.matches(delivery):
                book = book._put(replace(watcher, seen=watcher.seen + 1))
        return book

    def of(self, thread: str) -> tuple[Watcher, ...]:
        """The thread's watchers."""
        if not self.watchers:
            return ()
        return tuple(watcher for watcher in self.watchers.values() if watcher.thread == thread)

    def owns(self, thread: str, watcher_id: str) -> bool:
        """Whether the thread has a watcher of that id."""
        watcher = self.watchers.get(watcher_id)
        return watcher is not None and watcher.thread == thread

    def close(self, thread: str, watcher_id: str) -> TodoBook:
        """Forget a watcher; another thread's is left alone."""
        if not self.owns(thread, watcher_id):
            return self
        return TodoBook({key: w for key, w in self.watchers.items() if key != watcher_id})

    def forget(self, threads: Collection[str]) -> TodoBook:
        """Drop the watchers of closed threads."""
        if not self.watchers:
            return self
        return TodoBook({key: w for key, w in self.watchers.items() if w.thread not in threads})

    def _put(self, watcher: Watcher) -> TodoBook:
        return TodoBook({**self.watchers, watcher.watcher_id: watcher})


NO_TODOS = TodoBook()


def nudge(watchers: Collection[Watcher]) -> str:
    """The reminder of the complete ones for a handler, in the contract's wording; empty without any."""
    raised = [watcher for watcher in watchers if watcher.raised]
    if not raised:
        return ""
    return "\n".join(
        [
            "SYSTEM NOTE: The following todos appear complete and should be closed:",
            *(f"- watcher_id: {w.watcher_id} (registered for: {w.label})" for w in raised),
            "Call todo_registry.close(watcher_id) to acknowledge.",
        ]
    )
