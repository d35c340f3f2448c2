"""Reader of OpenTelemetry traces with the GenAI conventions, in the JSON form of OTLP.

Read are the spans with ``gen_ai.*`` attributes: tool calls, and the messages of models and agents, in their form since
version 1.37 of the conventions. Spans of one ``gen_ai.conversation.id``, or else of one trace, are a conversation.

The messages may be attributes of the span, of its events, or of a log record of the span
(``gen_ai.client.inference.operation.details``), which exporters write next to the spans as ``resourceLogs``.

Only the outermost agent's user messages are trusted words. Where one agent calls another, as a tool or inside its own
span, a model wrote them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.codec import write_json
from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json
from agentserver.history.foreign import ForeignConversation, HistoryError, ToolCall, ToolResult, UserWords

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from agentserver.history.foreign import ForeignEvent

OPERATION: Final = "gen_ai.operation.name"
CONVERSATION: Final = "gen_ai.conversation.id"
INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
TOOL: Final = "gen_ai.tool.name"
CALL: Final = "gen_ai.tool.call.id"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"

INNER: Final = JsonLimits(bytes=1 << 26, values=1_000_000)
"""Limits of a JSON text inside an attribute."""

DEPTH: Final = 256
"""Spans above a span that are looked at."""

_ASKING: Final = {"chat", "generate_content", "invoke_agent", "text_completion"}
"""Operations that have messages."""

_OLDER: Final = ("gen_ai.user.message", "gen_ai.choice", "gen_ai.content.", "gen_ai.prompt")
"""Beginning of the names of events and attributes that held messages before version 1.37 of the conventions."""

UNKNOWN_TOOL: Final = "unknown_tool"
"""Name of a tool whose call the trace does not hold."""


class Span(NamedTuple):
    """Span of a trace.

    Args:
        trace: id of the trace.
        id: its id.
        parent: id of the span around it; empty for a root.
        start: in nanoseconds since the epoch.
        end: in nanoseconds since the epoch.
        attributes: by name.
        log: whether it is made of a log record of the span, with its messages alone.
        older: whether it has messages in a form that is not read.
    """

    trace: str
    id: str
    parent: str
    start: int
    end: int
    attributes: Mapping[str, Any]
    log: bool = False
    older: bool = False

    @property
    def operation(self) -> str:
        """Name of the operation; empty if it has none."""
        return str(self.attributes.get(OPERATION, ""))


def is_otlp(read: object) -> bool:
    """Check whether a JSON value looks like spans, log records or metrics in the form of OTLP."""
    return isinstance(read, dict) and not read.keys().isdisjoint(_SIGNALS)


_SIGNALS: Final = ("resourceSpans", "resourceLogs", "resourceMetrics")


def read_spans(read: Mapping[str, Any]) -> Iterator[Span]:
    """Yield the spans of an OTLP value, and its log records as spans with their attributes.

    Raises HistoryError, which names the place as a JSON pointer.
    """
    for one, place in _list_items(read, ("resourceSpans", "scopeSpans", "spans")):
        yield _read_span(one, place)
    for one, place in _list_items(read, ("resourceLogs", "scopeLogs", "logRecords")):
        attributes = dict(_read_attributes(one.get("attributes", []), f"{place}/attributes"))
        if attributes.keys() & {INPUT, OUTPUT}:
            trace, own = (str(one.get(name) or "") for name in ("traceId", "spanId"))
            at = _read_time(one.get(_AT) or one.get("observedTimeUnixNano"), place, _AT)
            yield Span(trace, own, "", at, at, attributes, log=True)


def _list_items(read: Mapping[str, Any], names: tuple[str, str, str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the items of every scope of every resource, each with its place as a JSON pointer."""
    top, middle, low = names
    for at, resource in enumerate(_expect_list(read.get(top, []), f"/{top}")):
        place = f"/{top}/{at}/{middle}"
        for scope_at, scope in enumerate(_expect_list(_expect_dict(resource, place).get(middle, []), place)):
            within = f"{place}/{scope_at}/{low}"
            for item_at, one in enumerate(_expect_list(_expect_dict(scope, within).get(low, []), within)):
                yield _expect_dict(one, f"{within}/{item_at}"), f"{within}/{item_at}"


def _read_span(fields: Mapping[str, Any], place: str) -> Span:
    attributes = dict(_read_attributes(fields.get("attributes", []), f"{place}/attributes"))
    older = any(name.startswith(_OLDER) for name in attributes)
    for at, event in enumerate(_expect_list(fields.get("events", []), f"{place}/events")):
        location = f"{place}/events/{at}"
        members = _expect_dict(event, location)
        older = older or str(members.get("name")).startswith(_OLDER)
        for name, value in _read_attributes(members.get("attributes", []), f"{location}/attributes"):
            if name in {INPUT, OUTPUT}:
                attributes.setdefault(name, value)
    trace, own, parent = (str(fields.get(name) or "") for name in ("traceId", "spanId", "parentSpanId"))
    start, end = (_read_time(fields.get(name), place, f"{_START} and {_END}") for name in (_START, _END))
    return Span(trace, own, parent, start, end, attributes, older=older)


NANOSECONDS: Final = 1_000_000_000
"""Nanoseconds of a second."""

_START: Final = "startTimeUnixNano"
_END: Final = "endTimeUnixNano"


_AT: Final = "timeUnixNano"


def _read_time(value: Any, place: str, names: str) -> int:
    """Read a time, which OTLP writes as a text of digits."""
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) <= len(str(1 << 64))):
        raise HistoryError(f"{place}: must have {names} in nanoseconds")
    return int(text)


def _read_attributes(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    for at, pair in enumerate(_expect_list(value, place)):
        one = _expect_dict(pair, f"{place}/{at}")
        if str(one.get("key", "")).startswith("gen_ai."):
            yield str(one["key"]), _read_value(one.get("value"), f"{place}/{at}/value")


def _read_value(wrapped: Any, place: str) -> Any:
    """Read the value of an attribute: a scalar, an array or a list of pairs."""
    one = _expect_dict(wrapped, place)
    for kind, value in one.items():
        match kind:
            case "stringValue" | "boolValue" | "doubleValue" | "bytesValue":
                return value
            case "intValue":
                return int(value) if str(value).lstrip("-").isdecimal() else value
            case "arrayValue":
                items = _expect_list(_expect_dict(value, place).get("values", []), place)
                return [_read_value(item, f"{place}/{at}") for at, item in enumerate(items)]
            case "kvlistValue":
                pairs = _expect_list(_expect_dict(value, place).get("values", []), place)
                return {
                    str(_expect_dict(pair, place).get("key")): _read_value(pair.get("value"), place)
                    for pair in pairs
                }
    return None


def _expect_list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise HistoryError(f"{place}: must be an array")
    return value


def _expect_dict(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise HistoryError(f"{place}: must be an object")
    return value


def join_spans(spans: Iterable[Span]) -> Iterator[ForeignConversation]:
    """Yield the conversations of these spans, in the order of their first ones."""
    ordered = sorted(_merge_logs(spans), key=lambda span: span.start)
    traces = {span.trace: key for span in ordered if (key := span.attributes.get(CONVERSATION))}
    groups: defaultdict[str, list[Span]] = defaultdict(list)
    for span in ordered:
        groups[str(span.attributes.get(CONVERSATION) or traces.get(span.trace) or span.trace)].append(span)
    for key, group in groups.items():
        if not any(span.attributes for span in group):
            continue
        try:
            yield _read_conversation(key, group)
        except HistoryError as error:
            yield ForeignConversation(key, unread=str(error))


def _merge_logs(spans: Iterable[Span]) -> Iterator[Span]:
    """Add the attributes of log records to their spans. A log record without its span becomes a span."""
    found: dict[tuple[str, str], Span] = {}
    for number, span in enumerate(sorted(spans, key=lambda one: one.log)):
        key = (span.trace, span.id or f"{number}")
        known = found.get(key)
        if known is not None and span.log:
            found[key] = known._replace(attributes={**span.attributes, **known.attributes})
        else:
            found[key if known is None else (span.trace, f"{span.id} {number}")] = span
    yield from found.values()


def _read_conversation(key: str, spans: list[Span]) -> ForeignConversation:
    course = _SpanConversation({span.id: span for span in spans})
    for span in spans:
        if span.attributes.get(TOOL) and span.operation in {"execute_tool", ""}:
            course.take_tool(span)
    for span in spans:
        if span.operation != "execute_tool":
            course.take_messages(span)
    events = course.order()
    asks = course.calls or any(span.operation in _ASKING for span in spans)
    if asks and not any(isinstance(event, UserWords) for event in events):
        return ForeignConversation(key, unread=_explain_silence(spans))
    if any(not call.has_arguments for call in course.calls.values()):
        return ForeignConversation(
            key, unread=f"a tool call has no {ARGUMENTS}: record the content of tool calls"
        )
    return ForeignConversation(key, events)


def _explain_silence(spans: Iterable[Span]) -> str:
    """Explain why no words of the user were found."""
    if any(span.older for span in spans):
        return f"its messages are in the form before version 1.37 of the conventions; record them as {INPUT}"
    return f"no span has the user's words ({INPUT}): record the content of messages"


@dataclass(slots=True)
class _Call:
    """Tool call, put together from its span and the messages about it."""

    tool: str
    arguments: Any = None
    has_arguments: bool = False
    called: int = 0
    result: Any = None
    has_result: bool = False
    returned: int = 0


@dataclass(slots=True)
class _SpanConversation:
    """Course of a conversation, put together from its spans."""

    spans: Mapping[str, Span]
    calls: dict[str, _Call] = field(default_factory=dict)
    words: list[tuple[int, UserWords]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _anonymous: Counter[str] = field(default_factory=Counter)

    def take_tool(self, span: Span) -> None:
        """Add the span of a tool call."""
        attributes = span.attributes
        call = _Call(str(attributes[TOOL]), called=span.start, returned=span.end)
        if ARGUMENTS in attributes:
            call.arguments, call.has_arguments = _parse(attributes[ARGUMENTS]), True
            if isinstance(call.arguments, str) and call.arguments.lstrip().startswith(_JSON):
                raise HistoryError(f"{ARGUMENTS} of a call is no JSON text: it may be cut off")
        if RESULT in attributes:
            call.result, call.has_result = _parse(attributes[RESULT]), True
        key = str(attributes.get(CALL) or "")
        if not key:
            key = self._name_call(call.tool, call.arguments, self._anonymous)
        self.calls[key] = call

    def take_messages(self, span: Span) -> None:
        """Add the messages of a model or an agent: its input at its start, and its output at its end."""
        trusted = self._is_outermost(span)
        counted: Counter[str] = Counter()
        for name, at in ((INPUT, span.start), (OUTPUT, span.end)):
            for role, part in _iter_parts(span.attributes.get(name), name):
                self._take_part(role if trusted else "", part, at, counted)

    def _take_part(self, role: str, part: Mapping[str, Any], at: int, counted: Counter[str]) -> None:
        kind = part.get("type")
        if kind == "text" and role == "user":
            text = str(part.get("content", ""))
            if text not in self._seen:
                self._seen.add(text)
                self.words.append((at, UserWords(text)))
        elif kind == "tool_call":
            arguments = _parse(part.get("arguments"))
            tool = str(part.get("name") or UNKNOWN_TOOL)
            key = str(part.get("id") or "") or self._name_call(tool, arguments, counted)
            call = self.calls.setdefault(key, _Call(tool, called=at))
            if not call.has_arguments:
                call.arguments, call.has_arguments = arguments, "arguments" in part
        elif kind == "tool_call_response":
            self._take_response(part, at)

    def _take_response(self, part: Mapping[str, Any], at: int) -> None:
        key = str(part.get("id") or "")
        call = self.calls.get(key) if key else None
        if call is None:
            # The call itself is not in the trace: only its output counts, under the name of an undeclared tool.
            tool = str(part.get("name") or UNKNOWN_TOOL)
            call = self.calls.setdefault(
                key or f"response {len(self.calls)}", _Call(tool, has_arguments=True, called=-1)
            )
        if not call.has_result:
            call.result, call.has_result, call.returned = (
                _parse(part.get("response", part.get("result"))),
                True,
                at,
            )

    def _name_call(self, tool: str, arguments: Any, counted: Counter[str]) -> str:
        """Name a call without an id by its tool, its arguments and how often it came before."""
        about = f"{tool} {write_json(arguments).decode()}"
        counted[about] += 1
        return f"{about} {counted[about]}"

    def _is_outermost(self, span: Span) -> bool:
        """Check whether the user messages of a span are those of the person, and not of another agent."""
        agents = 0
        for _ in range(DEPTH):
            agents += span.operation == "invoke_agent"
            above = self.spans.get(span.parent)
            if above is None:
                return agents <= 1
            if above.operation == "execute_tool":
                return False
            span = above
        return False

    def order(self) -> tuple[ForeignEvent, ...]:
        """Return the events in order of time; at one time, words come first and calls last."""
        found: list[tuple[int, int, int, ForeignEvent]] = [
            (at, 0, n, words) for n, (at, words) in enumerate(self.words)
        ]
        for number, call in enumerate(self.calls.values()):
            if call.called >= 0:
                at = call.called / NANOSECONDS
                found.append((call.called, 2, number, ToolCall(call.tool, call.arguments, at)))
            if call.has_result:
                returned = max(call.returned, call.called)
                result = ToolResult(call.tool, call.arguments, call.result, returned / NANOSECONDS)
                found.append((returned, 1 if call.returned > call.called else 3, number, result))
        return tuple(event for *_, event in sorted(found, key=lambda one: one[:3]))


def _iter_parts(messages: Any, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each part of messages with the role of its message. Raises HistoryError."""
    read = _parse(messages)
    if isinstance(read, str):
        raise HistoryError(f"{name} is no JSON text of an array: it may be cut off")
    for message in _expect_list([] if read is None else read, name):
        fields = _expect_dict(message, name)
        for part in _expect_list(fields.get("parts", []), f"{name}: parts"):
            yield str(fields.get("role", "")), _expect_dict(part, f"{name}: parts")


_JSON: Final = ("{", "[")
"""Beginnings of a JSON text of an object or array."""


def _parse(value: Any) -> Any:
    """Return a value of an attribute, parsed if it is a JSON text of an object or array."""
    if not isinstance(value, str) or not value.lstrip().startswith(_JSON):
        return value
    found = parse_json(value, INNER)
    if not isinstance(found, RefusedJson):
        return found
    if found.line:
        return value  # a text that only looks like JSON
    raise HistoryError(f"a JSON text in an attribute {found.rule}")
