"""A provider on a real socket that says each piece of an answer when the test says so, and an agent that asks it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from agentserver.config import forget, load
from tests.gateways.http.desk import desk
from tests.llm.providers import allow_models
from tests.machine import HANGS

CODE = """
from dataclasses import dataclass
from typing import Annotated
from annotated_types import MaxLen
from agentserver import HandlerResponse, xmlify

@xmlify
@dataclass
class Wish:
    text: str

@xmlify
@dataclass
class Told:
    text: str

@xmlify
@dataclass
class Short:
    text: Annotated[str, MaxLen(200)]

@xmlify
@dataclass
class Fetch:
    page: str

@xmlify
@dataclass
class Page:
    text: str

async def fetch(payload: Fetch, metadata) -> HandlerResponse:
    if payload.page == "crash":
        raise ValueError("crash")
    return HandlerResponse.respond(Page(f"page {payload.page}"))

async def relay(payload: Wish, metadata) -> HandlerResponse:
    return HandlerResponse(payload, "agent") if isinstance(payload, Wish) else HandlerResponse.respond(payload)
"""

YAML = """
name: desk
listeners:
  - name: agent
    model: m
    prompt: prompt.md
    answer: {module}.{answer}
    payload_class: {module}.Wish
    description: Does it.
    peers: [web]
    agent: {agent}
  - {{name: web, handler: {module}.fetch, description: Fetches.}}
{listeners}
llm:
  backends:
    - {{name: b, provider: openai, model: gpt, key: "${{KEY}}", base_url: "{url}", stream: true}}
    - {{name: c, provider: openai, model: other, key: "${{KEY}}", base_url: "{url}", stream: true}}
  models:
    - {{name: m, backends: [b, c], retries: 0}}
{more}
"""


@dataclass
class Exchange:
    """One request to the provider, whose answer the test gives piece by piece."""

    body: dict
    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def _send(self, data: str) -> None:
        raw = data.encode()
        self.writer.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        await self.writer.drain()

    async def begin(self) -> None:
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        self.writer.write(head.encode())
        await self._delta({"role": "assistant", "content": None})

    async def _delta(self, delta: dict, reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        base = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": self.body["model"]}
        await self._send(f"data: {json.dumps({**base, 'choices': [choice]})}\n\n")

    async def call(self, name: str, index: int = 0) -> None:
        function = {"name": name, "arguments": ""}
        call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        await self._delta({"tool_calls": [call]})

    async def say(self, arguments: str, index: int = 0) -> None:
        await self._delta({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})

    async def finish(self, reason: str = "tool_calls") -> None:
        await self._delta({}, reason)
        usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
        base = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": self.body["model"]}
        await self._send(f"data: {json.dumps({**base, 'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def cut(self) -> None:
        """Lose the connection."""
        self.writer.transport.abort()

    async def whole(self, name: str, *pieces: str) -> None:
        """Answer with one call."""
        await self.begin()
        await self.call(name)
        for piece in pieces:
            await self.say(piece)
        await self.finish()


class Provider:
    """The provider."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[Exchange] = asyncio.Queue()
        self.url = ""

    async def next(self) -> Exchange:
        """The next request."""
        with anyio.fail_after(HANGS):
            return await self.asked.get()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                size = int(head.partition("content-length: ")[2].partition("\r\n")[0])
                exchange = Exchange(json.loads(await reader.readexactly(size)), writer)
                self.asked.put_nowait(exchange)
                if not await self._watch(reader, exchange):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def _watch(self, reader: asyncio.StreamReader, exchange: Exchange) -> bool:
        """Wait until a further request comes on the connection. False when the client has left."""
        while not reader._buffer:
            if reader.at_eof():
                exchange.gone.set()
                return False
            await reader._wait_for_data("watch")
        return True


@asynccontextmanager
async def provider():
    one = Provider()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with allow_models():
        try:
            yield one
        finally:
            server.close()


def organism_at(folder, url, *, answer="Told", agent="{}", listeners="", more="", module="streaming_code"):
    """The organism with an agent that asks the provider at this address."""
    (folder / f"{module}.py").write_text(CODE)
    (folder / "prompt.md").write_text("You work at a desk.\n")
    path = folder / "organism.yaml"
    found = YAML.format(module=module, url=url, answer=answer, agent=agent, listeners=listeners, more=more)
    path.write_text(found)
    return load(path, environ={"KEY": "key-of-the-test"})


@asynccontextmanager
async def stream_desk(folder, *, parts=(), engine=None, guards=None, options=None, **yaml):
    """A desk with the agent, and its provider."""
    async with provider() as one:
        made = await asyncio.to_thread(lambda: organism_at(folder, one.url, **yaml))
        try:
            async with desk(made=made, parts=parts, engine=engine, guards=guards, **(options or {})) as door:
                yield door, one
        finally:
            forget(made)


@asynccontextmanager
async def events(client, path, query="deltas=true", *, calls=False):
    """Gives a function that returns the next event of a stream as an object, those of calls only on request."""
    async with client.stream("GET", f"{path}/events?{query}") as answer:
        assert answer.status_code == 200
        lines = answer.aiter_lines()

        async def follow_events():
            with anyio.fail_after(HANGS):
                async for line in lines:
                    event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else None
                    if event is not None and (calls or event.get("kind") not in {"call", "result"}):
                        return event
            raise AssertionError("the stream is over")

        yield follow_events
