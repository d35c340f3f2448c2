"""The reload of an organism that a verb serves: what begins it, and what is said of it.

Owns SIGHUP and the watch of files in a process that asks for reloads, and the load in a thread beside the running
organism. Refuses to know what can change: the server says so.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Self

import click

from agentserver.characters.printing import format_amount
from agentserver.cli import collecting, project
from agentserver.cli.logs import hide
from agentserver.extras import installed, installing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path
    from types import FrameType, TracebackType
    from typing import Any

    import anyio

    from agentserver.assembly import Server

reload_option = click.option(
    "--reload",
    "reloads",
    is_flag=True,
    help="Load the organism again when its files change and at each SIGHUP, and go on with it.",
)
"""The option of verbs that may reload."""


async def reload(server: Server, path: Path) -> tuple[str, ...]:
    """Load an organism again and let the server go on with it; gives a line for each thing there is to say.

    Nothing changes unless all of it can: the first line tells.
    """
    import anyio

    from agentserver import config
    from agentserver.assembly import ReloadResult
    from agentserver.reloading.keepers import attempt
    from agentserver.reloading.obstacles import refuse_reload

    kept = f"{path} is not reloaded, and everything goes on as before:"
    read = partial(config.load, path, environ=os.environ, previous=server.organism)
    organism = await attempt(anyio.to_thread.run_sync(read, abandon_on_cancel=True))
    if isinstance(organism, config.ConfigError):
        return (kept, *(each.coded() for each in organism.findings))
    if isinstance(organism, BaseException):  # of the project's code, where none is looked for
        return (kept, *refuse_reload(organism).why)
    found = await server.reload(organism)
    hide(organism.secrets)
    if isinstance(found, ReloadResult):
        collecting.replaced()
        finish = "finishes" if found.finishing == 1 else "finish"
        rest = f"; {format_amount(found.finishing, 'conversation')} {finish} a step in the old code"
        rest = rest if found.finishing else ""
        return (f"{path} is reloaded{rest}",)
    return (kept, *map(organism.secrets.redact, found.why))


async def _watch(server: Server, changed: Callable[[], None], stop: anyio.Event, since: float) -> None:
    """Call at each change of the organism's files; say where they cannot be watched."""
    if not installed("reload"):
        project.say(f"files are not watched: that needs the extra reload ({installing('reload')})", err=True)
        return
    from agentserver.cli.watching import changes

    try:
        async for _ in changes(lambda: server.organism, stop, since):
            changed()
    except OSError as error:
        project.say(f"files are not watched: {error.strerror or error}", err=True)


def _on_terminal() -> bool:
    """True while this process has a terminal: it is lost before its SIGHUP arrives."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


class Hangups:
    """A context manager in which SIGHUP does not end the process; in ``reloading`` it reloads, as changes do.

    It is made before the organism is loaded: what changes from then on counts as a change. A SIGHUP that says that the
    terminal is gone is a SIGTERM, unless the process was started to outlast its terminal (nohup).

    Args:
        watches: whether a change of the organism's files reloads as well.
    """

    def __init__(self, *, watches: bool = True) -> None:
        self._watches = watches
        self._heard = self._attached = False
        self._since = time.time()
        self._wake: Callable[[], Any] | None = None

    def __enter__(self) -> Self:
        """Take the signal. Must be called in the main thread."""
        self._before = signal.signal(signal.SIGHUP, self._note)
        self._attached = self._before is not signal.SIG_IGN and _on_terminal()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signal back."""
        signal.signal(signal.SIGHUP, self._before)

    @asynccontextmanager
    async def reloading(self, server: Server, path: Path) -> AsyncIterator[None]:
        """Reload at each signal, also at one that came before, and at each change; say what became of it."""
        import asyncio

        import anyio

        from agentserver.supervision import Ending, start_errand, start_helper

        heard, loop = asyncio.Event(), asyncio.get_running_loop()
        self._wake = partial(loop.call_soon_threadsafe, heard.set)
        if self._heard:
            heard.set()

        async def each() -> None:
            while True:
                await heard.wait()
                heard.clear()
                for line in await reload(server, path):
                    project.say(line, err=True)

        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            start_helper(tasks, "reloads the organism", Ending.SERVER, each)
            if self._watches:
                watch = partial(_watch, server, heard.set, stop, self._since)
                start_errand(tasks, "watches the files of the organism", Ending.SERVER, watch)
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
        self._heard = True
        if self._wake is not None:
            self._wake()
