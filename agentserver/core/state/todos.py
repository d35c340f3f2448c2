"""Todos: the replies that a thread waits for, and the reminder about complete ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentserver.core.messages import SYSTEM
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from agentserver.contract import TodoUntil
    from agentserver.core.messages import Delivery

ANY = "*"
"""The mark of a todo that counts any answer."""

WATCHERS = 64
"""Todos that one thread may keep: every message to it is held against each, and each may be nudged about."""


@dataclass(frozen=True, slots=True)
class Todo:
    """One todo of one thread.

    Args:
        watcher_id: opaque.
        wait_for: element name of the reply, with or without ``{namespace}``; or ``ANY``.
        from_listener: the only listener whose replies count, or None.
        description: what the nudge calls it; one line.
        count: replies that complete it.
        hold: whether replies are kept back until all are there.
        collected: replies kept back or released so far.
        delivered: replies that the thread has been given.
        reminder: the delayed delivery that reminds of it; empty without one.
    """

    watcher_id: str
    wait_for: str
    from_listener: str | None
    description: str
    count: int
    hold: bool
    collected: int = 0
    delivered: int = 0
    reminder: str = ""

    @property
    def raised(self) -> bool:
        """True when every reply has come."""
        return self.delivered >= self.count

    def matches(self, delivery: Delivery, caller: str | None = None) -> bool:
        """Check whether a delivery to the thread is one of the awaited replies.

        A SystemError about the listener counts as its reply, be it the system's own or one that the listener passed
        on; one about a message of the thread's own does not. Nothing that ``caller`` sends, the thread that called
        this one, answers a call.
        """
        if delivery.origin == delivery.thread:
            return False
        if self.wait_for == ANY:
            author = delivery.about or delivery.sender
            return delivery.origin != caller and self.from_listener in (None, author)
        if delivery.sender == SYSTEM or delivery.about:
            return self.from_listener in (None, delivery.about)
        return self.from_listener in (None, delivery.sender) and self.wait_for in (
            delivery.root,
            local(delivery.root),
        )


@dataclass(frozen=True, slots=True)
class TodoBook:
    """Watchers of a conversation by waiting thread. Every change makes a new book."""

    watchers: Mapping[str, tuple[Todo, ...]] = field(default_factory=dict)

    def list_watchers(self, thread: str) -> tuple[Todo, ...]:
        """Return the thread's watchers in the order of registration."""
        return self.watchers.get(thread, ())

    def watch(self, thread: str, until: TodoUntil, watcher_id: str, reminder: str = "") -> TodoBook:
        """Register a watcher for a thread. ``reminder`` is as of ``Todo``."""
        subject = until.from_listener or ("any" if until.wait_for == ANY else local(until.wait_for))
        label = " ".join(until.description.split()) or " ".join(f"{subject} response".split())
        watcher = Todo(
            watcher_id, until.wait_for, until.from_listener, label, until.count, until.hold, reminder=reminder
        )
        return self._put(thread, (*self.list_watchers(thread), watcher))

    def find_holder(self, delivery: Delivery, caller: str | None = None) -> Todo | None:
        """Return the watcher that holds this delivery, or None. ``caller`` is as of ``Todo.matches``."""
        for watcher in self.list_watchers(delivery.thread):
            if watcher.hold and watcher.collected < watcher.count and watcher.matches(delivery, caller):
                return watcher
        return None

    def keep(self, thread: str, todo: Todo) -> TodoBook:
        """Count one more held delivery for a watcher of the thread."""
        counted = replace(todo, collected=todo.collected + 1)
        return self._put(
            thread, tuple(counted if watcher is todo else watcher for watcher in self.list_watchers(thread))
        )

    def count_notice(self, delivery: Delivery, caller: str | None = None) -> TodoBook:
        """Count a delivery that its thread receives. ``caller`` is as of ``Todo.matches``."""
        watchers = self.list_watchers(delivery.thread)
        counting = [one for one in watchers if not one.raised and one.matches(delivery, caller)]
        if not counting:
            return self
        return self._put(
            delivery.thread,
            tuple(replace(one, delivered=one.delivered + 1) if one in counting else one for one in watchers),
        )

    def close(self, thread: str, watcher_id: str) -> TodoBook:
        """Forget a watcher of the thread; watchers of other threads stay."""
        watchers = self.list_watchers(thread)
        remaining = tuple(watcher for watcher in watchers if watcher.watcher_id != watcher_id)
        return self if len(remaining) == len(watchers) else self._put(thread, remaining)

    def abandon(self, thread: str) -> TodoBook:
        """Forget watchers whose replies cannot come, because no listener works for the thread."""
        watchers = self.list_watchers(thread)
        if not watchers:
            return self
        remaining = tuple(watcher for watcher in watchers if watcher.raised)
        return self if len(remaining) == len(watchers) else self._put(thread, remaining)

    def forget(self, threads: Collection[str]) -> TodoBook:
        """Drop the watchers of closed threads."""
        if not self.watchers:
            return self
        return TodoBook({thread: todos for thread, todos in self.watchers.items() if thread not in threads})

    def _put(self, thread: str, watchers: tuple[Todo, ...]) -> TodoBook:
        changed = {**self.watchers, thread: watchers}
        if not watchers:
            del changed[thread]
        return TodoBook(changed)


NO_TODOS = TodoBook()


def nudge(watchers: Collection[Todo]) -> str:
    """Write the reminder about complete todos in the contract's wording; empty without any."""
    raised = [watcher for watcher in watchers if watcher.raised] if watchers else ()
    if not raised:
        return ""
    return "\n".join(
        [
            "SYSTEM NOTE: The following todos appear complete and should be closed:",
            *(f"- watcher_id: {w.watcher_id} (registered for: {w.description})" for w in raised),
            "Call todo_registry.close(watcher_id) to acknowledge.",
        ]
    )
