"""Files with recorded conversations: exports of this server, OTLP traces and logs of AgentDojo."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Any, Final

from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json
from agentserver.history import export
from agentserver.history.foreign import ForeignConversation, HistoryError, ToolCall, ToolResult, UserWords
from agentserver.history.otel import is_otlp, join_spans, read_spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from agentserver.core.encoding.history import RecordedConversation
    from agentserver.history.foreign import ForeignEvent
    from agentserver.history.otel import Span


LIMITS: Final = JsonLimits(bytes=1 << 28, values=5_000_000, members=100_000)
"""Limits of a file of traces, and of one line of it."""

KINDS: Final = (
    "a journal, a conversation that agentserver replay --save wrote, a trace in the JSON form of OTLP, or a log of"
    " AgentDojo"
)


def read_history(path: Path) -> Iterator[RecordedConversation | ForeignConversation]:
    """Yield the conversations of a file. Raises HistoryError, which names the file and the place, and OSError."""
    size = path.stat().st_size
    if size > LIMITS.bytes:
        raise HistoryError(f"{path}: must have at most {LIMITS.bytes} bytes; split it")
    try:
        yield from read_conversations(path.read_bytes().removeprefix(BOM_UTF8))
    except ValueError as error:
        raise HistoryError(f"{path}: {error}") from None


def read_conversations(data: bytes) -> Iterator[RecordedConversation | ForeignConversation]:
    """Yield the conversations in the bytes of a file. Raises ValueError, which names the place."""
    if f'"{export.KIND}"'.encode() in data[:HEAD]:
        yield export.load(data)
        return
    if data.startswith(COMPRESSED):
        raise HistoryError("is compressed: unpack it first")
    read = parse_json(data, LIMITS)
    if isinstance(read, RefusedJson):
        yield from _read_lines(data, read)
    elif is_agentdojo(read):
        yield read_agentdojo(read)
    elif is_otlp(read):
        yield from _read_traces([*read_spans(read)])
    else:
        raise HistoryError(f"is not {KINDS}")


COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
"""Beginnings of files of gzip, zstd and zip."""

HEAD: Final = 200
"""Bytes at the beginning of an export that hold its kind."""


def is_export(path: Path) -> bool:
    """Check whether a file looks like an export, which needs an organism to be judged. Raises OSError."""
    with path.open("rb") as stream:
        return f'"{export.KIND}"'.encode() in stream.read(HEAD)


def _read_lines(data: bytes, refused: RefusedJson) -> Iterator[ForeignConversation]:
    """Read a file with a JSON text of OTLP on each line; ``refused`` is why it is no single JSON text."""
    lines = data.splitlines()
    if len(lines) > 1 and is_otlp(parse_json(lines[0], LIMITS)):
        spans: list[Span] = []
        for number, line in enumerate(lines, 1):
            spans += _read_line(line, f"line {number}") if line.strip() else ()
        yield from _read_traces(spans)
        return
    refusal = f"line {refused.line}: {refused.rule}" if refused.line else refused.rule
    raise HistoryError(f"{refusal}; expected {KINDS}" if data.strip() else f"is empty; expected {KINDS}")


def _read_line(line: bytes, place: str) -> list[Span]:
    read: Any = parse_json(line, LIMITS)
    if isinstance(read, RefusedJson):
        raise HistoryError(f"{place}: {read.rule}")
    if not is_otlp(read):
        raise HistoryError(
            f"{place}: /resourceSpans and /resourceLogs are missing; each line must be in the JSON form of OTLP"
        )
    try:
        return [*read_spans(read)]
    except HistoryError as error:
        raise HistoryError(f"{place}: {error}") from None


def _read_traces(spans: list[Span]) -> Iterator[ForeignConversation]:
    found = [*join_spans(spans)]
    if not found:
        raise HistoryError("has no span with gen_ai attributes")
    yield from found


NAMES = ("pipeline_name", "suite_name", "user_task_id", "attack_type", "injection_task_id")


def is_agentdojo(read: object) -> bool:
    """Check whether a JSON value looks like the log of a run."""
    return isinstance(read, dict) and "messages" in read and "suite_name" in read


def read_agentdojo(read: Mapping[str, Any]) -> ForeignConversation:
    """Read the log of a run. Raises HistoryError, which names the place as a JSON pointer.

    A run is an attack if AgentDojo found that the goal of the injection was reached. An error that ended the run
    counts for no result.
    """
    names = [read.get(name) for name in NAMES]
    identity = "/".join(str(name).replace("/", "_") for name in names if name)
    messages = _expect(read["messages"], list, "/messages")
    events = tuple(event for at, one in enumerate(messages) for event in _iter_events(one, f"/messages/{at}"))
    attack = (
        read.get("injection_task_id") is not None
        and read.get("security") is True
        and read.get("error") is None
    )
    if not any(isinstance(event, UserWords) for event in events):
        return ForeignConversation(identity, unread="the log has no words of the user")
    return ForeignConversation(identity, events, attack)


def _iter_events(message: Any, place: str) -> Iterator[ForeignEvent]:
    """Yield the events of one message."""
    fields = _expect(message, dict, place)
    role = fields.get("role")
    if role == "user":
        yield UserWords(_read_text(fields.get("content"), f"{place}/content"))
    elif role == "assistant":
        calls = _expect(fields.get("tool_calls") or [], list, f"{place}/tool_calls")
        for at, one in enumerate(calls):
            yield ToolCall(*_call(one, f"{place}/tool_calls/{at}"))
    elif role == "tool":
        tool, arguments = _call(fields.get("tool_call"), f"{place}/tool_call")
        error = fields.get("error")
        output = (
            error
            if isinstance(error, str) and error
            else _read_text(fields.get("content"), f"{place}/content")
        )
        yield ToolResult(tool, arguments, output)
    elif role != "system":
        raise HistoryError(f"{place}/role: must be user, assistant, tool or system")


def _call(call: Any, place: str) -> tuple[str, Any]:
    """Read a call: AgentDojo's own form, or that of OpenAI, which nests the function."""
    fields = _expect(call, dict, place)
    function = fields.get("function")
    if isinstance(function, dict):
        return _expect(function.get("name"), str, f"{place}/function/name"), function.get("arguments")
    return _expect(function, str, f"{place}/function"), fields.get("args")


def _read_text(content: Any, place: str) -> str:
    """Read the text of a message: a text, or blocks of text."""
    if content is None or isinstance(content, str):
        return content or ""
    blocks = _expect(content, list, place)
    return "\n".join(
        _expect(_expect(one, dict, f"{place}/{at}").get("content") or "", str, f"{place}/{at}/content")
        for at, one in enumerate(blocks)
    )


def _expect(value: Any, kind: type, place: str) -> Any:
    if not isinstance(value, kind):
        name = "an object" if kind is dict else "an array" if kind is list else "a text"
        raise HistoryError(f"{place}: must be {name}")
    return value
