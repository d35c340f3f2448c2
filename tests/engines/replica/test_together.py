"""Engines over one log at once, in memory: the promises of engines that share their storage, and of every engine."""

from __future__ import annotations

import itertools

import pytest

from agentserver.engines.conformance import CHECKS, Subject
from agentserver.engines.conformance.together import TOGETHER, SharedSubject
from agentserver.engines.replica.engine import ReplicaEngine
from agentserver.engines.replica.log import PARTITIONS
from tests.engines.together.broker import MemoryBroker, MemoryLog
from tests.engines.together.subject import over

pytestmark = pytest.mark.anyio


def subject(tmp_path) -> SharedSubject:
    """A log in memory, and a replica for each process."""
    broker = MemoryBroker(PARTITIONS)

    def opened(name):
        log = MemoryLog(broker, name)
        return ReplicaEngine(log, tmp_path / name, "o"), log

    return over(broker, opened)


@pytest.mark.parametrize("check", TOGETHER, ids=lambda check: check.__name__)
async def test_engines_over_one_log_keep_what_they_promise_together(check, tmp_path):
    await check(subject(tmp_path))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_an_engine_over_a_log_keeps_every_promise(check, tmp_path):
    broker, numbers = MemoryBroker(PARTITIONS), itertools.count()

    def opened(guards=()):
        return ReplicaEngine(MemoryLog(broker, f"p{next(numbers)}"), tmp_path, "o", guards)

    await check(Subject(opened, durable=True, guarded=opened))
