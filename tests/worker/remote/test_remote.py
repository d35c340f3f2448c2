"""Workers on other machines: a door on a socket, and workers in processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from agentserver.worker.wall.raising import missing
from tests.gateways.http.desk import until
from tests.worker.remote.field import copied, serving, told

LACKS = missing(ports=False)
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(LACKS) and not os.environ.get("CI"), reason=f"no wall here: {'; '.join(LACKS)}"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return copied(tmp_path_factory.mktemp("remote") / "project")


async def test_a_remote_handler_has_what_it_has_behind_the_wall_and_may_die_there(path):
    async with serving(path) as field:
        await field.worker()
        assert (await field.ask("hello", "you")).startswith("hello you by ")
        assert await field.ask("resource") == "Tool"
        assert await field.ask("env", "REGION") == "south", "the environment is that of the worker's machine"
        assert await field.ask("secret", str(path.parent / "canary")) == "refused: PermissionError"
        assert await field.ask("ask", "ping") == "pong"
        assert await field.ask("count") == "1"
        assert await field.ask("tell", "half") == "told half"
        assert await field.ask("large", "3000000") == "internal"
        assert await field.ask("die") == "internal"
        assert (await field.ask("key")).endswith(" 0")


async def test_without_a_worker_calls_wait_until_their_deadline_and_the_log_says_so(path, caplog):
    async with serving(path) as field:
        assert await field.ask("hello", to="calculator.add") == "timeout"
        waiting = [field.asking("hello", str(n)) for n in range(3)]
        await until(lambda: "calls of calculator wait" in caplog.text)
        await field.worker()
        assert sorted([(await each).split()[1] for each in waiting]) == ["0", "1", "2"]
    assert caplog.text.count("calls of calculator wait: no worker is connected to this server") == 1
    assert caplog.text.count("calls of calculator.add wait: no worker") == 1
    assert "worker, a worker of calculator, has come" in caplog.text


async def test_a_call_whose_worker_is_killed_is_repeated_by_another_and_fails_without_retries_left(path):
    async with serving(path, silences=(3.0, 3.5)) as field:
        first = await field.worker("--processes", "1")
        asked = field.asking("sleep", "1000")
        await until(lambda: field.begun == 1)
        first.kill()
        second = await field.worker("--processes", "1")
        await until(lambda: field.ended == 1 and field.begun == 1)
        second.kill()
        assert await asked == "internal"


async def test_a_call_that_is_over_ends_at_its_worker_too(path):
    async with serving(path) as field:
        await field.worker("--processes", "1")
        (held,) = await asyncio.gather(field.hold("sleep", "1000"))
        await until(lambda: field.begun == 1)
        await held.close()
        assert (await field.ask("hello", "you")).startswith("hello you"), "the one process is free again"


async def test_workers_of_a_listener_share_its_calls(path):
    async with serving(path) as field:
        first, second = await field.worker("--processes", "1"), await field.worker("--processes", "1")
        both = await asyncio.gather(field.ask("sleep", "1"), field.ask("sleep", "1"))
        assert {each.split()[-1] for each in both} == {str(first.pid), str(second.pid)}


async def test_a_worker_serves_several_servers_and_waits_for_one_that_is_away(path):
    async with serving(path) as one:
        async with serving(path) as two:
            worker = await one.worker(servers=[one.url, two.url])
            await told(worker, "handles calls of")
            assert (await one.ask("hello", "one")).startswith("hello one")
            assert (await two.ask("hello", "two")).startswith("hello two")
            port = two.port
        await told(worker, "is away, and is asked again")
        assert (await one.ask("hello", "still")).startswith("hello still")
        async with serving(path, port=port) as again:
            await told(worker, f"handles calls of calculator of {again.url}")
            assert (await again.ask("hello", "again")).startswith("hello again")


async def test_after_a_signal_a_worker_ends_with_its_calls_and_takes_no_more(path):
    async with serving(path) as field:
        worker = await field.worker("--processes", "1")
        running = field.asking("sleep", "1.5")
        await until(lambda: field.begun == 1)
        worker.send_signal(signal.SIGINT)
        assert (await running).startswith("slept")
        assert await asyncio.wait_for(worker.wait(), 100) == 0
        stuck = await field.worker("--processes", "1")
        late = field.asking("sleep", "1000")
        await until(lambda: field.begun == 1)
        stuck.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        assert stuck.returncode is None
        stuck.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(stuck.wait(), 100) == 130
        late.cancel()


@pytest.mark.parametrize(
    ("token", "why"), [("wrong", "401"), ("adder", "This worker is another listener's"), ("ada", "403")]
)
async def test_a_worker_that_every_server_refuses_ends_and_says_why(path, token, why):
    async with serving(path) as field:
        worker = await field.worker(token=token, last="refuses this worker")
        rest = await worker.stderr.read()
        assert await worker.wait() == 2
        assert why in rest.decode()


async def test_a_remote_listener_survives_a_reload(path):
    async with serving(path) as field:
        await field.worker()
        running = field.asking("sleep", "1")
        await until(lambda: field.begun == 1)
        kept = path.read_text()
        path.write_text(kept.replace("Works on another machine.", "Works far away."))
        try:
            changed = await field.reload()
        finally:
            path.write_text(kept)
        assert changed.name == "distant", changed
        assert field.server.rules.blueprint.listeners["calculator"].description == "Works far away."
        assert (await running).startswith("slept")
        assert (await field.ask("hello", "after")).startswith("hello after")
