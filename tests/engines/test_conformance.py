"""The suite against the engines, and the suite against engines that break one promise each: a check must be able to fail."""

from __future__ import annotations

from contextlib import suppress

import pytest

from agentserver.engines.conformance import (
    CHECKS,
    BrokenPromiseError,
    Subject,
    a_restart_takes_up_what_was_committed,
)
from agentserver.engines.memory import MemoryEngine
from agentserver.ports import ConflictError, RepeatedError

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_memory_engine_keeps_every_promise(check):
    await check(Subject(MemoryEngine, durable=False))


async def test_the_memory_engine_keeps_nothing_that_is_over():
    async with MemoryEngine() as engine:
        assert await engine.expire(1e12) == 0
        assert [event async for event in engine.outbox("nobody")] == []


class Forgetful(MemoryEngine):
    async def load(self, conversation):
        return None


class Careless(MemoryEngine):
    async def commit(self, outcome):
        self._kept[outcome.conversation.id] = outcome.conversation


class Late(MemoryEngine):
    """Refuses a stale commit after having made it."""

    async def commit(self, outcome):
        try:
            await super().commit(outcome)
        except ConflictError:
            self._kept[outcome.conversation.id] = outcome.conversation
            raise


class Impatient(MemoryEngine):
    """Takes what only waits for a person for finished."""

    async def at_work(self):
        async for key in super().at_work():
            if any(thread.inbox for thread in self._kept[key].tree.nodes.values()):
                yield key


class Idle(MemoryEngine):
    async def at_work(self):
        return
        yield


class Global(MemoryEngine):
    """Counts versions for all conversations together."""

    version = 0

    async def commit(self, outcome):
        if outcome.before != self.version:
            raise ConflictError
        self.version += 1
        self._kept[outcome.conversation.id] = outcome.conversation


class Credulous(MemoryEngine):
    """Takes a message that was sent before for another one."""

    def _keep_receipt(self, outcome):
        with suppress(RepeatedError):
            super()._keep_receipt(outcome)


class Discreet(MemoryEngine):
    """Does not mark what it tells again."""

    async def told(self, conversation, request):
        async for event in super().told(conversation, request):
            yield event._replace(redelivered=False)


@pytest.mark.parametrize("broken", [Forgetful, Careless, Late, Impatient, Idle, Global, Credulous, Discreet])
async def test_a_broken_engine_is_found_out(broken):
    failures = 0
    for check in CHECKS:
        try:
            await check(Subject(broken, durable=False))
        except (BrokenPromiseError, ConflictError):
            failures += 1
    assert failures


async def test_an_engine_that_only_claims_to_be_durable_is_found_out():
    with pytest.raises(BrokenPromiseError, match="restart"):
        await a_restart_takes_up_what_was_committed(Subject(MemoryEngine, durable=True))
