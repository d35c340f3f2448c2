"""Assembles a running server from a checked organism.

No lower layer imports it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, runtime_checkable

import anyio

from agentserver.config import forget
from agentserver.core.messages import Moment
from agentserver.core.state.principals import Principal, Trust
from agentserver.engines.memory import MemoryEngine
from agentserver.extras import install_hint, is_installed, require
from agentserver.gateways.schedules import ScheduleRunner
from agentserver.guards.intents import HandoffRecord
from agentserver.handoff.edge.records import copy_records
from agentserver.ports.servers import ServerReport, ServerState
from agentserver.pump.completions import CompletionLog
from agentserver.pump.editions import Callee, Edition
from agentserver.pump.ingress import ServerIngress
from agentserver.pump.pump import Pump, PumpHooks
from agentserver.pump.records import RecordStream, check_observer, run_observers
from agentserver.reloading.keepers import EditionResources, SharedResources, attempt, bound_listeners
from agentserver.reloading.obstacles import (
    STOPPED,
    GuardAdopter,
    ReloadRefusal,
    ReloadResult,
    find_obstacles,
    find_rule_obstacles,
    find_succession,
    in_use,
    named_alike,
    refuse_reload,
)
from agentserver.rulebook import NO_GUARDS, build_rules
from agentserver.supervision import EndEffect, start_helper
from agentserver.trace.store import TraceBook

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Any

    from anyio.abc import TaskGroup

    from agentserver.config import Organism
    from agentserver.config.code.editions import Succession
    from agentserver.config.keys.models import Postgres
    from agentserver.core.guard import Rules
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation
    from agentserver.delegation import Delegations
    from agentserver.engines.postgres.connection import PostgresOptions
    from agentserver.engines.postgres.principals import PrincipalTable, SessionTable
    from agentserver.engines.sqlite.handoffs import JournalHeadStore
    from agentserver.guards.base import Guard
    from agentserver.handoff.edge.heads import HeadStore
    from agentserver.history.backtest import PolicyTrial
    from agentserver.observers import Observer
    from agentserver.ports import Approver, Clock, Completer, Engine, EngineReader
    from agentserver.ports.principals import PaceStore, PrincipalStore
    from agentserver.ports.schedules import Schedule
    from agentserver.telemetry.tracing import Tracer
    from agentserver.worker.remote_desk import CallDesk

__all__ = ["Principal", "ReloadRefusal", "ReloadResult", "Server", "Trust", "build"]

T = TypeVar("T")

logger = logging.getLogger("agentserver")

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_new = tuple.__new__


DRAWN = 64
"""Seeds that the clock takes from the system at once."""


@runtime_checkable
class StorageMonitor(Protocol):
    """Engine that can report why it cannot store at present."""

    @property
    def trouble(self) -> str:
        """Reason why nothing new can be stored at present; empty if it can."""


class SystemClock:
    """Clock and randomness of the machine.

    A process uses each seed once. A copy by fork() that continues as a server ends before it stores anything
    (``agentserver/pump/calling/forked.py``), so prefetched seeds are not used twice.
    """

    def __init__(self) -> None:
        self._seeds: Iterator[bytes] = iter(())

    def moment(self) -> Moment:
        """Return the current time with a fresh seed."""
        seed = next(self._seeds, None)
        if seed is None:  # one system call costs as much as the rest of sixteen
            drawn = os.urandom(16 * DRAWN)
            self._seeds = iter([drawn[start : start + 16] for start in range(16, len(drawn), 16)])
            seed = drawn[:16]
        return _new(Moment, (time.time(), seed))

    steady = staticmethod(partial(time.clock_gettime, _STEADY))
    """Seconds of a clock that cannot be set. Not a Python function, because each hop calls it twice."""


@runtime_checkable
class SharedTime(Protocol):
    """Engine of several servers that has one clock for all of them."""

    def shared_time(self) -> float:
        """Return the time, in seconds since the epoch."""


@runtime_checkable
class ReportingEngine(Protocol):
    """Engine of several servers that stores what each of them does."""

    def report_by(self, describe: Callable[[], ServerReport]) -> None:
        """Store what a function returns with each heartbeat of this server."""


class EngineClock(SystemClock):
    """Clock of an engine that several servers share, with the randomness of the machine."""

    def __init__(self, engine: SharedTime) -> None:
        super().__init__()
        self._engine = engine

    def moment(self) -> Moment:
        """Return the engine's time with a fresh seed."""
        return super().moment()._replace(now=self._engine.shared_time())


@dataclass
class Server(ServerIngress):
    """Running organism. An async context manager: entering starts it, leaving drains and stops it.

    Args:
        organism: the checked configuration.
        rules: decide its conversations.
        engine: stores conversations.
        clock: time and randomness.
        trace: recent events.
        approver: shows waiting messages to a person. Without an approver, and without a journal through which the
            command line answers, messages that need an approval are refused.
        handoffs: file of the handoff record; None leaves the record to the engine.
        stalled: ends the process when a handler has blocked the event loop for ``limits.stall``; None only logs it.
        heads: stores the last hash of the handoff record; by default a note next to the file.
        observers: the program's.
        completer: replaces the organism's language models.
        guards: the program's, by name.
        unattended: whether schedules, inboxes and notices of approvals run.
        door: URL of the pages that announcements link to; set before the server is entered.
        delegations: exchanges tokens of users for handlers; set before the server is entered.
        stream: records of committed steps; ``trace`` is its first sink.
    """

    organism: Organism
    rules: Rules
    engine: Engine
    clock: Clock
    trace: TraceBook = field(default_factory=TraceBook)
    approver: Approver | None = None
    handoffs: Path | None = None
    stalled: Callable[[], None] | None = None
    heads: HeadStore | None = None
    observers: tuple[Observer, ...] = ()
    completer: Completer | None = None
    stream: RecordStream = field(default_factory=RecordStream)
    guards: Mapping[str, Guard] = field(default_factory=dict)
    unattended: bool = False
    door: str = ""
    delegations: Delegations | None = None
    _since: float = 0.0
    _calls: CallDesk | None = None
    _resources: tuple[object, ...] = ()
    _pump: Pump | None = None
    _tracing: Tracer | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _keepers: EditionResources[Mapping[str, Callee]] = field(default_factory=EditionResources)
    _reloading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        """Attach the trace to the stream of records."""
        self.stream.attach(self.trace)
        self._schedules = ScheduleRunner(self, lambda: self.clock.moment().now, answers=self.engine.answers)

    async def __aenter__(self) -> Self:
        """Enter the lifespan, open the engine, start the pump."""
        async with AsyncExitStack() as stack:
            resources = self._resources = await _enter_resources(self.organism, stack)
            if isinstance(self.engine, ReportingEngine):
                self.engine.report_by(self._report)
            engine = await stack.enter_async_context(self.engine)
            asks = self.completer is not None or self.organism.models is not None
            tracing = self._tracing = await open_tracing(self.organism, engine, stack, asks=asks)
            stack.push_async_callback(self._keepers.close)
            bound = await self._keepers.open(self._prepare_edition(self.organism, self.rules))
            if tracing is not None:
                stack.callback(self.stream.attach(tracing.sink))
            if self.handoffs is not None:
                copy = await stack.enter_async_context(copy_records(self.handoffs, heads=self.heads))
                stack.callback(self.stream.attach(HandoffRecord(copy)))
            for sink in await stack.enter_async_context(run_observers(self.observers)):
                stack.callback(self.stream.attach(sink))
            hooks = PumpHooks(self.stream, self.approver, engine.answers, self.stalled, self.delegations)
            pump = Pump(self.rules, bound, engine, self.clock, resources, hooks)
            self._pump = await stack.enter_async_context(pump)
            self._since = self.clock.moment().now
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            if self.unattended:
                self._start_unattended(tasks)
            start_helper(tasks, "watches what editions keep open", EndEffect.SERVER, self._keepers.watch)
            self._stack = stack.pop_all()
        return self

    def _start_unattended(self, tasks: TaskGroup) -> None:
        """Start what works without a client: schedules, inboxes and notices of approvals."""
        from agentserver.gateways.inbox import InboxRunner
        from agentserver.gateways.notices import NoticeRunner

        organism = self.organism
        self._schedules.replace(organism.schedules)
        inboxes = InboxRunner(self, lambda: self.organism.inboxes, organism.project)
        notices = NoticeRunner(
            self, lambda: self.organism.notifiers, organism.name, organism.project, self.door
        )
        start_helper(tasks, "runs the schedules", EndEffect.SERVER, self._schedules.run)
        start_helper(tasks, "sends the files of inboxes", EndEffect.SERVER, inboxes.run)
        start_helper(tasks, "announces approvals", EndEffect.RESTART, notices.run)

    def _prepare_edition(
        self, organism: Organism, decided_by: Rules
    ) -> Callable[[AsyncExitStack], Coroutine[Any, Any, Mapping[str, Callee]]]:
        """Prepare to open all that the listeners of one edition need."""
        return partial(
            bound_listeners,
            organism,
            decided_by,
            self.completer,
            self._tracing,
            SharedResources(
                self._keepers.shared,
                lambda: self.calls,
                self._keepers.handlers,
                lambda wanted: CompletionLog(wanted, self.engine, self.clock, self._redact),
            ),
        )

    def _redact(self, text: str) -> str:
        """Remove the secrets of the present organism and of earlier ones from a text."""
        return self.organism.secrets.redact(text)

    @property
    def calls(self) -> CallDesk:
        """Calls for remote workers, across all editions."""
        if self._calls is None:
            from agentserver.worker.remote_desk import CallDesk  # most organisms have none

            self._calls = CallDesk()
        return self._calls

    async def reload(self, organism: Organism) -> ReloadResult | ReloadRefusal:
        """Replace the organism without a pause by another one, which was loaded ``after`` it.

        Running handlers finish in the old code. Waiting messages meet the new one, as after a restart; if a
        handler of the same conversation runs, once it is done. After a refusal the new organism is forgotten
        and nothing changes.
        """
        async with self._reloading:
            organism = replace(organism, secrets=self.organism.secrets.also(organism.secrets))
            looked = await attempt(anyio.to_thread.run_sync(self._look, organism))
            found: ReloadResult | ReloadRefusal
            if isinstance(looked, BaseException):
                found = refuse_reload(looked)
            else:
                passing, reason = looked
                found = ReloadRefusal(reason) if reason else await self._reload(organism, passing)
            if isinstance(found, ReloadRefusal):
                forget(organism)
            return found

    def _look(self, organism: Organism) -> tuple[Succession | None, tuple[str, ...]]:
        """Prepare to replace modules, and list the obstacles."""
        passing, reason = (
            find_succession(self.organism, organism),
            (*find_obstacles(self.organism, organism),),
        )
        if passing is None:
            return None, reason
        stays: list[tuple[str, object]] = [("a resource of lifespan:", each) for each in self._resources]
        stays += [(f"the guard {name} of the program", guard) for name, guard in self.guards.items()]
        stays += [("an observer of the program", each) for each in self.observers]
        return passing, (*reason, *in_use(passing, stays))

    async def _reload(self, organism: Organism, passing: Succession | None) -> ReloadResult | ReloadRefusal:
        decided_by = await attempt(anyio.to_thread.run_sync(build_rules, organism, self.guards))
        if isinstance(decided_by, BaseException):
            return refuse_reload(decided_by)
        offered = () if self.organism.serving is None else self.organism.serving.expose
        adopting = self.engine if isinstance(self.engine, GuardAdopter) else None
        blind = self.engine.durable and adopting is None
        reason = tuple(find_rule_obstacles(self.rules, decided_by, offered, blind=blind))
        if reason:
            return ReloadRefusal(reason)
        bound = await attempt(self._keepers.open(self._prepare_edition(organism, decided_by)))
        if isinstance(bound, BaseException):
            return refuse_reload(bound)
        edition, pump = Edition(decided_by, bound), self._pump
        reason = STOPPED if pump is None else tuple(map(named_alike, pump.reloads.list_unfit(edition)))
        if pump is None or reason:
            failed = await attempt(self._keepers.drop())
            if failed is not None:
                logger.error("an edition that did not start could not be closed", exc_info=failed)
            return ReloadRefusal(reason)
        if adopting is not None:
            adopting.adopt(decided_by.guards)
        finishing = pump.reloads.swap(edition)
        self.organism, self.rules = organism, decided_by
        self._schedules.replace(organism.schedules)
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

    @property
    def schedules(self) -> Sequence[Schedule]:
        """Messages that it sends at set times."""
        return self.organism.schedules

    def approvals(self) -> tuple[Approval, ...]:
        """List the messages that wait for a person, oldest first."""
        return () if self._pump is None else self._pump.approvals()

    def held_approvals(self) -> tuple[Approval, ...]:
        """List the messages that wait for a person in conversations of this server, oldest first."""
        return () if self._pump is None else self._pump.held_approvals()

    def queues(self) -> Mapping[str, tuple[int, int]]:
        """Count by listener the deliveries that wait for room, and those it has or gets next."""
        return {} if self._pump is None else self._pump.queues()

    def running(self) -> frozenset[str]:
        """List the threads whose handlers run."""
        return frozenset() if self._pump is None else self._pump.running()

    def _report(self) -> ServerReport:
        return ServerReport() if self._pump is None else self._pump.report()

    def describe_itself(self) -> ServerState:
        """Describe this server as the only one of its storage; where several share one, the reader lists them."""
        name = f"{socket.gethostname()}, process {os.getpid()}"
        now = self.clock.moment().now
        return ServerState(0, name, self._since, now, 0.0, 0.0, ended=False, report=self._report())

    @property
    def lost(self) -> int | None:
        """Number of spans that no collector has accepted so far; None without any export."""
        return None if self._tracing is None else self._tracing.lost

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit a person's answer. Returns False unless the shown message still waits.

        Raises EngineError, and its subclass NoOutcomeError if the answer may still count.
        """
        return await self._running.answer(conversation, answered)

    @property
    def durable(self) -> bool:
        """True if unfinished work outlives the process."""
        return self.engine.durable

    @property
    def trouble(self) -> str:
        """Reason why nothing new can be stored at present; empty if it can."""
        return self.engine.trouble if isinstance(self.engine, StorageMonitor) else ""

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read from the engine for operators. Raises what ``Engine.read`` does."""
        return await self.engine.read(work)

    @property
    def organism_path(self) -> str:
        """Path of the organism's file from its project, for saved tests."""
        return os.path.relpath(os.path.realpath(self.organism.files[0]), self.organism.project)

    async def prepare_trial(self, policy: str, mode: str = "") -> PolicyTrial:
        """Prepare the trial of a provenance policy. Raises ValueError with a line for each mistake."""
        from agentserver.reloading.trials import prepare_trial  # most servers try none

        organism, decided_by = self.organism, self.rules
        prepare = partial(prepare_trial, organism, decided_by, self.guards, policy, mode)
        return await anyio.to_thread.run_sync(prepare)

    async def find_policy_text(self) -> str:
        """Return the policy in force as the text of a policy file; empty without one."""
        from agentserver.reloading.trials import find_policy_text

        return await anyio.to_thread.run_sync(find_policy_text, self.organism)

    def acquit(self) -> None:
        """Mark that the coming end is not the fault of a handler. May be called from any thread."""
        if self.engine.marks is not None:
            self.engine.marks.end()

    async def drain(self) -> None:
        """Refuse new messages and wait until nothing runs, at most for ``limits.drain`` seconds.

        Leaving the context drains too, but does not wait twice.
        """
        if self._pump is not None:
            await self._pump.drain()

    async def settle_timers(self) -> None:
        """Wait until no message is at work, and all that are due by then have been delivered and handled."""
        if self._pump is not None:
            await self._pump.settle_timers()

    def conversation(self, conversation: str) -> Conversation | None:
        """Return the current state of a conversation, for operators; None if it is unknown or closed."""
        return None if self._pump is None else self._pump.conversation(conversation)


async def _enter_resources(organism: Organism, stack: AsyncExitStack) -> tuple[object, ...]:
    """Enter the lifespan of an organism until the stack is left. Returns its resources."""
    if organism.lifespan is None:
        return ()
    provided = await stack.enter_async_context(organism.lifespan())
    return tuple(provided) if isinstance(provided, list | tuple) else (provided,)


async def open_tracing(
    organism: Organism, engine: Engine, stack: AsyncExitStack, *, asks: bool
) -> Tracer | None:
    """Open the export of spans and metrics until the stack is left; None if nothing is exported.

    ``asks`` says whether its handlers may ask language models.

    Raises MissingExtraError if the YAML requires it, OSError for unreadable certificates, and UnusableProxyError.
    """
    otel = organism.otel
    if otel is None:
        return None
    if not otel.declared and not is_installed("otel"):
        logger.warning("the environment asks for spans, but they cannot be sent: %s", install_hint("otel"))
        return None
    require("otel:", "otel")
    await anyio.to_thread.run_sync(import_module, "agentserver.telemetry.tracing")  # reads files for long
    from agentserver.telemetry.tracing import open_tracing  # needs an extra

    agents = {bound.listener.name: bound.listener.agent for bound in organism.listeners}
    found = await stack.enter_async_context(
        open_tracing(organism.name, agents, otel, organism.secrets.redact, asks=asks)
    )
    if engine.durable:
        await found.take_up(engine)
    return found


def find_journal_path(organism: Organism) -> Path | None:
    """Find the path of the organism's journal; None if it has none."""
    return None if organism.journal is None else organism.project / organism.journal.path


def open_principal_stores(organism: Organism) -> tuple[PrincipalStore, PaceStore | None]:
    """Open the principals of an organism, and the store of shared rates, if its servers share a database."""
    if organism.engine is not None:
        shared = open_shared_principals(organism.engine)
        return shared, shared
    from agentserver.gateways.principals.document import locate_principal_file

    return locate_principal_file(find_journal_path(organism) or organism.files[0]), None


def open_shared_sessions(keys: Postgres) -> SessionTable:
    """Open the sessions of browsers that servers share. Raises MissingExtraError."""
    require("engine: postgres:", "postgres")
    from agentserver.engines.postgres.principals import SessionTable

    return SessionTable(keys.url, keys.schema_name)


def open_shared_principals(keys: Postgres) -> PrincipalTable:
    """Open the principals and rates that servers share. Raises MissingExtraError."""
    require("engine: postgres:", "postgres")
    from agentserver.engines.postgres.principals import PrincipalTable

    return PrincipalTable(keys.url, keys.schema_name)


def describe_postgres_options(keys: Postgres) -> PostgresOptions:
    """Describe the database and its use. Raises MissingExtraError."""
    require("engine: postgres:", "postgres")
    from agentserver.engines.postgres.connection import PostgresOptions

    return PostgresOptions(
        keys.url,
        keys.schema_name,
        lease=keys.lease,
        durability=keys.durability,
        migrate=keys.migrate,
        wait=keys.wait,
    )


def find_handoff_record(organism: Organism) -> Path | None:
    """Find the file for the record of handoffs; None if the organism has no intents or wants no file."""
    handoffs = organism.handoffs
    return None if handoffs is None or handoffs.audit is None else organism.project / handoffs.audit


def open_handoff_heads(organism: Organism) -> JournalHeadStore | None:
    """Open the store of the end of the handoff record; None if the end is next to the file."""
    path, handoffs = find_journal_path(organism), organism.handoffs
    if path is None or handoffs is None or handoffs.audit is None:
        return None
    from agentserver.engines.sqlite.handoffs import JournalHeadStore

    return JournalHeadStore(path, handoffs.audit)


def make_engine(organism: Organism, rules: Rules) -> Engine:
    """Make the configured engine: database, journal, or memory without either.

    Raises MissingExtraError.
    """
    if organism.engine is not None:
        shared = describe_postgres_options(organism.engine)
        from agentserver.engines.postgres.engine import PostgresEngine

        return PostgresEngine(shared, rules.guards, retention=organism.engine.retention)
    journal, path = organism.journal, find_journal_path(organism)
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
    """Build a server. It starts when it is entered.

    Args:
        organism: the checked configuration.
        engine: stores conversations; memory by default.
        durable: whether to use the engine and the file for the record of handoffs that the organism configures, and to
            work without a client: schedules, inboxes and notices of approvals.
        recorded: whether to use that file with any engine.
        clock: time and randomness; the machine's by default, with the time of an engine that servers share.
        approver: shows waiting messages to a person. Without one, and without a journal that the command line
            writes answers to, messages that need an approval are refused.
        guards: of the program, by name, in addition to the organism's (see ``agentserver.guards``).
        observers: receive committed records (see ``agentserver.observers``).
        completer: replaces the organism's language models.

    Raises PayloadError, TypeError and ValueError as ``rules`` does.
    """
    decided_by = build_rules(organism, guards)
    if engine is None:
        engine = make_engine(organism, decided_by) if durable else MemoryEngine()
    has_record = durable or recorded
    return Server(
        organism,
        decided_by,
        engine,
        clock or (EngineClock(engine) if isinstance(engine, SharedTime) else SystemClock()),
        approver=approver,
        handoffs=find_handoff_record(organism) if has_record else None,
        heads=open_handoff_heads(organism) if has_record else None,
        observers=tuple(map(check_observer, observers)),
        completer=completer,
        guards=guards,
        unattended=durable,
    )
