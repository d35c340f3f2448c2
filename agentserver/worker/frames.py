"""The frames between a server and a worker: length, then JSON of one of a closed set of shapes.

Owns the shapes, their bounds and their version. Refuses to know what a frame leads to, and to trust one: whatever comes
is held against its shape, and what does not fit is a FrameError. Payloads travel as markup, so that the server reads
them as it reads a stranger's document; nothing is ever unpickled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from pydantic_core import to_json

from agentserver.codec import ValueCodec, ValueRefusedError, ValueStyle
from agentserver.completion import Finish, PromptMessage, Tool, ToolCall, Usage
from agentserver.contract import Answering, HandlerMetadata
from agentserver.core.encoding.codecs import TYPES
from agentserver.core.messages import NO_EFFECTS, Effects
from agentserver.core.state.todos import Todo
from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "PIECE", "VERSION", "CallFrame", "CancelFrame", "CompleteFrame", "CompletedFrame", "FailedFrame", "Frame",
    "FrameError", "FrameReader", "ProgressFrame", "ReadyFrame", "ReturnedFrame", "SaidFrame", "SetupFrame",
    "derive_frames", "dump_frame", "pack", "read_frame",
]  # fmt: skip

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
    """The first frame: what a worker is to run, and the wall that it raises first.

    Args:
        version: of these frames.
        listener: the name of the listener.
        project: the folder that dotted paths resolve from.
        handler: the dotted path of the handler.
        payloads: dotted paths of the classes that it takes.
        replies: dotted paths of the classes that it answers with or stores, beside those that its code names.
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
        call: its number; every later frame about it bears the same.
        root: name of the payload element, ``{namespace}local``.
        markup: the payload.
        metadata: as the handler gets it.
        storage: the values of the thread, as markup by payload name.
        logs: the entries of its logs, likewise.
        todos: those of the thread.
        answering: the call that the message answers.
        seconds: until it has to be over.
        models: whether there are language models to ask.
        progress: whether what it tells of its progress is shown to anyone.
        messages: how many the result may hold.
        bytes: how much they may measure together.
        key: the idempotency key.
        attempt: from 1.
        epoch: of the share of its conversation.
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


@dataclass(frozen=True, slots=True)
class CancelFrame:
    """The result of a call is not waited for any longer."""

    call: int


@dataclass(frozen=True, slots=True)
class ReadyFrame:
    """The wall stands, and the handler is imported."""


@dataclass(frozen=True, slots=True)
class SaidFrame:
    """One message of a result.

    Args:
        to: a listener's name, or None when the root of the payload decides.
        caller: whether it goes to whoever called; ``to`` is None then.
        markup: the payload.
    """

    to: str | None
    caller: bool
    markup: str


@dataclass(frozen=True, slots=True)
class CompleteFrame:
    """A completion that the handler asks for. The server has the keys.

    Args:
        call: the number of the call.
        number: of this question among those of the call.
        model: as the organism calls it.
        messages: the prompt.
        agent: the name under which it is charged.
        tools: that the model may call; a text names a payload of the organism, ``{namespace}local``.
        output: the payload that the answer has to be, likewise.
        repairs: how often an answer that is not goes back to the model.
        partial: whether an answer that is not whole is one too.
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
class CompletedFrame:
    """The answer of a model, or the reason why there is none.

    Args:
        call: the number of the call.
        number: of the question.
        content: the text.
        calls: that the model wants to have made.
        usage: what it cost.
        model: the provider's name for it.
        output: the answer as markup.
        fault: the kind of a failure; "lookup" and "value" for questions that cannot be asked; None of an answer.
        why: the failure in words of the server's.
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
    why: str
    finish: Finish = Finish.STOP


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
        said: its messages, in order.
        effects: the changes of storage, logs and todos, payloads as markup.
    """

    call: int
    said: tuple[SaidFrame, ...]
    effects: Effects = NO_EFFECTS


@dataclass(frozen=True, slots=True)
class FailedFrame:
    """There is no result, or none that can be written down. ``call`` is 0 before the worker is ready.

    Args:
        call: the number of the call.
        faults: what its schema refuses of a payload that the handler made; empty for any other failure.
        detail: one line for the log.
        fault: the kind of a completion that came to nothing and that the handler let pass.
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
    | CompleteFrame
    | CompletedFrame
    | ProgressFrame
    | ReturnedFrame
    | FailedFrame
)
"""Everything that may be sent, in either direction. Who may send which is for the two ends to hold."""


_TAGS: Final = {
    SetupFrame: "setup",
    CallFrame: "call",
    CancelFrame: "cancel",
    ReadyFrame: "ready",
    CompleteFrame: "complete",
    CompletedFrame: "completed",
    ProgressFrame: "progress",
    ReturnedFrame: "returned",
    FailedFrame: "failed",
}


def _check_texts(effects: Effects) -> None:
    """Hold markup against the encoding in which a journal keeps it. Raises ValueError."""
    for data in (*effects.stored.values(), *(entry for one in effects.logged for entry in one.appended)):
        if data is not None:
            data.decode()


def derive_frames(
    kind: Any, tags: Mapping[type, str], checks: Mapping[type, Callable[[Any], object]]
) -> ValueCodec[Any]:
    """Derive the codec of frames. ``tags`` and ``checks`` are of those that are not in this module."""
    own = (Answering, CallFrame, Effects, Finish, HandlerMetadata, PromptMessage, Todo, Tool, ToolCall, Usage)
    style = ValueStyle(named=True, tags={**_TAGS, **tags}, checks={Effects: _check_texts, **checks})
    return ValueCodec(kind, {**TYPES, **{one.__name__: one for one in own}}, style)


_FRAMES: Final[ValueCodec[Frame]] = derive_frames(Frame, {}, {})


def pack(frame: Frame) -> bytes:
    """Pack a frame as it travels: four bytes of length, most significant first, and JSON. Raises as ``dump_frame``."""
    data = dump_frame(_FRAMES, frame)
    return len(data).to_bytes(HEAD, "big") + data


def dump_frame(codec: ValueCodec[_T], frame: _T) -> bytes:
    """Write the JSON of a frame. Raises ValueError for texts that are not Unicode."""
    return to_json(codec.plain(frame))


def read_frame(codec: ValueCodec[_T], data: bytes, limits: JsonLimits) -> _T:
    """Read the JSON of a frame, which is counted before. Raises FrameError."""
    found = parse_json(data, limits)
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
    """

    longest: int
    values: int = VALUES

    def __post_init__(self) -> None:
        self._held = bytearray()
        self._limits = JsonLimits(bytes=self.longest, values=self.values, members=MEMBERS)

    def feed(self, data: bytes | memoryview) -> None:
        """Take what was read. Nothing more is to be read while ``next`` has a frame."""
        self._held += data

    @property
    def holds(self) -> bool:
        """True when there are bytes of a frame that ``next`` has not given."""
        return bool(self._held)

    def next(self) -> Frame | None:
        """The oldest frame that is there whole. Raises FrameError; the stream is of no use then."""
        if len(self._held) < HEAD:
            return None
        length = int.from_bytes(self._held[:HEAD], "big")
        if length > self.longest:
            raise FrameError(f"a frame of {length} bytes, where {self.longest} are allowed")
        end = HEAD + length
        if len(self._held) < end:
            return None
        text = bytes(self._held[HEAD:end])
        del self._held[:end]
        return read_frame(_FRAMES, text, self._limits)
