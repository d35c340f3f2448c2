"""The cost of the HTTP gateway against a bare server of the same library; the client is a process of its own.

- requests: JSON and XML to a trivial listener and its reply, against an echo without a gateway (starlette, uvicorn);
  with a journal, and with what is kept in memory.
- fairness: how long one principal's requests take, 99 of 100 of them, alone and while another floods the door.
- watchers: bytes that an idle stream of events costs the server.
- latency: from the commit of a reply to the client that watches.

    ./run bench gateway          # at full length
    ./run bench gateway --quick  # as CI runs it
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import uvicorn
from _targets import record

from agentserver import HandlerMetadata, HandlerResponse, xmlify
from agentserver.assembly import Principal, build
from agentserver.cli.process import collect_as_usual, collect_rarely
from agentserver.core.blueprint import Limits
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bind
from agentserver.gateways.http.serving import serve as serve_door
from agentserver.gateways.principals import Caller, Rate, Rates, Role
from agentserver.rulebook import build_rules
from agentserver.testing import listener, organism_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request

    from agentserver.config import Organism
    from agentserver.ports import Engine

PEOPLE = 64
"""Principals that the door knows."""
AIM, FAR = 0.25, 0.45
TIMES = 5.0


@xmlify
@dataclass(frozen=True)
class Ask:
    """A request."""

    text: str


@xmlify
@dataclass(frozen=True)
class Tell:
    """A reply."""

    text: str


async def answer(payload: Ask, metadata: HandlerMetadata) -> HandlerResponse:
    """Say it again."""
    del metadata
    return HandlerResponse.respond(Tell(payload.text))


class People:
    """Principals without a file: p0, p1, and an operator."""

    def __init__(self) -> None:
        self._known = {
            name: Caller(Principal(name), Role.USER, Rate(100_000, "s"), 1000)
            for name in (f"p{number}" for number in range(PEOPLE))
        }
        self._known["operator"] = Caller(Principal("operator1"), Role.OPERATOR, Rate(100_000, "s"), 1000)

    def authenticate(self, token: str) -> Caller | None:
        """The caller of a token."""
        return self._known.get(token)

    async def prepare(self, token: str) -> None:
        """Fetch nothing."""

    def explain_absence(self, token: str) -> str:  # noqa: ARG002 - none is away
        """Nothing is away."""
        return ""

    def stands(self, caller: Caller) -> bool:
        """Nobody is revoked."""
        return bool(caller)


# The server


LASTING = 3600
"""Seconds that a connection may be idle: each is idle while others are measured, for seconds on a busy machine."""


def engine_of(organism: Organism, journal: str) -> Engine:
    """The engine of a journal file, or of memory without one."""
    if not journal:
        return MemoryEngine()
    return SqliteEngine(JournalOptions(Path(journal)), build_rules(organism).guards)


async def serve(journal: str) -> None:
    """Serve the door and the echo until standard input ends; print their ports."""
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    async def echo(request: Request) -> Response:
        return Response(await request.body(), media_type="application/json")

    limits = Limits(principal_queue=100_000, queue=100_000)
    organism = await anyio.to_thread.run_sync(
        lambda: organism_of(listener("asked", answer, Ask), limits=limits)
    )
    door_socket, echo_socket = bind("127.0.0.1", 0), bind("127.0.0.1", 0)
    port = door_socket.getsockname()[1]
    hosts, origins = names(port, local=True, secure=False)
    bare = Starlette(routes=[Route("/", echo, methods=["POST"])])
    async with build(organism, engine=engine_of(organism, journal)) as server:
        collect_as_usual()
        keeper = TokenKeeper(People(), Rates(time.monotonic))
        door = HttpDoor(
            server,
            DoorOptions(hosts, origins, streams=1000, held=10_000, present=2000, connections=10_000),
            keeper,
        )
        async with (
            door.open(),
            serve_door(door, door_socket, None, door.connections, LASTING),
            anyio.create_task_group() as tasks,
        ):
            config = uvicorn.Config(
                bare, log_config=None, lifespan="off", access_log=False, timeout_keep_alive=LASTING
            )
            tasks.start_soon(uvicorn.Server(config)._serve, [echo_socket])  # noqa: SLF001 - serve() takes signals
            print(port, echo_socket.getsockname()[1], flush=True)
            await anyio.to_thread.run_sync(sys.stdin.read)
            tasks.cancel_scope.cancel()


@contextmanager
def server(journal: str = "") -> Iterator[tuple[int, int, int]]:
    """A server in a process of its own: its id, the port of the door, the port of the echo."""
    with subprocess.Popen(
        [sys.executable, __file__, "--child", journal],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        door, echo = map(int, process.stdout.readline().split())
        try:
            yield process.pid, door, echo
        finally:
            process.stdin.close()


# The client


class Line:
    """One connection, which is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self.reader, self._writer, self._port = reader, writer, port

    @classmethod
    async def to(cls, port: int) -> Line:
        """A connection to a port of this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port), port)

    def say(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json", who: str = "p0"
    ) -> None:
        """Send a request."""
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\nauthorization: Bearer {who}\r\n"
            f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)

    async def head(self) -> tuple[int, int]:
        """Read the head of an answer; its status and length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        _, _, rest = head.lower().partition(b"content-length: ")
        return int(head[9:12]), int(rest.split(b"\r\n", 1)[0] or 0)

    async def ask(self, *said: Any, **how: Any) -> bytes:
        """Send a request, and return its answer."""
        self.say(*said, **how)
        status, length = await self.head()
        body = await self.reader.readexactly(length)
        assert status < 300, (status, body)
        return body

    async def close(self) -> None:
        """End it."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


@asynccontextmanager
async def lines(port: int, count: int) -> AsyncIterator[list[Line]]:
    """Several connections."""
    found = [await Line.to(port) for _ in range(count)]
    try:
        yield found
    finally:
        for line in found:
            await line.close()


async def open_conversation(line: Line, who: str = "p0") -> str:
    """The path of a new conversation."""
    found = json.loads(await line.ask("POST", "/v1/conversations", who=who))
    return f"/v1/conversations/{found['conversation']}"


BODY = json.dumps({"text": "hello there"}).encode()


def markup() -> bytes:
    """The same as XML."""
    from agentserver.payload.codec import Codecs

    return Codecs([Ask]).of(Ask).encode(Ask("hello there")).encode()


async def requests(door: int, echo: int, each: int, rounds: int, aim: float | None = None) -> None:
    """Print requests a second of the three ways, in turns, so that what else the machine does falls on all.

    ``aim`` is that of a door with a journal.
    """
    xml = markup()
    found: dict[str, list[float]] = {"echo": [], "JSON": [], "XML": []}
    async with lines(door, 8) as doors, lines(echo, 8) as echoes:
        paths = [await open_conversation(line) for line in doors]

        async def send_many(way: str) -> float:
            async def send_some(number: int) -> None:
                for _ in range(each):
                    if way == "echo":
                        await echoes[number].ask("POST", "/", BODY)
                    elif way == "JSON":
                        await doors[number].ask("POST", f"{paths[number]}/messages?to=asked", BODY)
                    else:
                        await doors[number].ask(
                            "POST", f"{paths[number]}/messages?to=asked", xml, "application/xml"
                        )

            began = time.perf_counter()
            await asyncio.gather(*map(send_some, range(8)))
            return 8 * each / (time.perf_counter() - began)

        for _ in range(rounds + 1):  # the first warms up
            for way, rates in found.items():
                rates.append(await send_many(way))
    kept = "in memory" if aim is None else "with the journal"
    print(f"what is kept {kept}:")
    for way in ("JSON", "XML"):
        ratios = [one / bare for one, bare in zip(found[way][1:], found["echo"][1:], strict=True)]
        ratio = statistics.median(ratios)
        record(f"door over a bare echo, {kept}, {way}", ratios, aim, least=True)
        rate, bare = (statistics.median(found[name][1:]) for name in (way, "echo"))
        print(f"{way:<9} {rate:6.0f}/s   bare echo {bare:6.0f}/s   ratio {ratio:.2f} (aim {AIM}, far {FAR})")


async def fairness(door: int, each: int) -> None:
    """Print how long a principal's requests take, alone and next to one that floods."""
    async with lines(door, 33) as (mine, *others):
        path = await open_conversation(mine, "p1")

        async def quiet() -> float:
            took = []
            for _ in range(each):
                began = time.perf_counter()
                await mine.ask("POST", f"{path}/messages?to=asked", BODY, who="p1")
                took.append(time.perf_counter() - began)
                await asyncio.sleep(0.005)
            return sorted(took)[int(len(took) * 0.99) - 1]

        async def flood(line: Line, where: str) -> None:
            while True:
                await line.ask("POST", f"{where}/messages?to=asked", BODY, who="p2")

        alone = await quiet()
        places = [await open_conversation(line, "p2") for line in others]
        floods = [asyncio.ensure_future(flood(*pair)) for pair in zip(others, places, strict=True)]
        await asyncio.sleep(0.2)
        beside = await quiet()
        for one in floods:
            one.cancel()
        await asyncio.gather(*floods, return_exceptions=True)
    told = f"p99 alone {alone * 1000:.1f} ms   beside a flood of 32 {beside * 1000:.1f} ms"
    print(f"fairness  {told}   {beside / alone:.1f} times (aim {TIMES:g})")


def resident(process: int) -> int:
    """Bytes of memory that a process has."""
    return int(Path(f"/proc/{process}/statm").read_text("utf-8").split()[1]) * 4096


async def watchers(process: int, door: int, count: int) -> None:
    """Print what an idle stream costs."""
    async with lines(door, count) as found:
        path = await open_conversation(found[0])
        before = await anyio.to_thread.run_sync(resident, process)
        for line in found:
            line.say("GET", f"{path}/events")
            await line.reader.readuntil(b"\r\n\r\n")
        after = await anyio.to_thread.run_sync(resident, process)
    print(f"watchers  {(after - before) / count / 1000:.1f} kB for each of {count} idle streams")


async def latency(door: int, each: int) -> None:
    """Print how long it takes from the commit of a reply until the client that watches has it."""
    async with lines(door, 3) as (asking, watching, looking):
        path = await open_conversation(asking)
        watching.say("GET", f"{path}/events")
        await watching.reader.readuntil(b"\r\n\r\n")
        arrived: dict[str, float] = {}
        for _ in range(each):
            await asking.ask("POST", f"{path}/messages?to=asked", BODY)
            while True:
                data = await watching.reader.readuntil(b"\n\n")
                now = time.time()
                said = json.loads(
                    data.partition(b"data: ")[2].partition(b"\r\n")[0].partition(b"\n")[0] or b"{}"
                )
                if said.get("type") == "reply":
                    arrived[said["request"]] = now
                if said.get("type") == "done":
                    break
        records = json.loads(await looking.ask("GET", f"{path}/trace", who="operator"))["records"]
    left = {each["request"]: each["at"] for each in records if each["event"] == "answered"}
    took = sorted(at - left[request] for request, at in arrived.items() if request in left)
    worst = took[int(len(took) * 0.99) - 1]
    told = f"{statistics.median(took) * 1000:.1f} ms, 99 of 100 in {worst * 1000:.1f} ms"
    print(f"latency   from the decision about a reply to the client that watches: {told}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few of everything")
    parser.add_argument("--child", metavar="JOURNAL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        collect_rarely()
        anyio.run(serve, args.child)
        return
    quick = args.quick
    each, rounds = (30, 3) if quick else (300, 9)
    with tempfile.TemporaryDirectory(prefix="agentserver-bench-") as folder:
        with server(str(Path(folder, "journal.sqlite"))) as (_, door, echo):
            anyio.run(requests, door, echo, each, rounds, AIM)
        with server() as (_, door, echo):
            anyio.run(requests, door, echo, each, rounds)
    with server() as (process, door, echo):
        anyio.run(fairness, door, 100 if quick else 1000)
        anyio.run(latency, door, 50 if quick else 1000)
        anyio.run(watchers, process, door, 50 if quick else 500)


if __name__ == "__main__":
    main()
