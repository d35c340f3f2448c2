"""Figures of a server, and the principals who may see them."""

from __future__ import annotations

import json
import os

import anyio
import pytest

from agentserver.assembly import build
from agentserver.gateways import top
from agentserver.gateways.top import READERS, Overviews, serve_overviews
from agentserver.testing import listener, organism_of
from agentserver.trace.terminal import format_paint
from tests.gateways.payloads import Greet, Wait, greet, wait
from tests.machine import HANGS

pytestmark = pytest.mark.anyio

DESK = organism_of(listener("greeter", greet, Greet), listener("waiter", wait, Wait, concurrency=1))
WAIT = b'<Wait xmlns="urn:agentserver:payload:Wait:v1"><seconds>60</seconds></Wait>'


def overviews(server):
    return Overviews(server, "desk", lambda text: text.replace("hunter2", "[redacted]"), lambda: 1e9)


async def busy(server, tasks):
    """A conversation in which two handlers are wanted and one message was refused."""
    handle = await server.open("ada")

    async def ask(data, to):
        async for _ in handle.replies(data, to):
            pass

    await ask(b"<x", "greeter")
    for _ in range(2):
        tasks.start_soon(ask, WAIT, "waiter")
    while server.queues()["waiter"][1] < 1 or len(server.conversation(handle.id).requests) < 2:  # noqa: ASYNC110 - no event tells
        await anyio.sleep(0.01)
    return handle


async def test_an_overview_names_running_waiting_and_refused_messages():
    async with build(DESK) as server:
        looking = overviews(server)
        async with anyio.create_task_group() as tasks:
            handle = await busy(server, tasks)
            told = looking.describe_overview()
            await handle.close()
        (one,) = told["conversations"]
        assert (one["id"], one["principal"], one["requests"]) == (handle.id, "ada", 2)
        assert one["running"] == 1
        assert one["queued"] == 1
        (running,) = told["running"]
        assert (running["listener"], running["sender"], running["attempt"]) == ("waiter", "ada", 1)
        assert running["since"] is not None
        assert {"name": "waiter", "waiting": 1, "running": 1} in told["listeners"]
        (refused,) = told["refusals"]
        assert (refused["event"], refused["to"], refused["code"]) == ("refused", "greeter", "validation")
        assert "seconds" not in json.dumps(told)
        shown = "\n".join(format_paint(line, colour=False) for line in top.format_lines(told))
        assert "ada -> waiter" in shown
        assert "2 requests open, 1 running, 1 queued" in shown
        looking.stop()


async def line_of(path):
    stream = await anyio.connect_unix(str(path))
    async with stream:
        text = b""
        while b"\n" not in text:
            text += await stream.receive()
    return json.loads(text.partition(b"\n")[0])


async def test_each_connection_is_listed_up_to_a_limit(tmp_path):
    path = top.find_socket_path(tmp_path / "j", os.getpid())
    async with build(DESK) as server, serve_overviews(overviews(server), tmp_path / "j", 0.01):
        streams = [await anyio.connect_unix(str(path)) for _ in range(READERS)]
        for each in streams:
            assert b'"organism": "desk"' in await each.receive()
        further = await anyio.connect_unix(str(path))
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await further.receive()
        for each in (*streams, further):
            await each.aclose()
        with anyio.fail_after(HANGS):
            while True:
                try:
                    await line_of(path)
                    break
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    await anyio.sleep(0.01)
    assert not path.exists()


async def test_a_server_runs_where_nobody_can_follow_it(tmp_path):
    async with build(DESK) as server, serve_overviews(overviews(server), tmp_path / "nowhere" / "j"):
        assert server.queues()
