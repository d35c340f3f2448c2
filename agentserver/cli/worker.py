"""``agentserver worker``: the processes of a listener on a machine of their own.

Owns the options and the end of the process. Refuses to import anything of the project: its processes do, behind their
wall.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentserver.cli import collecting, project

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable

    import httpx

    from agentserver.config import Organism

F = TypeVar("F", bound="Callable[..., Any]")

TOKEN = "AGENTSERVER_TOKEN"  # noqa: S105 - the name of a variable
"""The variable of the environment with the token, where no file is named."""

INTERRUPTED = 130


def _file(option: str, text: str) -> Callable[[F], F]:
    return click.option(option, type=click.Path(path_type=Path, dir_okay=False), help=text)


@click.command("worker", short_help="Handle a listener's calls on this machine.")
@click.argument("listener")
@click.option(
    "--server",
    "servers",
    multiple=True,
    required=True,
    metavar="URL",
    help="The door of a server; several times for several servers.",
)
@_file("--token-file", f"The file with this worker's token; the variable {TOKEN} when left out.")
@_file("--ca", "The PEM file of the certificates that vouch for the servers; the system's when left out.")
@_file(
    "--certificate", "The PEM file of this worker's own certificate and key, for a proxy that asks for one."
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1024),
    help="Calls of each server at once, each in a process; the listener's concurrency when left out.",
)
@project.organism_option
@click.pass_context
def command(ctx: click.Context, /, listener: str, organism: Path | None, **said: Any) -> None:
    """Handle calls of LISTENER, which has isolation: remote, until a signal ends it. Needs the extra client.

    A principal of the role worker shows its token: agentserver principals add NAME --role worker --listener LISTENER
    makes one. The organism's file is read for what it says of the listener and for the limits; the modules of its
    handler and its classes have to be here too. They are imported by processes behind a wall, as with isolation:
    process. What the rest of the organism takes from the environment need not be here.

    With the first signal it takes no more calls and ends with those that it has; a second one ends it at once.
    """
    import asyncio

    import anyio

    from agentserver.extras import require
    from agentserver.worker.remote_host import UselessError
    from agentserver.worker.wall.raising import WallError

    require("agentserver worker", "client")
    found = _part(ctx, project.located(organism), listener)
    token = _token(ctx, said["token_file"])
    tls = _tls(ctx, said["ca"], said["certificate"])
    https = [_connected(ctx, url, token, tls) for url in dict.fromkeys(said["servers"])]
    collecting.settled()
    try:
        refused = anyio.run(_handle, found, https, said["processes"])
    except WallError as error:
        project.refuse(ctx, str(error))
    except asyncio.CancelledError:  # by a second signal
        ctx.exit(INTERRUPTED)
    if isinstance(refused, UselessError):
        project.refuse(ctx, str(refused))


def _part(ctx: click.Context, path: Path, listener: str) -> Organism:
    from agentserver.config.code.isolated import read_part

    found, mistakes = read_part(path, os.environ, listener)
    if found is None:
        project.refuse(ctx, *(each.coded() for each in mistakes))
    project.log_without(ctx, found.secrets)
    return found


def _token(ctx: click.Context, path: Path | None) -> str:
    if path is None:
        token = os.environ.get(TOKEN, "")
        if not token:
            project.refuse(ctx, f"there is no token: name its file with --token-file, or set {TOKEN}")
        return token
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        project.refuse(ctx, f"--token-file: {path}: {getattr(error, 'strerror', None) or 'is no text'}")
    if not token:
        project.refuse(ctx, f"--token-file: {path}: is empty")
    return token


def _tls(ctx: click.Context, ca: Path | None, own: Path | None) -> ssl.SSLContext | None:
    """The certificates that TLS trusts and shows; None for the system's certificates and none to show."""
    if ca is None and own is None:
        return None
    import ssl

    try:
        context = ssl.create_default_context(cafile=ca)
        if own is not None:
            context.load_cert_chain(own)
    except OSError as error:
        project.refuse(ctx, f"--ca or --certificate cannot be used: {error.strerror or error}")
    return context


def _connected(ctx: click.Context, url: str, token: str, tls: ssl.SSLContext | None) -> httpx.AsyncClient:
    from agentserver.client.client import connect

    try:
        return connect(url, token, tls=tls)
    except ValueError as error:
        project.refuse(ctx, f"--server: {error}")


async def _handle(found: Organism, https: list[httpx.AsyncClient], processes: int | None) -> Exception | None:
    """Handle calls until a signal comes; gives the error when this worker is of no use.

    Raised among the processes, it would come out as one of a group.
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
            loop.add_signal_handler(number, _end, worker.ending, task)
        try:
            await worker.serve()
        except UselessError as error:
            return error
    return None


def _end(ending: asyncio.Event, task: asyncio.Task[Any] | None) -> None:
    if ending.is_set() and task is not None:
        task.cancel()
    ending.set()
