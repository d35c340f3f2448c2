"""A conversation in parts that can be kept, and back.

Owns the format of a kept conversation and its version. What waits and what is stored stand beside the state, not in
it: an engine keeps those once and need not write them again with every step. Pure: equal conversations give equal
parts. Refuses to know where the parts are kept.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

from agentserver.core.encoding import detail_form, parts
from agentserver.core.encoding.changes import applied
from agentserver.core.encoding.parts import FORMAT
from agentserver.core.guard import Watchful
from agentserver.core.messages import Question
from agentserver.core.records.details import KeptText
from agentserver.core.state.approvals import Approval
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.growing.logs import NO_LOGS, read
from agentserver.core.state.requests import OpenRequest
from agentserver.core.state.siblings import NO_SIBLINGS, Siblings
from agentserver.core.state.threads import NOTHING, Held, Thread, ThreadTree
from agentserver.core.state.todos import Todo, TodoBook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from agentserver.core.encoding.parts import Row
    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Delivery
    from agentserver.core.state.growing.logs import Logs
    from agentserver.core.state.principals import Trust


_THREADS = 8
"""The index of the threads among the fields after the format."""


class UnreadableError(ValueError):
    """The kept state is of a later version, or not what was written."""


@runtime_checkable
class Remembering(Protocol):
    """A guard with a memory. Its parts are compared by value: one that has not changed is not written again."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""
        ...

    def dump(self, memory: Any) -> Mapping[str, bytes]:
        """The memory in named parts."""
        ...

    def load(self, parts: Mapping[str, bytes]) -> object:
        """The memory of which ``dump`` gave these parts; none are of a conversation that began without the guard."""
        ...


class Snapshot(NamedTuple):
    """A conversation in parts.

    Args:
        state: everything but the other two.
        waiting: the deliveries that are queued or held, by id.
        values: what threads store and guards remember, by owner (``thread ID``, ``log ID KIND``, ``guard NAME``,
            ``spending``) and name; the name of an entry of a log is its number.
        changes: to the state since it was taken, of one step each; what waits and the values are of after the last.
    """

    state: bytes
    waiting: Mapping[str, Delivery]
    values: Mapping[tuple[str, str], bytes]
    changes: Sequence[bytes] = ()


def take(conversation: Conversation, guards: Iterable[CoreGuard] = ()) -> Snapshot:
    """The parts of a conversation. Raises TypeError for the memory of a guard that cannot dump it."""
    waiting = {
        delivery.id: delivery for node in conversation.tree.nodes.values() for delivery in node.waiting()
    }
    return Snapshot(state(conversation), waiting, values(conversation, guards))


def values(conversation: Conversation, guards: Iterable[CoreGuard] = ()) -> dict[tuple[str, str], bytes]:
    """The values of threads, the memories of guards, and the charges.

    Raises TypeError for the memory of a guard that cannot dump it.
    """
    owned: dict[str, Mapping[str, bytes]] = {parts.SPENDING: parts.spending_values(conversation.spending)}
    for node in conversation.tree.nodes.values():
        owned[f"thread {node.id}"] = node.storage
        for kind, log in node.logs.items():
            entries = zip(map(str, log.numbers()), log, strict=True)
            owned[parts.log_owner(node.id, kind)] = dict(entries)
    dump = dumping(guards)
    for name, memory in conversation.memory.items():
        if memory is not None:
            owned[f"guard {name}"] = dump(name, memory)
    return {(owner, name): data for owner, named in owned.items() for name, data in named.items()}


def lasting(conversation: Conversation, guards: Iterable[CoreGuard] = ()) -> dict[tuple[str, str], bytes]:
    """The values that are kept after a step: all of an open conversation, of a closed one what was charged in all.

    Raises TypeError as ``values`` does.
    """
    if not conversation.closed:
        return values(conversation, guards)
    charged = parts.spending_values(conversation.spending)
    return {(parts.SPENDING, name): data for name, data in charged.items() if name == parts.TOTAL}


def state(conversation: Conversation) -> bytes:
    """The state of a conversation: what of its parts is neither waiting nor a value."""
    fields = [
        FORMAT,
        conversation.id,
        conversation.principal,
        conversation.version,
        conversation.messages,
        conversation.touched,
        conversation.closed,
        conversation.tree.root,
        conversation.tree.opened,
        [parts.thread_row(node) for node in conversation.tree.nodes.values()],
        [parts.todo_row(thread, kept) for thread, kept in conversation.todos.watchers.items()],
        list(conversation.requests.values()),
        parts.memory_row(conversation),
        *parts.rights_row(conversation.rights),
    ]
    return parts.encode(fields)


def dumping(guards: Iterable[CoreGuard]) -> Callable[[str, object], Mapping[str, bytes]]:
    """The dump of a guard's memory by its name. It raises TypeError for a guard that has none, or is not there."""
    known = {guard.name: guard for guard in guards}

    def dump(name: str, memory: object) -> Mapping[str, bytes]:
        guard = known.get(name)
        if not _remembers(guard):
            raise TypeError(f"the guard {name} has a memory and cannot dump it")
        return guard.dump(memory)

    return dump


def restore(snapshot: Snapshot, guards: Iterable[CoreGuard] = ()) -> Conversation:
    """The conversation of which ``take`` gave these parts.

    Raises UnreadableError for another format, a part that is missing, and the memory of a guard that is not there.
    """
    with _reading():
        return _restored(_fields(snapshot), snapshot, guards)


def approvals(snapshot: Snapshot) -> tuple[Approval, ...]:
    """The messages that wait for a person, read without the guards of the conversation. Raises UnreadableError."""
    with _reading():
        threads = [_thread(row, snapshot.waiting, {}, {}, {}, {}) for row in _fields(snapshot)[_THREADS]]
        return tuple([one for thread in threads for one in thread.approvals])


@contextmanager
def _reading() -> Iterator[None]:
    """Turn errors of a state that is not as ``take`` writes it into UnreadableError."""
    try:
        yield
    except UnreadableError:
        raise
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        AssertionError,
        RuntimeError,
    ) as error:
        raise UnreadableError(f"the conversation cannot be read: {type(error).__name__}") from error


def _fields(snapshot: Snapshot) -> list[Any]:
    fields: list[Any]
    number, *fields = json.loads(snapshot.state)
    if number != FORMAT:
        raise UnreadableError(f"the conversation was kept in format {number}, this server reads {FORMAT}")
    return applied(fields, snapshot.changes) if snapshot.changes else fields


def _restored(fields: list[Any], snapshot: Snapshot, guards: Iterable[CoreGuard]) -> Conversation:
    (
        key,
        principal,
        version,
        messages,
        touched,
        closed,
        root,
        opened,
        threads,
        watchers,
        requests,
        named,
        *kept_rights,
    ) = fields
    rights = parts.rights_of(*kept_rights)
    owned = by_owner(snapshot.values)
    children = _children(threads)
    begun = {thread: row[0] for row in requests for thread in row[1]}
    logs = _logs(owned)
    nodes = {row[0]: _thread(row, snapshot.waiting, owned, logs, children, begun) for row in threads}
    _check(nodes.values(), {row[0] for row in requests})
    return Conversation(
        id=key,
        principal=principal,
        tree=ThreadTree.of(root, nodes, opened),
        todos=TodoBook({thread: tuple(Todo(*row) for row in kept) for thread, kept in watchers}),
        requests=MappingProxyType({row[0]: OpenRequest(row[0], tuple(row[1]), *row[2:]) for row in requests}),
        messages=messages,
        memory=_remembered(named, owned, tuple(guards), (rights.trust, messages))
        if version
        else MappingProxyType({}),
        version=version,
        touched=touched,
        closed=closed,
        rights=rights,
        spending=parts.spending_of(owned.get(parts.SPENDING, {})),
    )


def _check(nodes: Iterable[Thread], requests: set[str]) -> None:
    """Hold each delivery against where it waits: one that belongs elsewhere would wait for ever."""
    for node in nodes:
        if any(one.thread != node.id or one.request not in requests for one in node.waiting()):
            raise UnreadableError("the conversation cannot be read: a delivery is not what was written")


def _children(rows: Iterable[Row]) -> Mapping[str, Siblings]:
    """The children of each thread that has any, in their order."""
    found: dict[str, list[str]] = {}
    for key, _, parent, *_ in rows:
        found.setdefault(parent, []).append(key)
    return {parent: Siblings(keys) for parent, keys in found.items()}


def _logs(owned: Mapping[str, Mapping[str, bytes]]) -> Mapping[str, Logs]:
    """The logs of each thread that has any."""
    found: dict[str, dict[str, Mapping[int, bytes]]] = {}
    for owner, entries in owned.items():
        log = parts.log_of(owner)
        if log is not None:
            thread, kind = log
            found.setdefault(thread, {})[kind] = {int(number): data for number, data in entries.items()}
    return {thread: read(kinds) for thread, kinds in found.items()}


def _thread(
    row: Row,
    waiting: Mapping[str, Delivery],
    owned: Mapping[str, Mapping[str, bytes]],
    logs: Mapping[str, Logs],
    children: Mapping[str, Siblings],
    begun: Mapping[str, str],
) -> Thread:
    key, owner, parent, ordinal, call, inbox, held, refusals, approvals, allowed = row
    return Thread(
        key,
        owner,
        parent,
        ordinal,
        parts.call_of(call),
        children.get(key, NO_SIBLINGS),
        tuple(waiting[one]._replace(attempt=attempt) for one, attempt in inbox),
        tuple(Held(watcher, waiting[one]._replace(attempt=attempt)) for watcher, one, attempt in held),
        refusals,
        owned.get(f"thread {key}", NOTHING),
        logs.get(key, NO_LOGS),
        tuple(
            Approval(one, waiting[delivery], tuple(_question(*each) for each in questions), at, digest)
            for one, delivery, questions, at, digest in approvals
        ),
        None if allowed is None else frozenset(allowed),
        begun.get(key, ""),
    )


def _question(guard: str, why: Any, about: Iterable[str]) -> Question:
    return Question(guard, detail_form.load(why) or KeptText(""), tuple(about))


def by_owner(values: Mapping[tuple[str, str], bytes]) -> dict[str, dict[str, bytes]]:
    """Values by the name of each, by owner."""
    owned: dict[str, dict[str, bytes]] = {}
    for (owner, name), value in values.items():
        owned.setdefault(owner, {})[name] = value
    return owned


def _remembered(
    named: list[tuple[str, bool]],
    owned: Mapping[str, Mapping[str, bytes]],
    guards: tuple[CoreGuard, ...],
    heard: tuple[Trust, int],
) -> Mapping[str, object]:
    known = {guard.name: guard for guard in guards}
    memory: dict[str, object] = {}
    for name, remembers in named:
        if not remembers:
            memory[name] = None
            continue
        guard = known.get(name)
        # A rule that remembers and is gone would be a rule that is silently off.
        if not _remembers(guard):
            raise UnreadableError(f"the conversation was kept under the guard {name}, which is not there")
        memory[name] = guard.load(owned.get(f"guard {name}", {}))
    # What a rule has not seen must not count as never said.
    later = [guard for guard in guards if guard.name not in memory]
    memory.update({guard.name: _late(guard, *heard) for guard in later if _remembers(guard)})
    return MappingProxyType(memory)


def with_later(conversation: Conversation, guards: Iterable[CoreGuard]) -> Conversation:
    """The conversation under guards of which some may have come later than it, as ``restore`` would give it."""
    later = [guard for guard in guards if guard.name not in conversation.memory and _remembers(guard)]
    if not later or not conversation.version:  # one without a step opens under the guards of its first
        return conversation
    heard = conversation.rights.trust, conversation.messages
    added = {guard.name: _late(guard, *heard) for guard in later}
    return conversation._replace(memory=MappingProxyType({**conversation.memory, **added}))


def lost(before: Iterable[CoreGuard], after: Iterable[CoreGuard]) -> tuple[str, ...]:
    """The guards with a memory that are not there any more: they would be off for conversations kept under them."""
    return tuple(sorted(remembering(before) - remembering(after)))


def remembering(guards: Iterable[CoreGuard]) -> frozenset[str]:
    """The names of the guards that have a memory."""
    return frozenset(guard.name for guard in guards if _remembers(guard))


def _late(guard: Remembering, trust: Trust, messages: int) -> object:
    """Begin the memory of a guard that came after so many messages of the conversation."""
    if not isinstance(guard, Watchful):
        return guard.load({})
    return guard.missed(guard.opened(trust)) if messages else guard.opened(trust)


def _remembers(guard: object) -> TypeGuard[Remembering]:
    return isinstance(guard, Remembering)
