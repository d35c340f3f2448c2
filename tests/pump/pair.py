"""Two pumps on one storage in memory, each with what a test wants to say to it."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass

from agentserver.core.messages import UNDECIDED, Reply
from agentserver.ports import WatchStop
from tests.engines.together.storage import REST, SharedEngine, Storage
from tests.machine import HANGS
from tests.pump.desk import Desk, desk


@dataclass
class Pair:
    """Two pumps, a and b."""

    storage: Storage
    engines: dict[str, SharedEngine]
    desks: dict[str, Desk]

    @property
    def a(self):
        return self.desks["a"]

    @property
    def b(self):
        return self.desks["b"]

    def owner(self, conversation):
        """Name the process that has a conversation; empty if none has it."""
        row = self.storage.rows.get(conversation)
        return next((name for name, one in self.engines.items() if row and row.owner == one.number), "")

    async def stop(self, name):
        """Stop a process as SIGSTOP does, until its lease has expired."""
        self.storage.still(name)

    async def give_up(self, name):
        """Give up on purpose."""
        await self.engines[name].give_up()

    def go_on(self, name):
        """Resume a stopped process."""
        self.storage.moving(name)

    async def rest(self, name):
        """Let time pass until a process gives back its idle conversations."""
        for _ in range(2):
            await self.desks[name].pump.releasing.release()

    async def rested(self):
        """Let conversations rest so long that they can be taken from a living process."""
        self.storage.advance(REST)


@asynccontextmanager
async def pair(*listeners, **settings):
    """Two pumps with the same listeners; a setting or handler may be a mapping of those of each."""
    storage = Storage()

    async with AsyncExitStack() as stack:
        engines = {name: await stack.enter_async_context(storage.engine(name)) for name in ("a", "b")}
        desks = {}
        for name, engine in engines.items():
            mine = {key: value[name] if isinstance(value, dict) else value for key, value in settings.items()}
            pairs = [
                (one, handler[name] if isinstance(handler, dict) else handler) for one, handler in listeners
            ]
            desks[name] = await stack.enter_async_context(desk(*pairs, engine=engine, **mine))
            desks[name].pump.entrance.handles.owners.patience = HANGS  # a test of patience sets it itself
            desks[name].pump.releasing.idle_time = 0.0  # two looks are enough
        yield Pair(storage, engines, desks)


async def watch_events(pump, conversation, principal="console", after=UNDECIDED, enough=None):
    """The events of a watch until its end, or until there are enough, and why it ended."""
    found, why = [], None
    async with aclosing(pump.entrance.watch(principal, conversation, after)) as items:
        async for item in items:
            if isinstance(item, WatchStop):
                why = item.reason
                break
            found.append(item)
            if enough is not None and len([one for one in found if isinstance(one, Reply)]) >= enough:
                break
    return found, why
