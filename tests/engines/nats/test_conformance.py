"""The promises of every engine, kept over a real broker."""

from __future__ import annotations

import itertools

import nats.js.object_store  # noqa: F401 - as a server is built before its loop runs
import pytest

from agentserver.broker.address import BrokerAddress
from agentserver.engines.conformance import CHECKS, Subject
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.engines.replica.engine import ReplicaEngine
from tests.brokers import broker

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def url(tmp_path_factory):
    async with broker(tmp_path_factory.mktemp("broker")) as url:
        yield url


NUMBERS = itertools.count()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_engine_over_a_broker_keeps_every_promise(check, url, tmp_path):
    name = f"o{next(NUMBERS)}"
    options = LogOptions(name, BrokerAddress(url), relaxed=True)

    def opened(guards=()):
        return ReplicaEngine(NatsLog(options), tmp_path, name, guards)

    await check(Subject(opened, durable=True, guarded=opened))
