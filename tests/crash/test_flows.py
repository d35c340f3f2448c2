"""Flows are killed at every await and inside ``once``, evicted, reloaded and moved; nothing is paid twice or lost.

The long form kills some fifty times: ./run crash.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.machine import HANGS

ROOT = Path(__file__).parents[2]
ORDERS, POINTS = 6, 17
"""New orders of a life, and the points that one order passes."""


@dataclass
class Lives:
    """Processes on one storage, and their reports."""

    home: Path
    storage: str
    seed: str
    answers: dict[int, set[tuple[str, str]]] = field(default_factory=dict)
    ordered: int = 0
    kills: int = 0

    def begin(self, **facts):
        """Start a process that sends all orders that have no answer yet."""
        whole = {"dies": 0, "evicts": False, "reloads": False, "seed": self.seed, "lingers": 0.0}
        whole["orders"] = [number for number in range(self.ordered) if number not in self.answers]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.crash.flows", str(self.home), self.storage, json.dumps(whole | facts)],
            cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        )  # fmt: skip

    def end(self, process):
        """Read the reports of a process until it ends; True if it became idle."""
        said, _ = process.communicate(timeout=HANGS)
        self.kills += process.returncode == -9
        assert process.returncode in (0, -9), said
        for line in said.splitlines():
            match line.split():
                case ["answered", number, *answer]:
                    self.answers.setdefault(int(number), set()).add(tuple(answer))
                case ["refused", *_]:
                    pytest.fail(line)
        return said.endswith("rest\n")

    def check(self):
        """Every order was answered, with one answer; no payment and no note was made twice."""
        assert sorted(self.answers) == list(range(self.ordered)), "no flow is lost"
        assert all(len(said) == 1 for said in self.answers.values()), "each has one answer"
        lines = Counter((self.home / "bank").read_text().splitlines())
        assert set(lines.values()) == {1}, "nothing is done twice"
        assert {int(line.split()[1]) for line in lines if line.startswith("paid")} == set(self.answers)
        for number, ((receipt, note),) in self.answers.items():
            assert receipt == f"receipt-{number}"
            assert (note == "unknown") or lines[f"noted {number}"] == 1, "a note that is told was made"
        return {"orders": self.ordered, "kills": self.kills} | Counter(
            note for ((_, note),) in self.answers.values()
        )


@pytest.mark.soak
def test_flows_that_are_killed_at_any_await_pay_once_and_answer(tmp_path, soak_scale):
    random = Random(os.environ.get("CRASH_SEED", "0"))
    lives = Lives(tmp_path, str(tmp_path / "journal.sqlite"), random.random())
    for _ in range(8 if soak_scale == 1 else 40):
        lives.ordered += ORDERS
        dies = random.randint(1, ORDERS * POINTS)
        lives.end(lives.begin(dies=dies, evicts=random.random() < 0.4, reloads=random.random() < 0.4))
    assert lives.end(lives.begin())
    print(lives.check())  # noqa: T201 - for the reader
    assert lives.kills > 0


@pytest.mark.soak
def test_flows_that_move_to_another_server_pay_once_and_answer(tmp_path, soak_scale, database):
    random = Random(os.environ.get("CRASH_SEED", "0"))
    lives = Lives(tmp_path, database, random.random())
    for _ in range(3 if soak_scale == 1 else 12):
        lives.ordered += ORDERS
        heir = lives.begin(orders=[], lingers=4.0)
        assert heir.stdout.readline() == "open\n"
        lives.end(lives.begin(dies=random.randint(1, ORDERS * POINTS), evicts=random.random() < 0.4))
        lives.end(heir)
    assert lives.end(lives.begin())
    print(lives.check())  # noqa: T201 - for the reader
    assert lives.kills > 0
