"""The place where the parts meet: a checked organism becomes a running server.

Owns the order of guards and the lifetimes of lifespan, engine and pump. Nothing below imports it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, runtime_checkable

import anyio

from agentserver.config import forget
from agentserver.core.messages import Moment
from agentserver.core.state.principals import Principal, Trust
from agentserver.engines.memory import MemoryEngine
from agentserver.extras import installed, installing, require
from agentserver.guards.intents import HandoffRecord
from agentserver.handoff.edge.copying import copying
from agentserver.pump.editions import Callee, Edition
from agentserver.pump.ingress import ServerIngress
from agentserver.pump.pump import Pump, PumpHooks
from agentserver.pump.records import RecordStream, check_observer, run_observers
from agentserver.reloading.keepers import Keepers, SharedResources, attempt, bound_listeners
from agentserver.reloading.obstacles import (
    STOPPED,
    GuardAdopter,
    ReloadRefusal,
    ReloadResult,
    find_obstacles,
    find_rule_obstacles,
    in_use,
    named_alike,
    refuse_reload,
    succession,
)
from agentserver.rulebook import NO_GUARDS, rules
from agentserver.supervision import Ending, start_helper
from agentserver.trace.store import TraceBook

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Any

    from agentserver.config import Organism
    from agentserver.config.code.editions import Succession
    from agentserver.config.keys.models import Postgres
    from agentserver.core.guard import Rules
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation
    from agentserver.engines.postgres.options import PostgresOptions
    from agentserver.engines.postgres.principals import PrincipalTable
    from agentserver.engines.sqlite.care.handoffs import JournalHeads
    from agentserver.guards.base import Guard
    from agentserver.handoff.edge.heads import Heads
    from agentserver.observers import Observer
    from agentserver.ports import Approver, Clock, Completer, Engine, EngineReader
    from agentserver.ports.principals import PaceStore, PrincipalStore
    from agentserver.telemetry.tracing import Tracer
    from agentserver.worker.remote_desk import CallDesk

__all__ = ["Principal", "ReloadRefusal", "ReloadResult", "Server", "Trust", "build"]

T = TypeVar("T")

logger = logging.getLogger("agentserver")

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_new = tuple.__new__


DRAWN = 64
"""Seeds that the clock draws from the system at once."""


@runtime_checkable
class Troubled(Protocol):
    """An engine whose storage may be away while others of its process work on."""

    @property
    def trouble(self) -> str:
        """The reason why nothing new is kept at present; empty where it is."""
        ...


class SystemClock:
    """The machine's clock and its source of randomness.

    No seed is given twice by one process. A copy of it by fork() that goes on as a server ends before it keeps anything
    (``agentserver/pump/watchdog.py``), so that none of those drawn ahead is used there.
    """

    def __init__(self) -> None:
        self._seeds: Iterator[bytes] = iter(())

    def moment(self) -> Moment:
        """The present time with a fresh seed."""
        seed = next(self._seeds, None)
        if seed is None:  # one call of the system costs as much as the rest of sixteen
            drawn = os.urandom(16 * DRAWN)
            self._seeds = iter([drawn[start : start + 16] for start in range(16, len(drawn), 16)])
            seed = drawn[:16]
        return _new(Moment, (time.time(), seed))

    steady = staticmethod(partial(time.clock_gettime, _STEADY))
    """Seconds, by a clock that cannot be set. No function of Python's, because each hop asks it twice."""


@dataclass
class Server(ServerIngress):
    """An organism at work. An async context manager: entering starts it, leaving drains and stops it.

    Args:
        organism: the checked configuration.
        rules: what its conversations decide by.
        engine: where conversations are kept.
        clock: time and randomness.
        trace: what happened lately.
        approver: shown what waits for a person. Without one and without a journal, into which the command line writes
            answers, nothing that needs an approval goes on.
        handoffs: the file for the record of handoffs; None keeps none but the engine's.
        stalled: ends the process when a handler has held the event loop for ``limits.stall``; None only logs it.
        heads: where that file's end is kept; beside it without one.
        observers: those of the program.
        completer: answers in place of the organism's language models.
        guards: those of the program, by name.
        stream: of the records of committed steps; ``trace`` is its first sink.
    """

    organism: Organism
    rules: Rules
    engine: Engine
    clock: Clock
    trace: TraceBook = field(default_factory=TraceBook)
    approver: Approver | None = None
    handoffs: Path | None = None
    stalled: Callable[[], None] | None = None
    heads: Heads | None = None
    observers: tuple[Observer, ...] = ()
    completer: Completer | None = None
    stream: RecordStream = field(default_factory=RecordStream)
    guards: Mapping[str, Guard] = field(default_factory=dict)
    _calls: CallDesk | None = None
    _resources: tuple[object, ...] = ()
    _pump: Pump | None = None
    _tracing: Tracer | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _keepers: Keepers[Mapping[str, Callee]] = field(default_factory=Keepers)
    _reloading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        """Have the trace remember what is committed."""
        self.stream.attach(self.trace)

    async def __aenter__(self) -> Self:
        """Enter the lifespan, open the engine, start the pump."""
        async with AsyncExitStack() as stack:
            resources = self._resources = await _resources(self.organism, stack)
            engine = await stack.enter_async_context(self.engine)
            asks = self.completer is not None or self.organism.models is not None
            tracing = self._tracing = await traced(self.organism, engine, stack, asks=asks)
            stack.push_async_callback(self._keepers.close)
            bound = await self._keepers.open(self._opening(self.organism, self.rules))
            if tracing is not None:
                stack.callback(self.stream.attach(tracing.sink))
            if self.handoffs is not None:
                copy = await stack.enter_async_context(copying(self.handoffs, heads=self.heads))
                stack.callback(self.stream.attach(HandoffRecord(copy)))
            for sink in await stack.enter_async_context(run_observers(self.observers)):
                stack.callback(self.stream.attach(sink))
            hooks = PumpHooks(self.stream, self.approver, engine.answers, self.stalled)
            pump = Pump(self.rules, bound, engine, self.clock, resources, hooks)
            self._pump = await stack.enter_async_context(pump)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            start_helper(tasks, "watches what editions keep open", Ending.SERVER, self._keepers.watch)
            self._stack = stack.pop_all()
        return self

    def _opening(
        self, organism: Organism, decided_by: Rules
    ) -> Callable[[AsyncExitStack], Coroutine[Any, Any, Mapping[str, Callee]]]:
        """Opens all that the listeners of one edition need."""
        return partial(
            bound_listeners,
            organism,
            decided_by,
            self.completer,
            self._tracing,
            SharedResources(self._keepers.shared, lambda: self.calls),
        )

    @property
    def calls(self) -> CallDesk:
        """The calls for workers on other machines, over all editions."""
        if self._calls is None:
            from agentserver.worker.remote_desk import CallDesk  # most organisms have none

            self._calls = CallDesk()
        return self._calls

    async def reload(self, organism: Organism) -> ReloadResult | ReloadRefusal:
        """Replace the organism by another one, which was loaded ``after`` it, without a pause.

        What runs finishes in the old code. What waits meets the new one as after a restart; where a handler of the same
        conversation runs, once that is done. A refused organism is forgotten, and the running one keeps everything.
        """
        async with self._reloading:
            organism = replace(organism, secrets=self.organism.secrets.also(organism.secrets))
            looked = await attempt(anyio.to_thread.run_sync(self._look, organism))
            found: ReloadResult | ReloadRefusal
            if isinstance(looked, BaseException):
                found = refuse_reload(looked)
            else:
                passing, why = looked
                found = ReloadRefusal(why) if why else await self._reload(organism, passing)
            if isinstance(found, ReloadRefusal):
                forget(organism)
            return found

    def _look(self, organism: Organism) -> tuple[Succession | None, tuple[str, ...]]:
        """The passing of names to another organism, and a line for each obstacle."""
        passing, why = succession(self.organism, organism), (*find_obstacles(self.organism, organism),)
        if passing is None:
            return None, why
        stays: list[tuple[str, object]] = [("a resource of lifespan:", each) for each in self._resources]
        stays += [(f"the guard {name} of the program", guard) for name, guard in self.guards.items()]
        stays += [("an observer of the program", each) for each in self.observers]
        return passing, (*why, *in_use(passing, stays))

    async def _reload(self, organism: Organism, passing: Succession | None) -> ReloadResult | ReloadRefusal:
        decided_by = await attempt(anyio.to_thread.run_sync(rules, organism, self.guards))
        if isinstance(decided_by, BaseException):
            return refuse_reload(decided_by)
        offered = () if self.organism.serving is None else self.organism.serving.expose
        adopting = self.engine if isinstance(self.engine, GuardAdopter) else None
        blind = self.engine.durable and adopting is None
        why = tuple(find_rule_obstacles(self.rules, decided_by, offered, blind=blind))
        if why:
            return ReloadRefusal(why)
        bound = await attempt(self._keepers.open(self._opening(organism, decided_by)))
        if isinstance(bound, BaseException):
            return refuse_reload(bound)
        edition, pump = Edition(decided_by, bound), self._pump
        why = STOPPED if pump is None else tuple(map(named_alike, pump.reloads.unfit(edition)))
        if pump is None or why:
            failed = await attempt(self._keepers.drop())
            if failed is not None:
                logger.error("an edition that did not begin could not be closed", exc_info=failed)
            return ReloadRefusal(why)
        if adopting is not None:
            adopting.adopt(decided_by.guards)
        finishing = pump.reloads.swap(edition)
        self.organism, self.rules = organism, decided_by
        self._keepers.retire(
            pump.reloads.wait_moved, (lambda: None) if passing is None else passing.carry_out()
        )
        return ReloadResult(organism.name, finishing)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Drain and stop, in the reverse order."""
        self._pump = None
        return await self._stack.__aexit__(kind, error, trace)

    def approvals(self) -> tuple[Approval, ...]:
        """The messages that wait for a person, the oldest first."""
        return () if self._pump is None else self._pump.approvals()

    def queues(self) -> Mapping[str, tuple[int, int]]:
        """By listener, the deliveries that wait until it has room, and those that it has or is given next."""
        return {} if self._pump is None else self._pump.queues()

    def running(self) -> frozenset[str]:
        """The threads whose handlers run."""
        return frozenset() if self._pump is None else self._pump.running()

    @property
    def lost(self) -> int | None:
        """Spans that no collector took so far; None where none are told."""
        return None if self._tracing is None else self._tracing.lost

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit a person's answer. False when nothing waits for it, or another message than the one shown does.

        Raises EngineError, and UnheardError of it where the answer may count yet.
        """
        return await self._running.answer(conversation, answered)

    @property
    def durable(self) -> bool:
        """True when unfinished work outlives the process."""
        return self.engine.durable

    @property
    def trouble(self) -> str:
        """The reason why the engine keeps nothing new at present; empty where it does."""
        return self.engine.trouble if isinstance(self.engine, Troubled) else ""

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Do some reading for operators of what the engine has kept. Raises what ``Engine.read`` does."""
        return await self.engine.read(work)

    def acquit(self) -> None:
        """The end that comes now is the fault of no handler. May be called from any thread."""
        if self.engine.marks is not None:
            self.engine.marks.end()

    async def drain(self) -> None:
        """Refuse new messages and wait until nothing runs, for ``limits.drain`` seconds at most.

        Leaving the context does so too, and waits no longer for having been asked twice.
        """
        if self._pump is not None:
            await self._pump.drain()

    def conversation(self, conversation: str) -> Conversation | None:
        """A conversation as it stands, for operators; None when it is unknown or over."""
        return None if self._pump is None else self._pump.conversation(conversation)


async def _resources(organism: Organism, stack: AsyncExitStack) -> tuple[object, ...]:
    """Enter the lifespan of an organism until the stack is left; gives what it provides."""
    if organism.lifespan is None:
        return ()
    provided = await stack.enter_async_context(organism.lifespan())
    return tuple(provided) if isinstance(provided, list | tuple) else (provided,)


async def traced(organism: Organism, engine: Engine, stack: AsyncExitStack, *, asks: bool) -> Tracer | None:
    """Open what sends spans and metrics of an organism, until the stack is left; None where nothing is sent.

    ``asks`` says whether its handlers may ask language models.

    Raises MissingExtraError where the YAML wants it, and OSError for certificates that cannot be read.
    """
    otel = organism.otel
    if otel is None:
        return None
    if not otel.asked and not installed("otel"):
        logger.warning("the environment asks for spans, and there are none: %s", installing("otel"))
        return None
    require("otel:", "otel")
    from agentserver.telemetry.tracing import open_tracing  # with an extra that most do without

    agents = {bound.listener.name: bound.listener.agent for bound in organism.listeners}
    found = await stack.enter_async_context(
        open_tracing(organism.name, agents, otel, organism.secrets.redact, asks=asks)
    )
    if engine.durable:
        await found.take_up(engine)
    return found


def journal_path(organism: Organism) -> Path | None:
    """The path of the organism's journal; None when it keeps none."""
    return None if organism.journal is None else organism.project / organism.journal.path


def principal_stores(organism: Organism) -> tuple[PrincipalStore, PaceStore | None]:
    """Find the principals of an organism, and where servers add up their pace: its database, or a file alone."""
    if organism.engine is not None:
        shared = shared_principals(organism.engine)
        return shared, shared
    from agentserver.gateways.principals.document import beside

    return beside(journal_path(organism) or organism.files[0]), None


def shared_principals(keys: Postgres) -> PrincipalTable:
    """Find the principals, and the pace of each, that servers share. Raises MissingExtraError."""
    require("engine: postgres:", "postgres")
    from agentserver.engines.postgres.principals import PrincipalTable

    return PrincipalTable(keys.url, keys.schema_name)


def postgres_options(keys: Postgres) -> PostgresOptions:
    """Say which database is meant, and how it is used. Raises MissingExtraError."""
    require("engine: postgres:", "postgres")
    from agentserver.engines.postgres.options import PostgresOptions

    return PostgresOptions(
        keys.url,
        keys.schema_name,
        lease=keys.lease,
        durability=keys.durability,
        migrate=keys.migrate,
        wait=keys.wait,
    )


def handoff_record(organism: Organism) -> Path | None:
    """The file for the record of handoffs; None when the organism has no intents or wants no file."""
    handoffs = organism.handoffs
    return None if handoffs is None or handoffs.audit is None else organism.project / handoffs.audit


def handoff_heads(organism: Organism) -> JournalHeads | None:
    """The keeper of the end of the record of handoffs; None when the end is kept beside it."""
    path, handoffs = journal_path(organism), organism.handoffs
    if path is None or handoffs is None or handoffs.audit is None:
        return None
    from agentserver.engines.sqlite.care.handoffs import JournalHeads

    return JournalHeads(path, handoffs.audit)


def journalled(organism: Organism, rules: Rules) -> Engine:
    """Make the engine that the organism configures: its database, its journal, or memory without either.

    Raises MissingExtraError.
    """
    if organism.engine is not None:
        shared = postgres_options(organism.engine)
        from agentserver.engines.postgres.engine import PostgresEngine

        return PostgresEngine(shared, rules.guards, retention=organism.engine.retention)
    journal, path = organism.journal, journal_path(organism)
    if journal is None or path is None:
        return MemoryEngine()
    from agentserver.engines.sqlite.engine import SqliteEngine
    from agentserver.engines.sqlite.file import JournalOptions, Sync

    options = JournalOptions(path, Sync(journal.sync))
    return SqliteEngine(options, rules.guards, retention=journal.retention, limit=journal.limit)


def build(  # noqa: PLR0913 - a keyword each
    organism: Organism,
    *,
    engine: Engine | None = None,
    durable: bool = False,
    recorded: bool = False,
    clock: Clock | None = None,
    approver: Approver | None = None,
    guards: Mapping[str, Guard] = NO_GUARDS,
    observers: Iterable[Observer] = (),
    completer: Completer | None = None,
) -> Server:
    """Put a server together. It starts when it is entered.

    Args:
        organism: the checked configuration.
        engine: where conversations are kept; memory when there is none.
        durable: whether the engine, and the file for the record of handoffs, are those that the organism asks for.
        recorded: whether that file is, with any engine.
        clock: time and randomness; the machine's when there is none.
        approver: shown what waits for a person. Without one and without a journal, into which the command line writes
            answers, nothing that needs an approval goes on.
        guards: by name, those of the program beside the organism's (see ``agentserver.guards``).
        observers: told of what was committed (see ``agentserver.observers``).
        completer: answers in place of the organism's language models.

    Raises PayloadError, TypeError and ValueError as ``rules`` does.
    """
    decided_by = rules(organism, guards)
    if engine is None:
        engine = journalled(organism, decided_by) if durable else MemoryEngine()
    kept = durable or recorded
    return Server(
        organism,
        decided_by,
        engine,
        clock or SystemClock(),
        approver=approver,
        handoffs=handoff_record(organism) if kept else None,
        heads=handoff_heads(organism) if kept else None,
        observers=tuple(map(check_observer, observers)),
        completer=completer,
        guards=guards,
    )
