"""Codec of conversations as parts: state, waiting deliveries, values.

Deliveries and values are separate from the state, so that an engine need not write them again with every step. Equal
conversations have equal parts, but for a guard's log: its lines are grouped as it was stored.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

from agentserver.core.encoding import parts
from agentserver.core.encoding.changes import apply_changes
from agentserver.core.encoding.codecs import UnreadableError
from agentserver.core.guard import WatchfulGuard
from agentserver.core.state.approvals import Approval
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.logs import NO_LOGS, read_logs
from agentserver.core.state.siblings import list_children
from agentserver.core.state.threads import (
    NOTHING,
    DelayedDelivery,
    HeldDelivery,
    Thread,
    ThreadTree,
    list_timers,
)
from agentserver.core.state.todos import TodoBook

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from agentserver.core.encoding.parts import StoredDelivery, StoredMemory, StoredParts, StoredThread
    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Delivery
    from agentserver.core.state.logs import Logs
    from agentserver.core.state.principals import Trust
    from agentserver.core.state.siblings import Children


__all__ = ["Snapshot", "UnreadableError", "restore", "take"]


@runtime_checkable
class MemoryKeeper(Protocol):
    """Guard with a memory. Its parts are compared by value, and unchanged ones are not written again."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    def dump(self, memory: Any) -> Mapping[str, bytes]:
        """Encode the memory in named parts."""

    def load(self, parts: Mapping[str, bytes]) -> object:
        """Decode the parts from ``dump``; they are empty if the conversation began without the guard."""


class Snapshot(NamedTuple):
    """Parts of a conversation.

    Args:
        state: everything but the other two.
        deliveries: the deliveries that are queued or held, by id.
        values: what threads store and guards remember, by owner (``thread ID``, ``log ID KIND``, ``guard NAME``,
            and those of ``VALUE_GROUPS``) and name; the name of an entry of a log is its number.
        changes: to the state, one per step; deliveries and values are as of the last one.
    """

    state: bytes
    deliveries: Mapping[str, Delivery]
    values: Mapping[tuple[str, str], bytes]
    changes: Sequence[bytes] = ()


def take(conversation: Conversation, guards: Iterable[CoreGuard] = ()) -> Snapshot:
    """Encode a conversation. Raises TypeError for a guard that cannot dump its memory."""
    waiting = {
        delivery.id: delivery for node in conversation.tree.nodes.values() for delivery in node.list_waiting()
    }
    return Snapshot(encode_state(conversation), waiting, encode_values(conversation, guards))


def encode_values(
    conversation: Conversation, guards: Iterable[CoreGuard] = ()
) -> dict[tuple[str, str], bytes]:
    """Encode the values of threads, the memories of guards, and the value groups.

    Raises TypeError for a guard that cannot dump its memory.
    """
    owned: dict[str, Mapping[str, bytes]] = {
        group.owner: group.encode(conversation[group.place]) for group in parts.VALUE_GROUPS
    }
    for node in conversation.tree.nodes.values():
        owned[f"thread {node.id}"] = node.storage
        for kind, log in node.logs.items():
            entries = zip(map(str, log.numbers()), log, strict=True)
            owned[parts.log_owner(node.id, kind)] = dict(entries)
    dump = make_memory_dumper(guards)
    for name, memory in conversation.memory.items():
        if memory is not None:
            owned[f"guard {name}"] = dump(name, memory)
    return {(owner, name): data for owner, named in owned.items() for name, data in named.items()}


def encode_durable_values(
    conversation: Conversation, guards: Iterable[CoreGuard] = ()
) -> dict[tuple[str, str], bytes]:
    """Encode the values to store after a step.

    Those of an open conversation are all its values, those of a closed one what outlives it. Raises TypeError as
    ``encode_values`` does.
    """
    if not conversation.closed:
        return encode_values(conversation, guards)
    return {
        (group.owner, name): data
        for group in parts.VALUE_GROUPS
        for name, data in group.encode_closed(conversation[group.place]).items()
    }


def encode_state(conversation: Conversation) -> bytes:
    """Encode the state of a conversation, without deliveries and values."""
    return parts.STATE.dump(parts.to_stored_state(conversation))


def make_memory_dumper(guards: Iterable[CoreGuard]) -> Callable[[str, object], Mapping[str, bytes]]:
    """Return a function that dumps a guard's memory. It raises TypeError for a missing guard or one without memory."""
    by_name = {guard.name: guard for guard in guards}

    def dump(name: str, memory: object) -> Mapping[str, bytes]:
        guard = by_name.get(name)
        if not _remembers(guard):
            raise TypeError(f"the guard {name} has a memory and cannot dump it")
        return guard.dump(memory)

    return dump


def restore(snapshot: Snapshot, guards: Iterable[CoreGuard] = ()) -> Conversation:
    """Decode the output of ``take``.

    Raises UnreadableError for another format, a missing part, and the memory of a missing guard.
    """
    with _wrap_errors():
        return _restore(_read_state(snapshot), snapshot, guards)


def read_approvals(snapshot: Snapshot) -> tuple[Approval, ...]:
    """Read the messages that wait for a person; needs no guards. Raises UnreadableError."""
    with _wrap_errors():
        threads = [
            _read_thread(one, snapshot.deliveries, {}, {}, {}, {}) for one in _read_state(snapshot).threads
        ]
        return tuple([one for thread in threads for one in thread.approvals])


@contextmanager
def _wrap_errors() -> Iterator[None]:
    """Turn errors of a damaged state into UnreadableError."""
    try:
        yield
    except UnreadableError:
        raise
    except (LookupError, ValueError, AssertionError, RuntimeError) as error:
        raise UnreadableError(f"the conversation cannot be read: {error!r}") from error


def _read_state(snapshot: Snapshot) -> StoredParts:
    whole = parts.STATE.load(snapshot.state)
    return apply_changes(whole, snapshot.changes) if snapshot.changes else whole


def _restore(state: StoredParts, snapshot: Snapshot, guards: Iterable[CoreGuard]) -> Conversation:
    owned = group_by_owner(snapshot.values)
    children = _map_children(state.threads)
    begun = {thread: one.id for one in state.requests for thread in one.threads}
    logs = _map_logs(owned)
    nodes = {
        one.id: _read_thread(one, snapshot.deliveries, owned, logs, children, begun) for one in state.threads
    }
    requests = {one.id: one for one in state.requests}
    _check(nodes.values(), requests.keys())
    memory: Mapping[str, object] = MappingProxyType({})
    if state.version:
        basis = state.rights.trust, state.messages
        memory = _restore_memory(state.memory, owned, tuple(guards), basis)
    return Conversation(
        id=state.id,
        principal=state.principal,
        tree=ThreadTree.build(state.root, nodes, state.opened),
        todos=TodoBook({one.thread: one.todos for one in state.todos}),
        requests=MappingProxyType(requests),
        messages=state.messages,
        memory=memory,
        version=state.version,
        touched=state.touched,
        closed=state.closed,
        rights=state.rights,
        timers=list_timers(nodes.values()),
        **{
            Conversation._fields[group.place]: group.decode(owned.get(group.owner, {}))
            for group in parts.VALUE_GROUPS
        },
    )


def _check(nodes: Iterable[Thread], requests: Collection[str]) -> None:
    """Check that each delivery waits on its own thread: elsewhere it would never be handled."""
    for node in nodes:
        if any(one.thread != node.id or one.request not in requests for one in node.list_waiting()):
            raise UnreadableError("the conversation cannot be read: a delivery is damaged")


def _map_children(threads: Iterable[StoredThread]) -> Mapping[str, Children]:
    """Map each thread to its children, in order."""
    found: dict[str, list[str]] = {}
    for one in threads:
        if one.parent is not None:
            found.setdefault(one.parent, []).append(one.id)
    return {parent: list_children(keys) for parent, keys in found.items()}


def _map_logs(owned: Mapping[str, Mapping[str, bytes]]) -> Mapping[str, Logs]:
    """Map each thread to its logs."""
    found: dict[str, dict[str, Mapping[int, bytes]]] = {}
    for owner, entries in owned.items():
        log = parts.log_of(owner)
        if log is not None:
            thread, kind = log
            found.setdefault(thread, {})[kind] = {int(number): data for number, data in entries.items()}
    return {thread: read_logs(kinds) for thread, kinds in found.items()}


def _read_thread(
    one: StoredThread,
    waiting: Mapping[str, Delivery],
    owned: Mapping[str, Mapping[str, bytes]],
    logs: Mapping[str, Logs],
    children: Mapping[str, Children],
    begun: Mapping[str, str],
) -> Thread:
    def delivery(place: StoredDelivery) -> Delivery:
        return waiting[place.id]._replace(attempt=place.attempt)

    return Thread(
        one.id,
        one.owner,
        one.parent,
        one.ordinal,
        one.call,
        children.get(one.id, ()),
        tuple(map(delivery, one.inbox)),
        tuple([HeldDelivery(each.watcher, delivery(each)) for each in one.held_deliveries]),
        one.refusals,
        owned.get(f"thread {one.id}", NOTHING),
        logs.get(one.id, NO_LOGS),
        tuple([Approval(each.id, waiting[each.delivery], *each[2:]) for each in one.approvals]),
        tuple([DelayedDelivery(each.due_at, waiting[each.delivery]) for each in one.delayed]),
        one.allowed,
        begun.get(one.id, ""),
    )


def group_by_owner(values: Mapping[tuple[str, str], bytes]) -> dict[str, dict[str, bytes]]:
    """Group values by owner and name."""
    owned: dict[str, dict[str, bytes]] = {}
    for (owner, name), value in values.items():
        owned.setdefault(owner, {})[name] = value
    return owned


def _restore_memory(
    named: Iterable[StoredMemory],
    owned: Mapping[str, Mapping[str, bytes]],
    guards: tuple[CoreGuard, ...],
    basis: tuple[Trust, int],
) -> Mapping[str, object]:
    by_name = {guard.name: guard for guard in guards}
    memory: dict[str, object] = {}
    for name, remembers in named:
        if not remembers:
            memory[name] = None
            continue
        guard = by_name.get(name)
        # A missing guard with a memory would be a rule that is silently off.
        if not _remembers(guard):
            raise UnreadableError(f"the conversation was kept under the guard {name}, which is not there")
        memory[name] = guard.load(owned.get(f"guard {name}", {}))
    # A guard must know that it missed the earlier messages.
    added = [guard for guard in guards if guard.name not in memory]
    memory.update({guard.name: _start_late(guard, *basis) for guard in added if _remembers(guard)})
    return MappingProxyType(memory)


def add_new_guards(conversation: Conversation, guards: Iterable[CoreGuard]) -> Conversation:
    """Add the memories of guards that are newer than the conversation, as ``restore`` does."""
    new_guards = [guard for guard in guards if guard.name not in conversation.memory and _remembers(guard)]
    if not new_guards or not conversation.version:  # one without a step opens under the guards of its first
        return conversation
    basis = conversation.rights.trust, conversation.messages
    added = {guard.name: _start_late(guard, *basis) for guard in new_guards}
    return conversation._replace(memory=MappingProxyType({**conversation.memory, **added}))


def find_lost_guards(before: Iterable[CoreGuard], after: Iterable[CoreGuard]) -> tuple[str, ...]:
    """Name the guards with a memory that are missing now: their conversations cannot be restored."""
    return tuple(sorted(find_memory_keepers(before) - find_memory_keepers(after)))


def find_memory_keepers(guards: Iterable[CoreGuard]) -> frozenset[str]:
    """Name the guards that have a memory."""
    return frozenset(guard.name for guard in guards if _remembers(guard))


def _start_late(guard: MemoryKeeper, trust: Trust, messages: int) -> object:
    """Open the memory of a guard that was added after ``messages`` messages."""
    if not isinstance(guard, WatchfulGuard):
        return guard.load({})
    return guard.miss(guard.begin(trust)) if messages else guard.begin(trust)


def _remembers(guard: object) -> TypeGuard[MemoryKeeper]:
    return isinstance(guard, MemoryKeeper)
