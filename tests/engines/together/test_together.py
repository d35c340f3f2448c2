"""Engines on one storage at once: the storage in memory keeps what such storage promises."""

from __future__ import annotations

import pytest

from agentserver.engines.conformance.sample import BrokenPromiseError
from agentserver.engines.conformance.together import TOGETHER, SharedSubject
from tests.engines.together.broker import MemoryBroker
from tests.engines.together.member import Storage
from tests.engines.together.subject import over


def subject(kind=MemoryBroker) -> SharedSubject:
    """A storage in memory."""
    storage = Storage(kind())

    def opened(name):
        engine = storage.engine(name)
        return engine, engine.log

    return over(storage.broker, opened)


pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("check", TOGETHER, ids=lambda check: check.__name__)
async def test_a_storage_in_memory_is_shared(check):
    await check(subject())


class Unfenced(MemoryBroker):
    """Takes what any process appends."""

    def append(self, partition, epoch, body, id_):
        return super().append(partition, None, body, id_)


class Shared(MemoryBroker):
    """Has a partition with the process that asks for it, also when another one has it."""

    def held(self, name):
        return self.owned()


@pytest.mark.parametrize(
    ("kind", "check", "words"),
    [
        (
            Unfenced,
            "an_owner_stopped_past_its_lease_cannot_commit",
            "it raised ConflictError",
        ),
        (
            Unfenced,
            "a_share_given_up_on_purpose_is_taken_without_waiting",
            "who has given a share up cannot commit",
        ),
        (Shared, "a_conversation_has_one_owner_at_a_time", "in a share of one process"),
    ],
)
async def test_a_storage_that_breaks_a_promise_is_told_which(kind, check, words):
    (found,) = [one for one in TOGETHER if one.__name__ == check]
    with pytest.raises(BrokenPromiseError, match=words):
        await found(subject(kind))
