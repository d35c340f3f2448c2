"""A worker's process as it is looked at while it works."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from types import SimpleNamespace

import anyio
import pytest

from agentserver.worker.pool import Worker, Workers
from agentserver.worker.scratch import Scratch

pytestmark = pytest.mark.anyio


@pytest.fixture
async def worker():
    ours, theirs = socket.socketpair()
    handle = os.pidfd_open(os.getpid())
    made = Worker(SimpleNamespace(pid=os.getpid()), handle, ours, 1000, None)
    yield made
    made.close()
    theirs.close()


async def look_at_excess(worker, call, cpu):
    return await anyio.to_thread.run_sync(worker.find_excess, call, cpu, 0)


async def test_a_worker_process_is_listed_with_its_start_and_its_call(worker):
    pool = Workers(SimpleNamespace(setup=SimpleNamespace(listener="walled")))
    pool._all.add(worker)
    pool._busy.add(worker)
    now = time.time()
    (one,) = pool.list_processes(now)
    assert (one.listener, one.name, one.calls) == ("walled", f"process {os.getpid()}", 1)
    assert now - 60 < one.since <= now == one.seen


def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


async def test_processor_time_is_counted_per_call_from_the_first_look(worker):
    assert await look_at_excess(worker, 1, 0.2) == ""
    burn(0.4)
    assert await look_at_excess(worker, 2, 0.2) == "", "what an earlier call took is not this one's"
    assert await look_at_excess(worker, 2, 0.2) == ""
    burn(0.4)
    assert "processor time" in await look_at_excess(worker, 2, 0.2)


async def test_a_call_that_begins_during_a_look_is_looked_at_afresh(worker):
    """A look runs in a thread: the next call may have begun by then, and must not find half of its needs."""
    worker.calls = 1
    assert await look_at_excess(worker, worker.calls, 60) == ""
    worker.calls = 2
    assert await look_at_excess(worker, 1, 60) == await look_at_excess(worker, 2, 60) == ""


@pytest.fixture
def scratch():
    made = Scratch()
    yield made
    made.remove()


async def test_a_file_at_the_limit_ends_nobody_whatever_the_file_system_rounds_it_to(worker, scratch):
    """The kernel refused its process to write more: that is the answer, and not the end of the process."""
    worker.scratch = scratch
    (scratch.path / "first").write_bytes(b"x" * 3_000_001)
    assert await anyio.to_thread.run_sync(worker.find_excess, 1, 60, 3_000_001) == ""
    (scratch.path / "second").write_bytes(b"x" * 200_000)
    assert "wrote more" in await anyio.to_thread.run_sync(worker.find_excess, 1, 60, 3_000_001)


async def test_a_closed_process_is_not_killed_again():
    """The number of its descriptor may be that of another process by then."""
    ours, theirs = socket.socketpair()
    with theirs, subprocess.Popen(["/bin/sleep", "60"]) as other:  # noqa: ASYNC220 - nothing else runs
        closed = Worker(SimpleNamespace(pid=os.getpid()), os.pidfd_open(os.getpid()), ours, 1000, None)
        number = closed.handle
        closed.close()
        os.dup2(os.pidfd_open(other.pid), number)
        try:
            closed.kill()
        finally:
            other.terminate()
            os.close(number)
    assert other.returncode == -signal.SIGTERM, "it was still there to be asked"
