"""The real process is killed at random instants under load; then the books are checked.

The long form kills hundreds of times: ./run crash.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite.file import JournalOptions, open_reading, open_writing
from tests.crash.books import Told, check
from tests.crash.lives import lived
from tests.crash.organism import SHOP
from tests.crash.poison import poison
from tests.machine import HANGS

ROOT = Path(__file__).parents[2]
KILLS = 12


def start(path, what, seed=0):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.organism", str(path), what, str(seed)],
        cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def run_and_kill(path, random, told, least=0):
    """Start it, let it work a moment, kill it."""
    told.hear(lived(start(path, "load", random.random()), random, most=300, least=least))


def finish(path, told):
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.organism", str(path), "rest", "0"],
        cwd=ROOT, capture_output=True, timeout=HANGS, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    told.hear(done.stdout)


@pytest.mark.soak
def test_killed_at_any_instant_nothing_is_lost_or_done_twice(tmp_path, soak_scale):
    random = Random(os.environ.get("CRASH_SEED", "0"))
    kills = KILLS if soak_scale == 1 else 4 * soak_scale
    path, told = tmp_path / "journal.sqlite", Told()
    total = Counter()
    for number in range(kills):
        run_and_kill(path, random, told)
        if number % 10 == 5:
            check(path, told, at_rest=False)
        if number % 40 == 39:  # a journal of its own now and then, or checking would outgrow killing
            finish(path, told)
            total.update(check(path, told, at_rest=True))
            path, told = tmp_path / f"journal-{number}.sqlite", Told()
    finish(path, told)
    assert told.rest
    total.update(check(path, told, at_rest=True))
    print(kills, "kills:", dict(total))  # noqa: T201 - for the reader
    assert total["accepted"] > 0
    assert total["answered"] > 0
    assert total["labelled"] > 0
    assert total["ran again"] > 0, "some were killed while a handler ran"


@pytest.mark.soak
def test_the_server_comes_up_by_itself_though_one_delivery_in_fifty_ends_it(tmp_path, soak_scale):
    path, told, rounds = tmp_path / "journal.sqlite", Told(), 2 if soak_scale == 1 else soak_scale // 4
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.poison", str(path), str(rounds), os.environ.get("CRASH_SEED", "0")],
        cwd=ROOT, capture_output=True, timeout=HANGS * rounds, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told.hear(done.stdout)
    assert told.rest
    figures = check(path, told, at_rest=True)
    with closing(open_reading(path)) as connection:
        dead = {letter.delivery.id: letter for letter in Reader(connection, SHOP.guards).dead()}
        buried = {key for key, letter in dead.items() if "the process ended" in letter.reason}
    starts = int(done.stdout.split()[-1])
    print(rounds, "rounds,", starts, "starts,", len(buried), "given up:", figures)  # noqa: T201 - for the reader
    assert buried, "there was poison"
    assert {key for key in told.ran if poison(key)} >= buried == {key for key in buried if poison(key)}
    assert all(told.ran[key] >= SHOP.blueprint.limits.fatal_ends for key in buried)
    assert not any(told.ran[key] > 8 for key in told.ran)


def test_a_torn_log_leaves_a_whole_prefix(tmp_path):
    """Whatever part of the write-ahead log reached the disk, the journal is one that was."""
    random = Random(1)
    path, told = tmp_path / "journal.sqlite", Told()
    for _ in range(2):
        run_and_kill(path, random, told, least=200)
    log = path.with_name("journal.sqlite-wal").read_bytes()
    assert len(log) > 100_000
    steps = set()
    for number in range(8):
        copy = tmp_path / f"copy-{number}.sqlite"
        shutil.copy(path, copy)
        torn = log[: random.randrange(len(log))] + (os.urandom(random.choice([0, 700])))
        copy.with_name(f"{copy.name}-wal").write_bytes(torn)
        open_writing(JournalOptions(copy)).close()
        steps.add(check(copy, Told(ran=told.ran), at_rest=False)["steps"])
    assert len(steps) > 2
