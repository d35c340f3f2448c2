"""The cost of a process of its own: the same handler in the server and behind the wall, in one run.

Rounds alternate between the two, so that other work of the machine meets both. Printed are the medians of asking and
being answered, one request after the other, and their ratio; the processor time of both processes for a request and its
ratio, which other work of the machine changes less. A process that has slept is slower for a while, and every call
behind a wall sleeps: the time of a call in the server directly after a sleep shows how much of the ratio that is. The
time that the bytes of a call and of its answer take there and back between two bare processes, which sleep until they
come, shows what the system takes itself, without an event loop, JSON or XML. A server without a journal is asked, then
one with a journal, for whose disk both wait. Printed as well are the time from the start of a server with one such
listener until it takes messages, less that of one without, and the memory of a worker that has answered.

    ./run bench isolation
    ./run bench isolation --quick
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from _targets import record

from agentserver.assembly import build
from agentserver.config import load
from agentserver.config.loading import forget
from agentserver.worker import frames
from agentserver.worker.wall import landlock
from agentserver.worker.wall.raising import list_missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from agentserver.pump.handle import ServerHandle

AIM, JOURNAL_AIM = 1.5, 1.2
"""How many times as long as in the server a call may take."""

WORDS = """
from dataclasses import dataclass

from agentserver import xmlify


@xmlify
@dataclass(frozen=True)
class Say:
    text: str
"""

HANDLER = """
from words_of_isolation import Say

from agentserver import HandlerResponse


async def echo(payload: Say, metadata) -> HandlerResponse:
    return HandlerResponse.respond(payload)
"""

ORGANISM = """
name: isolation
journal: {journal}
listeners:
  - name: echo
    description: Answers.
    handler: {handler}
    payload_class: words_of_isolation.Say
    concurrency: 1
{isolation}
"""
MESSAGE = b'<Say xmlns="urn:agentserver:payload:Say:v1"><text>' + b"x" * 300 + b"</text></Say>"
PLACES = {
    "in the server": {"handler": "echo_of_isolation_here.echo", "isolation": ""},
    "behind the wall": {
        "handler": "echo_of_isolation_there.echo",
        "isolation": "    isolation: {warm: 1, recycle: 1000000}",
    },
}


@asynccontextmanager
async def run_conversation(
    folder: Path, place: str, *, durable: bool
) -> AsyncIterator[tuple[ServerHandle, float]]:
    """A conversation with a server whose handler is in a place, and the seconds that its start took."""
    name = place.replace(" ", "_")
    path = folder / f"{name}.yaml"
    journal = f"{{path: {name}.sqlite}}" if durable else "none"
    path.write_text(ORGANISM.format(journal=journal, **PLACES[place]))
    organism = load(path, environ={})
    began = time.perf_counter()
    async with build(organism, durable=durable) as server:
        yield await server.open("bench"), time.perf_counter() - began
    forget(organism)


def used_cpu() -> float:
    """Seconds of processor time of this process and of its worker."""
    here = time.process_time()
    stat = worker_file("stat").rpartition(")")[2].split()
    return here + (sum(map(int, stat[11:13])) / os.sysconf("SC_CLK_TCK") if stat else 0.0)


PEER = """
import socket, sys
end, size, answer = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), bytes(int(sys.argv[3]))
while data := end.recv(size, socket.MSG_WAITALL):
    end.sendall(answer)
"""
"""Answers so many bytes with so many."""


@contextmanager
def note_sizes() -> Iterator[dict[str, int]]:
    """Note the bytes of the latest frame there and of the latest back, while the context lasts."""
    sizes: dict[str, int] = {}
    pack, feed = frames.pack, frames.FrameReader.feed

    def note_packed(frame: frames.Frame) -> bytes:
        data = pack(frame)
        sizes["call"] = len(data)
        return data

    def note_fed(reader: frames.FrameReader, data: bytes | memoryview) -> None:
        sizes["answer"] = len(data)
        feed(reader, data)

    frames.pack, frames.FrameReader.feed = note_packed, note_fed  # type: ignore[method-assign, assignment]
    try:
        yield sizes
    finally:
        frames.pack, frames.FrameReader.feed = pack, feed  # type: ignore[method-assign]


@contextmanager
def bare_peer(sizes: dict[str, int]) -> Iterator[socket.socket]:
    """A socket whose other end is a bare process, which answers the bytes of a call with those of an answer."""
    ours, theirs = socket.socketpair()
    number, call, answer = (str(each) for each in (theirs.fileno(), sizes["call"], sizes["answer"]))
    command = [sys.executable, "-I", "-c", PEER, number, call, answer]
    with ours, subprocess.Popen(command, pass_fds=[theirs.fileno()]):
        theirs.close()
        yield ours
        ours.shutdown(socket.SHUT_RDWR)


def time_bytes(ours: socket.socket, sizes: dict[str, int], times: int) -> list[float]:
    """Seconds of each exchange of bytes with a bare process."""
    call, took = bytes(sizes["call"]), []
    for _ in range(times):
        began = time.perf_counter()
        ours.sendall(call)
        answer = ours.recv(sizes["answer"], socket.MSG_WAITALL)
        took.append(time.perf_counter() - began)
        assert len(answer) == sizes["answer"]
    return took


SLEEP = 1e-4
"""Seconds for which a process sleeps before a call in the server, about as long as a server waits for its worker."""


async def time_requests(handle: ServerHandle, times: int, sleep: float = 0.0) -> list[float]:
    """Seconds of each request, without those slept before it."""
    took = []
    for _ in range(times):
        if sleep:
            await anyio.sleep(sleep)
        began = time.perf_counter()
        reply = await handle.ask(MESSAGE, "echo")
        took.append(time.perf_counter() - began)
        assert reply is not None
        assert reply.sender == "echo", reply
    return took


def worker_file(name: str) -> str:
    """A file about this process's child of the name agentserver.worker, from /proc; empty without one."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            told = status.read_text()
            command = (status.parent / "cmdline").read_bytes()
            if b"agentserver.worker" in command and f"PPid:\t{_own()}" in told:
                return (status.parent / name).read_text()
        except OSError:
            continue
    return ""


def _own() -> int:
    return int(Path("/proc/self").readlink().name)


async def main(rounds: int, times: int) -> None:
    """Print the tables."""
    for durable in (False, True):
        await table(rounds, times, durable=durable)


async def table(rounds: int, times: int, *, durable: bool) -> None:
    """Print one."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "words_of_isolation.py").write_text(WORDS)
        for module in ("here", "there"):
            (folder / f"echo_of_isolation_{module}.py").write_text(HANDLER)
        async with (
            run_conversation(folder, "in the server", durable=durable) as (here, quick),
            run_conversation(folder, "behind the wall", durable=durable) as (there, slow),
        ):
            took: dict[str, list[float]] = {place: [] for place in PLACES}
            spent = dict.fromkeys(PLACES, 0.0)
            slept: list[float] = []
            bare: list[float] = []
            await time_requests(here, times)
            with note_sizes() as sizes:
                await time_requests(there, times)
            peer = stack.enter_context(bare_peer(sizes))
            time_bytes(peer, sizes, times)
            for number in range(rounds):
                print(f"round {number + 1} of {rounds}", file=sys.stderr)
                for place, handle in zip(PLACES, (here, there), strict=True):
                    began = used_cpu()
                    took[place] += await time_requests(handle, times)
                    spent[place] += used_cpu() - began
                slept += await time_requests(here, times, SLEEP)
                bare += time_bytes(peer, sizes, times)
            memory = int(worker_file("status").split("VmRSS:")[1].split()[0]) / 1000
    kept = "with a journal" if durable else "without a journal"
    print(f"Landlock {landlock.version()}; {rounds} rounds of {times} requests, {kept}")
    for place, each in took.items():
        cpu = spent[place] / len(each)
        print(
            f"  {place:16} {statistics.median(each) * 1e6:8.0f} us a request, {cpu * 1e6:.0f} us of a processor"
        )
    print(f"  in the server {statistics.median(slept) * 1e6:11.0f} us a request, after a sleep of 0.1 ms")
    exchanged = f"{sizes['call']} bytes there and {sizes['answer']} back"
    print(f"  two bare processes {statistics.median(bare) * 1e6:6.0f} us for {exchanged}")
    ratio = statistics.median(took["behind the wall"]) / statistics.median(took["in the server"])
    aim = JOURNAL_AIM if durable else AIM
    print(f"  ratio {ratio:.2f} (aim {aim}) {'' if ratio <= aim else 'MISSED'}")
    record(f"walled call over one in the server, {kept}", [ratio], aim)
    more = spent["behind the wall"] / max(spent["in the server"], 1e-9)
    print(f"  ratio of the processor time of both processes {more:.2f}")
    print(f"  start of a server with one worker, more than without: {slow - quick:.2f} s")
    print(f"  memory of a worker: {memory:.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    logging.disable()
    lacks = list_missing()
    if lacks:
        print(f"skipped: this machine lacks {'; '.join(lacks)}")
        sys.exit(0)
    anyio.run(main, *((2, 50) if arguments.quick else (10, 300)))
