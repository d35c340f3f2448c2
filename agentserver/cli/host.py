"""Hosts a running server for a verb: its session, its reloads, and the files whose change means a reload.

Folders are watched one by one and not recursively, which would include an environment or a journal in the project's
directory.
"""

from __future__ import annotations

import os
import os.path
import signal
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from agentserver.characters.printing import format_amount
from agentserver.cli import process, project
from agentserver.cli.process import ExitCode, GracefulEnd, hide_secrets
from agentserver.extras import install_hint, is_installed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from types import FrameType, TracebackType
    from typing import Any, NoReturn

    import anyio
    from watchfiles import Change

    from agentserver.assembly import Server
    from agentserver.config import Organism


def make_shutdown(server: Server) -> GracefulEnd:
    """Make the shutdown of a server's process, also for a handler that blocks the event loop too long."""
    ending = GracefulEnd(server.organism.limits.drain, server.acquit)
    server.stalled = partial(ending.leave, ExitCode.STALLED)
    return ending


def redact(server: Server, text: str) -> str:
    """Redact the secrets of the current organism, after reloads too, and of earlier ones."""
    return server.organism.secrets.redact(text)


def publish_overview(server: Server) -> AbstractAsyncContextManager[None]:
    """Let ``agentserver top`` follow the server while the context lasts."""
    import time

    from agentserver.assembly import find_journal_path
    from agentserver.gateways import top
    from agentserver.gateways.top import Overviews

    organism = server.organism
    overviews = Overviews(server, organism.name, partial(redact, server), time.time)
    return top.serve_overviews(overviews, find_journal_path(organism) or organism.files[0])


def run_server(
    server: Server,
    ending: GracefulEnd,
    work: Callable[[], Awaitable[int]],
    *edges: AbstractAsyncContextManager[Any],
    hangups: Hangups | None = None,
) -> NoReturn:
    """Run a server until its work returns, and end the command with the status of the work.

    Args:
        server: entered first.
        ending: passes signals on.
        work: of the verb.
        edges: entered in order while the server runs.
        hangups: reload the organism; None without reloads.
    """

    async def session() -> int:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(server)
            await stack.enter_async_context(publish_overview(server))
            if hangups is not None:
                await stack.enter_async_context(hangups.reload_on_change(server, server.organism.files[0]))
            for each in edges:
                await stack.enter_async_context(each)
            return await work()

    with hangups or nullcontext():
        run_session(ending, session)


def run_session(ending: GracefulEnd, session: Callable[[], Awaitable[int]]) -> NoReturn:
    """Run a session and end the command with its status."""
    import anyio

    with ending:
        status = anyio.run(ending.run, session, backend="asyncio")
    project.exit_command(status)


async def run_until_signal(
    ending: GracefulEnd,
    work: Callable[[], Awaitable[int | None]],
    status_of: Callable[[int], int] = lambda _: 0,
) -> int:
    """Run work until it returns its status (None is 0), or a signal cancels it, whose status ``status_of`` returns."""
    import anyio

    from agentserver.supervision import EndEffect, start_errand

    status = 0

    async def stop_on_signal() -> None:
        nonlocal status
        status = status_of(await anext(ending.signals()))
        ending.begin(status)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        start_errand(tasks, "waits for signals", EndEffect.OWNER, stop_on_signal)
        status = await work() or 0
        tasks.cancel_scope.cancel()
    return status


reload_option = click.option(
    "--reload",
    "reloads",
    is_flag=True,
    help="Reload the organism when its files change and on SIGHUP.",
)


async def reload(server: Server, path: Path) -> tuple[str, ...]:
    """Load an organism again and switch the server to it. Returns the lines to print.

    Nothing changes unless all of it can; the first line says which.
    """
    import anyio

    from agentserver import config
    from agentserver.assembly import ReloadResult
    from agentserver.reloading.keepers import attempt
    from agentserver.reloading.obstacles import refuse_reload

    failed = f"{path} is not reloaded, and nothing changes:"
    read = partial(config.load, path, environ=os.environ, previous=server.organism)
    organism = await attempt(anyio.to_thread.run_sync(read, abandon_on_cancel=True))
    if isinstance(organism, config.ConfigError):
        return (failed, *(each.format_with_code() for each in organism.findings))
    if isinstance(organism, BaseException):  # raised by the project's code
        return (failed, *refuse_reload(organism).reasons)
    found = await server.reload(organism)
    hide_secrets(organism.secrets)
    if isinstance(found, ReloadResult):
        process.unfreeze_replaced()
        finish = "finishes" if found.finishing == 1 else "finish"
        suffix = f"; {format_amount(found.finishing, 'conversation')} {finish} a step in the old code"
        suffix = suffix if found.finishing else ""
        return (f"{path} is reloaded{suffix}",)
    return (failed, *map(organism.secrets.redact, found.reasons))


async def _watch_files(server: Server, changed: Callable[[], None], stop: anyio.Event, since: float) -> None:
    """Call a function at each change of the organism's files; report if they cannot be watched."""
    if not is_installed("reload"):
        project.say(
            f"files are not watched: that needs the extra reload ({install_hint('reload')})", err=True
        )
        return

    try:
        async for _ in watch_changes(lambda: server.organism, stop, since):
            changed()
    except OSError as error:
        project.say(f"files are not watched: {error.strerror or error}", err=True)


def _on_terminal() -> bool:
    """Tell whether this process has a terminal; a lost one is gone before its SIGHUP arrives."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


class Hangups:
    """Context manager in which SIGHUP reloads the organism, as file changes do, and does not end the process.

    Create it before the organism is loaded: every change from then on counts. A SIGHUP that means that the
    terminal is gone acts as SIGTERM, unless the process was started to outlive its terminal (nohup).

    Args:
        watches: whether a change of the organism's files reloads it as well.
    """

    def __init__(self, *, watches: bool = True) -> None:
        self._watches = watches
        self._signalled = self._attached = False
        self._since = time.time()
        self._wake: Callable[[], Any] | None = None

    def __enter__(self) -> Self:
        """Install the signal handler. Must be called in the main thread."""
        self._before = signal.signal(signal.SIGHUP, self._note)
        self._attached = self._before is not signal.SIG_IGN and _on_terminal()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the signal handler."""
        signal.signal(signal.SIGHUP, self._before)

    @asynccontextmanager
    async def reload_on_change(self, server: Server, path: Path) -> AsyncIterator[None]:
        """Reload at each signal, also an earlier one, and at each change; print the outcome."""
        import asyncio

        import anyio

        from agentserver.supervision import EndEffect, start_errand, start_helper

        wake, loop = asyncio.Event(), asyncio.get_running_loop()
        self._wake = partial(loop.call_soon_threadsafe, wake.set)
        if self._signalled:
            wake.set()

        async def reload_each() -> None:
            while True:
                await wake.wait()
                wake.clear()
                for line in await reload(server, path):
                    project.say(line, err=True)

        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            start_helper(tasks, "reloads the organism", EndEffect.SERVER, reload_each)
            if self._watches:
                watch = partial(_watch_files, server, wake.set, stop, self._since)
                start_errand(tasks, "watches the files of the organism", EndEffect.SERVER, watch)
            try:
                yield
            finally:
                self._wake = None
                stop.set()
                tasks.cancel_scope.cancel()

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self._attached and not _on_terminal():
            signal.raise_signal(signal.SIGTERM)
            return
        self._signalled = True
        if self._wake is not None:
            self._wake()


SUFFIXES = frozenset({".py", ".yaml", ".yml", ".xsd", ".md", ".txt", ".lock"})
"""Suffixes of code, configuration, schemas, prompts and locks."""

_QUIET = 100
"""Milliseconds without a further change before changes are reported."""

_FIRST_LOOK = 1000
"""Milliseconds after which a new watch looks for earlier changes."""

_WRITTEN = "out"
"""Folder for the output of an organism."""


def list_watched_folders(organism: Organism) -> frozenset[Path]:
    """List the folders of the organism's YAML and code, and their direct subfolders."""
    names = () if organism.modules is None else organism.modules.names
    modules = [sys.modules.get(name) for name in names]
    found = [getattr(each, "__file__", None) for each in modules]
    code = [Path(file) for file in found if file]
    own = {path.resolve().parent for path in (*organism.files, *code)} | {organism.project.resolve()}
    inside = {path for path in own if path.is_relative_to(organism.project.resolve())}
    return frozenset(own).union(*map(_iter_subfolders, inside))


def _find_newest(watched: frozenset[Path], meaning: Callable[[Change | None, str], bool]) -> float:
    """Find the latest modification time of the watched files, in seconds since 1970."""
    files = [path for folder in watched for path in folder.glob("*") if meaning(None, str(path))]
    return max(map(_read_modification_time, files), default=0.0)


def _read_modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # deleted in the meantime
        return 0.0


def _iter_subfolders(folder: Path) -> Iterator[Path]:
    try:
        found = [path for path in folder.iterdir() if path.is_dir()]
    except OSError:
        return
    for path in found:
        hidden = path.name.startswith((".", "__")) or path.name == _WRITTEN
        if not hidden and not (path / "pyvenv.cfg").exists():
            yield path


def is_source(_change: Change | None, path: str) -> bool:
    """Tell whether an organism may be made of this file."""
    name = Path(path).name
    return Path(path).suffix in SUFFIXES and not name.startswith(".")


def make_source_filter(organism: Organism) -> Callable[[Change | None, str], bool]:
    """Make a filter of the files that this organism may be made of, without its journal's lock file."""
    from agentserver.engines.sqlite.lock import LOCK

    journal = None if organism.journal is None else os.path.realpath(organism.project / organism.journal.path)
    return lambda change, path: is_source(change, path) and path != f"{journal}{LOCK}"


async def watch_changes(
    organism: Callable[[], Organism], stop: anyio.Event, since: float
) -> AsyncIterator[None]:
    """Yield at each change in the folders of the current organism, until ``stop`` is set.

    Args:
        organism: returns the current one.
        stop: ends the watch.
        since: seconds since 1970; changes after it count, even those before the watch began.

    Raises OSError if watching fails.
    """
    from anyio.to_thread import run_sync
    from watchfiles import awatch

    while not stop.is_set():
        watched, meaning = (
            await run_sync(list_watched_folders, organism()),
            await run_sync(make_source_filter, organism()),
        )
        found = awatch(
            *watched,
            watch_filter=meaning,
            step=_QUIET,
            stop_event=stop,
            recursive=False,
            rust_timeout=_FIRST_LOOK,
            yield_on_timeout=True,
        )
        looked = False
        async for changed in found:
            if looked and not changed:
                continue
            before, since, looked = since, max(since, await run_sync(_find_newest, watched, meaning)), True
            if not changed and since == before:
                continue
            yield
            if await run_sync(list_watched_folders, organism()) != watched:
                break
