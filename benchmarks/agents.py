"""The cost of agents and of their tools against the same work without them, in the same run.

- agent loop: a ready-made agent that asks its model four times and calls three tools, in memory, against the same four
  requests to the same provider (a local server of the OpenAI protocol, in a process of its own) by the library alone.
- MCP hop: a message to a tool of a real MCP server and its answer, against the same call by the SDK alone.
- journal: bytes that a turn of a conversation with an agent writes, 5 kB said in each, early and late.
- start: seconds until a server with that agent and that tool is ready, with a script for a model and no MCP server
  against both; and the CPU of ``check``, which imports neither.

    ./run bench agents          # at full length
    ./run bench agents --quick  # as CI runs it
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from agentserver import config
from agentserver.assembly import build
from agentserver.completion import Completion, ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from agentserver.assembly import Server
    from agentserver.completion import Prompt

PARTS = ("loop", "mcp", "journal", "start")
TOOLS = 3
"""Calls of tools in one request."""
ENTRY = 5000
"""Bytes that are said in a turn whose journal is measured."""
WINDOW = 5
"""Turns before and after the one whose bytes are reported; they are averaged."""

CODE = '''"""The organism of the benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import MaxLen

from agentserver import HandlerMetadata, HandlerResponse, xmlify


@xmlify
@dataclass(frozen=True)
class Wish:
    """What the agent is asked for."""

    text: str


@xmlify
@dataclass(frozen=True)
class Done:
    """The end of it."""

    text: Annotated[str, MaxLen(200)]


@xmlify
@dataclass(frozen=True)
class Add:
    """Adds two numbers."""

    a: int
    b: int


@xmlify
@dataclass(frozen=True)
class Sum:
    value: int


async def add(payload: Add, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Sum(payload.a + payload.b))
'''
YAML = """
name: bench
journal: none
limits: {{storage: 16777216, conversation_messages: 100000000}}
listeners:
  - name: agent
    description: Does it.
    model: m
    prompt: prompt.md
    answer: bench_agents.Done
    payload_class: bench_agents.Wish
    peers: [calc]
    agent: {{turns: 12, history: 8000000}}
  - {{name: calc, handler: bench_agents.add, description: Calculates.}}
llm:
  backends:
    - {backend}
  models:
    - {{name: m, backends: [b]}}
"""
SCRIPTED = "{name: b, provider: scripted, script: script.yaml}"
MCP = """
mcp:
  - name: clock
    command: {command}
    tools: [{{name: get_current_time, trust: trusted}}]
"""
ASKED = {"timezone": "Europe/Berlin"}


def project(folder: Path, backend: str = SCRIPTED, more: str = "") -> Path:
    """Write the organism; gives the path of its YAML."""
    (folder / "bench_agents.py").write_text(CODE, "utf-8")
    (folder / "prompt.md").write_text("You work at a desk.\n", "utf-8")
    (folder / "script.yaml").write_text('- text: "nothing"\n', "utf-8")
    path = folder / "organism.yaml"
    path.write_text(YAML.format(backend=backend) + more, "utf-8")
    return path


def server_of(path: Path, script: Callable[[Prompt], Completion] | None = None, **how: Any) -> Server:
    """A server of the organism, with a model that a function speaks for if there is one."""
    organism = config.load(path, environ={"PATH": os.environ["PATH"]})
    if script is not None and organism.models is not None:
        spoken = {name: replace(one, script=script) for name, one in organism.models.backends.items()}
        organism = replace(organism, models=replace(organism.models, backends=MappingProxyType(spoken)))
    return build(organism, **how)


def wish(text: str) -> bytes:
    return f'<Wish xmlns="urn:agentserver:payload:Wish:v1"><text>{text}</text></Wish>'.encode()


# Agent loop


@contextmanager
def provider() -> Iterator[str]:
    """A server of the OpenAI protocol in a process of its own; gives its address."""
    child = subprocess.Popen(
        [sys.executable, __file__, "--child=provider"], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        yield f"http://127.0.0.1:{child.stdout.readline().strip()}/v1"
    finally:
        child.terminate()
        child.wait()


async def provide() -> None:
    """Answer prompts: calls of the tool, then the call by which the agent has to answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readline():
            length = 0
            while head.strip():
                name, _, value = head.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
                head = await reader.readline()
            body = answer_json(json.loads(await reader.readexactly(length)))
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
            )
            writer.write(body)
            await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def answer_json(body: dict[str, Any]) -> bytes:
    told = sum(message["role"] == "tool" for message in body["messages"])
    name, given = ("calc", '{"a": 1, "b": 2}') if told < TOOLS else ("Done", '{"text": "well"}')
    call = {"id": f"call{told}", "type": "function", "function": {"name": name, "arguments": given}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    facts = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
    return json.dumps({**facts, "choices": [choice], "usage": usage}).encode()


async def loop(requests: int, rounds: int) -> list[tuple[float, float]]:
    """Seconds of a request by the agent and bare, in each round."""
    from pydantic_ai.direct import model_request

    from agentserver.llm import providers

    seen: list[tuple[Any, Any, dict[str, Any]]] = []

    async def watch_request(model: Any, said: Any, **how: Any) -> Any:
        seen.append((model, said, how))
        return await model_request(model, said, **how)

    with tempfile.TemporaryDirectory(prefix="agentserver-bench-") as name, provider() as url:
        backend = f'{{name: b, provider: openai, model: gpt-4o, base_url: "{url}"}}'
        server = await anyio.to_thread.run_sync(lambda: server_of(project(Path(name), backend)))
        async with server:

            async def agent() -> None:
                handle = await server.open("bench")
                reply = await handle.ask(wish("go"), "agent")
                assert reply is not None, "the agent has answered"
                assert b"well" in reply.message, reply.message
                await handle.close()

            async def bare() -> None:
                for model, said, how in seen:
                    await model_request(model, said, **how)

            vars(providers)["model_request"] = watch_request
            await agent()
            vars(providers)["model_request"] = model_request
            assert len(seen) == TOOLS + 1
            return await side_by_side(agent, bare, requests, rounds)


async def side_by_side(
    one: Callable[[], Awaitable[None]], other: Callable[[], Awaitable[None]], times: int, rounds: int
) -> list[tuple[float, float]]:
    """Seconds of each of two, in turns, so that what else the machine does falls on both."""
    found = []
    for _ in range(rounds):
        spent = [0.0, 0.0]
        for _ in range(times):
            for place, work in enumerate((one, other)):
                began = time.perf_counter()
                await work()
                spent[place] += time.perf_counter() - began
        found.append((spent[0] / times, spent[1] / times))
    return found


# MCP hop


def with_clock(folder: Path, backend: str = SCRIPTED) -> Path:
    """The organism with a real MCP server, locked."""
    from agentserver.config.code.tools import lock_path
    from agentserver.config.glimpse import read_servers
    from agentserver.mcp.client.connection import ask
    from agentserver.mcp.client.process import plain
    from agentserver.payload.foreign.lock import write_lock

    command = json.dumps([sys.executable, "-m", "mcp_server_time"])
    path = project(folder, backend, MCP.format(command=command))
    found, directory, mistakes = read_servers(path, {"PATH": os.environ["PATH"]})
    assert not mistakes, mistakes
    lock = folder / lock_path("clock")
    lock.parent.mkdir(parents=True)
    lock.write_text(write_lock(ask(found[0], directory, plain).lock), "utf-8")
    return path


async def hop(calls: int, rounds: int) -> list[tuple[float, float]]:
    """Seconds of a call through the server and bare, in each round."""
    from mcp import Client, StdioServerParameters, stdio_client

    parameters = StdioServerParameters(command=sys.executable, args=["-m", "mcp_server_time"])
    with tempfile.TemporaryDirectory(prefix="agentserver-bench-") as name:
        server = await anyio.to_thread.run_sync(lambda: server_of(with_clock(Path(name))))
        async with server, Client(stdio_client(parameters)) as client:
            handle = await server.open("bench")
            codecs = server.rules.codecs
            (takes,) = server.rules.blueprint.listeners["clock.get_current_time"].payloads
            message = codecs.of(takes).encode(takes(**ASKED)).encode()

            async def send_through() -> None:
                reply = await handle.ask(message, "clock.get_current_time")
                assert reply is not None, "the tool has answered"
                assert not reply.error, reply.message

            async def bare() -> None:
                found = await client.call_tool("get_current_time", ASKED)
                assert not found.is_error

            await send_through()
            await bare()
            return await side_by_side(send_through, bare, calls, rounds)


# Journal


def speak_turns(prompt: Prompt) -> Completion:
    """A tool, then the answer, in each turn."""
    last = prompt.messages[-1]
    name, given = ("Done", '{"text": "well"}') if last.role == "tool" else ("calc", '{"a": 1, "b": 2}')
    number = sum(message.role == "tool" for message in prompt.messages)
    return Completion("", (ToolCall(f"call{number}", name, given),), Usage(10, 3, 1, 0.0))


async def written_by_turns(turns: int) -> list[int]:
    """Bytes by which each turn has made the journal larger."""
    from agentserver.engines.sqlite.engine import SqliteEngine
    from agentserver.engines.sqlite.file import JournalOptions, Sync

    with tempfile.TemporaryDirectory(prefix="agentserver-bench-") as name:
        path = Path(name) / "journal.sqlite"
        plain = await anyio.to_thread.run_sync(lambda: server_of(project(Path(name)), speak_turns))
        engine = SqliteEngine(JournalOptions(path, Sync.NORMAL), plain.rules.guards)
        plain.engine = engine
        async with plain:
            handle = await plain.open("bench")
            found, before = [], 0
            for number in range(turns):
                reply = await handle.ask(wish(f"{number:0{ENTRY}}"), "agent")
                assert reply is not None, f"turn {number} was answered"
                assert b"well" in reply.message, reply.message
                now = await engine.read(lambda _: size(path))
                found.append(now - before)
                before = now
    return found


def size(path: Path) -> int:
    """Bytes of a journal at work, of its log too."""
    with closing(sqlite3.connect(path)) as connection:
        (pages,) = connection.execute("pragma page_count").fetchone()
        (each,) = connection.execute("pragma page_size").fetchone()
    return int(pages) * int(each)


# Start


@asynccontextmanager
async def start_server(path: Path) -> AsyncIterator[float]:
    """A server at work; gives the seconds until it was ready."""
    began = time.perf_counter()
    server = await anyio.to_thread.run_sync(lambda: server_of(path))
    async with server:
        yield time.perf_counter() - began


async def start(path: Path) -> None:
    async with start_server(path) as seconds:
        print(f"{seconds:.3f}")


def starts(rounds: int) -> None:
    """Print seconds until ready, and CPU seconds of ``check``, without and with both extras."""
    with tempfile.TemporaryDirectory(prefix="agentserver-bench-") as name:
        plain, both = Path(name) / "plain", Path(name) / "both"
        plain.mkdir()
        both.mkdir()
        port = free_port()
        backend = f'{{name: b, provider: openai, model: gpt-4o, base_url: "http://127.0.0.1:{port}/v1"}}'
        for label, path in (("neither", project(plain)), ("both", with_clock(both, backend))):
            ready = min(float(child(["--child=start", f"--path={path}"], path.parent)) for _ in range(rounds))
            checked = min(
                cpu([sys.executable, "-m", "agentserver", "check", str(path)]) for _ in range(rounds)
            )
            print(f"start, {label:<8} ready after {ready:.2f} s   check: {checked:.2f} s of CPU")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def child(args: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, __file__, *args], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def cpu(argv: list[str]) -> float:
    """CPU seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def print_comparison(label: str, found: list[tuple[float, float]], aim: float) -> None:
    ratio = statistics.median(one / other for one, other in found)
    one, other = (statistics.median(column) * 1000 for column in zip(*found, strict=True))
    print(f"{label:<12} {one:7.2f} ms   bare {other:7.2f} ms   ratio {ratio:.2f} (aim {aim})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few of everything")
    parser.add_argument("--only", choices=PARTS, help="this part alone")
    parser.add_argument("--child", choices=("provider", "start"), help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child == "provider":
        asyncio.run(provide())
        return
    if args.child == "start":
        anyio.run(start, args.path)
        return
    if args.only is None:
        for part in PARTS:  # a process each: one process takes a module from one project
            subprocess.run([sys.executable, __file__, f"--only={part}", *sys.argv[1:]], check=True)
        return
    measure(args.only, quick=args.quick)


def measure(part: str, *, quick: bool) -> None:
    rounds = 3 if quick else 9
    if part == "loop":
        print_comparison("agent loop", anyio.run(loop, 10 if quick else 50, rounds), 1.5)
    elif part == "mcp":
        print_comparison("MCP hop", anyio.run(hop, 50 if quick else 300, rounds), 1.3)
    elif part == "journal":
        late = 50 if quick else 200
        found = anyio.run(written_by_turns, late + WINDOW)
        early, later = (statistics.mean(found[at - WINDOW : at + WINDOW]) for at in (10, late))
        told = f"turn 10: {early / 1000:.1f} kB   turn {late}: {later / 1000:.1f} kB"
        print(f"journal      {told}   ratio {later / early:.2f} (aim 1.2)")
    else:
        starts(1 if quick else 3)


if __name__ == "__main__":
    main()
