"""The frames between a server and a worker: length, then JSON of one of a closed set of shapes.

Owns the shapes, their bounds and their version. Refuses to know what a frame leads to, and to trust one: whatever comes
is held against its shape, and what does not fit is a FrameError. Payloads travel as markup, so that the server reads
them as it reads a stranger's document; nothing is ever unpickled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked

from agentserver.completion import Finish
from agentserver.core.state.todos import Todo
from agentserver.foreign_json.models import ForeignModel
from agentserver.foreign_json.reading import JsonLimits, RefusedJson

__all__ = [
    "PIECE", "VERSION", "AnsweringFrame", "CallFrame", "CancelFrame", "CompleteFrame", "CompletedFrame", "FailedFrame",
    "Frame", "FrameError", "FrameReader", "LoggedFrame", "ProgressFrame", "ReadyFrame", "ReturnedFrame", "SaidFrame",
    "SetupFrame", "TodoFrame", "ToolFrame", "WordsFrame", "pack", "written",
]  # fmt: skip

VERSION = 1
HEAD = 4
PIECE = 1 << 16
"""Bytes that are read at once."""
VALUES = 100_000
"""JSON values of a frame."""
MEMBERS = 1000
"""Members of one object of a frame."""
_STRICT = ConfigDict(extra="forbid", strict=True)


class FrameError(ValueError):
    """A frame that is too long, malformed, or of no known shape."""


@checked(frozen=True, slots=True, config=_STRICT)
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
        kind: the shape.
    """

    version: int
    listener: str
    project: str
    handler: str
    payloads: list[str]
    replies: list[str]
    settings_class: str | None
    settings: dict[str, Any] | None
    lifespan: str | None
    storage: int
    bounds: dict[str, int]
    wall: dict[str, Any]
    longest: int
    kind: Literal["setup"] = "setup"


@checked(frozen=True, slots=True, config=_STRICT)
class TodoFrame(Todo):
    """A todo of the thread, held against its shape."""


@checked(frozen=True, slots=True, config=_STRICT)
class AnsweringFrame:
    """The call that the message answers, as ``contract.Answering`` has it."""

    key: str
    place: int
    refused: bool


@checked(frozen=True, slots=True, config=_STRICT)
class CallFrame:
    """One invocation.

    Args:
        call: its number; every later frame about it bears the same.
        root: name of the payload element, ``{namespace}local``.
        markup: the payload.
        metadata: the six fields of HandlerMetadata.
        storage: what the thread holds, as markup by payload name.
        logs: what was appended, likewise.
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
        kind: the shape.
    """

    call: int
    root: str
    markup: str
    metadata: dict[str, str | bool | None]
    storage: dict[str, str]
    logs: dict[str, list[str]]
    todos: list[TodoFrame]
    answering: AnsweringFrame | None
    seconds: float
    models: bool
    progress: bool
    messages: int
    bytes: int
    key: str
    attempt: int
    epoch: int
    kind: Literal["call"] = "call"


@checked(frozen=True, slots=True, config=_STRICT)
class CancelFrame:
    """The result of a call is not waited for any longer."""

    call: int
    kind: Literal["cancel"] = "cancel"


@checked(frozen=True, slots=True, config=_STRICT)
class ReadyFrame:
    """The wall stands, and the handler is imported."""

    kind: Literal["ready"] = "ready"


@checked(frozen=True, slots=True, config=_STRICT)
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


@checked(frozen=True, slots=True, config=_STRICT)
class LoggedFrame:
    """A change of one of the thread's logs, as ``core.state.growing.logs.LogChange`` has it."""

    kind: str
    dropped: int
    appended: list[str]


@checked(frozen=True, slots=True, config=_STRICT)
class WordsFrame:
    """One message of a prompt, as ``completion.PromptMessage`` has it; each call is its id, name and arguments."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: list[tuple[str, str, str]]
    id: str
    name: str


@checked(frozen=True, slots=True, config=_STRICT)
class ToolFrame:
    """A tool that a model may call, as ``completion.Tool`` has it."""

    name: str
    description: str
    schema: dict[str, Any]


@checked(frozen=True, slots=True, config=_STRICT)
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
        kind: the shape.
    """

    call: int
    number: int
    model: str
    messages: list[WordsFrame]
    agent: str
    tools: list[ToolFrame | str]
    output: str | None
    repairs: int
    partial: bool = False
    kind: Literal["complete"] = "complete"


@checked(frozen=True, slots=True, config=_STRICT)
class CompletedFrame:
    """The answer of a model, or the reason why there is none.

    Args:
        call: the number of the call.
        number: of the question.
        content: the text.
        calls: that the model wants to have made: id, name and arguments of each.
        usage: tokens read and written, and answered requests.
        money: in US dollars; None when it is not known.
        model: the provider's name for it.
        output: the answer as markup.
        fault: the kind of a failure; "lookup" and "value" for questions that cannot be asked; None of an answer.
        why: the failure in words of the server's.
        finish: the end of the answer, which may be partial for a failure.
        kind: the shape.
    """

    call: int
    number: int
    content: str
    calls: list[tuple[str, str, str]]
    usage: tuple[int, int, int]
    money: float | None
    model: str
    output: str | None
    fault: str | None
    why: str
    finish: Finish = Finish.STOP
    kind: Literal["completed"] = "completed"


@checked(frozen=True, slots=True, config=_STRICT)
class ProgressFrame:
    """A line about how far a call is. Many of them are dropped."""

    call: int
    text: str
    kind: Literal["progress"] = "progress"


@checked(frozen=True, slots=True, config=_STRICT)
class ReturnedFrame:
    """The handler came back.

    Args:
        call: the number of the call.
        said: its messages, in order.
        storage: what it stored, as markup by payload name; None for what it deleted.
        logged: what it appended and dropped.
        closed: ids of the todos that it closed.
        kind: the shape.
    """

    call: int
    said: list[SaidFrame]
    storage: dict[str, str | None]
    logged: list[LoggedFrame]
    closed: list[str]
    kind: Literal["returned"] = "returned"


@checked(frozen=True, slots=True, config=_STRICT)
class FailedFrame:
    """There is no result, or none that can be written down. ``call`` is 0 before the worker is ready.

    Args:
        call: the number of the call.
        faults: what its schema refuses of a payload that the handler made; empty for any other failure.
        detail: one line for the log.
        fault: the kind of a completion that came to nothing and that the handler let pass.
        kind: the shape.
    """

    call: int
    detail: str
    faults: list[str]
    fault: str | None = None
    kind: Literal["failed"] = "failed"


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


def pack(frame: Frame) -> bytes:
    """A frame as it travels: four bytes of length, most significant first, and JSON."""
    data = written(frame)
    return len(data).to_bytes(HEAD, "big") + data


def written(frame: Any) -> bytes:
    """The JSON of a frame."""
    data: bytes = type(frame).__pydantic_serializer__.to_json(frame)
    return data


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
        self._form: ForeignModel[Frame] = ForeignModel(Annotated[Frame, Field(discriminator="kind")])

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
        frame = self._form.read(text, self._limits)
        if isinstance(frame, RefusedJson):
            raise FrameError(str(frame))
        return frame
