"""The difference between a conversation and the same one a step later, as bytes that can be kept instead of the whole.

Owns the format of it, and how changes are laid over a kept state. Looks only at what a step has changed, so that it
costs the same in a large conversation as in a small one. Refuses to know where they are kept.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agentserver.core.encoding import parts
from agentserver.core.encoding.parts import FORMAT, ORDINAL
from agentserver.core.state.growing.logs import NO_LOGS, ThreadLog
from agentserver.core.state.overlay import differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agentserver.core.encoding.parts import Row
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.growing.logs import Logs
    from agentserver.core.state.requests import OpenRequest
    from agentserver.core.state.threads import Thread

T = TypeVar("T")


class Changes(NamedTuple):
    """The changes of one step.

    Args:
        state: of everything but the values.
        values: everything that is stored by each thread, and remembered by each guard, for which that has changed.
        entries: those that have come to each log that has changed, and what was charged; None for what is gone.
    """

    state: bytes
    values: Mapping[str, Mapping[str, bytes]]
    entries: Mapping[str, Mapping[str, bytes | None]] = MappingProxyType({})


def between(
    before: Conversation, after: Conversation, dump: Callable[[str, object], Mapping[str, bytes]]
) -> Changes:
    """The changes from one version of a conversation to the next. ``dump`` gives the parts of a guard's memory."""
    values: dict[str, Mapping[str, bytes]] = {}
    old, new = before.tree.nodes, after.tree.nodes
    changed, gone = differences(old, new)
    threads = []
    for key in changed:
        node, known = new[key], old.get(key)
        if node.storage is not (None if known is None else known.storage) and (known or node.storage):
            values[f"thread {key}"] = node.storage
        row = parts.thread_row(node) if known is None else _thread(known, node)
        if row:
            threads.append(row)
    values.update({f"thread {key}": {} for key in gone if old[key].storage})
    requests: list[Row] = []
    ended: list[str] = []
    memory: Row | None = None
    if after.requests is not before.requests:
        open_, ended = differences(before.requests, after.requests)
        requests = [_request(before.requests.get(key), after.requests[key]) for key in open_]
    if after.memory is not before.memory:
        memory = parts.memory_row(after)
        memory = None if memory == parts.memory_row(before) else memory
        values.update(_memories(before, after, dump))
    state = (
        FORMAT,
        after.version,
        after.messages,
        after.touched,
        after.closed,
        after.tree.opened,
        threads,
        [old[key].ordinal for key in gone],
        _todos(before, after),
        requests,
        ended,
        memory,
    )
    return Changes(parts.encode(state), values, _logged(before, after, (*changed, *gone)))


def _logged(
    before: Conversation, after: Conversation, threads: Iterable[str]
) -> dict[str, Mapping[str, bytes | None]]:
    """The changes of the logs of some threads, and of what was charged, by the owner and the name of each value."""
    old, new = before.tree.nodes, after.tree.nodes
    changed: dict[str, Mapping[str, bytes | None]] = {
        parts.log_owner(key, kind): {str(number): data for number, data in found.items()}
        for key in threads
        for kind, found in _entries(_logs(old, key), _logs(new, key))
    }
    if after.spending is not before.spending:
        was, now = parts.spending_values(before.spending), parts.spending_values(after.spending)
        charged = {name: data for name, data in now.items() if was.get(name) != data}
        changed[parts.SPENDING] = {**dict.fromkeys(was.keys() - now.keys()), **charged}
    return changed


def _logs(nodes: Mapping[str, Thread], thread: str) -> Logs:
    node = nodes.get(thread)
    return NO_LOGS if node is None else node.logs


def _entries(before: Logs, now: Logs) -> Iterator[tuple[str, Mapping[int, bytes | None]]]:
    """The entries of each log of a thread that have come, and those that are gone."""
    for kind in {**before, **now} if now is not before else ():
        was, log = before.get(kind), now.get(kind)
        if log is not was:
            yield kind, (log or ThreadLog(first=was.numbers().stop if was else 0)).since(was)


def _thread(before: Thread, now: Thread) -> Row:
    """The changed fields of a thread; nothing when only its children or what it stores have changed."""
    fields: dict[str, Any] = {}
    if now.inbox is not before.inbox:
        fields["inbox"] = _queue(before.inbox, now.inbox, parts.inbox_row)
    if now.call != before.call:
        fields["called"] = parts.call_row(now.call)
    if now.refusals != before.refusals:
        fields["refusals"] = now.refusals
    if now.held is not before.held:
        fields["kept"] = _queue(before.held, now.held, parts.held_row)
    if now.approvals is not before.approvals:
        fields["asked"] = _queue(before.approvals, now.approvals, parts.approvals_row)
    if now.allowed != before.allowed:
        fields["allowed"] = parts.allowed_row(now.allowed)
    return (now.ordinal, fields) if fields else ()


def _queue(before: tuple[T, ...], now: tuple[T, ...], rows: Callable[[Iterable[T]], Row]) -> Row:
    """The entries of a queue that are gone, and those that have come to its end.

    Those that are gone are a number, counted from the front, or else their places.
    """
    for gone in (0, 1):
        rest = before[gone:]
        if now[: len(rest)] == rest:
            return gone, rows(now[len(rest) :])
    places: list[int] = []
    for place, one in enumerate(before):
        stays = place - len(places)
        if stays == len(now) or now[stays] != one:
            places.append(place)
    left = len(before) - len(places)
    return (places if left else len(before)), rows(now[left:])


def _request(before: OpenRequest | None, now: OpenRequest) -> Row:
    """A request; without its threads when those are as they were."""
    return now if before is None or before.threads != now.threads else (now[0], *now[2:])


def _todos(before: Conversation, after: Conversation) -> list[Row]:
    if after.todos is before.todos:
        return []
    old, new = before.todos.watchers, after.todos.watchers
    changed, gone = differences(old, new)
    if list(new) != [*(key for key in old if key in new), *(key for key in changed if key not in old)]:
        changed, gone = list(new), list(old)  # a thread had none for a moment, and stands at the end now
    return [*((key, []) for key in gone), *(parts.todo_row(key, new[key]) for key in changed)]


def _memories(
    before: Conversation, after: Conversation, dump: Callable[[str, object], Mapping[str, bytes]]
) -> dict[str, Mapping[str, bytes]]:
    changed, gone = differences(before.memory, after.memory)
    found = {f"guard {key}": dump(key, after.memory[key]) for key in changed if after.memory[key] is not None}
    return {**found, **{f"guard {key}": {} for key in gone}}


_QUEUES = {"inbox": parts.INBOX, "kept": parts.HELD, "asked": parts.APPROVALS}
_FIELDS = {
    "called": parts.CALL,
    "refusals": parts.REFUSALS,
    "allowed": parts.ALLOWED,
}


def applied(fields: list[Any], changes: Iterable[bytes]) -> list[Any]:
    """The fields of a kept state after some steps. Raises ValueError, LookupError or TypeError for other changes."""
    (
        key, principal, version, messages, touched, closed, root, opened, threads, todos, requests, memory, *rights
    ) = fields  # fmt: skip
    nodes = {row[ORDINAL]: row for row in threads}
    watching, pending = dict(todos), {row[0]: row for row in requests}
    for data in changes:
        number, now, *fields = json.loads(data)
        if number != FORMAT or now != version + 1:
            raise ValueError("these are changes to something else")
        version = now
        messages, touched, closed, opened, changed, gone, watched, asked, ended, named = fields
        for one in gone:
            del nodes[one]
        for row in changed:
            if isinstance(row[0], str):
                nodes[row[ORDINAL]] = row
            else:
                nodes[row[0]] = _updated(nodes[row[0]], row[1])
        for thread, watchers in watched:
            if watchers:
                watching[thread] = watchers
            else:
                del watching[thread]
        for one in ended:
            del pending[one]
        for row in asked:
            whole = isinstance(row[1], list)
            pending[row[0]] = row if whole else [row[0], pending[row[0]][1], *row[1:]]
        memory = memory if named is None else named
    threads = list(nodes.values())
    todos, requests = list(watching.items()), list(pending.values())
    return [
        key, principal, version, messages, touched, closed, root, opened, threads, todos, requests, memory, *rights
    ]  # fmt: skip


def _updated(row: Row, fields: Mapping[str, Any]) -> Row:
    now = list(row)
    for name, value in fields.items():
        if name in _QUEUES:
            now[_QUEUES[name]] = _queued(now[_QUEUES[name]], *value)
        else:
            now[_FIELDS[name]] = value
    return now


def _queued(queue: list[Any], gone: int | list[int], come: list[Any]) -> list[Any]:
    if isinstance(gone, int):
        return queue[gone:] + come
    without = set(gone)
    return [one for place, one in enumerate(queue) if place not in without] + come
