"""Engines on one storage at once: the storage in memory keeps what such storage promises."""

from __future__ import annotations

import pytest

from agentserver.engines.conformance.sample import BrokenPromiseError
from agentserver.engines.conformance.together import TOGETHER
from tests.engines.together.storage import Storage
from tests.engines.together.subject import engines_over

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("check", TOGETHER, ids=lambda check: check.__name__)
async def test_a_storage_in_memory_is_shared(check):
    await check(engines_over(Storage()))


class UnfencedStorage(Storage):
    """Keeps a commit under any claim."""

    fencing = False


class Generous(Storage):
    """Lets any process claim any conversation."""

    def living(self, lease):
        return False

    def queued(self, conversation):
        return False


@pytest.mark.parametrize(
    ("kind", "check", "words"),
    [
        (UnfencedStorage, "an_owner_stopped_past_its_lease_cannot_commit", "it raised ConflictError"),
        (UnfencedStorage, "what_rests_can_be_taken_from_a_living_owner", "that was lost raises FencedError"),
        (Generous, "a_conversation_has_one_owner_at_a_time", "the other process cannot claim it"),
    ],
)
async def test_a_storage_that_breaks_a_promise_gets_its_name(kind, check, words):
    (found,) = [one for one in TOGETHER if one.__name__ == check]
    with pytest.raises(BrokenPromiseError, match=words):
        await found(engines_over(kind()))
