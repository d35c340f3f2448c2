"""Encoded differences between a conversation and its next version.

The cost depends on what a step changed, not on the size of the conversation.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from agentserver.core.encoding import parts
from agentserver.core.encoding.codecs import derive_stored
from agentserver.core.encoding.parts import (
    StoredApproval,
    StoredDelay,
    StoredDelivery,
    StoredMemory,
    StoredParts,
    StoredThread,
    StoredTodos,
)
from agentserver.core.state.logs import NO_LOGS, ThreadLog
from agentserver.core.state.overlay import differences
from agentserver.core.state.requests import OpenRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agentserver.codec import ValueCodec
    from agentserver.core.messages import Call
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.logs import Logs
    from agentserver.core.state.threads import Thread

T = TypeVar("T")
K = TypeVar("K")


_new = tuple.__new__


class ThreadChange(NamedTuple):
    """Changed fields of a thread; None for unchanged ones.

    Args:
        ordinal: of the thread.
        inbox: the removed entries, as a number from the front or by their places, and the appended ones.
        call: as of the thread, and so are the others; ``held_deliveries``, ``approvals`` and ``delayed`` are as
            ``inbox``.
        allowed: in a tuple of one, since None is a value of it.
    """

    ordinal: int
    inbox: tuple[int | tuple[int, ...], tuple[StoredDelivery, ...]] | None = None
    call: Call | None = None
    refusals: int | None = None
    held_deliveries: tuple[int | tuple[int, ...], tuple[StoredDelivery, ...]] | None = None
    approvals: tuple[int | tuple[int, ...], tuple[StoredApproval, ...]] | None = None
    delayed: tuple[int | tuple[int, ...], tuple[StoredDelay, ...]] | None = None
    allowed: tuple[frozenset[str] | None] | None = None


class RequestChange(NamedTuple):
    """Change of a request with the same threads; the fields are those of ``OpenRequest``."""

    id: str
    pending: int = 0
    held_count: int = 0
    answered: bool = False
    messages: int = 0


class StateChange(NamedTuple):
    """Changes of one step to a ``StoredParts``.

    Args:
        threads: the changed ones.
        opened_threads: new threads.
        closed_threads: ordinals of closed threads.
        requests: changed ones with the same threads.
        full_requests: new requests, and requests with other threads than before.
        ended_requests: ids of ended requests.
        todos: of each thread whose todos changed; empty to remove them.
        memory: of the guards, if changed.
    """

    version: int
    messages: int
    touched: float
    closed: bool
    opened: int
    threads: tuple[ThreadChange, ...] = ()
    requests: tuple[RequestChange, ...] = ()
    opened_threads: tuple[StoredThread, ...] = ()
    full_requests: tuple[OpenRequest, ...] = ()
    ended_requests: tuple[str, ...] = ()
    closed_threads: tuple[int, ...] = ()
    todos: tuple[StoredTodos, ...] = ()
    memory: tuple[StoredMemory, ...] | None = None


CHANGE: Final[ValueCodec[StateChange]] = derive_stored(
    StateChange,
    {
        one.__name__: one
        for one in (StoredApproval, StoredDelay, StoredDelivery, StoredMemory, StoredThread, StoredTodos)
    },
)


class Changes(NamedTuple):
    """Encoded changes of one step.

    Args:
        state: everything except the values.
        values: all values of each thread and guard with a change.
        entries: new log entries and changed charges; None for removed ones.
    """

    state: bytes
    values: Mapping[str, Mapping[str, bytes]]
    entries: Mapping[str, Mapping[str, bytes | None]] = MappingProxyType({})


def encode_diff(
    before: Conversation, after: Conversation, dump: Callable[[str, object], Mapping[str, bytes]]
) -> Changes:
    """Encode the changes between two versions of a conversation. ``dump`` encodes a guard's memory in parts."""
    values: dict[str, Mapping[str, bytes]] = {}
    entries: dict[str, Mapping[str, bytes | None]] = {}
    old, new = before.tree.nodes, after.tree.nodes
    changed, removed = differences(old, new)
    threads, begun = [], []
    for key in changed:
        node, previous = new[key], old.get(key)
        if node.storage is not (None if previous is None else previous.storage) and (
            previous or node.storage
        ):
            values[f"thread {key}"] = node.storage
        was = NO_LOGS if previous is None else previous.logs
        if node.logs is not was:
            entries.update(_encode_diff_logs(key, was, node.logs))
        if previous is None:
            begun.append(parts.to_stored_thread(node))
        else:
            change = _find_thread(previous, node)
            if change is not None:
                threads.append(change)
    for key in removed:
        entries.update(_encode_diff_logs(key, old[key].logs, NO_LOGS))
    values.update({f"thread {key}": {} for key in removed if old[key].storage} if removed else {})
    for owner, place, _, _, encode_diff_of, _ in parts.VALUE_GROUPS:
        if after[place] is not before[place]:
            entries[owner] = encode_diff_of(before[place], after[place])
    memory = None
    if after.memory is not before.memory:
        now = parts.list_stored_memory(after)
        memory = None if now == parts.list_stored_memory(before) else now
        values.update(_build_memories(before, after, dump))
    requests, asking, ended = _requests(before.requests, after.requests)
    ordinals = tuple([old[key].ordinal for key in removed]) if removed else ()
    todos = () if after.todos is before.todos else _collect_todos(before, after)
    counts = after.version, after.messages, after.touched, after.closed, after.tree.opened
    lists = tuple(threads), requests, tuple(begun), asking, ended, ordinals, todos, memory
    state = _new(StateChange, (*counts, *lists))
    return _new(Changes, (CHANGE.dump(state), values, entries))


def _encode_diff_logs(thread: str, before: Logs, now: Logs) -> dict[str, Mapping[str, bytes | None]]:
    """Encode the new and the removed entries of each log of a thread, by owner and name."""
    changed: dict[str, Mapping[str, bytes | None]] = {}
    for kind in {**before, **now}:
        was, log = before.get(kind), now.get(kind)
        if log is not was:
            found = (log or ThreadLog(first=was.numbers().stop if was else 0)).find_diff(was)
            changed[parts.log_owner(thread, kind)] = {str(number): data for number, data in found.items()}
    return changed


def _find_thread(before: Thread, now: Thread) -> ThreadChange | None:
    """Return the changed fields of a thread; None when only its children or values changed."""
    approvals = None
    if now.approvals is not before.approvals:
        approvals = _queue(before.approvals, now.approvals, parts.to_stored_approvals)
    change = _new(
        ThreadChange,
        (
            now.ordinal,
            None if now.inbox is before.inbox else _queue(before.inbox, now.inbox, parts.to_stored_inbox),
            None if now.call == before.call else parts.to_stored_call(now.call),
            None if now.refusals == before.refusals else now.refusals,
            None
            if now.held_deliveries is before.held_deliveries
            else _queue(before.held_deliveries, now.held_deliveries, parts.to_stored_held),
            approvals,
            None
            if now.delayed is before.delayed
            else _queue(before.delayed, now.delayed, parts.to_stored_delayed),
            None if now.allowed == before.allowed else (now.allowed,),
        ),
    )
    return None if change[1:] == _SAME else change


_SAME: Final = (None,) * (len(ThreadChange._fields) - 1)
"""The fields of an unchanged thread."""


def _queue(
    before: tuple[T, ...], now: tuple[T, ...], keep: Callable[[Iterable[T]], tuple[K, ...]]
) -> tuple[int | tuple[int, ...], tuple[K, ...]]:
    """Return the removed entries of a queue and the appended ones.

    The removed ones are a number from the front, or else their places.
    """
    for removed in (0, 1):
        rest = before[removed:]
        if now[: len(rest)] == rest:
            come = now[len(rest) :]
            return removed, keep(come) if come else ()
    places: list[int] = []
    for place, one in enumerate(before):
        stays = place - len(places)
        if stays == len(now) or now[stays] != one:
            places.append(place)
    remaining = len(before) - len(places)
    return (tuple(places) if remaining else len(before)), keep(now[remaining:])


def _requests(
    before: Mapping[str, OpenRequest], after: Mapping[str, OpenRequest]
) -> tuple[tuple[RequestChange, ...], tuple[OpenRequest, ...], tuple[str, ...]]:
    """Return the changes of requests as ``StateChange`` has them: changed ones, new ones, and ended ones."""
    if after is before:
        return (), (), ()
    changed, ended = differences(before, after)
    requests, asking = [], []
    for key in changed:
        now, previous = after[key], before.get(key)
        if previous is not None and previous.threads == now.threads:
            requests.append(_new(RequestChange, (key, *now[2:])))
        else:
            asking.append(now)
    return tuple(requests), tuple(asking), tuple(ended)


def _collect_todos(before: Conversation, after: Conversation) -> tuple[StoredTodos, ...]:
    old, new = before.todos.watchers, after.todos.watchers
    changed, removed = differences(old, new)
    if list(new) != [*(key for key in old if key in new), *(key for key in changed if key not in old)]:
        changed, removed = list(new), list(old)  # a thread lost its todos and got new ones: it is last now
    return (*map(StoredTodos, removed), *(StoredTodos(key, tuple(new[key])) for key in changed))


def _build_memories(
    before: Conversation, after: Conversation, dump: Callable[[str, object], Mapping[str, bytes]]
) -> dict[str, Mapping[str, bytes]]:
    changed, removed = differences(before.memory, after.memory)
    found = {f"guard {key}": dump(key, after.memory[key]) for key in changed if after.memory[key] is not None}
    return {**found, **{f"guard {key}": {} for key in removed}}


def apply_changes(state: StoredParts, changes: Iterable[bytes]) -> StoredParts:
    """Apply the changes of some steps. Raises ValueError or LookupError when they do not fit the state."""
    nodes = {one.ordinal: one for one in state.threads}
    todos = {one.thread: one for one in state.todos}
    requests = {one.id: one for one in state.requests}
    for data in changes:
        change = CHANGE.load(data)
        if change.version != state.version + 1:
            raise ValueError("these are changes to something else")
        version, messages, touched, closed, opened, *_ = change
        state = state._replace(
            version=version, messages=messages, touched=touched, closed=closed, opened=opened
        )
        for ordinal in change.closed_threads:
            del nodes[ordinal]
        for thread in change.threads:
            nodes[thread.ordinal] = _update_thread(nodes[thread.ordinal], thread)
        nodes.update((one.ordinal, one) for one in change.opened_threads)
        for watched in change.todos:
            if watched.todos:
                todos[watched.thread] = watched
            else:
                del todos[watched.thread]
        for key in change.ended_requests:
            del requests[key]
        for one in change.requests:
            requests[one.id] = OpenRequest(one.id, requests[one.id].threads, *one[1:])
        requests.update((one.id, one) for one in change.full_requests)
        if change.memory is not None:
            state = state._replace(memory=change.memory)
    return state._replace(
        threads=tuple(nodes.values()), todos=tuple(todos.values()), requests=tuple(requests.values())
    )


def _update_thread(before: StoredThread, change: ThreadChange) -> StoredThread:
    """Apply the fields that are not None."""
    fields: dict[str, Any] = {name: one for name, one in change._asdict().items() if one is not None}
    for name in fields.keys() & {"inbox", "held_deliveries", "approvals", "delayed"}:
        fields[name] = _update_queue(getattr(before, name), *fields[name])
    if change.allowed is not None:
        (fields["allowed"],) = change.allowed
    return before._replace(**fields)


def _update_queue(queue: tuple[T, ...], removed: int | tuple[int, ...], come: tuple[T, ...]) -> tuple[T, ...]:
    if isinstance(removed, int):
        return queue[removed:] + come
    without = set(removed)
    return tuple([one for place, one in enumerate(queue) if place not in without]) + come
