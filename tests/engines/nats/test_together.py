"""Two engines over a real broker: the promises of engines that share their storage."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import nats.js.object_store  # noqa: F401 - as a server is built before its loop runs
import pytest

from agentserver.broker.address import BrokerAddress
from agentserver.engines.conformance.together import TOGETHER, SharedSubject
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.engines.replica.engine import ReplicaEngine
from tests.brokers import Gate
from tests.pump.desk import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [
    pytest.mark.anyio,
    # The library leaves the sockets of a connection that was cut to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LEASE = 0.8
"""Seconds; a stopped process is cut off for longer than that."""

NUMBERS = itertools.count()


@pytest.mark.parametrize("check", TOGETHER, ids=lambda check: check.__name__)
async def test_engines_over_a_broker_keep_what_they_promise_together(check, node, tmp_path):
    name, gates, logs = f"t{next(NUMBERS)}", {}, {}
    async with AsyncExitStack() as stack:
        for process in "abcde":
            gates[process] = await stack.enter_async_context(Gate(node.port))

        def open_(process):
            options = LogOptions(name, BrokerAddress(gates[process].url), lease=LEASE, relaxed=True)
            logs[process] = NatsLog(options)
            return ReplicaEngine(logs[process], tmp_path / process, name)

        async def still(process):
            gates[process].cut()
            await asyncio.sleep(2 * LEASE)

        async def moving(process):
            gates[process].mend()
            await until(lambda: not logs[process].away)

        @asynccontextmanager
        async def away() -> AsyncIterator[None]:
            node.pause()
            try:
                yield
                await asyncio.sleep(2 * LEASE)
            finally:
                node.go_on()

        await check(SharedSubject(open_, still, moving, away))
