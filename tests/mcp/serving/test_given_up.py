"""A host that gives up a call and makes it again: whatever the reason, it has one effect, and gets its result."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from agentserver.assembly import Trust
from tests.gateways.http.desk import person
from tests.machine import HANGS
from tests.mcp.serving.behind import serve_behind
from tests.pump.desk import wait_until

pytestmark = pytest.mark.anyio
TELLER = Path(__file__).parents[2] / "fixtures" / "mcp_teller"
ASKED = {"to": "bob", "amount": 5}
ADA = person("ada", trust=Trust.STRANGER)
WAYS = ("stdio", "legacy stdio", "http", "legacy http")


class Book:
    """The effects that listeners had, and the leave to answer."""

    def __init__(self, path):
        self.path = path

    async def lines(self):
        path = anyio.Path(self.path)
        return sorted((await path.read_text()).splitlines()) if await path.exists() else []

    def go(self):
        self.path.with_name("go").touch()


@pytest.fixture
def home(tmp_path):
    shutil.copytree(TELLER, tmp_path / "teller", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "teller"


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.setenv("TELLER_BOOK", str(tmp_path / "book"))
    return Book(tmp_path / "book")


@asynccontextmanager
async def serve_teller(home, way):
    """A way to connect to the teller, as often as one likes; by standard streams there is one connection."""
    mode = "legacy" if way.startswith("legacy") else "auto"
    if way.endswith("http"):
        async with serve_behind(home, ADA) as here:
            yield lambda: here.host("ada", mode)
        return
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "agentserver", "mcp", "serve", "organism.yaml"],
        cwd=home,
        env=dict(os.environ),
    )
    async with Client(started, mode=mode) as client:

        @asynccontextmanager
        async def same_client():
            yield client

        yield same_client


def texts(result):
    return [each.text for each in result.content]


def is_told(result):
    return "not made a second time" in " ".join(texts(result))


async def wait_for_booking(book, lines):
    with anyio.fail_after(HANGS):
        while await book.lines() != lines:  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(0.01)


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_that_the_host_timed_out_has_one_effect_when_it_comes_again(home, book, way):
    async with serve_teller(home, way) as connect, connect() as client:
        for _ in range(3):
            with pytest.raises(MCPError, match=r"[Tt]imed out"):
                await client.call_tool("transfer", ASKED, read_timeout_seconds=0.5)
        await wait_for_booking(book, ["bob 5"])
        await client.list_tools()  # what was said of the calls before has arrived
        book.go()
        done = await client.call_tool("transfer", ASKED)
        assert (done.structured_content, is_told(done)) == ({"amount": 5}, True)
        assert await book.lines() == ["bob 5"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_that_was_cancelled_has_one_effect_when_it_comes_again(home, book, way):
    async with serve_teller(home, way) as connect, connect() as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "transfer", ASKED)
            await wait_for_booking(book, ["bob 5"])
            tasks.cancel_scope.cancel()
        await client.list_tools()  # the cancellation has arrived
        book.go()
        done = await client.call_tool("transfer", ASKED)
        assert (done.structured_content, is_told(done)) == ({"amount": 5}, True)
        assert await book.lines() == ["bob 5"]


@pytest.mark.parametrize("way", ["http", "legacy http"])
@pytest.mark.parametrize("answered", [True, False], ids=["answered meanwhile", "still open"])
async def test_a_call_whose_connection_was_cut_has_one_effect_when_it_comes_again(home, book, way, answered):
    async with serve_behind(home, ADA) as here:
        server, mode = here.server, "legacy" if way.startswith("legacy") else "auto"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cut_off, here, mode)
            await wait_for_booking(book, ["bob 5"])
            tasks.cancel_scope.cancel()
        (one,) = server.trace.conversations()
        if answered:
            book.go()
            await wait_until(lambda: not server.conversation(one).requests)
        async with here.host("ada", mode) as client:
            book.go()
            done = await client.call_tool("transfer", ASKED)
        assert (done.structured_content, is_told(done)) == ({"amount": 5}, True)
        assert await book.lines() == ["bob 5"]


async def cut_off(here, mode):
    """Call over a connection that is closed without a word."""
    async with (
        here.http("ada") as http,
        Client(streamable_http_client(f"{here.url}/mcp", http_client=http), mode=mode) as client,
    ):
        try:
            await client.call_tool("transfer", ASKED)
        finally:
            with anyio.CancelScope(shield=True):
                await http._transport.aclose()


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_that_was_answered_is_another_when_it_comes_again(home, book, way):
    book.go()
    async with serve_teller(home, way) as connect:
        for _ in range(2):
            async with connect() as client:
                done = await client.call_tool("transfer", ASKED)
                assert (done.structured_content, is_told(done)) == ({"amount": 5}, False)
    assert await book.lines() == ["bob 5", "bob 5"]


async def test_calls_with_other_arguments_are_others(home, book):
    async with serve_teller(home, "http") as connect, connect() as client:
        for amount in (1, 2):
            with pytest.raises(MCPError, match=r"[Tt]imed out"):
                await client.call_tool("transfer", {"to": "bob", "amount": amount}, read_timeout_seconds=0.5)
        await wait_for_booking(book, ["bob 1", "bob 2"])
        book.go()  # the server does not wait for its drain


async def test_equal_calls_at_once_have_one_effect(home, book):
    found = []
    async with serve_teller(home, "http") as connect, connect() as client, anyio.create_task_group() as tasks:

        async def call():
            found.append(await client.call_tool("transfer", ASKED))

        for _ in range(3):
            tasks.start_soon(call)
        await wait_for_booking(book, ["bob 5"])
        book.go()
    assert [each.structured_content for each in found] == [{"amount": 5}] * 3
    assert sorted(map(is_told, found)) == [False, True, True]
    assert await book.lines() == ["bob 5"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_that_waits_for_a_person_asks_once_however_often_its_host_gives_up(home, book, mode):
    async with serve_behind(home, ADA) as here:
        server = here.server
        for _ in range(3):
            async with here.host("ada", mode) as client:
                with pytest.raises(MCPError, match=r"[Tt]imed out"):
                    await client.call_tool("vault", {"door": 3}, read_timeout_seconds=0.5)
        await wait_until(lambda: len(server.approvals()) == 1)
        assert server.trace.conversations() == (server.approvals()[0].delivery.conversation,)


@asynccontextmanager
async def in_session(here):
    """A function that posts messages in a session of an earlier version of the protocol."""
    async with here.http("ada", accept="application/json, text/event-stream") as http:

        async def post(method, params, **more):
            message = {"jsonrpc": "2.0", "method": method, "params": params, **more}
            return await http.post("/mcp", json=message)

        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "h", "version": "1"},
        }
        begun = await post("initialize", about, id=1)
        http.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
        await post("notifications/initialized", {})
        yield post


CALL = {"name": "transfer", "arguments": ASKED}
REPEATED = "not made a second time"


async def test_a_message_that_comes_twice_under_the_id_of_its_host_is_one_call(home, book):
    book.go()
    async with serve_behind(home, ADA) as here, in_session(here) as post:
        first, again, other = [await post("tools/call", CALL, id=number) for number in (7, 7, 8)]
        assert [REPEATED in each.text for each in (first, again, other)] == [False, True, False]
    assert await book.lines() == ["bob 5", "bob 5"]


async def test_a_call_of_a_session_cancelled_before_its_answer_has_one_effect(home, book):
    async with serve_behind(home, ADA) as here, in_session(here) as post:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(post, "tools/call", CALL, id=7))  # its connection stays open
            await wait_for_booking(book, ["bob 5"])
            await post("notifications/cancelled", {"requestId": 7})
            book.go()
        again, other = [await post("tools/call", CALL, id=number) for number in (8, 9)]
        assert [REPEATED in each.text for each in (again, other)] == [True, False]
    assert await book.lines() == ["bob 5", "bob 5"]


async def test_a_call_of_a_session_cancelled_after_its_answer_has_one_effect(home, book):
    book.go()
    async with serve_behind(home, ADA) as here, in_session(here) as post:
        for number in range(10, 30, 2):  # each cancellation counts, however soon the next message comes
            await post("tools/call", CALL, id=number)
            await post("notifications/cancelled", {"requestId": number})
            again = await post("tools/call", CALL, id=number + 1)
            assert REPEATED in again.text
    assert await book.lines() == ["bob 5"] * 10


async def test_a_late_cancellation_does_not_open_a_call_that_was_answered_again(home, book):
    book.go()
    async with serve_behind(home, ADA) as here, in_session(here) as post:
        await post("tools/call", CALL, id=7)
        await post("notifications/cancelled", {"requestId": 7})
        await post("tools/call", CALL, id=8)
        await post("notifications/cancelled", {"requestId": 7})
        other = await post("tools/call", CALL, id=9)
        assert REPEATED not in other.text
    assert await book.lines() == ["bob 5", "bob 5"]
