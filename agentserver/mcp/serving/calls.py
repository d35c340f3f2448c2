"""Tool calls of hosts: the offered tools, the conversation of each principal, and the wait for answers.

A principal has one conversation, however often its host connects. A call that the host repeats is found by its id and
not sent twice.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from secrets import token_hex
from time import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import anyio

from agentserver.core.records.audit import Event
from agentserver.payload.json.elements import convert_element, convert_value
from agentserver.payload.json.schema import json_schema
from agentserver.payload.json.values import JsonRefusal
from agentserver.payload.names import local
from agentserver.ports import Ingress, NotStoredError, RejectReason
from agentserver.supervision import EndEffect, start_errand
from agentserver.wire import envelope
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from agentserver.core.blueprint import Listener
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Done, Progress, Reply
    from agentserver.core.state.approvals import ApprovalAnswer
    from agentserver.core.state.principals import Principal
    from agentserver.payload.codec import Codec
    from agentserver.ports import ConversationHandle, EngineReader
    from agentserver.ports.records import Records, RecordSource
    from agentserver.trace.store import TraceBook

    Beat: TypeAlias = Callable[[str], Awaitable[None]]


T = TypeVar("T")


class McpHost(Ingress, Protocol):
    """The needs of this package of a server."""

    @property
    def rules(self) -> Rules:
        """Rules of the decisions."""

    @property
    def trace(self) -> TraceBook:
        """The events of late."""

    @property
    def stream(self) -> RecordSource:
        """The stream of committed records."""

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit a person's answer. False if it is about no open approval. Raises EngineError."""

    async def left_over(self, principal: str, door: str = "") -> tuple[str, ...]:
        """List the principal's conversations that this door opened and that can be resumed, oldest first."""

    async def resume(self, principal: str, conversation: str) -> ConversationHandle:
        """Come back to a conversation."""

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read from the engine for operators. Raises EngineError."""


DOOR: Final = "mcp"
"""The name with which conversations of hosts are opened. No other conversation of a principal is touched here."""


class PrincipalConversations:
    """Conversations by principal. A closed one is replaced.

    Args:
        server: running.
        limit: conversations that the principal of the served call may have open; None for the general limit.
    """

    def __init__(self, server: McpHost, limit: Callable[[], int | None]) -> None:
        self._server, self._limit = server, limit
        self._open: dict[str, tuple[Principal, ConversationHandle]] = {}
        self._lock = anyio.Lock()

    async def find(self, principal: Principal) -> ConversationHandle:
        """Find or open the principal's conversation with hosts, including one from before a restart.

        Raises QuotaError and ValueError as ``open`` of the server does, RuntimeError when it stops.
        """
        async with self._lock:
            rights, known = self._open.pop(principal.name, (principal, None))
            if known is not None and known.over:
                known.detach()
                known = None
            if known is not None and rights != principal:
                await known.close()
                known = None
            found = known or await self._resume(principal)
            if found is None:
                found = await self._server.open(principal, maximum=self._limit(), door=DOOR)
            self._open[principal.name] = principal, found
            return found

    async def _resume(self, principal: Principal) -> ConversationHandle | None:
        """Resume the principal's latest conversation with exactly these rights; end those with other rights."""
        for key in reversed(await self._server.left_over(principal.name, DOOR)):
            handle = await self._server.resume(principal.name, key)
            conversation = self._server.conversation(key)
            if conversation is not None and conversation.opener == principal:
                return handle
            if conversation is None:
                handle.detach()
            else:
                await handle.close()
        return None

    def leave(self) -> None:
        """Go without ending the conversations: the next server resumes them."""
        for _, handle in self._open.values():
            handle.detach()
        self._open.clear()

    async def close(self) -> None:
        """End the conversations."""
        for _, handle in self._open.values():
            await handle.close()
        self._open.clear()


ToldCall: TypeAlias = tuple[str, bytes]
"""The target of a call, and its message."""

MOST = 1000
"""Calls of one conversation that are known again: as many without an answer, and as many that were answered."""


@dataclass(slots=True)
class KnownCalls:
    """Calls of one conversation, by request id and by the id of the host.

    Args:
        conversation: its id.
    """

    conversation: str
    _open: OrderedDict[ToldCall, str] = field(default_factory=OrderedDict)
    _answered: OrderedDict[str, tuple[ToldCall, str]] = field(default_factory=OrderedDict)
    _cancelled: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def find(self, call: ToldCall, host: str) -> str:
        """Find the request id of a repeated call; empty for a new one. ``host`` is its id at the host, or empty."""
        before, own = self._answered.get(host, (call, ""))
        return self._open.get(call, "") or (own if before == call else "")

    def begin(self, call: ToldCall) -> str:
        """Give a new call an id, and know it from now on."""
        own = token_hex(16)
        self.keep(call, own)
        return own

    def keep(self, call: ToldCall, own: str) -> None:
        """Know a call as unanswered."""
        self._open[call] = own
        if len(self._open) > MOST:
            self._open.popitem(last=False)

    def cancel(self, host: str) -> None:
        """Know a call as unanswered whose host gave it up, by the id of its host, before or after the answer.

        An answer that is computed later goes to a host that does not read it. A call that was answered under another id
        since then is not unanswered again.
        """
        if not host:
            return
        self._cancelled[host] = None
        if len(self._cancelled) > MOST:
            self._cancelled.popitem(last=False)
        found = self._answered.pop(host, None)
        if found is not None and found not in self._answered.values():
            self._open.setdefault(*found)

    def settle(self, own: str) -> None:
        """Know a call as answered, by its request id."""
        for call in [call for call, known in self._open.items() if known == own]:
            del self._open[call]

    def cancel_task(self, own: str) -> None:
        """Know a call as ended by its host, by its request id: an equal call is another one."""
        self.settle(own)
        self._cancelled[own] = None
        if len(self._cancelled) > MOST:
            self._cancelled.popitem(last=False)

    def is_cancelled(self, own: str) -> bool:
        """Tell whether a host ended a call, by its request id."""
        return own in self._cancelled

    def answer(self, call: ToldCall, own: str, host: str) -> None:
        """Know a call as answered, unless its host gave it up: from now on it is found by the id of its host alone."""
        if host in self._cancelled:
            return
        if self._open.get(call) == own:
            del self._open[call]
        if host:
            self._answered[host] = call, own
        if len(self._answered) > MOST:
            self._answered.popitem(last=False)


EARLY: Final = 64
"""Reports that wait for a call whose request is not known yet; beyond them the oldest are dropped."""


class ProgressRouter:
    """Distributes progress: the calls of one conversation share a queue, and each line goes to one call."""

    def __init__(self) -> None:
        self._listeners: dict[str, Callable[[str], Awaitable[None]]] = {}
        self._early: deque[Progress] = deque(maxlen=EARLY)

    async def route(
        self, words: AsyncIterator[Progress], request: str, tell: Callable[[str], Awaitable[None]]
    ) -> None:
        """Distribute lines until cancelled: those of this request to ``tell``, others to their calls."""
        early = [word for word in self._early if word.request == request]
        self._early = deque((word for word in self._early if word.request != request), EARLY)
        self._listeners[request] = tell
        try:
            for word in early:
                await tell(word.text)
            async for word in words:
                known = self._listeners.get(word.request)
                if known is None:
                    self._early.append(word)
                else:
                    await known(word.text)
        finally:
            if self._listeners.get(request) is tell:  # the same call, made once more, has its own
                del self._listeners[request]


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A listener's payload as a tool.

    Args:
        name: the listener's; with several payloads, followed by a dot and the name of the payload.
        listener: the target of a call.
        description: of the listener, from the organism.
        codec: of the payload.
        schema: of the arguments.
        gives: schema of the answer; None if unknown, or if no single schema fits.
        answers: root elements of the answers that match ``gives``.
    """

    name: str
    listener: str
    description: str
    codec: Codec
    schema: Mapping[str, Any]
    gives: Mapping[str, Any] | None = None
    answers: frozenset[str] = frozenset()

    def encode_message(self, arguments: Mapping[str, Any]) -> bytes | JsonRefusal:
        """Encode the arguments of a call as a payload, or return the corrections."""
        found = convert_element(self.codec, dict(arguments))
        return found if isinstance(found, JsonRefusal) else canonical(found)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to a call.

    Args:
        texts: the replies in order, each as JSON.
        value: the only reply as an object; None without a reply, with several, or for an error.
        error: whether the call failed.
    """

    texts: tuple[str, ...]
    value: Mapping[str, Any] | None = None
    error: bool = False


def build_tools(rules: Rules, expose: Iterable[str]) -> Mapping[str, ServedTool]:
    """Build the tools by name, in the order in which their listeners are exposed.

    Raises ValueError for an unknown listener, a payload without a JSON form, and two tools of one name.
    """
    found: dict[str, ServedTool] = {}
    for name in expose:
        listener = rules.blueprint.listeners.get(name)
        if listener is None:
            raise ValueError(f"there is no listener {name} to expose")
        for tool in _iter_tools(listener, rules):
            if tool.name in found:
                raise ValueError(f"two tools would be called {tool.name}")
            found[tool.name] = tool
    return MappingProxyType(found)


def _iter_tools(listener: Listener, rules: Rules) -> Iterable[ServedTool]:
    for payload in listener.payloads:
        codec = rules.codecs.of(payload)
        schema = json_schema(codec)
        if isinstance(schema, JsonRefusal):
            message = f"{listener.name} cannot be exposed: {schema.faults[0].rule}"
            raise ValueError(message)  # noqa: TRY004 - a mistake of whoever exposes it
        several = len(listener.payloads) > 1
        name = f"{listener.name}.{local(codec.name)}" if several else listener.name
        gives, answers = _find_answers(listener, rules)
        yield ServedTool(name, listener.name, listener.description, codec, schema, gives, answers)


def _find_answers(listener: Listener, rules: Rules) -> tuple[Mapping[str, Any] | None, frozenset[str]]:
    """Return the schema of a listener's answers and their root elements; None without a schema."""
    codecs = [rules.codecs.of(each) for each in listener.answers]
    schemas = [json_schema(codec) for codec in codecs]
    known = [schema for schema in schemas if not isinstance(schema, JsonRefusal)]
    roots = frozenset(codec.name for codec in codecs)
    if not known or len(known) < len(schemas):
        return None, frozenset()
    if len(known) == 1:
        return known[0], roots
    if any("$defs" in schema for schema in known):  # its references are to the root of a schema of its own
        return None, frozenset()
    return {"type": "object", "anyOf": known}, roots


def answer_of(replies: Sequence[Reply], rules: Rules, tool: ServedTool) -> ToolAnswer:
    """Give the answer that replies are. None at all is an error, as is one that the tool's schema does not know."""
    if not replies:
        return ToolAnswer(("It ended without an answer.",), error=True)
    values = [_convert_value(reply, rules) for reply in replies]
    texts = tuple(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values
    )
    error = any(reply.error for reply in replies)
    only = values[0] if len(values) == 1 and not error else None
    value = only if isinstance(only, dict) else None
    if tool.gives is not None and (value is None or replies[0].root not in tool.answers):
        return ToolAnswer(texts, error=True)
    return ToolAnswer(texts, value, error)


def _convert_value(reply: Reply, rules: Rules) -> Any:
    """Convert a reply to a JSON value, or to markup where its payload has no JSON form."""
    read = envelope.read_sent(reply.message, rules.bounds.names)
    if isinstance(read, envelope.Malformed):
        return "An answer that cannot be read."
    codec = rules.codecs.for_root(str(read.payload.tag))
    value = None if codec is None else convert_value(codec, read.payload)
    return canonical(read.payload).decode() if codec is None or isinstance(value, JsonRefusal) else value


BEAT = 5.0
"""Seconds between two progress notifications of a running call."""


async def _never_gone() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class HostCall:
    """A tool call from a host.

    Args:
        tool: its target.
        message: the payload.
        host: the host's id of the call, unique among its calls; empty without one.
        request: of an earlier call that the host asks about again; empty for a new call.
        leaving: whether to return at once when a person is asked.
        patience: seconds to wait for an answer, if that is less than the deadline.
        is_disconnected: checks whether the host has disconnected.
        progress: whether the host wants progress notifications.
    """

    tool: ServedTool
    message: bytes
    host: str = ""
    request: str = ""
    leaving: bool = False
    patience: float = inf
    is_disconnected: Callable[[], Awaitable[bool]] = _never_gone
    progress: bool = False


@dataclass(frozen=True, slots=True)
class CallDone:
    """A finished call.

    Args:
        replies: in order.
        again: whether the host repeated this call, and it was not sent twice.
    """

    replies: tuple[Reply, ...]
    again: bool = False


class TaskKey(NamedTuple):
    """Key of a call as a task.

    Args:
        conversation: of its principal.
        request: the server's id of it.
        own: the id for asking again.
        created: milliseconds since 1970.
        tool: its name.
    """

    conversation: str
    request: str
    own: str
    created: int
    tool: str

    def __str__(self) -> str:
        return ".".join(map(str, self))

    @classmethod
    def read(cls, text: str) -> TaskKey | None:
        """Read a key; None for any other text. A host may have made it up: it grants nothing."""
        match text.split(".", 4):
            case [conversation, request, own, created, tool] if (
                created.isdecimal() and len(created) <= DIGITS
            ):
                return cls(conversation, request, own, int(created), tool)
        return None


DIGITS: Final = 14
"""Most digits of the time of a task."""


@dataclass(frozen=True, slots=True)
class CallPending:
    """A call without an answer yet.

    Args:
        request: the id for asking again.
        key: of the call as a task.
        approval: the id of the open approval; empty without one.
        again: as of ``CallDone``.
    """

    request: str
    key: TaskKey
    approval: str = ""
    again: bool = False


@dataclass
class Calls:
    """Sends calls and waits for their replies.

    Args:
        server: running.
        rooms: the conversation of each principal.
        deadline: maximum wait in seconds.
    """

    server: McpHost
    rooms: PrincipalConversations
    deadline: float
    _known: dict[str, KnownCalls] = field(default_factory=dict)
    _hearing: ProgressRouter = field(default_factory=ProgressRouter)

    async def call(self, principal: Principal, call: HostCall, beat: Beat) -> CallDone | CallPending:
        """Send a message and wait for its answers.

        A call that its host has no answer to, since it was late, cancelled or cut off, is found again by being the same
        once more, as is one that comes again under the id of its host. Then nothing is sent.

        Args:
            principal: whose call it is.
            call: the call.
            beat: shows a text to the host: now and then that the call runs, and the progress of its listeners.

        Raises QuotaError, NotStoredError and ValueError as the server does.
        """
        handle = await self.rooms.find(principal)
        known, content = self._known_of(principal.name, handle.id), (call.tool.listener, call.message)
        own = call.request or known.find(content, call.host) or known.begin(content)
        words = handle.progress() if call.progress else None  # from now on, so that the first is not missed
        submitted = await handle.send(call.message, call.tool.listener, request=own)
        if isinstance(submitted.code, RejectReason):
            raise NotStoredError(submitted.code)
        repeated = submitted.again and not call.request
        waiting = _PendingCall(self.server, handle.id, submitted.request, call.leaving and not call.request)
        follow = None if words is None else partial(self._hearing.route, words, submitted.request, beat)
        with waiting:
            patience = min(self.deadline, call.patience)
            await self._wait(handle.replies(*content[::-1], request=own), waiting, beat, follow, patience)
        if not waiting.over:
            known.keep(content, own)
            key = TaskKey(handle.id, submitted.request, own, round(time() * 1000), call.tool.name)
            return CallPending(own, key, waiting.approval(), repeated)
        if not await call.is_disconnected():
            known.answer(content, own, call.host)
        return CallDone(tuple(waiting.replies), repeated)

    def cancel(self, principal: str, host: str) -> None:
        """Note that a host gave up a call, by its id of the call. The call itself continues."""
        known = self._known.get(principal)
        if known is not None:
            known.cancel(host)

    async def find_events(self, principal: str, key: TaskKey) -> tuple[Reply | Done, ...]:
        """Find the events of a task so far. Raises LookupError if the principal has no such conversation."""
        return await self.server.find_events(principal, key.conversation, key.request)

    def find_approval(self, key: TaskKey) -> str:
        """Find the first approval that blocks a task; empty without one."""
        return find_approval(self.server, key.conversation, key.request)

    @contextmanager
    def watch(self, conversations: Collection[str]) -> Iterator[ChangeWatch]:
        """Watch conversations for changes on this server."""
        changes = ChangeWatch(conversations)
        stop = self.server.stream.attach(changes.note)
        try:
            yield changes
        finally:
            stop()

    async def cancel_task(self, principal: str, key: TaskKey) -> None:
        """Cancel a task and everything that runs for it. Raises LookupError."""
        if await self.server.cancel(principal, key.conversation, key.request):
            self._known_of(principal, key.conversation).cancel_task(key.own)

    async def find_cancellation(self, principal: str, key: TaskKey) -> bool:
        """Find out whether a task was cancelled, here or, by its records, before a restart or at another server."""
        known = self._known_of(principal, key.conversation)
        if not known.is_cancelled(key.own) and await self.server.read(partial(_is_cancelled, key)):
            known.cancel_task(key.own)
        return known.is_cancelled(key.own)

    def settle(self, principal: str, key: TaskKey) -> None:
        """Know a task as answered: an equal call is another one from now on."""
        self._known_of(principal, key.conversation).settle(key.own)

    def _known_of(self, principal: str, conversation: str) -> KnownCalls:
        """Return the known calls of a principal; they last as long as its conversation."""
        known = self._known.get(principal)
        if known is None or known.conversation != conversation:
            known = self._known[principal] = KnownCalls(conversation)
        return known

    async def _wait(
        self,
        answers: AsyncIterator[Reply],
        waiting: _PendingCall,
        beat: Beat,
        follow: Callable[[], Coroutine[Any, Any, None]] | None,
        patience: float,
    ) -> None:
        """Wait for the answers, at most so many seconds."""
        with anyio.move_on_after(patience):
            async with anyio.create_task_group() as tasks:
                running = partial(waiting.run, beat, tasks.cancel_scope)
                start_errand(tasks, "looks after a call", EndEffect.OWNER, running)
                if follow is not None:
                    start_errand(tasks, "follows the progress of a call", EndEffect.OWNER, follow)
                waiting.replies += await _collect(answers)
                waiting.over = True
                tasks.cancel_scope.cancel()


async def _collect(answers: AsyncIterator[Reply]) -> list[Reply]:
    """Collect all replies; if cancelled, none is acknowledged."""
    async with aclosing(answers):  # type: ignore[type-var]
        return [reply async for reply in answers]


class ChangeWatch:
    """Waits for the next records of conversations.

    Args:
        conversations: their ids.
    """

    def __init__(self, conversations: Collection[str]) -> None:
        self._conversations = conversations
        self._changed = anyio.Event()

    def note(self, records: Records) -> None:
        """Note committed records."""
        if any(record.conversation in self._conversations for record in records):
            self._changed.set()

    async def wait(self, maximum: float) -> None:
        """Wait for records since the last wait, at most so many seconds."""
        with anyio.move_on_after(maximum):
            await self._changed.wait()
        self._changed = anyio.Event()


def find_approval(server: McpHost, conversation: str, request: str) -> str:
    """Find the first approval that blocks a request; empty without one."""
    found = server.conversation(conversation)
    approvals = () if found is None else found.approvals()
    return next((one.id for one in approvals if one.delivery.request == request), "")


class _PendingCall:
    """Looks after one call while it is waited for. A context manager.

    Args:
        server: running.
        conversation: id of the call's.
        request: the server's id of it.
        leaves: whether to stop waiting when a person is asked.
    """

    def __init__(self, server: McpHost, conversation: str, request: str, leaves: bool) -> None:  # noqa: FBT001 - within this module
        self._server, self._conversation, self._request = server, conversation, request
        self._leaving = leaves
        self._stirred = anyio.Event()
        self.over = False
        self.replies: list[Reply] = []

    def __enter__(self) -> None:
        self._stop = self._server.stream.attach(self._note)

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _note(self, records: Records) -> None:
        if any(record.conversation == self._conversation for record in records):
            self._stirred.set()

    def approval(self) -> str:
        """Return the first approval that blocks the call; empty without one."""
        return find_approval(self._server, self._conversation, self._request)

    async def run(self, beat: Beat, scope: anyio.CancelScope) -> None:
        """Send progress notifications until the call is finished."""
        while True:
            approval = self.approval()
            if approval and self._leaving:
                scope.cancel()
                return
            await beat(f"waits for a person to approve it: {approval}" if approval else "goes on")
            with anyio.move_on_after(BEAT):
                while self.approval() == approval:
                    self._stirred = anyio.Event()
                    await self._stirred.wait()


def _is_cancelled(key: TaskKey, reader: EngineReader) -> bool:
    try:
        records = reader.recorded_conversation(key.conversation).records()
    except LookupError:  # removed, or of an engine that records no steps
        return False
    return any(one.event is Event.CANCELLED and one.request == key.request for one in records)
