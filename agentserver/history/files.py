"""Files with recorded conversations: exports of this server, OTLP traces and logs of AgentDojo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json
from agentserver.history import export
from agentserver.history.agentdojo import is_agentdojo, read_agentdojo
from agentserver.history.foreign import HistoryError
from agentserver.history.otel import is_otlp, join_spans, read_spans

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentserver.core.encoding.history import RecordedConversation
    from agentserver.history.foreign import ForeignConversation
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
        yield from read_conversations(path.read_bytes())
    except ValueError as error:
        raise HistoryError(f"{path}: {error}") from None


def read_conversations(data: bytes) -> Iterator[RecordedConversation | ForeignConversation]:
    """Yield the conversations in the bytes of a file. Raises ValueError, which names the place."""
    if f'"{export.KIND}"'.encode() in data[:HEAD]:
        yield export.load(data)
        return
    read = parse_json(data, LIMITS)
    if isinstance(read, RefusedJson):
        yield from _read_lines(data, read)
    elif is_agentdojo(read):
        yield read_agentdojo(read)
    elif is_otlp(read):
        yield from _read_traces([*read_spans(read)])
    else:
        raise HistoryError(f"is not {KINDS}")


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
    raise HistoryError(f"line {refused.line}: {refused.rule}" if refused.line else refused.rule)


def _read_line(line: bytes, place: str) -> list[Span]:
    read: Any = parse_json(line, LIMITS)
    if isinstance(read, RefusedJson):
        raise HistoryError(f"{place}: {read.rule}")
    if not is_otlp(read):
        raise HistoryError(f"{place}: /resourceSpans is missing")
    try:
        return [*read_spans(read)]
    except HistoryError as error:
        raise HistoryError(f"{place}: {error}") from None


def _read_traces(spans: list[Span]) -> Iterator[ForeignConversation]:
    found = [*join_spans(spans)]
    if not found:
        raise HistoryError("has no span with gen_ai attributes")
    yield from found
