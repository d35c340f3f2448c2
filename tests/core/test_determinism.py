"""The same moments give the same decisions, in another process and with other hashes as well."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from random import Random

from agentserver.core.decide import decisions
from tests.core.decide.test_decisions_laws import SHOP, whims
from tests.core.paper import Ask, Note, Paper

ROOT = Path(__file__).resolve().parents[2]


def record_decisions(seed):
    """Everything that was decided when handlers follow their whims."""
    random = Random(seed)
    paper = Paper(SHOP, whims(random))
    for _ in range(3):
        paper.say(*random.choice([(Ask("go"), "a"), (Ask("go"), "b"), (Note("go"), None)]))
        for _ in range(60):
            if paper.waiting:
                paper.step(random.randrange(len(paper.waiting)))
    paper.apply(decisions.close(paper.conversation, paper.rules, paper.moment(), "test"))
    return [outcome._replace(parsed={}, cause=None) for outcome in paper.outcomes]


def digest():
    return sha256(repr([record_decisions(seed) for seed in range(12)]).encode()).hexdigest()


def run_elsewhere(hashes):
    command = "from tests.core.test_determinism import digest; print(digest())"
    done = subprocess.run(
        [sys.executable, "-c", command],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hashes},
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.stdout.strip()


def test_decisions_do_not_depend_on_hashes():
    assert digest() == run_elsewhere("1") == run_elsewhere("2")


def test_decisions_can_be_taken_again():
    assert record_decisions(7) == record_decisions(7)
    assert record_decisions(7) != record_decisions(8)
