"""Changes of a handler besides sending: storage, logs and todos of its thread."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agentserver.core.messages import NO_EFFECTS, Effects
from agentserver.core.state.logs import NO_LOGS, LogChange, ThreadLog
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.state.logs import Logs
    from agentserver.core.state.todos import Todo
    from agentserver.payload.codec import Codec, Codecs
    from agentserver.wire.envelope import Bounds

T = TypeVar("T")

_new = tuple.__new__
"""Makes a tuple without the call of Python that its class would make; tests/test_tuples.py counts the fields."""


class ThreadStorage:
    """Values of one thread by class; stored encoded, so that they cannot be modified from outside.

    Args:
        stored: the thread's encoded values, by payload name.
        codecs: how to encode and decode.
        bounds: of one value.
        limit: bytes that all values and entries together may take.
        logs: of the thread.
    """

    def __init__(
        self,
        stored: Mapping[str, bytes],
        codecs: Codecs,
        bounds: Bounds,
        limit: int,
        logs: Logs = NO_LOGS,
    ) -> None:
        self._stored = stored
        self._logs = logs
        self._logged: dict[str, LogChange] = {}
        self._entries = sum(log.size for log in logs.values()) if logs else 0
        self._codecs = codecs
        self._bounds = bounds
        self._limit = limit
        self.changes: dict[str, bytes | None] = {}

    def get(self, kind: type[T], default: T | None = None) -> T | None:
        """Decode the stored value of exactly this class, or return ``default``.

        Raises ValueError when the stored value no longer satisfies the class's schema.
        """
        codec = self._codecs.of(kind)
        data = self._build_current().get(codec.name)
        return default if data is None else self._decode(kind, codec, data)

    def set(self, value: Any) -> None:
        """Store an ``@xmlify`` value under its class.

        Raises ValueError when it is invalid or over the bound, TypeError for a class that a restart could not read.
        """
        name, data = self._encode(value)
        self._check_room(len(data), name)
        self.changes[name] = data

    def delete(self, kind: type) -> None:
        """Forget the value of this class, if there is one."""
        self.changes[self._codecs.of(kind).name] = None

    def append(self, value: Any) -> None:
        """Add an ``@xmlify`` value to the log of its class. Raises what ``set`` does."""
        name, data = self._encode(value)
        self._check_room(len(data))
        before = self._logged.get(name)
        self._logged[name] = (
            _new(LogChange, (name, 0, (data,)))
            if before is None
            else before._replace(appended=(*before.appended, data))
        )
        self._entries += len(data)

    def log(self, kind: type[T]) -> tuple[T, ...]:
        """Decode the appended values of exactly this class, oldest first.

        Raises ValueError when one of them no longer satisfies the class's schema.
        """
        codec = self._codecs.of(kind)
        change = self._change(codec.name)
        entries = chain(islice(self._find_stored_log(codec.name), change.dropped, None), change.appended)
        return tuple([self._decode(kind, codec, data) for data in entries])

    def size(self, kind: type) -> int:
        """Return the bytes of a log's entries. Only the entries that this invocation changed are read."""
        name = self._codecs.of(kind).name
        log, change = self._logs.get(name), self._logged.get(name)
        stored = 0 if log is None else log.size
        if change is None:
            return stored
        removed = log.list_oldest(change.dropped) if log is not None and change.dropped else ()
        return stored - sum(map(len, removed)) + sum(map(len, change.appended))

    def trim(self, kind: type, keep: int) -> None:
        """Forget all but the latest ``keep`` entries of a log. Raises ValueError for fewer than none."""
        if keep < 0:
            raise ValueError(f"a log cannot be trimmed to {keep} entries")
        name = self._codecs.of(kind).name
        (_, before, appended), stored = self._change(name), self._find_stored_log(name)
        newer = appended[-keep:] if keep else ()
        dropped = max(before, len(stored) + len(newer) - keep)
        removed = (*stored.list_oldest(dropped)[before:], *appended[: len(appended) - len(newer)])
        self._logged[name] = LogChange(name, dropped, newer)
        self._entries -= sum(map(len, removed))

    def _count_bytes(self, without: str = "") -> int:
        if not self._stored and not self.changes:
            return self._entries
        return self._entries + sum(
            len(other) for name, other in self._build_current().items() if name != without
        )

    @property
    def logged(self) -> tuple[LogChange, ...]:
        """The changes of logs that were changed."""
        if not self._logged:
            return ()
        return tuple([change for change in self._logged.values() if change.dropped or change.appended])

    def _change(self, name: str) -> LogChange:
        return self._logged.get(name) or LogChange(name, 0, ())

    def _find_stored_log(self, name: str) -> ThreadLog:
        found = self._logs.get(name)
        return ThreadLog() if found is None else found

    def _encode(self, value: Any) -> tuple[str, bytes]:
        codec = self._codecs.of(type(value))
        markup = codec.encode(value)
        data = markup.encode()
        if codec.assured and codec.regular and envelope.fits_by_count(data, self._bounds):
            return codec.name, data
        element = envelope.read_written(markup, self._bounds, regular=codec.regular)
        if isinstance(element, envelope.Malformed) or not codec.valid_own(element, len(markup)):
            raise ValueError(f"the {type(value).__name__} does not satisfy its schema")
        return codec.name, data

    def _decode(self, kind: type[T], codec: Codec, data: bytes) -> T:
        markup = data.decode()
        element = envelope.read_written(markup, self._bounds, regular=codec.regular)
        if isinstance(element, envelope.Malformed) or not codec.valid_own(element, len(markup)):
            raise ValueError(f"the stored {kind.__name__} does not satisfy its schema")
        try:
            return cast("T", codec.decode(element))
        except (ArithmeticError, LookupError, TypeError, AttributeError) as error:  # of a changed class
            raise ValueError(f"the stored {kind.__name__} cannot be read: {error}") from error

    def _check_room(self, size: int, instead: str = "") -> None:
        """Raise ValueError when a value does not fit in addition to the others, or ``instead`` of one."""
        if self._count_bytes(instead) + size > self._limit:
            raise ValueError(f"a thread stores at most {self._limit} bytes: limits.storage sets that")

    def _build_current(self) -> dict[str, bytes]:
        merged = {**self._stored, **self.changes}
        return {name: data for name, data in merged.items() if data is not None}


class ThreadTodos:
    """Todos of one invocation's thread, and those that it closed."""

    def __init__(self, thread: str, name: str, watchers: tuple[Todo, ...]) -> None:
        self._thread = thread
        self._name = name
        self._watchers = watchers
        self.closed: list[str] = []

    def get_raised_for(self, thread_id: str, own_name: str | None) -> tuple[Todo, ...]:
        """Return the complete, unclosed todos; empty for any thread or name but the running one's.

        A listener that is not an agent passes None as its name.
        """
        if thread_id != self._thread or own_name not in (self._name, None):
            return ()
        return tuple(w for w in self._watchers if w.raised and w.watcher_id not in self.closed)

    def close(self, watcher_id: str) -> bool:
        """Close a todo of this thread; False when it has none by that id."""
        found = any(watcher.watcher_id == watcher_id for watcher in self._watchers)
        if found and watcher_id not in self.closed:
            self.closed.append(watcher_id)
        return found


def collect(storage: ThreadStorage, todos: ThreadTodos) -> Effects:
    """Collect the changes of the invocation."""
    logged = storage.logged
    if not storage.changes and not todos.closed and not logged:
        return NO_EFFECTS
    return Effects(dict(storage.changes), tuple(todos.closed), logged)
