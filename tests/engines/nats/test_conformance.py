"""The promises of every engine, kept over a real broker."""

from __future__ import annotations

import itertools

import nats.js.object_store  # noqa: F401 - as a server is built before its loop runs
import pytest

from agentserver.broker.address import BrokerAddress
from agentserver.engines.conformance import CHECKS, Subject
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.engines.replica.engine import ReplicaEngine

pytestmark = pytest.mark.anyio


NUMBERS = itertools.count()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_engine_over_a_broker_keeps_every_promise(check, node, tmp_path):
    name = f"o{next(NUMBERS)}"
    options = LogOptions(name, BrokerAddress(node.url), relaxed=True)

    def opened(guards=()):
        return ReplicaEngine(NatsLog(options), tmp_path, name, guards)

    await check(Subject(opened, durable=True, guarded=opened))
