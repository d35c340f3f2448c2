"""Two pumps on one storage in memory, each with what a test wants to say to it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass

import anyio

from agentserver.core.messages import UNDECIDED, Reply
from agentserver.ports import Ended
from tests.engines.together.broker import MemoryBroker
from tests.engines.together.member import MemberEngine, Storage
from tests.pump.desk import Desk, desk, until


@dataclass
class Pair:
    """Two pumps, a and b."""

    broker: MemoryBroker
    engines: dict[str, MemberEngine]
    desks: dict[str, Desk]

    @property
    def a(self):
        return self.desks["a"]

    @property
    def b(self):
        return self.desks["b"]

    async def stop(self, name):
        """Stop a process as SIGSTOP does, until the other one has what it had."""
        self.broker.still(name)
        self.broker.advance(1.5)
        self.broker.advance(1.5)
        other = "b" if name == "a" else "a"
        await until(lambda: len(self.engines[other].held) == self.broker.partitions)

    async def give_up(self, name):
        """Give up on purpose."""
        await self.engines[name].give_up()
        other = "b" if name == "a" else "a"
        await until(lambda: len(self.engines[other].held) == self.broker.partitions)

    def go_on(self, name):
        """Let a stopped process go on."""
        self.broker.moving(self.engines[name].log)


@asynccontextmanager
async def pair(*listeners, **settings):
    """Two pumps with the same listeners; each has some of the conversations."""
    storage = Storage(MemoryBroker())
    async with AsyncExitStack() as stack:
        engines = {name: await stack.enter_async_context(storage.engine(name)) for name in ("a", "b")}
        with anyio.fail_after(5):
            while {one for engine in engines.values() for one in engine.held} != set(storage.broker.owned()):  # noqa: ASYNC110 - what is awaited has no event of its own
                await asyncio.sleep(0)
        desks = {}
        for name, engine in engines.items():
            mine = {key: value[name] if isinstance(value, dict) else value for key, value in settings.items()}
            pairs = [
                (one, handler[name] if isinstance(handler, dict) else handler) for one, handler in listeners
            ]
            desks[name] = await stack.enter_async_context(desk(*pairs, engine=engine, **mine))
        yield Pair(storage.broker, engines, desks)


async def watched(pump, conversation, principal="console", after=UNDECIDED, enough=None):
    """The events of a watch until its end, or until there are enough, and why it ended."""
    found, why = [], None
    async with aclosing(pump.entrance.watch(principal, conversation, after)) as items:
        async for item in items:
            if isinstance(item, Ended):
                why = item.reason
                break
            found.append(item)
            if enough is not None and len([one for one in found if isinstance(one, Reply)]) >= enough:
                break
    return found, why
