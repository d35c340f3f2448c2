from __future__ import annotations

import threading

import anyio
import pytest
from anyio import to_thread

from agentserver.handoff.audit import HandoffEntry
from agentserver.handoff.edge.records import copy_records, verify_file
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


def record(n):
    return HandoffEntry((("timestamp", "t"), ("n", n)))


async def test_pending_lines_are_written_on_exit_and_the_chain_continues(tmp_path):
    path = tmp_path / "out" / "audit.jsonl"
    said = []
    for _ in range(2):
        async with copy_records(path, said.append) as copy:
            for n in range(25):
                copy.append(record(n))
    assert ((await to_thread.run_sync(verify_file, path)).count, said) == (50, [])


async def test_a_failing_disk_is_reported_once_and_counted(tmp_path):
    (tmp_path / "file").write_text("")
    said = []
    async with copy_records(tmp_path / "file" / "audit.jsonl", said.append) as copy:
        for n in range(5):
            copy.append(record(n))
    first, last = said
    assert first.startswith(f"handoff audit: {tmp_path}")
    assert "5 failures" in last


async def test_a_slow_disk_blocks_no_caller(tmp_path):
    said, going, begun = [], threading.Event(), threading.Event()
    async with copy_records(tmp_path / "audit.jsonl", said.append, waiting=3) as copy:
        slow = copy._file.append
        copy._file.append = lambda each: (begun.set(), going.wait(HANGS), slow(each))
        copy.append(record(0))
        await to_thread.run_sync(begun.wait, HANGS)
        for n in range(1, 20):
            copy.append(record(n))
        assert len(said) == 1
        assert "too slow" in said[0]
        going.set()
    assert (await to_thread.run_sync(verify_file, tmp_path / "audit.jsonl")).count == 4
    assert "16 failures" in said[1]


async def test_a_disk_that_never_answers_does_not_keep_the_server(tmp_path, monkeypatch):
    monkeypatch.setattr("agentserver.handoff.edge.records.PATIENCE", 0.05)
    said, never = [], threading.Event()
    async with copy_records(tmp_path / "audit.jsonl", said.append) as copy:
        copy._file.append = lambda each: never.wait(HANGS)
        copy.append(record(1))
        await anyio.sleep(0.01)
    never.set()
    assert len(said) == 1
    assert "did not answer" in said[0]
