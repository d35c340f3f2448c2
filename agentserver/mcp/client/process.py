"""A server as a child process, reached over its standard input and output.

The process gets exactly the environment of the organism, and a process group that is killed whole; its lines have a
bounded length. The library's own transport passes six variables of this process on and reads lines of any length.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import anyio

from agentserver.characters.printing import clean_line
from agentserver.foreign_json.threads import ReadingThreads
from agentserver.mcp.client.messages import LIMITS, OverLimitError
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from anyio.abc import ByteReceiveStream, Process

    from agentserver.mcp.client.messages import ServerMessages
    from agentserver.payload.foreign.lock import McpServer

LINE: Final = LIMITS.bytes
"""Most bytes of one message of a server; one that says more has lost its connection."""
PATIENCE: Final = 2.0
"""Seconds that a server has to end when its input does, and again when it is asked to."""
SAID: Final = 500
"""Most characters that are logged of a line of a server's."""

logger = logging.getLogger("agentserver.mcp")

_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError)


class Launch(NamedTuple):
    """The start of a program: its words, environment and folder.

    Args:
        command: the program and its arguments.
        env: all of its environment.
        watch: runs meanwhile, and is given the id of its group of processes; the program ends with its failure.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    watch: Callable[[int], Coroutine[Any, Any, None]] | None = None


class Launcher(Protocol):
    """Prepares the start of a server's program in a directory, and cleans up afterwards."""

    def __call__(self, server: McpServer, directory: Path, /) -> AbstractAsyncContextManager[Launch]:
        """Prepare the start."""


@asynccontextmanager
async def plain(server: McpServer, directory: Path) -> AsyncIterator[Launch]:
    """Start a program without a wall. Raises RuntimeError if the program requires a wall."""
    if server.isolation is not None:
        raise RuntimeError(f"{server.name} is not started without its wall")
    yield Launch((_find_program(server.command[0], directory), *server.command[1:]), server.env)


@asynccontextmanager
async def open_pipes(
    server: McpServer, directory: Path, lost: anyio.Event, launcher: Launcher, messages: ServerMessages
) -> AsyncIterator[Any]:
    """Start the server's program; gives its messages and takes those to it, as the library's transports do.

    Args:
        server: with a command.
        directory: in which the program starts.
        lost: set when its output has ended.
        launcher: says how it is started.
        messages: reads what the server says.

    Raises OSError when it cannot be started, and what the launcher raises.
    """
    async with (
        launcher(server, directory) as launch,
        _start(launch, directory, server.name) as process,
        _open_streams(process, lost, server.name, messages) as streams,
    ):
        yield streams


@asynccontextmanager
async def _start(launch: Launch, directory: Path, name: str) -> AsyncIterator[Process]:
    process = await anyio.open_process(
        list(launch.command),
        env=dict(launch.env),
        cwd=directory,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with anyio.create_task_group() as watching:
            if launch.watch is not None:
                watch = partial(launch.watch, process.pid)
                start_errand(watching, f"holds the program of {name} to its limits", EndEffect.OWNER, watch)
            yield process
            watching.cancel_scope.cancel()
    finally:
        _signal(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True), anyio.move_on_after(PATIENCE):
            await process.aclose()


@asynccontextmanager
async def _open_streams(
    process: Process, lost: anyio.Event, name: str, messages: ServerMessages
) -> AsyncIterator[Any]:
    """Stream messages to and from the process; end it on exit."""
    incoming, received = anyio.create_memory_object_stream[Any](0)
    taken, outgoing = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as tasks:
        for verb, work in (
            ("reads", partial(_read, process, incoming, lost, name, messages)),
            ("writes to", partial(_write, process, outgoing, lost, messages)),
            ("logs", partial(_log, process, name)),
        ):
            start_errand(tasks, f"{verb} the program of {name}", EndEffect.OWNER, work)
        try:
            yield received, taken
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
            for stream in (received, taken, incoming, outgoing):
                stream.close()
            tasks.cancel_scope.cancel()


def _find_program(name: str, directory: Path) -> str:
    if os.sep in name:
        return str(directory / name)
    return shutil.which(name) or name


async def _read(
    process: Process, incoming: Any, lost: anyio.Event, name: str, messages: ServerMessages
) -> None:
    """Give every line as a message, or as the exception for a line without one. One beyond its limits is the last."""
    assert process.stdout is not None
    try:
        async with incoming:
            async for message in _messages(process.stdout, name, messages):
                await incoming.send(message)
    except OverLimitError as error:
        logger.warning("%s; its output is ignored from now on", error)
    except _GONE:
        pass
    finally:
        lost.set()


async def _messages(
    stream: ByteReceiveStream, name: str, messages: ServerMessages
) -> AsyncGenerator[Any, None]:
    """Give each message, and the exception for each line without one. Raises OverLimitError."""
    threads = ReadingThreads()
    async for line in _lines(stream, name):
        message = await _parse_message(line, name, messages, threads)
        if message is not None:
            yield message


async def _parse_message(line: bytes, name: str, messages: ServerMessages, threads: ReadingThreads) -> Any:
    """Parse a line; None if it is dropped. Raises OverLimitError."""
    from mcp.shared.message import SessionMessage

    try:
        message = await threads.read(messages.read, line)
    except ValueError as error:
        logger.warning("%s sent an invalid message: %s", name, _format_line(line))
        return error
    except OverLimitError as error:
        raise OverLimitError(f"{name} sent a message that is refused ({error})") from None
    if message is None:
        logger.warning("%s sent a message that is larger than any has to be: %s", name, _format_line(line))
    return None if message is None else SessionMessage(message)


async def _lines(stream: ByteReceiveStream, name: str) -> AsyncIterator[bytes]:
    """Give each line. Raises OverLimitError for one of more than LINE bytes."""
    remaining = bytearray()
    async for chunk in stream:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = bytes(remaining + line)
            remaining.clear()
            if whole.strip():
                yield whole
        remaining += rest
        if len(remaining) > LINE:
            raise OverLimitError(f"{name} said more than {LINE} bytes at once")


async def _write(process: Process, outgoing: Any, lost: anyio.Event, messages: ServerMessages) -> None:
    assert process.stdin is not None
    try:
        async with outgoing:
            async for each in outgoing:
                _note(each.message, messages)
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(text.encode() + b"\n")
    except _GONE:
        lost.set()


def _note(message: Any, messages: ServerMessages) -> None:
    from mcp_types import JSONRPCRequest

    if isinstance(message, JSONRPCRequest):
        messages.ask(message.id, message.method)


async def _log(process: Process, name: str) -> None:
    """Log the server's stderr line by line, without control characters."""
    assert process.stderr is not None
    with suppress(*_GONE, OverLimitError):
        async for line in _lines(process.stderr, name):
            logger.info("%s: %s", name, _format_line(line))


def _format_line(line: bytes) -> str:
    return clean_line(line[: SAID * 4].decode(errors="replace"), SAID)


async def _end(process: Process) -> None:
    """Close the program's input and wait; send SIGTERM and wait; then kill the rest of its group."""
    assert process.stdin is not None
    with suppress(*_GONE):
        await process.stdin.aclose()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await _wait_for_end(process):
            break
        _signal(process.pid, number)
    await _wait_for_end(process)


async def _wait_for_end(process: Process) -> bool:
    # ``wait`` would also wait for the pipes, which a child of the program may hold.
    with anyio.move_on_after(PATIENCE):
        while process.returncode is None:  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
