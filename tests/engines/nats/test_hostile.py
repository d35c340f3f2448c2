"""What does not belong into a log, and answers that no broker gives: nothing of it ends a reader or counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.broker.address import BrokerAddress
from agentserver.engines.conformance.sample import SampleConversation, keep
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.engines.nats.members import Beat
from agentserver.engines.nats.stream import EPOCH, answer_of
from agentserver.engines.nats.subjects import LogSubjects
from agentserver.engines.replica.engine import ReplicaEngine, partition_of
from tests.brokers import one

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@given(st.binary(max_size=200))
def test_no_bytes_of_a_broker_are_a_traceback(data):
    answer_of(data)
    assert Beat.load("a", data).name == "a"


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"seq": Infinity}', b'{"error": {"err_code": Infinity}}', b"[]"]
)
def test_neither_are_these(data):
    assert answer_of(data) is None
    assert Beat.load("a", data).holds == frozenset()


async def test_a_stray_message_in_the_log_is_no_claim_and_ends_nobody(tmp_path):
    """An empty message once counted as a claim in every replica, though the broker knew of none."""
    sample, subjects = SampleConversation(), LogSubjects("o")
    async with one(tmp_path / "broker") as node:
        log = NatsLog(LogOptions("o", BrokerAddress(node.url), monitoring=(node.monitoring,)))
        async with ReplicaEngine(log, tmp_path, "o") as engine:
            said = sample.said(sample.opened(), "1")
            await keep(engine, said)
            partition, client = partition_of(said.conversation.id), log._link.client
            await client.publish(subjects.log(partition), b"")
            await client.publish(subjects.log("nowhere"), b"")
            await client.publish(subjects.log(99), b"no entry")
            await client.publish(subjects.log(partition), b"no entry", headers={EPOCH: "9" * 5000})
            await client.publish(subjects.log(partition), b"AGE1")
            await client.flush()
            answered = sample.answered(said.conversation, said.ready[0])
            await keep(engine, answered)
            assert await engine.load(said.conversation.id) == answered.conversation
