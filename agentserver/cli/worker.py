"""``agentserver worker``: runs the handler of a listener on another machine.

The project's code is imported only in isolated processes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentserver.cli import process, project
from agentserver.cli.process import ExitCode
from agentserver.extras import require

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable
    from pathlib import Path

    import httpx

    from agentserver.config import Organism

F = TypeVar("F", bound="Callable[..., Any]")


def _file(option: str, text: str) -> Callable[[F], F]:
    return click.option(option, type=project.FILE, help=text)


@click.command("worker", short_help="Handle a listener's calls on this machine.")
@click.argument("listener")
@click.option(
    "--server",
    "servers",
    multiple=True,
    required=True,
    metavar="URL",
    help="URL of a server's door; may be repeated.",
)
@project.token_option
@_file("--ca", "PEM file of the certificates to trust; the system's by default.")
@_file("--certificate", "PEM file of this worker's certificate and key, for a proxy that requires one.")
@click.option(
    "--processes",
    type=click.IntRange(1, 1024),
    help="Concurrent calls per server, each in a process; the listener's concurrency by default.",
)
@project.organism_option
def command(listener: str, organism: Path | None, **options: Any) -> None:
    """Handle the calls of LISTENER, which has isolation: remote, until a signal. Needs the extra client.

    Needs the token of a principal with the role worker, which agentserver principals add NAME --role worker
    --listener LISTENER creates. Only this listener and the limits are read from the organism's file; the modules
    of its handler and classes must be on this machine. Isolated processes import them, as with isolation:
    process. Environment variables of the rest of the organism are not needed here.

    On the first signal it takes no further calls and finishes those it has; a second one ends it at once.
    """
    import asyncio

    import anyio

    from agentserver.worker.remote_host import UselessError
    from agentserver.worker.wall.raising import WallError

    require("agentserver worker", "client")
    found = _read_listener(project.find_organism_or_raise(organism), listener)
    token = project.read_token(options["token_file"])
    tls = _tls(options["ca"], options["certificate"])
    https = [_connect(url, token, tls) for url in dict.fromkeys(options["servers"])]
    process.collect_as_usual()
    try:
        refused = anyio.run(_handle, found, https, options["processes"])
    except WallError as error:
        project.refuse(str(error))
    except asyncio.CancelledError:  # by a second signal
        project.exit_command(ExitCode.INTERRUPTED)
    if isinstance(refused, UselessError):
        project.refuse(str(refused))


def _read_listener(path: Path, listener: str) -> Organism:
    from agentserver.config.code.isolated import read_part

    found, mistakes = read_part(path, os.environ, listener)
    if found is None:
        project.refuse(*(each.coded() for each in mistakes))
    project.set_up_logging(found.secrets)
    return found


def _tls(ca: Path | None, own: Path | None) -> ssl.SSLContext | None:
    """Load the certificates to trust and to show; None for the system's certificates and none to show."""
    if ca is None and own is None:
        return None
    import ssl

    with project.refuse_on(OSError, prefix="--ca or --certificate cannot be used: "):
        context = ssl.create_default_context(cafile=ca)
        if own is not None:
            context.load_cert_chain(own)
    return context


def _connect(url: str, token: str, tls: ssl.SSLContext | None) -> httpx.AsyncClient:
    from agentserver.client.client import connect

    with project.refuse_on(ValueError, prefix="--server: "):
        return connect(url, token, tls=tls)


async def _handle(found: Organism, https: list[httpx.AsyncClient], processes: int | None) -> Exception | None:
    """Handle calls until a signal. Returns the error that makes this worker useless.

    Raised inside the process pool, it would be wrapped in an exception group.
    """
    import asyncio
    import signal
    from contextlib import AsyncExitStack
    from functools import partial

    import anyio.to_thread

    from agentserver.wire.envelope import Bounds
    from agentserver.worker.frames import FrameCodec
    from agentserver.worker.planning import plan, walls
    from agentserver.worker.pool import Workers
    from agentserver.worker.remote_host import RemoteWorker, ServerLink, UselessError

    (bound,) = found.listeners
    walls([bound])
    planned = await anyio.to_thread.run_sync(plan, found, bound, Bounds(bytes=found.limits.payload))
    longest, task, loop = planned.setup.longest, asyncio.current_task(), asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        workers = await stack.enter_async_context(Workers(planned))
        for each in https:
            await stack.enter_async_context(each)
        name, codec = bound.listener.name, FrameCodec(longest)
        links = tuple(ServerLink(each, name, codec, longest) for each in https)
        tell = partial(project.say, err=True)
        worker = RemoteWorker(links, workers, processes or bound.listener.concurrency, tell)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop, worker.ending, task)
        try:
            await worker.serve()
        except UselessError as error:
            return error
    return None


def _stop(ending: asyncio.Event, task: asyncio.Task[Any] | None) -> None:
    if ending.is_set() and task is not None:
        task.cancel()
    ending.set()
