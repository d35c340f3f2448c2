"""Overviews of a running server for ``agentserver top``, sent over a Unix socket next to its journal.

An overview names conversations, queues, handlers, refusals and approvals, never the content of a message. Connections
cannot delay the server.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
import time
from collections import deque
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from anyio.to_thread import run_sync

from agentserver.characters.printing import format_amount
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING, format_second
from agentserver.gateways.hosts import ServerView
from agentserver.ports.servers import STATES
from agentserver.supervision import EndEffect, start_errand, start_helper
from agentserver.trace.terminal import Style

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports.records import Records
    from agentserver.trace.terminal import Line

LAST = 20
"""Refusals in an overview: the latest."""

_BAD = frozenset({Event.REFUSED, Event.FAILED, Event.WITHDRAWN})


class TopHost(ServerView, Protocol):
    """The part of a server that an overview needs."""

    def running(self) -> frozenset[str]:
        """List the threads whose handlers run."""


class Overviews:
    """Makes overviews of a server, whose refusals it notes from its beginning on.

    Args:
        host: the server.
        name: the organism's.
        redact: takes secrets out of a text.
        now: seconds since the epoch.
    """

    def __init__(
        self, host: TopHost, name: str, redact: Callable[[str], str], now: Callable[[], float]
    ) -> None:
        self._host = host
        self._name = name
        self._redact = redact
        self._now = now
        self._refused: deque[AuditRecord] = deque(maxlen=LAST)
        self.stop = host.stream.attach(self._note)

    def _note(self, records: Records) -> None:
        self._refused.extend(record for record in records if record.event in _BAD)

    def describe_overview(self) -> dict[str, Any]:
        """Describe the current state of the server."""
        running = self._host.running()
        known = map(self._host.conversation, reversed(self._host.trace.conversations()))
        at_work = [each for each in known if each is not None]
        return {
            "at": self._now(),
            "organism": self._name,
            "conversations": [_build_conversation(each, running) for each in at_work],
            "listeners": [
                {"name": name, "waiting": waiting, "running": running}
                for name, (waiting, running) in self._host.queues().items()
            ],
            "running": [row for each in at_work for row in self._list_running(each, running)],
            "refusals": [self._build_refusal(each) for each in reversed(self._refused)],
            "approvals": list(map(_build_approval, self._host.approvals())),
            "server": STATES.plain(self._host.describe_itself()),
        }

    def _list_running(self, conversation: Conversation, running: frozenset[str]) -> Iterator[dict[str, Any]]:
        threads = (each for each in conversation.tree.nodes.values() if each.inbox and each.id in running)
        heads = {thread.inbox[0].id: thread.inbox[0] for thread in threads}
        sent = {
            record.delivery: record.at
            for record in self._host.trace.list_records(conversation.id)
            if record.event is Event.SENT and record.delivery in heads
        }
        for key, head in heads.items():
            yield {
                "listener": head.to,
                "sender": head.sender,
                "conversation": conversation.id,
                "since": sent.get(key),
                "attempt": head.attempt + 1,
            }

    def _build_refusal(self, record: AuditRecord) -> dict[str, Any]:
        return {
            "at": record.at,
            "event": str(record.event),
            "sender": record.sender,
            "to": record.to,
            "code": record.code,
            "why": self._redact(WORDING.first(record.detail)),
            "conversation": record.conversation,
        }


def _build_conversation(one: Conversation, running: frozenset[str]) -> dict[str, Any]:
    threads = one.tree.nodes.values()
    at_work = sum(thread.id in running for thread in threads)
    return {
        "id": one.id,
        "principal": one.principal,
        "messages": one.messages,
        "requests": len(one.requests),
        "running": at_work,
        "queued": sum(len(thread.inbox) for thread in threads) - at_work,
        "approvals": len(one.approvals()),
        "timers": len(one.timers),
        "due": one.timers[0].due_at if one.timers else None,
    }


def _build_approval(one: Approval) -> dict[str, Any]:
    return {
        "id": one.id,
        "at": one.at,
        "sender": one.delivery.sender,
        "to": one.delivery.to,
        "conversation": one.delivery.conversation,
    }


SUFFIX: Final = ".top"
_NAME: Final = 60
"""Bytes of a file's name in that of its socket; a longer one is replaced by its hash."""

_CREDENTIALS: Final = struct.Struct("3i")


def find_socket_path(path: Path, pid: int) -> Path:
    """Return the socket's path for a server process, given the path of its journal, or of its YAML if it keeps none."""
    return path.parent / f"{_stem(path)}.{pid}{SUFFIX}"


def _stem(path: Path) -> str:
    named = len(os.fsencode(path.name)) <= _NAME
    return path.name if named else sha256(os.fsencode(path.name)).hexdigest()[:32]


def find_servers(path: Path) -> dict[int, socket.socket]:
    """Connect to each server of a journal or YAML, by process id. Raises PermissionError at another user's server."""
    found: dict[int, socket.socket] = {}
    with ExitStack() as closing:
        for place, pid in _list_sockets(path):
            with suppress(FileNotFoundError, ConnectionRefusedError):  # it was killed, or ends just now
                found[pid] = closing.enter_context(connect(place))
        closing.pop_all()
    return found


def _list_sockets(path: Path) -> list[tuple[Path, int]]:
    start = f"{_stem(path)}."
    own = (each for each in path.parent.glob(f"*{SUFFIX}") if each.name.startswith(start))
    numbers = ((each, each.name.removeprefix(start).removesuffix(SUFFIX)) for each in own)
    return sorted((each, int(pid)) for each, pid in numbers if pid.isdecimal())


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """Yield a short path of a folder, however long its own is, if the system has one."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"/proc/self/fd/{descriptor}"
        yield short if Path(short).is_dir() else str(folder)
    finally:
        os.close(descriptor)


def listen_for_readers(path: Path) -> tuple[socket.socket, Path]:
    """Open the listening socket of this process for a journal or YAML, and remove those of killed processes.

    It has its mode before it has its name: no other user can reach it in between. Raises OSError on failure.
    """
    place = find_socket_path(path, os.getpid())
    for other, _ in _list_sockets(path):
        try:
            connect(other).close()
        except ConnectionRefusedError:
            other.unlink(missing_ok=True)
        except OSError:
            continue
        else:
            if other == place:  # process ids repeat in containers that share a folder
                raise OSError(f"{place}: another server listens here")
    with ExitStack() as closing:
        found = closing.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        with _short(path.parent) as short:
            unfinished = Path(short, f".{os.getpid()}{SUFFIX}")
            unfinished.unlink(missing_ok=True)
            os.fchmod(found.fileno(), 0o600)  # Linux gives the file this mode
            found.bind(str(unfinished))
            unfinished.chmod(0o600)
            found.listen(8)
            found.setblocking(False)
            unfinished.rename(Path(short, place.name))
        closing.pop_all()
        return found, place


def connect(path: Path) -> socket.socket:
    """Connect to the server at a path. Raises OSError without a listening server of this user."""
    with ExitStack() as closing:
        found = closing.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        with _short(path.parent) as short:
            found.connect(f"{short}/{path.name}")
        if not own(found):
            raise PermissionError(f"{path}: another user's server")
        closing.pop_all()
        return found


def own(peer: socket.socket) -> bool:
    """Tell whether the other end runs as the same user or root; True if the system cannot tell."""
    kind = getattr(socket, "SO_PEERCRED", None)
    if kind is None:
        return True
    _, user, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, kind, _CREDENTIALS.size))
    return user in {0, os.geteuid()}


EVERY = 1.0
"""Seconds between two overviews."""

READERS = 8
"""Connections at once; a further one is closed."""

logger = logging.getLogger("agentserver.top")


@asynccontextmanager
async def serve_overviews(overviews: Overviews, path: Path, every: float = EVERY) -> AsyncIterator[None]:
    """Serve overviews next to ``path`` while the context lasts; on failure, the server runs without them."""
    try:
        listening, place = await run_sync(listen_for_readers, path)
    except OSError as error:
        logger.info("agentserver top cannot follow this server: %s", error)
        try:
            yield
        finally:
            overviews.stop()
        return
    try:
        async with anyio.create_task_group() as tasks:
            serve = partial(_Readers(overviews, every).serve, listening)
            start_helper(tasks, "shows the server to agentserver top", EndEffect.RESTART, serve)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
    finally:
        overviews.stop()
        listening.close()
        with anyio.CancelScope(shield=True):
            await run_sync(partial(place.unlink, missing_ok=True))


class _Readers:
    """Connections that receive overviews."""

    def __init__(self, overviews: Overviews, every: float) -> None:
        self._overviews = overviews
        self._interval = every
        self._count = 0

    async def serve(self, listening: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        async with anyio.create_task_group() as tasks:
            while True:
                peer, _ = await loop.sock_accept(listening)
                peer.setblocking(False)
                if self._count >= READERS or not own(peer):
                    peer.close()
                    continue
                self._count += 1
                start_errand(
                    tasks, "shows the server to a reader", EndEffect.OWNER, partial(self._tell, peer)
                )

    async def _tell(self, peer: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with peer, suppress(OSError):
            try:
                while True:
                    line = json.dumps(self._overviews.describe_overview()) + "\n"
                    await loop.sock_sendall(peer, line.encode())
                    await anyio.sleep(self._interval)
            finally:
                self._count -= 1


ROWS = 10
"""Rows of a part that are shown; the others are counted."""


def format_lines(overview: Mapping[str, Any]) -> Iterator[Line]:
    """Format an overview for a person."""
    clock = time.strftime("%H:%M:%S", time.localtime(overview["at"]))
    parts = ("conversation", "conversations"), ("approval", "approvals")
    counts = ", ".join(format_amount(len(overview[key]), noun) for noun, key in parts)
    yield ((Style.NAME, overview["organism"]), (Style.DIM, f"  {clock}  {counts}"))
    busy = [each for each in overview["listeners"] if each["waiting"] or each["running"]]
    yield from _iter_part("listeners at work", [_format_listener(each) for each in busy])
    yield from _iter_part(
        "running", [_format_running_line(each, overview["at"]) for each in overview["running"]]
    )
    yield from _iter_part("conversations", list(map(_format_conversation_line, overview["conversations"])))
    yield from _iter_part("to be approved", list(map(_format_approval_line, overview["approvals"])))
    yield from _iter_part(
        "refused of late", [_format_refusal(each, overview["at"]) for each in overview["refusals"]]
    )


def _iter_part(title: str, rows: Sequence[Line]) -> Iterator[Line]:
    if not rows:
        return
    yield ((Style.PAYLOAD, title),)
    yield from rows[:ROWS]
    if rows[ROWS:]:
        yield ((Style.DIM, f"  and {len(rows) - ROWS} more"),)


def _format_listener(one: Mapping[str, Any]) -> Line:
    counts = f"  {one['running']} running, {one['waiting']} waiting"
    return ((Style.NAME, f"  {one['name']}"), (Style.PLAIN, counts))


def _format_running_line(one: Mapping[str, Any], now: float) -> Line:
    since = "" if one["since"] is None else f"  {_format_age(now - one['since'])}"
    attempt = f"  attempt {one['attempt']}" if one["attempt"] > 1 else ""
    return (
        (Style.PLAIN, f"  {one['sender']} -> "),
        (Style.NAME, one["listener"]),
        (Style.PLAIN, f"{since}{attempt}"),
        (Style.DIM, f"  {one['conversation'][:8]}"),
    )


def _format_conversation_line(one: Mapping[str, Any]) -> Line:
    parts = [
        f"{format_amount(one['requests'], 'request')} open",
        f"{one['running']} running",
        f"{one['queued']} queued",
    ]
    if one["due"] is not None:
        parts.append(f"{format_amount(one['timers'], 'timer')}, the first at {format_second(one['due'])}")
    return (
        (Style.NAME, f"  {one['id'][:8]}"),
        (Style.PLAIN, f"  {one['principal']}  {', '.join(parts)}"),
        (Style.DIM, f"  {format_amount(one['messages'], 'message')} so far"),
    )


def _format_approval_line(one: Mapping[str, Any]) -> Line:
    return (
        (Style.WARN, f"  {one['id'][:8]}"),
        (Style.PLAIN, f"  {one['sender']} -> {one['to']}"),
        (Style.DIM, f"  {one['conversation'][:8]}"),
    )


def _format_refusal(one: Mapping[str, Any], now: float) -> Line:
    return (
        (Style.DIM, f"  {_format_age(now - one['at'])} ago  "),
        (Style.BAD, f"{one['event']} "),
        (Style.PLAIN, f"{one['sender']} -> {one['to'] or '?'}  {one['code']}: {one['why']}"),
        (Style.DIM, f"  {one['conversation'][:8]}"),
    )


def _format_age(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
