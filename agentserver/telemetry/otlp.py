"""Encoding of spans as OTLP: protobuf, by the messages of ``opentelemetry-proto``.

Common parts are encoded once: readers of protobuf merge messages that follow each other. Never fails: a text that UTF-8
cannot encode loses those characters.
"""

from __future__ import annotations

import struct
from itertools import chain
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Written

from agentserver.telemetry.spans import Attribute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.telemetry.spans import Pair, Span, SpanEvent, SpanKind, Value

LONGEST: Final = 10_000
"""Characters of a text in a span."""

KNOWN: Final = 4096
"""Attributes, and kinds of spans, whose bytes are cached."""

_PACK_DOUBLE: Final = struct.Struct("<d").pack
_ROOT: Final = struct.Struct("<2s16s2s8scQcQ")
_BELOW: Final = struct.Struct("<2s16s2s8scQcQ2s8s")
"""Trace, span, start and end, and the span above, with the numbers of their fields."""

_INSIDE, _OUTSIDE = b"\x30\x01", b"\x30\x03"
"""Kinds of spans: internal ones, and those of calls to the outside."""

_LAST: Final = 1.8e10
"""Seconds since the epoch, after which a time cannot be encoded."""


class Encoder:
    """Encoder of spans.

    Args:
        resource: attributes of the server.
        version: of the library.
    """

    def __init__(self, resource: Mapping[str, Value], version: str = "") -> None:
        self._abouts: dict[SpanKind, bytes] = {}
        self._numbers: dict[str, bytes] = {}
        self._pairs: dict[Pair, bytes] = {}
        self._events: dict[str, tuple[bytes, bytes]] = {}
        self._sizes: dict[int, bytes] = {}
        scope = InstrumentationScope(name="agentserver", version=version)
        described = Resource(attributes=map(_pair, resource.items()))
        self._resource = ResourceSpans(resource=described).SerializeToString()
        self._scope = ScopeSpans(scope=scope).SerializeToString()

    def request(self, spans: Sequence[bytes]) -> bytes:
        """Return the body of a request with these spans, as ``encode_span`` returns them."""
        known = self._sizes.get
        heads = [known(size) or self._encode_size(size) for size in map(len, spans)]
        scoped: bytes = self._scope + b"".join(chain.from_iterable(zip(heads, spans, strict=True)))
        scoped = self._resource + _encode_head(2, len(scoped)) + scoped
        return _encode_head(1, len(scoped)) + scoped

    def _encode_size(self, size: int) -> bytes:
        """Encode the start of a span of so many bytes; most spans have one of a few sizes."""
        if len(self._sizes) >= KNOWN:
            self._sizes.clear()
        head = self._sizes[size] = _encode_head(2, size)
        return head

    def encode_span(self, span: Span) -> bytes:
        """Encode one span."""
        trace, own, parent, about, began, ended, attributes, events, error, link, client = span
        start = int(began * 1e9) if 0 <= began < _LAST else 0
        end = int(ended * 1e9) if 0 <= ended < _LAST else 0
        head = (
            _BELOW.pack(
                b"\x0a\x10", trace, b"\x12\x08", own, b"\x39", start, b"\x41", end, b"\x22\x08", parent
            )
            if parent
            else _ROOT.pack(b"\x0a\x10", trace, b"\x12\x08", own, b"\x39", start, b"\x41", end)
        )
        kind = self._abouts.get(about) or self._encode_kind(about)
        parts = [head, kind, _OUTSIDE if client else _INSIDE]
        known, numbers = self._pairs, self._numbers
        for pair in attributes:
            name, value = pair
            if type(value) is float:  # another one each time
                parts.append((numbers.get(name) or self._encode_name(name)) + _PACK_DOUBLE(value))
            else:
                parts.append(known.get(pair) or self._attribute(pair))
        if events and not (error or link or any(event.attributes for event in events)):
            parts += [self._encode_bare_event(event) for event in events]
        elif events or error or link:
            linked = [Written.Link(trace_id=link.trace, span_id=link.span)] if link else []
            status = Status(code=Status.STATUS_CODE_ERROR) if error else None
            more = [_pair((Attribute.ERROR, error))] if error else []
            rest = Written(links=linked, status=status, attributes=more, events=map(_make_event, events))
            parts.append(rest.SerializeToString())
        return b"".join(parts)

    def _encode_bare_event(self, event: SpanEvent) -> bytes:
        """Encode an event without attributes as a field of a span: nearly every request has one."""
        before, after = self._events.get(event.name) or self._encode_event_name(event.name)
        return before + _compute_nanoseconds(event.at).to_bytes(8, "little") + after

    def _encode_event_name(self, name: str) -> tuple[bytes, bytes]:
        """Encode an event up to its time, and the rest of it."""
        after: bytes = Written.Event(name=_text(name)).SerializeToString()
        found = _encode_head(11, 9 + len(after)) + b"\x09", after
        if len(self._events) < KNOWN:
            self._events[name] = found
        return found

    def _encode_kind(self, about: SpanKind) -> bytes:
        encoded: bytes = Written(
            name=_text(about.name), attributes=map(_pair, about.attributes)
        ).SerializeToString()
        if len(self._abouts) >= KNOWN:
            self._abouts.clear()
        self._abouts[about] = encoded
        return encoded

    def _encode_name(self, name: str) -> bytes:
        """Encode an attribute up to its last 8 bytes, which are its number."""
        before: bytes = Written(attributes=[_pair((name, 1.0))]).SerializeToString()[:-8]
        if len(self._numbers) < KNOWN:
            self._numbers[name] = before
        return before

    def _attribute(self, pair: Pair) -> bytes:
        value = pair[1]
        encoded: bytes = Written(attributes=[_pair(pair)]).SerializeToString()
        if isinstance(value, str) and len(value) <= 100:  # noqa: PLR2004 - what comes again is a name or an id
            if len(self._pairs) >= KNOWN:
                self._pairs.clear()
            self._pairs[pair] = encoded
        return encoded


def count_rejected(answer: bytes) -> int:
    """Return the number of spans that a collector rejected. Raises ValueError for anything but a collector's answer."""
    try:
        response = ExportTraceServiceResponse.FromString(answer)
    except DecodeError as error:
        raise ValueError("no answer of a collector") from error
    return max(0, int(response.partial_success.rejected_spans))


def _encode_head(number: int, size: int) -> bytes:
    """Encode the start of a field of so many bytes."""
    head = bytearray((number << 3 | 2,))
    while size > 0x7F:  # noqa: PLR2004 - seven bits each
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head)


def _compute_nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9) if 0 <= seconds < _LAST else 0


def _pair(pair: Pair) -> KeyValue:
    name, value = _text(pair[0]), pair[1]
    match value:
        case bool():
            return KeyValue(key=name, value=AnyValue(bool_value=value))
        case int():
            return KeyValue(key=name, value=AnyValue(int_value=max(-(2**63), min(value, 2**63 - 1))))
        case float():
            return KeyValue(key=name, value=AnyValue(double_value=value))
        case tuple():
            texts = [AnyValue(string_value=_text(one)) for one in value]
            return KeyValue(key=name, value=AnyValue(array_value=ArrayValue(values=texts)))
        case _:
            return KeyValue(key=name, value=AnyValue(string_value=_text(value)))


def _make_event(event: SpanEvent) -> Written.Event:
    name, at, attributes = event
    return Written.Event(
        name=_text(name), time_unix_nano=_compute_nanoseconds(at), attributes=map(_pair, attributes)
    )


def _text(text: str) -> str:
    return text[:LONGEST].encode("utf-8", "replace").decode()
