"""The harness measures a real server and sees when an attack was not held off."""

from __future__ import annotations

import os
import signal

import anyio
import anyio.to_thread

from tests.hostile.harness import Attack, measure, usage


def test_usage_counts_the_cpu_and_the_memory_of_a_process():
    before = usage(os.getpid())
    kept = bytearray(b"x") * 100_000_000  # one piece: small ones may fit into what other tests have freed
    after = usage(os.getpid())
    assert after.rss > before.rss + 50_000_000
    assert len(kept) == 100_000_000
    assert after.peak >= after.rss
    assert 0 < before.loop <= after.loop <= after.cpu


def test_a_server_that_answers_wrongly_or_ends_has_not_held(tmp_path):
    async def wrong(server):
        async with server.client() as client:
            assert (await client.get("/v1/nothing")).status_code == 200, "not found"

    async def deadly(server):
        os.kill(server.process.pid, signal.SIGKILL)
        await anyio.to_thread.run_sync(server.process.wait)
        return "killed"

    for name, run, met in (
        ("wrong", wrong, "AssertionError: not found"),
        ("deadly", deadly, "the server has ended (-9)"),
    ):
        home = tmp_path / name
        home.mkdir()
        row = measure(Attack(name, run), home)
        assert not row.held
        assert met in row.met


def test_an_attack_that_costs_more_than_it_may_has_not_been_held_off(tmp_path):
    async def asking(server):
        async with server.client() as client:
            for _ in range(20):
                await client.get("/readyz")
        return "answered"

    row = measure(Attack("asking", asking, loop=-1.0), tmp_path)
    assert not row.held
    assert row.met == "more CPU of the loop than allowed; answered"
    assert row.after.loop >= row.before.loop > 0
