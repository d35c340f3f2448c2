"""Large texts are read in threads, a few at once; small ones in the event loop."""

from __future__ import annotations

import threading

import anyio
import pytest

from agentserver.foreign_json.threads import AT_ONCE, SMALL, ReadingThreads

pytestmark = pytest.mark.anyio


async def test_only_a_large_text_is_read_in_a_thread():
    threads = ReadingThreads()
    here = threading.get_ident()
    assert await threads.read(lambda _: threading.get_ident(), b"x" * SMALL) == here
    assert await threads.read(lambda _: threading.get_ident(), b"x" * (SMALL + 1)) != here


async def test_an_exception_of_a_reader_propagates():
    def refuse(_):
        raise KeyError("x")

    for data in (b"", b"x" * (SMALL + 1)):
        with pytest.raises(KeyError):
            await ReadingThreads().read(refuse, data)


async def test_few_are_read_at_once():
    threads, running, most = ReadingThreads(), [0], [0]
    lock, enough = threading.Lock(), threading.Barrier(AT_ONCE)

    def read(_):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        enough.wait()
        with lock:
            running[0] -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(3 * AT_ONCE):
            tasks.start_soon(threads.read, read, b"x" * (SMALL + 1))
    assert most == [AT_ONCE]
