"""Frames between a server and a worker: a length, then the JSON of one of a closed set of types.

Every frame is validated before it is used; an invalid one raises FrameError. A server also counts the JSON of a frame
before it is parsed; a worker of this machine trusts the server that has started it. Payloads travel as markup, and the
server parses them like any untrusted document; nothing is unpickled.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from pydantic_core import from_json, to_json

from agentserver.codec import ValueCodec, ValueRefusedError, ValueStyle
from agentserver.completion import Finish, PromptMessage, Tool, ToolCall, Usage
from agentserver.contract import Answering, HandlerMetadata
from agentserver.core.encoding.codecs import TYPES
from agentserver.core.messages import NO_EFFECTS, Effects
from agentserver.core.state.todos import Todo
from agentserver.foreign_json.reading import NO_JSON, JsonLimits, JsonReader, RefusedJson, make_json_reader

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

__all__ = [
    "PIECE",
    "VERSION",
    "Answer",
    "AssignedCallFrame",
    "CallFrame",
    "CallRequestFrame",
    "CancelFrame",
    "CompletionFrame",
    "CompletionRequestFrame",
    "EffectFrame",
    "EffectStateFrame",
    "FailedFrame",
    "Frame",
    "FrameCodec",
    "FrameError",
    "FrameReader",
    "FrameSocket",
    "Heard",
    "HeartbeatFrame",
    "MessageFrame",
    "ProgressFrame",
    "ReadyFrame",
    "ReceiptFrame",
    "ReturnedFrame",
    "SetupFrame",
    "Spoken",
    "dump_answer",
    "dump_asked",
    "dump_frame",
    "pack",
    "read_frame",
]

_T = TypeVar("_T")

VERSION = 1
HEAD = 4
PIECE = 1 << 16
"""Bytes that are read at once."""
VALUES = 100_000
"""JSON values of a frame."""
MEMBERS = 1000
"""Members of one object of a frame."""


class FrameError(ValueError):
    """A frame that is too long, malformed, or of no known shape."""


@dataclass(frozen=True, slots=True)
class SetupFrame:
    """First frame, with the handler to import and the wall to raise first.

    Args:
        version: of these frames.
        listener: the name of the listener.
        project: the folder that dotted paths resolve from.
        handler: the dotted path of the handler.
        payloads: dotted paths of the classes that it takes.
        replies: dotted paths of further classes that it answers with or stores.
        settings_class: the dotted path of the class of its settings; None without settings.
        settings: their values.
        lifespan: the dotted path of the worker's own lifespan, or None.
        storage: bytes that a thread may store.
        bounds: of a document: bytes, depth, elements, attributes, text and name (wire.envelope.Bounds).
        wall: the values of ``wall.raising.Wall``, paths as text.
        longest: bytes of a frame that the server takes.
    """

    version: int
    listener: str
    project: str
    handler: str
    payloads: tuple[str, ...]
    replies: tuple[str, ...]
    settings_class: str | None
    settings: dict[str, Any] | None
    lifespan: str | None
    storage: int
    bounds: dict[str, int]
    wall: dict[str, Any]
    longest: int


@dataclass(frozen=True, slots=True)
class CallFrame:
    """One invocation.

    Args:
        call: its number; every later frame about it has the same.
        root: name of the payload element, ``{namespace}local``.
        markup: the payload.
        metadata: as the handler gets it.
        storage: the values of the thread, as markup by payload name.
        logs: the entries of its logs, in the same form.
        todos: those of the thread.
        answering: the call that the message answers.
        seconds: until the deadline.
        models: whether there are language models to ask.
        progress: whether its progress is shown anywhere.
        messages: how many the result may hold.
        bytes: how much they may measure together.
        key: the idempotency key.
        attempt: from 1.
        epoch: of the share of its conversation.
        at: the server's time, in seconds since the epoch.
    """

    call: int
    root: str
    markup: str
    metadata: HandlerMetadata
    storage: Mapping[str, bytes]
    logs: Mapping[str, tuple[bytes, ...]]
    todos: tuple[Todo, ...]
    answering: Answering | None
    seconds: float
    models: bool
    progress: bool
    messages: int
    bytes: int
    key: str
    attempt: int
    epoch: int
    at: float


@dataclass(frozen=True, slots=True)
class CancelFrame:
    """The result of a call is not waited for any longer."""

    call: int


@dataclass(frozen=True, slots=True)
class ReadyFrame:
    """Report that the wall is raised and the handler is imported."""


@dataclass(frozen=True, slots=True)
class MessageFrame:
    """One message of a result.

    Args:
        to: a listener's name, or None when the root of the payload decides.
        caller: whether it goes to the caller; ``to`` is None then.
        markup: the payload.
        after: delay of its delivery, in seconds.
    """

    to: str | None
    caller: bool
    markup: str
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class CompletionRequestFrame:
    """A completion that the handler asks for. The server has the keys.

    Args:
        call: the number of the call.
        number: of this question among those of the call.
        model: as the organism calls it.
        messages: the prompt.
        agent: the agent that is charged.
        tools: available to the model; a text names a payload of the organism, ``{namespace}local``.
        output: the required payload of the answer, in the same form.
        repairs: how often an invalid answer goes back to the model.
        partial: whether a partial answer is accepted.
    """

    call: int
    number: int
    model: str
    messages: tuple[PromptMessage, ...]
    agent: str
    tools: tuple[Tool | str, ...]
    output: str | None
    repairs: int
    partial: bool = False


@dataclass(frozen=True, slots=True)
class CompletionFrame:
    """The answer of a model, or its failure.

    Args:
        call: the number of the call.
        number: of the question.
        content: the text.
        calls: the tool calls of the model.
        usage: its cost.
        model: the provider's name for it.
        output: the answer as markup.
        fault: the kind of a failure; "lookup" and "value" for questions that cannot be asked; None for an answer.
        reason: the server's description of the failure.
        finish: the end of the answer, which may be partial for a failure.
    """

    call: int
    number: int
    content: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    model: str
    output: str | None
    fault: str | None
    reason: str
    finish: Finish = Finish.STOP


@dataclass(frozen=True, slots=True)
class EffectFrame:
    """A claim or the answer of an external effect. The server has the ledger.

    Args:
        call: the number of the call.
        number: of this question among those of the call.
        key: of an effect to claim; empty with an answer.
        passing: whether its answer is dropped with the commit of the invocation.
        effect: id of an effect to conclude; empty with a claim.
        answer: as JSON; None withdraws the claim.
        trusted: whether the answer is the organism's own.
    """

    call: int
    number: int
    key: str = ""
    passing: bool = False
    effect: str = ""
    answer: str | None = None
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class EffectStateFrame:
    """The state of an external effect, or the reason why it cannot be recorded.

    Args:
        call: the number of the call.
        number: of the question.
        effect: its id.
        state: claimed, done or unknown.
        answer: as JSON, if done.
        token: epoch of the claim on the conversation.
        reason: it cannot be recorded; else empty.
    """

    call: int
    number: int
    effect: str = ""
    state: str = ""
    answer: str = ""
    token: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProgressFrame:
    """A line about how far a call is. Many of them are dropped."""

    call: int
    text: str


@dataclass(frozen=True, slots=True)
class ReturnedFrame:
    """The handler came back.

    Args:
        call: the number of the call.
        messages: its messages, in order.
        effects: the changes of storage, logs and todos, payloads as markup.
    """

    call: int
    messages: tuple[MessageFrame, ...]
    effects: Effects = NO_EFFECTS


@dataclass(frozen=True, slots=True)
class FailedFrame:
    """The failure of a call. ``call`` is 0 before the worker is ready.

    Args:
        call: the number of the call.
        faults: schema violations of a payload that the handler made; empty for any other failure.
        detail: one line for the log.
        fault: the kind of a failed completion that the handler did not catch, or ``effect`` for an external effect with
            an unknown outcome, whose id is the detail.
    """

    call: int
    detail: str
    faults: tuple[str, ...] = ()
    fault: str | None = None


Frame: TypeAlias = (
    SetupFrame
    | CallFrame
    | CancelFrame
    | ReadyFrame
    | CompletionRequestFrame
    | CompletionFrame
    | EffectFrame
    | EffectStateFrame
    | ProgressFrame
    | ReturnedFrame
    | FailedFrame
)
"""Everything that may be sent, in either direction. Who may send which is for the two ends to hold."""


_KEY: Final = re.compile("[0-9a-f]{32}")
LONGEST_WAIT: Final = 3600.0
"""Seconds for which a worker may wait for a call."""


@dataclass(frozen=True, slots=True)
class CallRequestFrame:
    """A worker wants a call.

    Args:
        version: of the frames that it understands.
        wait: seconds for which it waits for one.
    """

    version: int
    wait: float


@dataclass(frozen=True, slots=True)
class HeartbeatFrame:
    """The worker begins with a call, or works on it."""

    call: int


@dataclass(frozen=True, slots=True)
class ReceiptFrame:
    """The server has taken a frame; a question has no answer yet."""

    call: int


@dataclass(frozen=True, slots=True)
class AssignedCallFrame:
    """A call for a worker.

    Args:
        key: names the call to this worker alone.
        call: the call.
    """

    key: str
    call: CallFrame


Question: TypeAlias = CompletionRequestFrame | EffectFrame
"""The frames of a worker that the server answers."""
QuestionAnswer: TypeAlias = CompletionFrame | EffectStateFrame
"""The answers to them."""
Spoken: TypeAlias = (
    HeartbeatFrame | ProgressFrame | CompletionRequestFrame | EffectFrame | ReturnedFrame | FailedFrame
)
"""The frames of a worker about a call."""
Answer: TypeAlias = AssignedCallFrame | ReceiptFrame | CompletionFrame | EffectStateFrame
"""The frames of a server."""


def _check_wait(frame: CallRequestFrame) -> None:
    if not 0 <= frame.wait <= LONGEST_WAIT:
        raise ValueError


def _check_key(frame: AssignedCallFrame) -> None:
    if _KEY.fullmatch(frame.key) is None:
        raise ValueError


_TAGS: Final = {
    SetupFrame: "setup",
    CallFrame: "call",
    CancelFrame: "cancel",
    ReadyFrame: "ready",
    CompletionRequestFrame: "complete",
    CompletionFrame: "completed",
    EffectFrame: "effect",
    EffectStateFrame: "effected",
    ProgressFrame: "progress",
    ReturnedFrame: "returned",
    FailedFrame: "failed",
    HeartbeatFrame: "alive",
    AssignedCallFrame: "given",
    ReceiptFrame: "heard",
}


def _check_texts(effects: Effects) -> None:
    """Hold markup against the encoding in which a journal keeps it. Raises ValueError."""
    for data in (*effects.stored.values(), *(entry for one in effects.logged for entry in one.appended)):
        if data is not None:
            data.decode()


_CHECKS: Final[Mapping[type, Callable[[Any], object]]] = {
    Effects: _check_texts,
    CallRequestFrame: _check_wait,
    AssignedCallFrame: _check_key,
}


def _derive(kind: Any) -> ValueCodec[Any]:
    """Derive the codec of a frame, or of a union of frames."""
    own = (Answering, CallFrame, Effects, Finish, HandlerMetadata, PromptMessage, Todo, Tool, ToolCall, Usage)
    style = ValueStyle(by_name=True, tags=_TAGS, sparse=True, checks=_CHECKS)
    return ValueCodec(kind, {**TYPES, **{one.__name__: one for one in own}}, style)


_FRAMES: Final[ValueCodec[Frame]] = _derive(Frame)


def pack(frame: Frame) -> bytes:
    """Pack a frame as it travels: four bytes of length, most significant first, and JSON. Raises as ``dump_frame``."""
    data = dump_frame(_FRAMES, frame)
    return len(data).to_bytes(HEAD, "big") + data


def dump_frame(codec: ValueCodec[_T], frame: _T) -> bytes:
    """Write the JSON of a frame. Raises ValueError for texts that are not Unicode."""
    return to_json(codec.plain(frame))


def read_frame(codec: ValueCodec[_T], data: bytes, reader: JsonReader | None) -> _T:
    """Read the JSON of a frame, which is trusted if ``reader`` is None. Raises FrameError."""
    if reader is None:
        try:
            found = from_json(data)
        except ValueError:
            raise FrameError(NO_JSON) from None
    else:
        found = reader.parse(data)
    if isinstance(found, RefusedJson):
        raise FrameError(str(found))
    try:
        return codec.value(found)
    except ValueRefusedError as error:
        raise FrameError(str(error)) from None


@dataclass
class FrameReader:
    """Cuts a stream of bytes into frames.

    Args:
        longest: bytes of a frame; a longer one is refused before it has come.
        values: JSON values of a frame.
        trusted: whether the other end is trusted, so that the JSON of its frames is not counted.
    """

    longest: int
    values: int = VALUES
    trusted: bool = False

    def __post_init__(self) -> None:
        self._buffer = bytearray()
        limits = JsonLimits(bytes=self.longest, values=self.values, members=MEMBERS)
        self._json = None if self.trusted else make_json_reader(limits)

    def feed(self, data: bytes | memoryview) -> None:
        """Append bytes. Call ``next`` until it returns None before reading more."""
        self._buffer += data

    @property
    def holds(self) -> bool:
        """True when there are bytes of a frame that ``next`` has not given."""
        return bool(self._buffer)

    def take_frame(self) -> Frame | None:
        """Take the oldest complete frame. Raises FrameError, after which the stream is unusable."""
        if len(self._buffer) < HEAD:
            return None
        length = int.from_bytes(self._buffer[:HEAD], "big")
        if length > self.longest:
            raise FrameError(f"a frame of {length} bytes, where {self.longest} are allowed")
        end = HEAD + length
        if len(self._buffer) < end:
            return None
        text = bytes(self._buffer[HEAD:end])
        del self._buffer[:end]
        return read_frame(_FRAMES, text, self._json)


_TAKE: Final[ValueCodec[CallRequestFrame]] = _derive(CallRequestFrame)
_SPOKEN: Final[ValueCodec[Spoken]] = _derive(Spoken)
_ANSWER: Final[ValueCodec[Answer]] = _derive(Answer)


def dump_asked(frame: CallRequestFrame | Spoken) -> bytes:
    """Write a worker's frame. Raises ValueError for texts that are not Unicode."""
    if isinstance(frame, CallRequestFrame):
        return dump_frame(_TAKE, frame)
    return dump_frame(_SPOKEN, frame)


def dump_answer(frame: Answer) -> bytes:
    """Write a server's frame. Raises ValueError for texts that are not Unicode."""
    return dump_frame(_ANSWER, frame)


class FrameCodec:
    """Reads frames.

    Args:
        longest: bytes of a frame.
    """

    def __init__(self, longest: int) -> None:
        self._json = make_json_reader(JsonLimits(bytes=longest, values=VALUES, members=MEMBERS))

    def take(self, data: bytes) -> CallRequestFrame:
        """Read what asks for a call. Raises FrameError."""
        return read_frame(_TAKE, data, self._json)

    def read_spoken(self, data: bytes) -> Spoken:
        """Read a worker's frame. Raises FrameError."""
        return read_frame(_SPOKEN, data, self._json)

    def answer(self, data: bytes) -> Answer:
        """Read a server's frame. Raises FrameError."""
        return read_frame(_ANSWER, data, self._json)


Heard: TypeAlias = "Frame | FrameError | None"
"""A frame, what came in its place, or None once the other end is gone. Nothing follows the last two."""


class FrameSocket:
    """One end of a socket that carries frames.

    Args:
        end: the socket.
        longest: bytes of a frame; a longer one ends the reading.
        hear: called with each frame while the channel listens; it starts paused.
        trusted: as of ``FrameReader``.
    """

    def __init__(
        self, end: socket.socket, longest: int, hear: Callable[[Heard], None], *, trusted: bool = False
    ) -> None:
        end.setblocking(False)
        self._end = end
        self._hear = hear
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(longest, trusted=trusted)
        self._piece = bytearray(PIECE)
        self._view = memoryview(self._piece)
        self._turns = asyncio.Lock()
        self._sending = 0
        self._listens = self._watched = self._over = False

    def listen(self) -> None:
        """Hear frames from now on, those that have come already first."""
        self._listens = True
        self._take()
        if self._listens and self._over:
            self._finish(None)
        elif self._listens and not self._watched:
            self._watched = True
            self._loop.add_reader(self._end, self._read_ready)

    def pause_reading(self) -> None:
        """Hear nothing until ``listen``. The socket is looked at once more at most."""
        self._listens = False

    def _read_ready(self) -> None:
        if not self._listens:  # what comes unasked stays with the system, but for this piece
            self._unwatch()
        try:
            count = self._end.recv_into(self._piece)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if count:
            self._reader.feed(self._view[:count])
            self._take()
        else:
            self._finish(None)

    def _take(self) -> None:
        while self._listens:
            try:
                frame = self._reader.take_frame()
            except FrameError as error:
                self._finish(error)
                return
            if frame is None:
                return
            self._hear(frame)

    def _finish(self, last: FrameError | None) -> None:
        self._over = True
        if self._watched:
            self._unwatch()
        if self._listens:
            self._listens = False
            self._hear(last)

    def _unwatch(self) -> None:
        self._watched = False
        self._loop.remove_reader(self._end)

    @property
    def unusable(self) -> bool:
        """True once the other end is known to be gone, not to be believed, or to have spoken unasked."""
        return self._over or self._reader.holds

    async def write(self, frame: Frame) -> None:
        """Send a frame. Raises OSError when the other end is closed."""
        data = pack(frame)
        sent = 0
        if not self._sending:  # nearly always all of it is sent at once, and nothing can come between
            with suppress(BlockingIOError, InterruptedError):
                sent = self._end.send(data)
        if sent == len(data):
            return
        self._sending += 1
        try:
            async with self._turns:
                await self._loop.sock_sendall(self._end, data[sent:])
        finally:
            self._sending -= 1

    def close(self) -> None:
        """Close the socket."""
        if self._watched:
            self._unwatch()
        self._end.close()
