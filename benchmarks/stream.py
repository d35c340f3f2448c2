"""The time until the first piece of an agent's answer, against the provider's own, in the same run.

The provider is a local server of the OpenAI protocol in a process of its own. It sends the first piece at once, then
the others. Each round asks it directly and through the door of a server whose client has a stream of events open, in
turns, over connections that stay open, and compares the medians. Processor time of this process (server and client,
without the provider) is printed too: on a machine that others share it is the steadier figure.

    ./run bench stream          # at full length
    ./run bench stream --quick  # as CI runs it
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import anyio.to_thread
import httpx
from _targets import record

from agentserver import config
from agentserver.assembly import Principal, build
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bind, serve
from agentserver.gateways.principals import Caller, Delay, Rate, Role

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

AIM = 5.0
"""Milliseconds more than the provider's own."""
PIECES = 50
"""Pieces of an answer."""
CODE = '''"""The organism of the benchmark."""

from dataclasses import dataclass

from agentserver import xmlify


@xmlify
@dataclass(frozen=True)
class Wish:
    """What the agent is asked for."""

    text: str


@xmlify
@dataclass(frozen=True)
class Told:
    text: str
'''
YAML = """
name: bench
journal: none
listeners:
  - name: agent
    description: Answers.
    model: m
    prompt: prompt.md
    answer: bench_stream.Told
    payload_class: bench_stream.Wish
llm:
  backends:
    - {{name: b, provider: openai, model: gpt-4o, base_url: "{url}", stream: true}}
  models:
    - {{name: m, backends: [b]}}
"""


# The provider


async def provide() -> None:
    """Answer each prompt with a call of ``Told``, piece by piece."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readline():
            length = 0
            while head.strip():
                name, _, value = head.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
                head = await reader.readline()
            await reader.readexactly(length)
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            for piece in pieces():
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(0.001)
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def pieces() -> Iterator[bytes]:
    """The events of one answer."""
    yield chunk({"role": "assistant", "content": None})
    start = {
        "index": 0,
        "id": "call1",
        "type": "function",
        "function": {"name": "Told", "arguments": '{"text": "a'},
    }
    yield chunk({"tool_calls": [start]})
    for _ in range(PIECES):
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": " word"}}]})
    yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]})
    yield chunk({}, "tool_calls")
    yield b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    facts = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    return f"data: {json.dumps({**facts, 'choices': [choice]})}\n\n".encode()


@contextmanager
def provider() -> Iterator[str]:
    """The provider in a process of its own; gives its address."""
    command = [sys.executable, __file__, "--child=provider"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield f"http://127.0.0.1:{child.stdout.readline().strip()}/v1"
        finally:
            child.terminate()


# The door


class Ada:
    """The tokens of one user: her name."""

    caller = Caller(Principal("ada"), Role.USER, Rate(100_000, "s"), 100)

    def authenticate(self, token: str) -> Caller | None:
        return self.caller if token == "ada" else None

    async def prepare(self, token: str) -> None:
        """Fetch nothing."""

    def explain_absence(self, token: str) -> str:  # noqa: ARG002 - of the protocol
        return ""

    def stands(self, caller: Caller) -> bool:
        return caller == self.caller


class NoPace:
    """No rate."""

    def take(self, caller: Caller) -> Delay:  # noqa: ARG002 - of the protocol
        return Delay()

    def refuse(self, address: str) -> float:  # noqa: ARG002 - of the protocol
        return 0.0


@asynccontextmanager
async def door(folder: Path, url: str) -> AsyncIterator[str]:
    """A server with a door; gives its address."""
    (folder / "bench_stream.py").write_text(CODE, "utf-8")
    (folder / "prompt.md").write_text("You answer.\n", "utf-8")
    path = folder / "organism.yaml"
    path.write_text(YAML.format(url=url), "utf-8")
    organism = await anyio.to_thread.run_sync(lambda: config.load(path, environ={"PATH": os.environ["PATH"]}))
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    async with build(organism) as server:
        options = DoorOptions(*names(port, local=True, secure=False))
        opened = HttpDoor(server, options, TokenKeeper(Ada(), NoPace()), ())
        async with opened.open(), serve(opened, listening, None, opened.connections):
            yield f"http://127.0.0.1:{port}"


class Spent(NamedTuple):
    """What the way to a first piece took, in milliseconds.

    Args:
        wall: by the clock.
        cpu: of the processor, in this process.
    """

    wall: float
    cpu: float


class Watch:
    """Stopwatch for both times."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> Spent:
        """Return the times since the start."""
        return Spent((time.perf_counter() - self._wall) * 1e3, (time.process_time() - self._cpu) * 1e3)


async def read_until(lines: AsyncIterator[str], word: str) -> None:
    """Read lines up to one with this word."""
    async for line in lines:
        if word in line:
            return
    raise AssertionError(f"no {word} came")


async def ask_bare(client: httpx.AsyncClient, url: str) -> Spent:
    """Measure the first piece of the provider."""
    watch = Watch()
    body = {"model": "gpt-4o", "stream": True, "messages": [{"role": "user", "content": "go"}]}
    async with client.stream("POST", f"{url}/chat/completions", json=body) as answer:
        lines = answer.aiter_lines()
        await read_until(lines, "tool_calls")
        spent = watch.read()
        async for _ in lines:
            pass
    return spent


async def ask_door(client: httpx.AsyncClient, streams: httpx.AsyncClient, path: str) -> Spent:
    """Measure the first piece through the door."""
    async with streams.stream("GET", f"{path}/events?deltas=true&wait=60") as answer:
        lines = answer.aiter_lines()
        watch = Watch()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(client.post(f"{path}/messages?to=agent&wait=0", json={"text": "go"}))
            await read_until(lines, '"kind":"text"')
            spent = watch.read()
            await read_until(lines, '"type":"done"')
    return spent


async def measure(asks: int, rounds: int) -> list[tuple[Spent, Spent]]:
    """Measure both in turns; gives the medians of each round."""
    found = []
    with tempfile.TemporaryDirectory(prefix="agentserver-bench-") as name, provider() as url:
        async with door(Path(name), url) as address, httpx.AsyncClient(timeout=60) as bare:
            headers = {"authorization": "Bearer ada"}
            async with AsyncExitStack() as stack:
                both = [
                    await stack.enter_async_context(
                        httpx.AsyncClient(base_url=address, headers=headers, timeout=60)
                    )
                    for _ in range(2)
                ]
                for _ in range(rounds):
                    pairs = [(await ask_bare(bare, url), await ask_anew(*both)) for _ in range(asks)]
                    alone, served = zip(*pairs, strict=True)
                    found.append((take_median(alone), take_median(served)))
    return found


def take_median(spent: Iterable[Spent]) -> Spent:
    return Spent(*map(statistics.median, zip(*spent, strict=True)))


async def ask_anew(client: httpx.AsyncClient, streams: httpx.AsyncClient) -> Spent:
    """Measure the first piece through the door, in a conversation of its own."""
    opened = (await client.post("/v1/conversations")).json()["conversation"]
    path = f"/v1/conversations/{opened}"
    try:
        return await ask_door(client, streams, path)
    finally:
        await client.delete(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="with few requests")
    parser.add_argument("--child", choices=["provider"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        anyio.run(provide)
        return 0
    os.environ.pop("AGENTSERVER_ALLOW_MODELS", None)  # the provider is on this machine
    asks, rounds = (5, 1) if options.quick else (30, 5)
    found = anyio.run(measure, asks, rounds)
    bare, through = (take_median(each) for each in zip(*found, strict=True))
    print(f"{'ms until the first piece':<56}{'wall':>8}{'cpu':>8}")
    print(f"{'from the provider':<56}{bare.wall:>8.2f}{bare.cpu:>8.2f}")
    print(f"{'through the door':<56}{through.wall:>8.2f}{through.cpu:>8.2f}")
    more = [Spent(door.wall - bare.wall, door.cpu - bare.cpu) for bare, door in found]
    print(
        f"{'more (aim ' + format(AIM, 'g') + ')':<56}{take_median(more).wall:>8.2f}{take_median(more).cpu:>8.2f}"
    )
    record("stream: ms more until the first piece of an answer", [each.wall for each in more], AIM)
    return 0


if __name__ == "__main__":
    sys.exit(main())
