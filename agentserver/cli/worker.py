"""``agentserver worker``: runs the handler of a listener on another machine.

The project's code is imported only in isolated processes.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import host, process, project
from agentserver.extras import require

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    import httpx

    from agentserver.config import Organism


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
@click.option(
    "--ca", type=project.FILE, help="PEM file of the certificates to trust; the system's by default."
)
@click.option(
    "--certificate",
    type=project.FILE,
    help="PEM file of this worker's certificate and key, for a proxy that requires one.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1024),
    help="Concurrent calls per server, each in a process; the listener's concurrency by default.",
)
@project.add_organism_option
def command(listener: str, organism: Path | None, **options: Any) -> None:
    """Handle the calls of LISTENER, which has isolation: remote, until a signal. Needs the extra client.

    Needs the token of a principal with the role worker, which agentserver principals add NAME --role worker
    --listener LISTENER creates. Only this listener and the limits are read from the organism's file; the modules
    of its handler and classes must be on this machine. Isolated processes import them, as with isolation:
    process. Environment variables of the rest of the organism are not needed here.

    On the first signal it takes no further calls and finishes those it has; a second one ends it at once.
    """
    require("agentserver worker", "client")
    found = _read_listener(project.find_organism_or_raise(organism), listener)
    token = project.read_token(options["token_file"])
    tls = _load_tls(options["ca"], options["certificate"])
    https = [_connect(url, token, tls) for url in dict.fromkeys(options["servers"])]
    process.collect_as_usual()
    ending = process.GracefulEnd(found.limits.drain)
    host.run_session(ending, partial(_handle, ending, found, https, options["processes"]))


def _read_listener(path: Path, listener: str) -> Organism:
    from agentserver.config.code.isolated import read_part

    found, mistakes = read_part(path, os.environ, listener)
    if found is None:
        project.refuse(*(each.format_with_code() for each in mistakes))
    project.set_up_logging(found.secrets)
    return found


def _load_tls(ca: Path | None, own: Path | None) -> ssl.SSLContext | None:
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


async def _handle(
    ending: process.GracefulEnd, found: Organism, https: list[httpx.AsyncClient], processes: int | None
) -> int:
    """Handle calls until a signal, and finish those at work. Raises WorkerRejectedError, alone or in a group."""
    from contextlib import AsyncExitStack

    import anyio.to_thread

    from agentserver.supervision import EndEffect, start_errand
    from agentserver.wire.envelope import Bounds
    from agentserver.worker.frames import FrameCodec
    from agentserver.worker.planning import check_isolation, plan
    from agentserver.worker.pool import Workers
    from agentserver.worker.remote_host import RemoteWorker, ServerLink

    (bound,) = found.listeners
    check_isolation([bound])
    planned = await anyio.to_thread.run_sync(plan, found, bound, Bounds(bytes=found.limits.payload))
    name, codec = bound.listener.name, FrameCodec(planned.setup.longest)
    async with AsyncExitStack() as stack:
        workers = await stack.enter_async_context(Workers(planned))
        for each in https:
            await stack.enter_async_context(each)
        links = tuple(ServerLink(each, name, codec, planned.setup.longest) for each in https)
        tell = partial(project.say, err=True)
        worker = RemoteWorker(links, workers, processes or bound.listener.concurrency, tell)

        async def end_on_signals() -> None:
            signals = ending.signals()
            await anext(signals)
            worker.ending.set()
            ending.leave(128 + await anext(signals))

        async with anyio.create_task_group() as tasks:
            start_errand(tasks, "waits for signals", EndEffect.OWNER, end_on_signals)
            await worker.serve()
            tasks.cancel_scope.cancel()
    return 0
