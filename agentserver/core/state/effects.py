"""Changes that a running handler may make besides sending: its thread's storage and todos.

Owns the collecting of those changes; they count only if the invocation's outcome is committed. Refuses to know
where the values are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from agentserver.core.messages import NO_EFFECTS, Effects
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.state.todos import Todo
    from agentserver.payload.codec import Codecs
    from agentserver.wire.envelope import Bounds

T = TypeVar("T")


class ThreadStorage:
    """Values of one thread by their class, encoded, so that what is stored can never be changed from outside.

    Args:
        stored: what the thread holds, encoded, by payload name.
        codecs: how to encode and decode.
        bounds: how much one value may measure.
        limit: bytes that all values together may take.
    """

    def __init__(self, stored: Mapping[str, bytes], codecs: Codecs, bounds: Bounds, limit: int) -> None:
        self._stored = stored
        self._codecs = codecs
        self._bounds = bounds
        self._limit = limit
        self.changes: dict[str, bytes | None] = {}

    def get(self, kind: type[T], default: T | None = None) -> T | None:
        """The stored value of exactly this class, decoded afresh, or ``default``.

        Raises ValueError when what is stored no longer satisfies the class's schema.
        """
        codec = self._codecs.of(kind)
        data = self._current().get(codec.name)
        if data is None:
            return default
        element = envelope.read_payload(data, self._bounds)
        if isinstance(element, envelope.Malformed) or not codec.valid(element):
            raise ValueError(f"what is stored as {kind.__name__} does not satisfy its schema")
        return cast("T", codec.decode(element))

    def set(self, value: Any) -> None:
        """Store an ``@xmlify`` value under its class.

        Raises ValueError when it is invalid or over the bound, TypeError for a class that a restart could not read.
        """
        codec = self._codecs.of(type(value))
        data = codec.encode(value).encode()
        element = envelope.read_payload(data, self._bounds)
        if isinstance(element, envelope.Malformed) or not codec.valid(element):
            raise ValueError(f"the {type(value).__name__} does not satisfy its schema")
        taken = sum(len(other) for name, other in self._current().items() if name != codec.name)
        if taken + len(data) > self._limit:
            raise ValueError(f"a thread stores at most {self._limit} bytes")
        self.changes[codec.name] = data

    def delete(self, kind: type) -> None:
        """Forget the value of this class, if there is one."""
        self.changes[self._codecs.of(kind).name] = None

    def _current(self) -> dict[str, bytes]:
        merged = {**self._stored, **self.changes}
        return {name: data for name, data in merged.items() if data is not None}


class ThreadTodos:
    """The todos of one invocation's thread, and which of them it closed."""

    def __init__(self, thread: str, name: str, watchers: tuple[Todo, ...]) -> None:
        self._thread = thread
        self._name = name
        self._watchers = watchers
        self.closed: list[str] = []

    def get_raised_for(self, thread_id: str, own_name: str | None) -> tuple[Todo, ...]:
        """Complete but unclosed todos; empty for any thread or name but the running one's.

        A listener that is no agent has no name to give: None stands for it.
        """
        if thread_id != self._thread or own_name not in (self._name, None):
            return ()
        return tuple(w for w in self._watchers if w.raised and w.watcher_id not in self.closed)

    def close(self, watcher_id: str) -> bool:
        """Close a todo of this thread; False when it has none by that id."""
        known = any(watcher.watcher_id == watcher_id for watcher in self._watchers)
        if known and watcher_id not in self.closed:
            self.closed.append(watcher_id)
        return known


def collect(storage: ThreadStorage, todos: ThreadTodos) -> Effects:
    """Everything that the invocation changed."""
    if not storage.changes and not todos.closed:
        return NO_EFFECTS
    return Effects(dict(storage.changes), tuple(todos.closed))
