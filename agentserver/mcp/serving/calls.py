"""The conversation of each principal that calls tools.

Owns which one it is: one for each principal, however often its host connects. What was seen in it is known for as long
as it lasts. Refuses to know the protocol.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import anyio

from agentserver.payload.json.elements import element_of, value_of
from agentserver.payload.json.schema import json_schema
from agentserver.payload.json.values import JsonRefusal
from agentserver.payload.names import local
from agentserver.ports import Ingress, Unkept, UnkeptError
from agentserver.supervision import Ending, start_errand
from agentserver.wire import envelope
from agentserver.wire.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

    from agentserver.core.blueprint import Listener
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Progress, Reply
    from agentserver.core.state.principals import Principal
    from agentserver.payload.codec import Codec
    from agentserver.ports import ConversationHandle
    from agentserver.ports.records import Records, RecordSource
    from agentserver.trace.store import TraceBook

    Beat: TypeAlias = Callable[[str], Awaitable[None]]


class McpHost(Ingress, Protocol):
    """The needs of this package of a server."""

    @property
    def rules(self) -> Rules:
        """The rules by which conversations decide."""
        ...

    @property
    def trace(self) -> TraceBook:
        """The events of late."""
        ...

    @property
    def stream(self) -> RecordSource:
        """The stream of committed records."""
        ...

    async def left_over(self, principal: str, door: str = "") -> tuple[str, ...]:
        """The principal's conversations that this door opened and that can be resumed, oldest first."""
        ...

    async def resume(self, principal: str, conversation: str) -> ConversationHandle:
        """Come back to a conversation."""
        ...


DOOR: Final = "mcp"
"""The name with which conversations of hosts are opened. No other conversation of a principal is touched here."""


class Rooms:
    """Conversations by principal. One that is over is followed by another.

    Args:
        server: running.
        most: conversations that the principal whose call is served may have open; None for as many as everybody.
    """

    def __init__(self, server: McpHost, most: Callable[[], int | None]) -> None:
        self._server, self._most = server, most
        self._open: dict[str, tuple[Principal, ConversationHandle]] = {}
        self._lock = anyio.Lock()

    async def of(self, principal: Principal) -> ConversationHandle:
        """The principal's conversation with hosts, which may be one that an earlier server left.

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
            found = known or await self._resumed(principal)
            if found is None:
                found = await self._server.open(principal, most=self._most(), door=DOOR)
            self._open[principal.name] = principal, found
            return found

    async def _resumed(self, principal: Principal) -> ConversationHandle | None:
        """The principal's latest conversation with just these rights. One with others ends."""
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
    """The calls of one conversation that are known again, by the ids under which they were made.

    Args:
        conversation: its id.
    """

    conversation: str
    _open: OrderedDict[ToldCall, str] = field(default_factory=OrderedDict)
    _answered: OrderedDict[str, tuple[ToldCall, str]] = field(default_factory=OrderedDict)
    _cancelled: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def find(self, call: ToldCall, host: str) -> str:
        """Find the id under which a call was made before; empty for a new one. ``host`` is its host's id, or empty."""
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


class ProgressHearing:
    """Takes words for all calls: those of one conversation share a queue, and each word goes to one taker."""

    def __init__(self) -> None:
        self._told: dict[str, Callable[[str], Awaitable[None]]] = {}
        self._early: deque[Progress] = deque(maxlen=EARLY)

    async def hear(
        self, words: AsyncIterator[Progress], request: str, tell: Callable[[str], Awaitable[None]]
    ) -> None:
        """Pass words on until it is cancelled: those of this request to ``tell``, others to their calls."""
        early = [word for word in self._early if word.request == request]
        self._early = deque((word for word in self._early if word.request != request), EARLY)
        self._told[request] = tell
        try:
            for word in early:
                await tell(word.text)
            async for word in words:
                known = self._told.get(word.request)
                if known is None:
                    self._early.append(word)
                else:
                    await known(word.text)
        finally:
            if self._told.get(request) is tell:  # the same call, made once more, has its own
                del self._told[request]


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A listener's payload as a tool.

    Args:
        name: the listener's; of a listener with several payloads, with the name of the payload behind a dot.
        listener: whom a call goes to.
        description: what the listener does, in the organism's words.
        codec: of the payload.
        schema: of the arguments.
        gives: schema of the answer; None where it is not known, or has several parts that no one schema can name.
        answers: root elements of the answers that ``gives`` is of.
    """

    name: str
    listener: str
    description: str
    codec: Codec
    schema: Mapping[str, Any]
    gives: Mapping[str, Any] | None = None
    answers: frozenset[str] = frozenset()

    def message(self, arguments: Mapping[str, Any]) -> bytes | JsonRefusal:
        """The payload that the arguments of a call mean, or what to correct in them."""
        found = element_of(self.codec, dict(arguments))
        return found if isinstance(found, JsonRefusal) else canonical(found)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to a call.

    Args:
        texts: the replies in order, each as JSON.
        value: the only reply as an object; None where there is none, several, or an error.
        error: whether the call came to nothing.
    """

    texts: tuple[str, ...]
    value: Mapping[str, Any] | None = None
    error: bool = False


def tools_of(rules: Rules, expose: Iterable[str]) -> Mapping[str, ServedTool]:
    """The tools by name, in the order in which their listeners are exposed.

    Raises ValueError for a name that is no listener's, a payload without a JSON form, and two tools of one name.
    """
    found: dict[str, ServedTool] = {}
    for name in expose:
        listener = rules.blueprint.listeners.get(name)
        if listener is None:
            raise ValueError(f"there is no listener {name} to expose")
        for tool in _tools(listener, rules):
            if tool.name in found:
                raise ValueError(f"two tools would be called {tool.name}")
            found[tool.name] = tool
    return MappingProxyType(found)


def _tools(listener: Listener, rules: Rules) -> Iterable[ServedTool]:
    for payload in listener.payloads:
        codec = rules.codecs.of(payload)
        schema = json_schema(codec)
        if isinstance(schema, JsonRefusal):
            told = f"{listener.name} cannot be exposed: {schema.faults[0].rule}"
            raise ValueError(told)  # noqa: TRY004 - a mistake of whoever exposes it
        several = len(listener.payloads) > 1
        name = f"{listener.name}.{local(codec.name)}" if several else listener.name
        gives, answers = _answers(listener, rules)
        yield ServedTool(name, listener.name, listener.description, codec, schema, gives, answers)


def _answers(listener: Listener, rules: Rules) -> tuple[Mapping[str, Any] | None, frozenset[str]]:
    """Give the schema of a listener's answers, and their root elements; None where it has none."""
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
    values = [_value(reply, rules) for reply in replies]
    texts = tuple(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values
    )
    error = any(reply.error for reply in replies)
    only = values[0] if len(values) == 1 and not error else None
    value = only if isinstance(only, dict) else None
    if tool.gives is not None and (value is None or replies[0].root not in tool.answers):
        return ToolAnswer(texts, error=True)
    return ToolAnswer(texts, value, error)


def _value(reply: Reply, rules: Rules) -> Any:
    """A reply as a JSON value; as markup where its payload has no JSON form."""
    read = envelope.read_envelope(reply.message)
    if isinstance(read, envelope.Malformed):
        return "An answer that cannot be read."
    codec = rules.codecs.named(str(read.payload.tag))
    value = None if codec is None else value_of(codec, read.payload)
    return canonical(read.payload).decode() if codec is None or isinstance(value, JsonRefusal) else value


BEAT = 5.0
"""Seconds after which a host hears again that its call goes on."""


async def _here() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call as a host makes it.

    Args:
        tool: its target.
        message: the payload.
        host: id that the host has given it, unique among its calls; empty for none.
        request: of an earlier call that the host comes back to; empty for none.
        leaving: whether to come back at once when a person is asked.
        gone: tells whether the host does not listen any more.
        progress: whether the host wants to hear how far the call is.
    """

    tool: ServedTool
    message: bytes
    host: str = ""
    request: str = ""
    leaving: bool = False
    gone: Callable[[], Awaitable[bool]] = _here
    progress: bool = False


@dataclass(frozen=True, slots=True)
class CallDone:
    """A call that came to rest.

    Args:
        replies: in order.
        again: whether the host has made this call before, and it was not made twice.
    """

    replies: tuple[Reply, ...]
    again: bool = False


@dataclass(frozen=True, slots=True)
class CallPending:
    """A call that goes on.

    Args:
        request: by which it is asked for again.
        approval: the id of what a person is asked; empty when nobody is.
        again: as of ``CallDone``.
    """

    request: str
    approval: str = ""
    again: bool = False


@dataclass
class Calls:
    """Sends calls and waits for what comes of them.

    Args:
        server: running.
        rooms: the conversation of each principal.
        deadline: seconds for which one is waited for.
    """

    server: McpHost
    rooms: Rooms
    deadline: float
    _known: dict[str, KnownCalls] = field(default_factory=dict)
    _hearing: ProgressHearing = field(default_factory=ProgressHearing)

    async def call(self, principal: Principal, call: HostCall, beat: Beat) -> CallDone | CallPending:
        """Send a message and wait for its answers.

        A call that its host has no answer to, since it was late, cancelled or cut off, is found again by being the same
        once more, as is one that comes again under the id of its host. Then nothing is sent.

        Args:
            principal: whose call it is.
            call: the call.
            beat: shows a text to the host: now and then that the call runs, and the progress of its listeners.

        Raises QuotaError, UnkeptError and ValueError as the server does.
        """
        handle = await self.rooms.of(principal)
        known, told = self._known_of(principal.name, handle.id), (call.tool.listener, call.message)
        own = call.request or known.find(told, call.host) or known.begin(told)
        words = handle.progress() if call.progress else None  # from now on, so that the first is not missed
        submitted = await handle.send(call.message, call.tool.listener, request=own)
        if isinstance(submitted.code, Unkept):
            raise UnkeptError(submitted.code)
        again = submitted.again and not call.request
        waiting = _Waiting(self.server, handle.id, submitted.request, call.leaving and not call.request)
        hearing = None if words is None else partial(self._hearing.hear, words, submitted.request, beat)
        with waiting:
            await self._wait(handle.replies(*told[::-1], request=own), waiting, beat, hearing)
        if not waiting.over:
            known.keep(told, own)
            return CallPending(own, waiting.approval(), again)
        if not await call.gone():
            known.answer(told, own, call.host)
        return CallDone(tuple(waiting.replies), again)

    def cancel(self, principal: str, host: str) -> None:
        """Note that a host gave up a call, by its id of the call. The call itself continues."""
        known = self._known.get(principal)
        if known is not None:
            known.cancel(host)

    def _known_of(self, principal: str, conversation: str) -> KnownCalls:
        """Find what is known of a principal's calls, which goes with its conversation."""
        known = self._known.get(principal)
        if known is None or known.conversation != conversation:
            known = self._known[principal] = KnownCalls(conversation)
        return known

    async def _wait(
        self,
        answers: AsyncIterator[Reply],
        waiting: _Waiting,
        beat: Beat,
        hearing: Callable[[], Coroutine[Any, Any, None]] | None,
    ) -> None:
        """Wait for the answers until the deadline."""
        with anyio.move_on_after(self.deadline):
            async with anyio.create_task_group() as tasks:
                running = partial(waiting.run, beat, tasks.cancel_scope)
                start_errand(tasks, "looks after a call", Ending.OWNER, running)
                if hearing is not None:
                    start_errand(tasks, "hears the progress of a call", Ending.OWNER, hearing)
                waiting.replies += await _all(answers)
                waiting.over = True
                tasks.cancel_scope.cancel()


async def _all(answers: AsyncIterator[Reply]) -> list[Reply]:
    """All replies; where it is cancelled none counts as taken."""
    async with aclosing(answers):  # type: ignore[type-var]
        return [reply async for reply in answers]


class _Waiting:
    """Looks after one call while it is waited for. A context manager.

    Args:
        server: running.
        conversation: id of the call's.
        request: the server's id of it.
        leaving: whether to stop waiting when a person is asked.
    """

    def __init__(self, server: McpHost, conversation: str, request: str, leaving: bool) -> None:  # noqa: FBT001 - within this module
        self._server, self._conversation, self._request = server, conversation, request
        self._leaving = leaving
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
        """The first approval that the call waits for; empty for none."""
        conversation = self._server.conversation(self._conversation)
        asked = () if conversation is None else conversation.approvals()
        return next((one.id for one in asked if one.delivery.request == self._request), "")

    async def run(self, beat: Beat, scope: anyio.CancelScope) -> None:
        """Tell that the call goes on, until it is over."""
        while True:
            asked = self.approval()
            if asked and self._leaving:
                scope.cancel()
                return
            await beat(f"waits for a person to approve it: {asked}" if asked else "goes on")
            with anyio.move_on_after(BEAT):
                while self.approval() == asked:
                    self._stirred = anyio.Event()
                    await self._stirred.wait()
