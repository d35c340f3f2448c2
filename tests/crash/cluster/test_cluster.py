"""Three servers on one database under attack: a seeded tenth of ``./run crash --postgres``, and what starts without the rest."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.crash.cluster.acts import PLAN
from tests.crash.cluster.clients import Promises
from tests.crash.cluster.database import pair
from tests.crash.cluster.servers import ROOT, command, environment
from tests.crash.cluster.stage import stage_servers
from tests.crash.cluster.verdict import find_repeated, judge
from tests.machine import HANGS
from tests.postgres import programs

KILLS = 10
"""Attacks of each of two runs, which together are a tenth of the long form."""


@pytest.fixture
def databases():
    with pair(disks=False) as found:
        yield found


@pytest.mark.parametrize("run", [0, 1])
def test_servers_on_one_database_lose_and_repeat_nothing_under_attack(run):
    programs()
    assert {act.phase for act in PLAN} == {"claimed", "called", "committing", "releasing", "moving"}
    words = [
        "-m",
        "tests.crash.cluster",
        "--kills",
        str(KILLS),
        "--seed",
        str(2 * int(os.environ.get("CRASH_SEED", "0")) + run),
    ]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=KILLS * HANGS, check=False
    )  # fmt: skip
    print(done.stdout)  # noqa: T201 - for the reader
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


async def eventually(true, within=HANGS):
    end = time.monotonic() + within
    while not await true():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.1)


async def greet(stage, servers, conversation):
    """Have a message answered at each server."""
    for server in servers:
        found = await stage.clients.send(conversation, "plain", own=stage.clients.number(), first=server)
        assert found.status_code == 200


def test_with_one_server_of_three_dead_and_the_standby_dead_everything_starts(databases, tmp_path):
    async def run():
        databases.demand("")
        async with stage_servers(databases, tmp_path, "0") as stage:
            conversation = await stage.clients.open()
            await greet(stage, stage.servers, conversation)
            databases.standby.kill()
            dead, *others = stage.servers
            dead.kill()
            for server in others:
                server.kill()
            for server in others:
                await asyncio.to_thread(server.start)
                await greet(stage, [server], conversation)
            databases.primary.kill()
            await asyncio.to_thread(databases.primary.revive)
            for server in others:
                await eventually(lambda server=server: stage.ready(server))
            await greet(stage, others, conversation)
            assert stage.clients.promises.waiting == []
            await stage.settle()
            stage.clients.promises.accept(conversation, "a-request-that-was-never-made")
            return await asyncio.to_thread(judge, tmp_path, stage.clients.promises, databases.primary.url())

    verdict = asyncio.run(run())
    assert verdict.bad.pop("accepted messages lost") == 1, "the one that was made up is noticed"
    assert verdict.passed, verdict.details


def test_a_promoted_standby_that_lacks_acknowledged_steps_stops_acceptance_until_an_operator_accepts_the_loss(
    databases, tmp_path
):
    async def run():
        databases.demand("")
        async with stage_servers(databases, tmp_path, "0") as stage:
            conversation = await stage.clients.open()
            await greet(stage, stage.servers, conversation)
            databases.standby.stop("immediate")
            await greet(stage, stage.servers, conversation)
            databases.primary.kill()
            (databases.standby.data / "standby.signal").touch()
            databases.standby.start()
            databases.standby.run("pg_ctl", "-D", str(databases.standby.data), "-w", "promote")
            databases.primary, databases.standby = databases.standby, databases.primary
            await eventually(lambda: is_noticed(stage))
            await asyncio.sleep(6)  # longer than a lease: nobody may have taken anything over
            assert not any([await stage.ready(server) for server in stage.servers])
            url = databases.primary.url()
            await asyncio.to_thread(lambda: command(tmp_path, "engine", "accept-loss", DATABASE_URL=url))
            for server in stage.servers:
                await eventually(lambda server=server: stage.ready(server))
            await greet(stage, stage.servers, await stage.clients.open())

    asyncio.run(run())


async def is_noticed(stage):
    return bool(await stage.fetch("select 1 from agentserver.loss"))


def test_a_text_that_came_in_two_deliveries_was_done_twice(tmp_path):
    log = tmp_path / "calls.log"
    log.write_text("s1 desk d1 a\ns2 desk d1 a\ns1 tool d2 a\ns1 desk d3 b\ns2 desk d4 b\n", "utf-8")
    (found,) = find_repeated(log)
    assert found.startswith("b at desk")


def test_an_id_that_was_two_requests_is_a_fault():
    promises = Promises()
    promises.accept("c", "r1", "k")
    promises.accept("c", "r1", "k")
    assert promises.faults == []
    promises.accept("c", "r2", "k")
    assert len(promises.faults) == 1
    assert promises.decided == Counter()
