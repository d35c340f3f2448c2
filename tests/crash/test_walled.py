"""The server and its workers are killed at random instants under load; then the books are checked.

Nothing that was accepted is lost, and nothing counts twice: what a killed worker had stored and said is gone with it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from agentserver.config import forget
from agentserver.core.messages import Reply
from agentserver.core.records.audit import Event
from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite.file import open_reading
from agentserver.rulebook import build_rules
from agentserver.worker.wall.raising import list_missing
from tests.crash.books import Told, check
from tests.crash.lives import lived
from tests.crash.walled import lay_out, load_folder
from tests.machine import HANGS

ROOT = Path(__file__).parents[2]
KILLS = 4
NUMBER = re.compile(rb"<number>(\d+)</number>")
LACKS = list_missing()
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(bool(LACKS) and not os.environ.get("CI"), reason=f"no wall here: {'; '.join(LACKS)}"),
]


def start(folder, what, seed=0):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.walled", str(folder), what, str(seed)],
        cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def run_and_kill(folder, random, told):
    """Start it, let it work and lose workers for a moment, kill it; gives how many workers had been killed before."""
    text = lived(start(folder, "load", random.random()), random, most=100)
    told.hear(text)
    return text.count("\nkilled ")


def finish(folder, told):
    process = start(folder, "rest")
    text, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 0
    told.hear(text.decode())
    assert told.rest


def counted(path, shop):
    """What each thread counted: 1, 2, 3 ... whatever died meanwhile, as often as it was called. Gives the figures."""
    found = Counter()
    with closing(open_reading(path)) as connection:
        reader = Reader(connection, shop.guards)
        for summary in reader.conversations():
            story = reader.recorded_conversation(summary.id)
            threads = defaultdict(list)
            for step in story.steps:
                threads_of = {r.thread for r in story.records_of(step) if r.event is Event.HANDLED}
                replies = [each.message for each in step.events if isinstance(each, Reply)]
                numbers = [int(number) for each in replies for number in NUMBER.findall(each)]
                found["counted"] += len(numbers)
                found["refused"] += len(replies) - len(numbers)
                if numbers:
                    (thread,) = threads_of
                    threads[thread] += numbers
            for thread, numbers in threads.items():
                assert numbers == list(range(1, len(numbers) + 1)), (summary.id, thread, numbers)
            found["threads"] += len(threads)
    return found


def test_a_server_killed_with_its_workers_loses_and_repeats_nothing(tmp_path, soak_scale):
    random = Random(os.environ.get("CRASH_SEED", "0"))
    lay_out(tmp_path)
    organism = load_folder(tmp_path)
    shop = build_rules(organism)
    told, path, killed = Told(), tmp_path / "journal.sqlite", 0
    kills = KILLS if soak_scale == 1 else soak_scale
    try:
        for number in range(4 * kills):  # a life may be over before a worker was killed
            if number < kills or not killed:
                killed += run_and_kill(tmp_path, random, told)
        finish(tmp_path, told)
        figures = check(path, told, at_rest=True, shop=shop, seen=False)
        total = counted(path, shop)
    finally:
        forget(organism)
    print(kills, "kills of the server,", killed, "of workers:", figures | dict(total))  # noqa: T201 - for the reader
    assert killed > 0
    assert total["counted"] > 0
    assert figures["accepted"] > 0
