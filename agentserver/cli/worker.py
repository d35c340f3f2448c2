"""``agentserver worker``: the processes of a listener on a machine of their own.

Owns the options and the end of the process. Refuses to import anything of the project: its processes do, behind their
wall.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import collecting, project

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Mapping

    from agentserver.broker.address import BrokerAddress, BrokerError
    from agentserver.config import Organism
    from agentserver.config.organism import BoundListener
    from agentserver.worker.remote.host import VersionError


@click.command("worker", short_help="Handle a listener's calls on this machine.")
@click.argument("listener")
@click.option("--engine", metavar="URL", help="The broker; broker: url: of the organism when left out.")
@click.option(
    "--credentials",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file with user:password of this listener at the broker; none when left out.",
)
@click.option(
    "--ca",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The PEM file of the certificates that vouch for the broker; the organism's, or the system's, when left out.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1024),
    help="Calls at once, each in a process of its own; the listener's concurrency when left out.",
)
@project.organism_option
@click.pass_context
def command(ctx: click.Context, /, listener: str, organism: Path | None, **said: Any) -> None:
    """Handle calls of LISTENER, which has isolation: remote, until a signal ends it.

    The organism's file is read for what it says of the listener and for the limits; the modules of its handler and its
    classes have to be here too. They are imported by processes behind a wall, as with isolation: process. What the rest
    of the organism takes from the environment need not be here.

    With the first signal it takes no more calls and ends with those that it has; a second one ends it at once.
    """
    import anyio

    from agentserver.broker.address import BrokerError
    from agentserver.broker.remedies import explained
    from agentserver.extras import MissingExtraError
    from agentserver.worker.remote.host import VersionError
    from agentserver.worker.wall.raising import WallError

    found = _part(ctx, project.located(organism), listener)
    address = _address(ctx, found, said)
    bound = found.listeners[0]
    collecting.settled()
    try:
        anyio.run(_handle, found, bound, address, said["processes"] or bound.listener.concurrency)
    except BrokerError as error:
        project.refuse(ctx, explained(str(error), address))
    except (VersionError, WallError, MissingExtraError) as error:
        project.refuse(ctx, str(error))


def _part(ctx: click.Context, path: Path, listener: str) -> Organism:
    from agentserver.config.code.remote import part

    found, mistakes = part(path, os.environ, listener)
    if found is None:
        project.refuse(ctx, *map(str, mistakes))
    project.log_without(ctx, found.secrets)
    return found


def _address(ctx: click.Context, found: Organism, said: Mapping[str, Any]) -> BrokerAddress:
    import re

    from agentserver.broker.address import BrokerAddress
    from agentserver.config.keys.engines.nats import URLS_PATTERN

    url, ca, place = said["engine"], said["ca"], "--engine"
    if found.broker is not None:
        place = place if url else found.broker.place
        url, ca = url or found.broker.url, ca or found.broker.ca
    if url is None:
        project.refuse(ctx, "the organism names no broker: say where it is with --engine nats://HOST:PORT")
    if re.search(URLS_PATTERN, url) is None:
        told = (
            "an address is nats://HOST:PORT or tls://HOST:PORT; user and password stand in --credentials FILE"
        )
        project.refuse(ctx, f"--engine: {told}")
    return BrokerAddress(url, said["credentials"], ca=ca, place=place)


async def _handle(found: Organism, bound: BoundListener, address: BrokerAddress, many: int) -> None:
    import asyncio
    import signal
    from functools import partial

    import anyio.to_thread

    from agentserver.broker.words import Subjects
    from agentserver.extras import require
    from agentserver.wire.envelope import Bounds
    from agentserver.worker.planning import plan, walls
    from agentserver.worker.pool import Workers
    from agentserver.worker.remote.host import RemoteWorker
    from agentserver.worker.remote.queue import longest

    require("a worker on a machine of its own", "nats")
    walls([bound])
    name, limits = bound.listener.name, found.limits
    planned = await anyio.to_thread.run_sync(plan, found, bound, Bounds(bytes=limits.payload))
    ending, loop, task = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _end, ending, task)
    async with Workers(planned) as workers:
        most = longest(limits.payload, limits.storage)
        worker = RemoteWorker(address, Subjects(found.name), name, workers, most)
        failed = await _failure(worker.serve(many, ending, partial(project.say, err=True)))
    if failed is not None:
        raise failed


async def _failure(serving: Coroutine[Any, Any, None]) -> BrokerError | VersionError | None:
    """The error with which it ends: raised among the processes, it would come out as one of a group."""
    from agentserver.broker.address import BrokerError
    from agentserver.worker.remote.host import VersionError

    try:
        await serving
    except (BrokerError, VersionError) as error:
        return error
    return None


def _end(ending: asyncio.Event, task: asyncio.Task[Any] | None) -> None:
    if ending.is_set() and task is not None:
        task.cancel()
    ending.set()
