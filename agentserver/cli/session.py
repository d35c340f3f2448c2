"""A session: a server that runs for as long as a verb needs it, and the end of its process.

Owns the way from a signal, a handler that holds the event loop, or an engine that fails, to the status with which the
command ends. Refuses to know what a session does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from agentserver.cli import project
from agentserver.cli.ending import STALLED, GracefulEnd

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from typing import NoReturn

    import click
    from anyio import CancelScope

    from agentserver.assembly import Server


def ending_of(server: Server) -> GracefulEnd:
    """The end of a server's process, which comes also when a handler holds the event loop for too long."""
    ending = GracefulEnd(server.organism.limits.drain, server.acquit)
    server.stalled = partial(ending.leave, STALLED)
    return ending


def followed(server: Server) -> AbstractAsyncContextManager[None]:
    """While it lasts, ``agentserver top`` can follow the server."""
    import time

    from agentserver.assembly import journal_path
    from agentserver.gateways import top
    from agentserver.gateways.top import Overviews

    def redact(text: str) -> str:
        return server.organism.secrets.redact(text)

    organism = server.organism
    overviews = Overviews(server, organism.name, redact, time.time)
    return top.followed(overviews, top.beside(journal_path(organism) or organism.files[0]))


def run(ctx: click.Context, ending: GracefulEnd, session: Callable[[], Awaitable[int]]) -> NoReturn:
    """Run a session and end the command with its status, or as refused.

    It is refused when the engine cannot keep what it is given, at the start or from some moment on.
    """
    import anyio

    from agentserver.ports import EngineError

    try:
        with ending:
            status = anyio.run(ending.run, session, backend="asyncio")
    except EngineError as error:
        project.refuse(ctx, str(error))
    except BaseExceptionGroup as group:
        away, other = group.split(lambda error: isinstance(error, EngineError) or project.unwritable(error))
        if away is None or other is not None:
            raise
        first = _first(away)
        if project.unwritable(first):
            raise first from None
        project.refuse(ctx, str(first))
    ctx.exit(status)


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


async def served(server: Server, ending: GracefulEnd, serve: Callable[[], Awaitable[None]]) -> int:
    """A session: the server runs until ``serve`` returns, or a signal ends both. The status is 0."""
    import anyio

    from agentserver.supervision import Ending, start_errand

    async with server, anyio.create_task_group() as tasks:
        signals = partial(_signals, ending, tasks.cancel_scope)
        start_errand(tasks, "hears signals", Ending.SERVER, signals)
        await serve()
        tasks.cancel_scope.cancel()
    return 0


async def _signals(ending: GracefulEnd, scope: CancelScope) -> None:
    async for _ in ending.signals():
        ending.begin(0)
        scope.cancel()
