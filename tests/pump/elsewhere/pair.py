"""Two pumps on one storage in memory, each with what a test wants to say to it."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass

from agentserver.core.messages import UNDECIDED, Reply
from agentserver.ports import Ended
from tests.engines.together.broker import MemoryBroker
from tests.engines.together.member import Storage
from tests.machine import HANGS
from tests.pump.desk import Desk, desk, until


@dataclass
class Pair:
    """Two pumps, a and b."""

    broker: MemoryBroker
    engines: dict[str, object]
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
        await self._has_all(other)

    async def give_up(self, name):
        """Give up on purpose."""
        await self.engines[name].give_up()
        await self._has_all("b" if name == "a" else "a")

    async def _has_all(self, name):
        await until(lambda: len(self.desks[name].pump._shares.held) == self.broker.partitions)

    async def settled(self):
        """Wait until each has taken up what is its."""
        await until(
            lambda: (
                frozenset().union(*(one.pump._shares.held for one in self.desks.values()))
                == self.broker.owned()
            )
        )

    def go_on(self, name):
        """Let a stopped process go on."""
        self.broker.moving(self.broker.logs[name])


@asynccontextmanager
async def pair(*listeners, **settings):
    """Two pumps with the same listeners; each has some of the conversations."""
    broker = MemoryBroker()
    storage = Storage(broker)

    async with AsyncExitStack() as stack:
        engines = {name: await stack.enter_async_context(storage.engine(name)) for name in ("a", "b")}
        desks = {}
        for name, engine in engines.items():
            mine = {key: value[name] if isinstance(value, dict) else value for key, value in settings.items()}
            pairs = [
                (one, handler[name] if isinstance(handler, dict) else handler) for one, handler in listeners
            ]
            desks[name] = await stack.enter_async_context(desk(*pairs, engine=engine, **mine))
            desks[name].pump.entrance.handles.owners.patience = HANGS  # who tries what comes late says so
        two = Pair(broker, engines, desks)
        await two.settled()
        yield two


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
