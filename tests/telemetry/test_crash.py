"""A server is killed in the middle of a request: the next one tells the rest of the tree, under the same ids."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentserver.telemetry.story import span_id, trace_id
from tests.telemetry.collector import collect_spans

ROOT = Path(__file__).parents[2]


def start_process(*words):
    command = [sys.executable, "-m", "tests.telemetry.stopped", *map(str, words)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("told", [False, True], ids=["before its spans are sent", "after"])
def test_a_request_that_a_kill_interrupts_is_one_tree(tmp_path, told):
    journal = tmp_path / "journal.sqlite"
    with collect_spans() as collector:
        if not told:
            collector.held.clear()
        with start_process(collector.endpoint, journal, "hold") as killed:
            request = killed.stdout.readline().strip()
            assert killed.stdout.readline() == "held\n"
            while told and len(collector.spans) < 3:
                time.sleep(0.01)
            killed.send_signal(signal.SIGKILL)
        collector.held.set()
        before = {span.span_id: span for span in list(collector.spans)} if told else {}
        with start_process(collector.endpoint, journal) as resumed:
            assert resumed.stdout.read() == "Reply\nDone\n"
        found = collector.told()
    assert resumed.returncode == 0
    assert {span.trace_id for span in found.values()} == {trace_id(request)}
    row = [found.pop(span_id(request))]
    assert not row[0].parent_span_id
    while found:
        (below,) = [span for span in found.values() if span.parent_span_id == row[-1].span_id]
        row.append(found.pop(below.span_id))
    assert [span.name.partition(" ")[2] for span in row] == ["shop", "a", "b", "a", "b", "a"]
    for earlier in before.values():
        assert earlier in row  # sent twice, and the same
