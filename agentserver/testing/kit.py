"""The testbed: an organism in memory with one conversation of one principal.

Everything between the testbed and the handlers is the real server.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, cast

import anyio
import anyio.lowlevel
import anyio.to_thread

from agentserver.assembly import build
from agentserver.config import Organism, load
from agentserver.contract import HandlerResponse, SystemError
from agentserver.core.messages import Reply
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer, Approval, ApprovalAnswer
from agentserver.flow.errors import DivergedError
from agentserver.flow.handler import FlowHandler
from agentserver.gateways.console.view import decode_payload, describe_state
from agentserver.ports import NotStoredError, RejectReason
from agentserver.supervision import EndEffect, start_errand
from agentserver.testing.clock import FakeClock
from agentserver.testing.models import ScriptedModel, replace_providers
from agentserver.trace.text import format_tree_text
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import timedelta

    from agentserver.assembly import Server
    from agentserver.completion import Prompt
    from agentserver.core.records.audit import AuditRecord
    from agentserver.guards import Guard
    from agentserver.observers import Observer
    from agentserver.ports import Clock
    from agentserver.pump.handle import ServerHandle
    from agentserver.testing.models import ModelScript, Turns

    Approvals: TypeAlias = "Answer | Callable[[ShownApproval], Answer | None]"

    from agentserver.contract import HandlerMetadata, HandlerResult

    Script: TypeAlias = Callable[[Any, HandlerMetadata], Any] | Sequence[Any]
    from collections.abc import Sequence

    from agentserver.config.organism import BoundListener, Lifespan
    from agentserver.contract import HandlerMetadata

    Resources: TypeAlias = Sequence[object] | Lifespan
    from collections.abc import Sequence

    from agentserver.contract import Invocation
    from agentserver.flow.lines import FlowLine
    from agentserver.flow.runner import FlowRunner
    from agentserver.payload.codec import Codecs


class RepeatedFlow(FlowHandler):
    """Handler that keeps no flow in memory: each answer runs the flow again from its record, as after a restart."""

    faults: list[AssertionError]

    @classmethod
    def make(cls, handler: FlowHandler, faults: list[AssertionError]) -> Self:
        """Make a repeated flow from a handler. ``faults`` gets each difference."""
        flow = cls(handler.run, handler.codecs, handler.earlier)
        flow.faults = faults
        return flow

    def bind(self, codecs: Codecs, earlier: FlowHandler | None = None) -> Self:
        """Return the handler for one server."""
        flow = type(self)(self.run, codecs, earlier)
        flow.faults = self.faults
        return flow

    def keep(self, now: Invocation, runner: FlowRunner) -> None:
        """Drop a waiting flow."""
        del now
        runner.close()

    async def rerun(self, lines: Sequence[FlowLine]) -> FlowRunner:
        """Run a flow to the end of its log. Raises FlowError."""
        try:
            return await super().rerun(lines)
        except DivergedError as error:
            self.faults.append(AssertionError(f"a flow differs when it is run again: {error}"))
            raise


@dataclass
class StandIns:
    """Stand-ins of one test.

    Args:
        peers: by listener.
        models: by model.
        faults: of calls without a script.
    """

    peers: Mapping[str, ScriptedPeer]
    models: Mapping[str, ScriptedModel]
    faults: list[AssertionError] = field(default_factory=list)

    def check(self) -> None:
        """Raise the first failure inside a script, or of a call without a script."""
        scripts: list[list[AssertionError]] = [self.faults]
        scripts += [each.faults for each in self.peers.values()]
        scripts += [each.faults for each in self.models.values()]
        for fault in chain.from_iterable(scripts):
            raise fault

    def replace_parts(self, loaded: Organism, resources: Resources | None, *, real_tools: bool) -> Organism:
        """Put the replacements into an organism.

        Raises ValueError for unknown names, and for missing resources.
        """
        check_names(self.peers, [bound.listener.name for bound in loaded.listeners])
        tools = {tool.listener for server in loaded.mcp for tool in server.tools}
        return replace(
            loaded,
            listeners=tuple(
                self._replace_listener(bound, real=real_tools or bound.listener.name not in tools)
                for bound in loaded.listeners
            ),
            models=replace_providers(loaded.models, self.models, self.faults),
            lifespan=lifespan_of(loaded, resources),
            mcp=loaded.mcp if real_tools else (),
            otel=None,
        )

    def repeat_flows(self, loaded: Organism) -> Organism:
        """Put flows into an organism that are run again at each answer."""
        return replace(
            loaded,
            listeners=tuple(
                replace(bound, handler=RepeatedFlow.make(bound.handler, self.faults))
                if isinstance(bound.handler, FlowHandler)
                else bound
                for bound in loaded.listeners
            ),
        )

    def _replace_listener(self, bound: BoundListener, *, real: bool) -> BoundListener:
        name = bound.listener.name
        if name in self.peers:
            return replace(bound, handler=self.peers[name], isolation=None)
        if not real:
            reason = "is a tool of an MCP server, which a test starts with real_tools=True alone"
            return replace(bound, handler=UnscriptedListener(name, reason, self.faults))
        if bound.isolation is not None and bound.isolation.lifespan is not None:
            reason = "has a worker_lifespan, which a test does not enter"
            return replace(bound, handler=UnscriptedListener(name, reason, self.faults), isolation=None)
        if bound.isolation is not None and bound.isolation.remote:  # a test has no other machine
            return replace(bound, isolation=replace(bound.isolation, remote=False))
        return bound


class UnscriptedListener:
    """Listener that a test must not call."""

    def __init__(self, name: str, reason: str, faults: list[AssertionError]) -> None:
        self._name, self._reason, self._faults = name, reason, faults

    async def __call__(self, payload: Any, metadata: HandlerMetadata) -> HandlerResult:
        """Fail and name the missing argument."""
        del payload, metadata
        missing = f'give organism(..., scripted={{"{self._name}": [...]}})'
        fault = AssertionError(f"{self._name} {self._reason}: {missing}")
        self._faults.append(fault)
        raise fault


def check_names(named: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise ValueError for the script of an unknown listener."""
    for name in named:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ValueError(f"no listener {name!r}{f'; did you mean {near[0]!r}?' if near else ''}")


def lifespan_of(loaded: Organism, resources: Resources | None) -> Lifespan | None:
    """Choose the lifespan of a test: its own resources, or the one of an organism made in code.

    Raises ValueError if the YAML of an organism declares one and the test gives no resources.
    """
    if callable(resources):
        return resources
    if resources is not None:
        supplied = tuple(resources)

        @asynccontextmanager
        async def provide() -> AsyncIterator[tuple[object, ...]]:
            yield supplied

        return provide
    if loaded.lifespan is not None and loaded.files:
        name = getattr(loaded.lifespan, "__qualname__", "lifespan")
        raise ValueError(
            f"lifespan: {name} opens resources, which a test does not: give organism(..., resources=[...]), "
            f"or a function that gives a context manager"
        )
    return loaded.lifespan


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """Call of a scripted peer."""

    payload: Any
    metadata: HandlerMetadata


class ScriptedPeer:
    """Replacement of a listener's handler.

    Args:
        name: of the listener.
        script: a function of payload and metadata, or one step for each call. A step, or the result of the function,
            is a payload (the answer to the caller), a ``HandlerResponse``, ``bytes``, None, a list of payloads and
            responses, an exception to raise, or for a step a function that returns one of these. Functions may be
            async.
    """

    def __init__(self, name: str, script: Script) -> None:
        self._name = name
        self._script = script if callable(script) else list(script)
        self.calls: list[ScriptedCall] = []
        self.faults: list[AssertionError] = []

    async def __call__(self, payload: Any, metadata: HandlerMetadata) -> HandlerResult:
        """Follow the script. An AssertionError is stored as well.

        The server must not swallow a test's failure.
        """
        self.calls.append(ScriptedCall(payload, metadata))
        try:
            return await self._follow(payload, metadata)
        except AssertionError as fault:
            self.faults.append(fault)
            raise

    async def _follow(self, payload: Any, metadata: HandlerMetadata) -> HandlerResult:
        step: Any = self._script
        if isinstance(step, list):
            if len(self.calls) > len(step):
                raise AssertionError(
                    f"{self._name} was called {len(self.calls)} times; its script has {len(step)}"
                )
            step = step[len(self.calls) - 1]
        if callable(step) and not isinstance(step, BaseException):
            step = step(payload, metadata)
            if inspect.isawaitable(step):
                step = await step
        return _result(step)


def _result(step: Any) -> HandlerResult:
    if isinstance(step, BaseException):
        raise step
    if step is None or isinstance(step, bytes | HandlerResponse):
        return step
    if isinstance(step, list | tuple):
        return [cast("HandlerResponse", _result(each)) for each in step]
    return HandlerResponse.respond(step)


APPROVER = "approver"
"""Name of the person who answers: another than the principal, so that ``approvers: others`` permits it."""


@dataclass(frozen=True, slots=True)
class ShownApproval:
    """Message that needed an approval.

    Args:
        sender: of the message.
        to: the listener that it is for.
        payload: its decoded payload.
        questions: the text shown to a person.
        approval: all data of the approval.
    """

    sender: str
    to: str
    payload: Any
    questions: tuple[str, ...]
    approval: Approval


class Person:
    """Approver that answers as a test says, and is another person than the one who asked.

    Args:
        approvals: the answer to every question, or a function that returns it; None lets the message wait.
    """

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self._new: asyncio.Queue[Approval] = asyncio.Queue()
        self.seen: list[ShownApproval] = []
        self.unanswered: asyncio.Queue[ShownApproval] = asyncio.Queue()

    def show(self, approval: Approval) -> None:
        """Queue a waiting message."""
        self._new.put_nowait(approval)

    async def attend(self, server: Server) -> None:
        """Answer approvals forever."""
        while True:
            approval = await self._new.get()
            delivery = approval.delivery
            shown = ShownApproval(
                delivery.sender,
                delivery.to,
                decode_payload(delivery.message, server.rules.codecs),
                tuple(WORDING.join_lines(question.reason) for question in approval.questions),
                approval,
            )
            self.seen.append(shown)
            answer = self._approvals if isinstance(self._approvals, Answer) else self._approvals(shown)
            if answer is None:
                self.unanswered.put_nowait(shown)
            else:
                await give_answer(server, shown, answer)


async def give_answer(server: Server, shown: ShownApproval, answer: Answer) -> bool:
    """Give an answer. Returns False if the message is no longer waiting."""
    approval = shown.approval
    answered = ApprovalAnswer(approval.id, approval.digest, answer, APPROVER)
    return await server.answer(approval.delivery.conversation, answered)


T = TypeVar("T")

PRINCIPAL = "test"
"""The principal that opens a testbed's conversation."""

TIMEOUT = 10.0
"""Seconds that a test waits for an answer before it fails with the trace so far."""


class RefusalError(AssertionError):
    """Failure in strict mode: a message was answered with a SystemError, or not at all."""

    def __init__(self, message: str, error: SystemError | None) -> None:
        super().__init__(message)
        self.error = error


@dataclass(frozen=True, slots=True)
class Trace:
    """Events of a conversation. ``str()`` formats the tree of hops."""

    records: tuple[AuditRecord, ...]

    def __str__(self) -> str:
        return format_tree_text(self.records)


@dataclass(frozen=True, slots=True)
class ThreadState:
    """Thread of the conversation.

    Args:
        owner: the listener that works on it; the principal on the root.
        state: ``working``, ``waiting`` or ``dormant``.
        queued: messages in its inbox, including the current one.
        parent: id of the caller's thread; None on the root.
    """

    id: str
    owner: str
    state: str
    queued: int
    parent: str | None


@dataclass
class Testbed:
    """Running organism with one open conversation.

    Args:
        server: for everything that the testbed does not offer.
        strict: whether a SystemError, or silence, raises ``RefusalError`` instead of being returned.
        timeout: seconds to wait for an answer.
        person: answers approvals.
        clock: of the organism.
    """

    __test__ = False

    server: Server
    handle: ServerHandle
    standins: StandIns
    strict: bool = False
    timeout: float = TIMEOUT
    person: Person = field(default_factory=lambda: Person(Answer.DENY))
    clock: Clock = field(default_factory=FakeClock)
    _sent: set[str] = field(default_factory=set)
    _ended: set[str] = field(default_factory=set)
    _arrived: list[Reply] = field(default_factory=list)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, payload: Any, to: str | None = None, *, request: str | None = None) -> Any:
        """Send a payload and return its first answer.

        Args:
            payload: an ``@xmlify`` value, or bytes of a payload element or an envelope.
            to: the listener; None lets the payload's root decide.
            request: idempotency key of the message.

        Returns:
            The decoded answer, which may be a SystemError, or None if the message finished without one.

        Raises:
            RefusalError: in strict mode, for a SystemError and for silence.
            TimeoutError: with the trace so far.
        """
        reply = await self._wait_for(
            self.handle.ask(self._encode(payload), to, request=request), _name(payload)
        )
        return self._check_strict(payload, None if reply is None else self._decode(reply))

    async def advance(self, time: timedelta) -> None:
        """Let time pass once no message is at work, and handle timers and sleeping flows that are due then.

        Raises TypeError for an organism with another clock than a ``FakeClock``.
        """
        if not isinstance(self.clock, FakeClock):
            raise TypeError("only the time of a FakeClock can be advanced")
        with anyio.fail_after(self.timeout):
            await self.server.settle_timers()
            self.clock.advance(time.total_seconds())
            await self.server.settle_timers()

    async def replies(self, payload: Any, to: str | None = None, *, request: str | None = None) -> list[Any]:
        """Send a payload and return all its answers. Arguments and errors as for ``ask``."""
        found = await self._wait_for(
            self._collect_replies(self._encode(payload), to, request), _name(payload)
        )
        for each in found or [None]:
            self._check_strict(payload, each)
        return found

    async def send(self, payload: Any, to: str | None = None, *, request: str | None = None) -> str:
        """Send a payload without waiting. Returns the id of its request; ``drain`` collects the answers.

        Raises NotStoredError if it was not stored.
        """
        self._settled.clear()
        submitted = await self.handle.send(self._encode(payload), to, request=request)
        if isinstance(submitted.code, RejectReason):
            raise NotStoredError(submitted.code)
        self._sent.add(submitted.request)
        return submitted.request

    async def drain(self) -> list[Any]:
        """Wait until everything sent is finished. Returns the answers since the last call, in order."""
        await self._wait_for(self._quiet(), "sent messages")
        arrived, self._arrived = self._arrived, []
        return [self._decode(reply) for reply in arrived if reply.request in self._sent]

    @property
    def approvals(self) -> Sequence[ShownApproval]:
        """Messages that needed an approval and were shown, in order."""
        return self.person.seen

    async def approval(self) -> ShownApproval:
        """Wait for the next unanswered approval. Raises TimeoutError."""
        return await self._wait_for(self.person.unanswered.get(), "an approval")

    async def answer(self, shown: ShownApproval, answer: Answer) -> None:
        """Answer a waiting approval. Raises ValueError if it no longer waits."""
        if not await give_answer(self.server, shown, answer):
            raise ValueError(f"{shown.sender} -> {shown.to} no longer waits")

    def calls(self, listener: str) -> list[ScriptedCall]:
        """List the calls of a scripted peer. Raises KeyError for a listener without a script."""
        return self.standins.peers[listener].calls

    def prompts(self, model: str) -> list[Prompt]:
        """List the prompts of a scripted model. Raises KeyError for a model without a script."""
        return self.standins.models[model].prompts

    def trace(self) -> Trace:
        """Return the events of the conversation so far."""
        return Trace(self.server.trace.list_records(self.handle.id))

    def threads(self) -> list[ThreadState]:
        """List the conversation's threads in the order of their opening."""
        conversation = self.server.conversation(self.handle.id)
        if conversation is None:
            return []
        tree = conversation.tree
        return [
            ThreadState(node.id, node.owner, describe_state(tree, node), len(node.inbox), node.parent)
            for node in sorted(tree.nodes.values(), key=lambda node: node.ordinal)
        ]

    async def listen(self) -> None:
        """Collect the answers to ``send`` until the conversation ends."""
        async for event in self.handle.events():
            if isinstance(event, Reply):
                self._arrived.append(event)
            else:
                self._ended.add(event.request)
                self._settled.set()

    async def _collect_replies(self, data: bytes, to: str | None, request: str | None) -> list[Any]:
        replies = self.handle.replies(data, to, request=request)
        return [self._decode(reply) async for reply in replies]

    async def _quiet(self) -> None:
        while not self._sent <= self._ended:
            await self._settled.wait()
            self._settled.clear()

    def _encode(self, payload: Any) -> bytes:
        if isinstance(payload, bytes):
            return payload
        return self.server.rules.codecs.of(type(payload)).encode(payload).encode()

    def _decode(self, reply: Reply) -> Any:
        read = envelope.read_envelope(reply.message)
        assert isinstance(read, envelope.Envelope)
        codec = self.server.rules.codecs.for_root(str(read.payload.tag))
        assert codec is not None
        return codec.decode(read.payload)

    def _check_strict(self, payload: Any, answer: Any) -> Any:
        if self.strict and (answer is None or isinstance(answer, SystemError)):
            outcome = "no answer" if answer is None else f"{answer.code}: {answer.message}"
            raise RefusalError(f"{_name(payload)}: {outcome}\n{self.trace()}", answer)
        return answer

    async def _wait_for(self, work: Awaitable[T], action: str) -> T:
        try:
            with anyio.fail_after(self.timeout):
                done = await work
        except TimeoutError:
            self.standins.check()
            raise TimeoutError(f"{action}: not finished within {self.timeout:g} s\n{self.trace()}") from None
        self.standins.check()
        return done


def _name(payload: Any) -> str:
    return payload if isinstance(payload, str) else type(payload).__name__


@asynccontextmanager
async def organism(  # noqa: PLR0913 - a keyword each
    source: str | Path | Organism = "config/organism.yaml",
    *,
    environ: Mapping[str, str] | None = None,
    scripted: Mapping[str, Script] | None = None,
    models: Mapping[str, ModelScript | Turns] | None = None,
    resources: Resources | None = None,
    real_tools: bool = False,
    clock: Clock | None = None,
    strict: bool = False,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - of each answer, not of this function
    approve: Approvals | None = None,
    guards: Mapping[str, Guard] = MappingProxyType({}),
    observers: Iterable[Observer] = (),
    repeat_flows: bool = False,
) -> AsyncIterator[Testbed]:
    """Run an organism in memory for a test, without access to providers, MCP servers and resources.

    Args:
        source: its YAML file, or an organism made in code (``organism_of``).
        environ: values of ``${NAME}``; the process's environment when None.
        scripted: by listener, a script that replaces its handler (see ``ScriptedPeer``). A tool of an MCP server needs
            one.
        models: by model, its replacement: ``script_model(...)``, or a function from ``Prompt`` to ``Completion``. A
            model whose backends ask providers needs one.
        resources: for ``invocation().resource``: objects, or a function that returns a context manager, as
            ``lifespan:`` names. An organism with a ``lifespan:`` needs them.
        real_tools: whether the servers of ``mcp:`` are started for the tools that are not scripted.
        clock: a fresh ``FakeClock`` when None, so that times and ids are the same at every run.
        strict: see ``Testbed``.
        timeout: see ``Testbed``.
        approve: the answer to every approval, or a function that returns it, or None to let the message wait.
            Without it, messages that need an approval are refused.
        guards: as of ``agentserver.assembly.build``.
        observers: as of ``agentserver.assembly.build``.
        repeat_flows: whether each flow is run again from its beginning at each answer, as after a restart. The test
            fails if it does something else than before.

    Raises:
        ConfigError: the organism cannot load.
        ValueError: a scripted name is no listener or no model, a listener has the principal's name, or there is a
            ``lifespan:`` and no ``resources``.
        AssertionError: raised inside a script, by a call without a script, or for a flow that differs when it is run
            again. Also on exit.
    """
    loaded = source if isinstance(source, Organism) else await _load(Path(source), environ)
    standins = StandIns(
        {name: ScriptedPeer(name, script) for name, script in (scripted or {}).items()},
        {name: ScriptedModel(name, script) for name, script in (models or {}).items()},
    )
    person = Person(approve or Answer.DENY)
    approver = None if approve is None else person
    ticking = clock or FakeClock()
    replaced = standins.replace_parts(loaded, resources, real_tools=real_tools)
    server = build(
        standins.repeat_flows(replaced) if repeat_flows else replaced,
        clock=ticking,
        approver=approver,
        guards=guards,
        observers=observers,
    )
    async with _unwrap_failure(), server:
        bed = Testbed(server, await server.open(PRINCIPAL), standins, strict, timeout, person, ticking)
        async with anyio.create_task_group() as tasks:
            start_errand(tasks, "listens for answers", EndEffect.OWNER, bed.listen)
            start_errand(tasks, "answers approvals", EndEffect.OWNER, partial(person.attend, server))
            await anyio.lowlevel.checkpoint()
            yield bed
            await bed.handle.close()
            tasks.cancel_scope.cancel()
    standins.check()


async def _load(path: Path, environ: Mapping[str, str] | None) -> Organism:
    """Load in a thread, because it reads files and imports the organism's code."""
    known = os.environ if environ is None else environ
    return await anyio.to_thread.run_sync(lambda: load(path, environ=known))


@asynccontextmanager
async def _unwrap_failure() -> AsyncIterator[None]:
    """Raise a test's own failure without the exception groups around it."""
    try:
        yield
    except BaseExceptionGroup as group:
        single: BaseException = group
        while isinstance(single, BaseExceptionGroup) and len(single.exceptions) == 1:
            single = single.exceptions[0]
        raise single from None
