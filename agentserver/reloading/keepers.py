"""Resources of one edition of an organism: connections, processes, language models.

A task keeps them open until no conversation needs them.

With an equal key, a running process or connection may stay over a reload. A key covers the configuration of a walled
worker or of an MCP server's program, and the files that it may run. Code counts by its content, since a deployment
may rewrite it and reset times; other files count by size, times and inode.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import stat
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import anyio
import anyio.to_thread

from agentserver.completion import RecordingExtent
from agentserver.config.organism import refuse_call
from agentserver.flow.handler import bind_flow
from agentserver.pump.editions import Callee
from agentserver.supervision import EndEffect, run_errand

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from agentserver.completion import PromptRecording
    from agentserver.config import Organism
    from agentserver.config.organism import BoundListener, Handler
    from agentserver.core.guard import Rules
    from agentserver.mcp.client.connection import Connection
    from agentserver.payload.foreign.lock import McpServer
    from agentserver.ports import Completer
    from agentserver.pump.completions import CompletionLog
    from agentserver.pump.editions import RemoteHandler
    from agentserver.telemetry.tracing import Tracer
    from agentserver.worker.planning import WorkerPlan
    from agentserver.worker.remote_desk import CallDesk

FILES: Final = 20_000
"""Files that are looked at. Where there are more, no mark is equal to another."""

_CODE: Final = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb")
_CODE_BYTES: Final = 1 << 22
"""Bytes up to which a file of code counts by its content."""

_OUTPUT: Final = frozenset({"out", "node_modules", "__pycache__"})
"""Folders of generated files. Hidden ones do not count either."""


def mark_files(paths: Iterable[Path]) -> str | None:
    """Mark files and everything in folders; None if there are too many."""
    found = sha256()
    for number, path in enumerate(_iter_files(paths)):
        if number >= FILES:
            return None
        found.update(f"{os.fspath(path)}\0{_mark(path)}\n".encode(errors="surrogateescape"))
    return found.hexdigest()


def _iter_files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in sorted(set(paths)):
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(each for each in folders if each not in _OUTPUT and not each.startswith("."))
            yield from (Path(folder, name) for name in sorted(names))


def _mark(path: Path) -> str:
    try:
        status = path.stat()
        if path.suffix in _CODE and status.st_size <= _CODE_BYTES and stat.S_ISREG(status.st_mode):
            return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.errno}"
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def worker_key(project: Path, planned: WorkerPlan) -> str:
    """Say what the workers of a listener depend on: of the project they read what their wall lets them read."""
    from agentserver.worker.planning import list_readable

    pythons = {*list_readable(net=True)}
    own = [path for path in planned.wall.read if path.is_relative_to(project) and path not in pythons]
    return _key(repr(planned), own)


def connection_key(project: Path, server: McpServer) -> str:
    """Say what the connection to an MCP server depends on; of a program also its files in the project."""
    agreed = [(each.listener, each.agreed) for each in server.tools]
    declared = (
        server.name,
        server.command,
        server.url,
        server.token,
        sorted(server.env.items()),
        server.restarts,
    )
    return _key(repr((project, declared, server.isolation, agreed)), _program(project, server))


def _program(project: Path, server: McpServer) -> Iterator[Path]:
    """Return the files that a command names, and their neighbours in the project, which a script may import."""
    for word in filter(None, server.command):
        module = word.partition(".")[0] or word
        for path in (project / word, project / module, project / f"{module}.py"):
            if "\0" in word or not path.exists():
                continue
            if path.is_relative_to(project):
                yield path if path.is_dir() else path.parent
            elif path.is_file():
                yield path
    found = shutil.which(server.command[0]) if server.command else None
    if found is not None:
        yield Path(found).resolve()
    if server.isolation is not None:
        yield from (project / path for path in server.isolation.read)


def _key(text: str, files: Iterable[Path]) -> str:
    """Compute a digest, which shows no secret of an environment. It equals no other where files cannot be marked."""
    mark = mark_files(files) or token_hex(16)
    return sha256(f"{text}\n{mark}".encode(errors="surrogateescape")).hexdigest()


T = TypeVar("T")

logger = logging.getLogger("agentserver")


async def attempt(work: Coroutine[Any, Any, T]) -> T | BaseException:
    """Return the result of some work, or the exception that it raises."""

    async def run() -> T | BaseException:
        try:
            return await work
        except BaseException as error:  # noqa: BLE001 - a task that ends with SystemExit ends the event loop
            return error

    task = run_errand(run(), "does work of an edition")
    try:
        await asyncio.wait([task])
    finally:
        task.cancel()
    return task.result()


@dataclass(eq=False, slots=True)
class EditionKeeper(Generic[T]):
    """Task that keeps the resources of one edition open, so that they may be closed at any time.

    Args:
        enter: enters contexts of a stack and returns the result.
    """

    enter: Callable[[AsyncExitStack], Coroutine[Any, Any, T]]
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    async def open(self, lost: Callable[[BaseException | None], None]) -> T:
        """Enter the contexts and return the result. Raises their errors.

        Args:
            lost: is called with the reason if the contexts were left without ``close``.
        """
        opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task = run_errand(self._keep(opened), "keeps an edition open", (Exception,), EndEffect.SERVER)
        try:
            waiting: list[asyncio.Future[Any]] = [opened, self._task]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise
        if not opened.done():
            await self._task
        self._task.add_done_callback(partial(self._end, lost))
        return opened.result()

    def _end(self, lost: Callable[[BaseException | None], None], task: asyncio.Task[None]) -> None:
        if not self._over.is_set():
            lost(None if task.cancelled() else task.exception())

    async def close(self) -> None:
        """Leave everything that was entered. Raises what leaving raises."""
        self._over.set()
        if self._task is not None:
            await asyncio.wait([self._task])
            if not self._task.cancelled():  # its owner has heard of that
                self._task.result()

    async def _keep(self, opened: asyncio.Future[T]) -> None:
        async with AsyncExitStack() as stack:
            opened.set_result(await self.enter(stack))
            await self._over.wait()


@dataclass(eq=False, slots=True)
class _SharedContext:
    """A context that editions share.

    Args:
        keeper: of it.
        value: by entering it.
        users: editions that have it.
    """

    keeper: EditionKeeper[Any]
    value: Any
    users: int = 0


class SharedContexts:
    """Contexts that several editions use: unchanged processes and connections.

    Args:
        lost: is called with the reason if one was left without being closed.
    """

    def __init__(self, lost: Callable[[BaseException | None], None]) -> None:
        self._lost = lost
        self._open: dict[str, _SharedContext] = {}

    async def enter(
        self,
        key: str,
        make: Callable[[], AbstractAsyncContextManager[T]],
        sound: Callable[[T], bool],
        stack: AsyncExitStack,
    ) -> T:
        """Return the context of this key, entered here or by an earlier edition. Its last edition leaves it.

        Args:
            key: holds everything that it depends on.
            make: makes the context.
            sound: returns False if the context must not be used again.
            stack: of the edition.
        """
        shared = self._open.get(key)
        if shared is None or not sound(shared.value):
            keeper: EditionKeeper[T] = EditionKeeper(lambda inner: inner.enter_async_context(make()))
            shared = self._open[key] = _SharedContext(keeper, await keeper.open(self._lost))
        shared.users += 1
        stack.push_async_callback(self._leave, key, shared)
        entered: T = shared.value
        return entered

    async def _leave(self, key: str, shared: _SharedContext) -> None:
        shared.users -= 1
        if shared.users:
            return
        if self._open.get(key) is shared:
            del self._open[key]
        await shared.keeper.close()


class SharedResources(NamedTuple):
    """Resources that several editions use.

    Args:
        shared: processes and connections.
        desk: returns the queue of calls for workers on other machines.
        handlers: the latest handler of each listener, by name. Its waiting flows keep their code over a reload.
        recorder: makes what records completions.
    """

    shared: SharedContexts
    desk: Callable[[], CallDesk]
    handlers: dict[str, Handler]
    recorder: Callable[[PromptRecording], CompletionLog]


class EditionResources(Generic[T]):
    """Resources of all editions of a server. The last is the current one."""

    def __init__(self) -> None:
        self.shared = SharedContexts(self._lose)
        self.handlers: dict[str, Handler] = {}
        self._open: list[EditionKeeper[T]] = []
        self._lost = asyncio.Event()
        self._cause: BaseException | None = None
        self._retiring: set[asyncio.Task[None]] = set()

    async def open(self, enter: Callable[[AsyncExitStack], Coroutine[Any, Any, T]]) -> T:
        """Open what another edition needs. Raises what entering raises."""
        keeper = EditionKeeper(enter)
        opened = await keeper.open(self._lose)
        self._open.append(keeper)
        return opened

    def _lose(self, reason: BaseException | None) -> None:
        self._cause = reason
        self._lost.set()

    async def watch(self) -> None:
        """Raise once a need of an edition is lost without being closed; returns for an unknown reason."""
        await self._lost.wait()
        if self._cause is not None:
            raise self._cause

    async def drop(self) -> None:
        """Close the resources of the newest edition, which is not used."""
        await self._open.pop().close()

    def retire(self, moved: Callable[[], Coroutine[Any, Any, None]], then: Callable[[], None]) -> None:
        """Close the resources of earlier editions once conversations have moved; then call ``then``."""
        task = run_errand(self._retire(moved, self._open[:-1], then), "closes an earlier edition")
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def close(self) -> None:
        """Close everything."""
        for task in tuple(self._retiring):
            task.cancel()
            await asyncio.wait([task])
        while self._open:
            await self._open.pop(0).close()

    async def _retire(
        self,
        moved: Callable[[], Coroutine[Any, Any, None]],
        earlier: list[EditionKeeper[T]],
        then: Callable[[], None],
    ) -> None:
        await moved()
        for keeper in earlier:
            failed = await attempt(keeper.close())
            if failed is not None:
                logger.error("a finished edition could not be closed", exc_info=failed)
            if keeper in self._open:
                self._open.remove(keeper)
        then()


async def bound_listeners(
    organism: Organism,
    rules: Rules,
    completer: Completer | None,
    tracing: Tracer | None,
    lasting: SharedResources,
    stack: AsyncExitStack,
) -> Mapping[str, Callee]:
    """Return the listeners with their handlers, and open their resources on the stack.

    Args:
        organism: whose listeners they are.
        rules: its own.
        completer: answers in place of the organism's language models.
        tracing: of calls and completions; None without tracing.
        lasting: over editions.
        stack: left when none of the listeners runs any longer.
    """
    if completer is None and organism.models is not None:
        from agentserver.llm.completer import Models  # most organisms have none

        completer = await stack.enter_async_context(Models(organism.models))
    if completer is not None and tracing is not None:
        completer = tracing.wrap_completer(completer, organism.models)
    if tracing is not None:
        tracing.know({bound.listener.name: bound.listener.agent for bound in organism.listeners})
    prompts = None if organism.models is None else organism.models.prompts
    log = None if prompts is None or prompts.recorded is RecordingExtent.OFF else lasting.recorder(prompts)
    tools = await _tools(organism, lasting.shared, stack)
    remotes = await _workers(organism, rules, lasting, stack)
    handlers = {
        bound.listener.name: tools.get(bound.listener.name) or _handler(bound, rules, lasting.handlers)
        for bound in organism.listeners
    }
    lasting.handlers.update(handlers)
    return {
        bound.listener.name: Callee(
            bound.listener,
            handlers[bound.listener.name],
            bound.settings,
            completer,
            remotes.get(bound.listener.name),
            None if tracing is None else tracing.enter,
            log,
            None if tracing is None else tracing.note_site,
        )
        for bound in organism.listeners
    }


def _handler(bound: BoundListener, rules: Rules, earlier: Mapping[str, Handler]) -> Handler:
    """Return the author's handler, or the agent that the listener is."""
    if bound.handler is not None:
        return bind_flow(bound.handler, rules.codecs, earlier.get(bound.listener.name))
    from agentserver.llm.agent.loop import Agent  # most organisms have none

    assert bound.agent is not None
    return Agent(bound.agent, rules.codecs, rules.bounds)


async def _tools(organism: Organism, shared: SharedContexts, stack: AsyncExitStack) -> Mapping[str, Handler]:
    """Return the handlers of listeners that are tools of MCP servers, connected for as long as the stack is open.

    Raises WallError when this system cannot hold a program that asks for a wall.
    """
    if not organism.mcp:
        return {}
    from agentserver.mcp.client.connection import keep_connected  # with an extra that most do without
    from agentserver.mcp.client.listeners import open_listeners
    from agentserver.worker.commands import check_walls, open_launch

    deadlines = {
        bound.listener.name: bound.listener.deadline
        for bound in organism.listeners
        if bound.handler is refuse_call  # a test has others in their place
    }
    check_walls(server for server in organism.mcp if any(tool.listener in deadlines for tool in server.tools))

    async def connect(server: McpServer) -> Connection:
        key = await anyio.to_thread.run_sync(connection_key, organism.project, server)
        make = partial(keep_connected, server, organism.project, open_launch)
        return await shared.enter(key, make, lambda connection: connection.sound, stack)

    return await stack.enter_async_context(open_listeners(organism.mcp, deadlines, connect))


async def _workers(
    organism: Organism, rules: Rules, lasting: SharedResources, stack: AsyncExitStack
) -> Mapping[str, RemoteHandler]:
    """Return the workers of the listeners that have processes of their own, by the listener's name.

    Raises WallError when this system cannot hold one of them.
    """
    distant = [each for each in organism.listeners if each.isolation is not None and each.isolation.remote]
    walled = [each for each in organism.listeners if each.isolation is not None and not each.isolation.remote]
    if not walled and not distant:
        return {}
    from agentserver.worker.planning import check_isolation, plan
    from agentserver.worker.pool import WalledListener, Workers
    from agentserver.worker.remote_desk import RemoteListener

    check_isolation(walled)
    found: dict[str, RemoteHandler] = {}
    for bound in distant:
        name, desk = bound.listener.name, lasting.desk()
        stack.enter_context(desk.admit_workers(name))
        found[name] = RemoteListener(desk, name, rules.codecs, rules.bounds, organism.limits.storage)
    for bound in walled:
        planned = await anyio.to_thread.run_sync(plan, organism, bound, rules.bounds)
        key = await anyio.to_thread.run_sync(worker_key, organism.project, planned)
        make = partial(Workers, planned)
        workers = await lasting.shared.enter(key, make, lambda one: not one.futile, stack)
        found[bound.listener.name] = WalledListener(workers, rules.codecs, rules.bounds)
    return found
