"""Reads and writes W3C ``traceparent``, and passes it from a gateway to the telemetry of the request.

An outside caller chooses none of our ids: the request only links to its span.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Traceparent", "find_caller", "format_current", "link_requests", "parse_traceparent"]

_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[!-~]{0,200})?")

LONGEST: Final = 300
"""Characters that are considered."""


class Traceparent(NamedTuple):
    """Reference to a span.

    Args:
        trace: 16 bytes.
        span: 8 bytes.
    """

    trace: bytes
    span: bytes


_caller: ContextVar[Traceparent | None] = ContextVar("caller", default=None)


def parse_traceparent(text: object) -> Traceparent | None:
    """Parse a ``traceparent``; None if it is invalid."""
    found = _FORM.fullmatch(text) if isinstance(text, str) and len(text) <= LONGEST else None
    if found is None:
        return None
    version, trace, span, rest = found.groups()
    if version == "ff" or (version == "00" and rest) or not (int(trace, 16) and int(span, 16)):
        return None
    return Traceparent(bytes.fromhex(trace), bytes.fromhex(span))


@contextmanager
def link_requests(text: object) -> Iterator[None]:
    """Link the requests that are sent within the block to the span that ``text`` names, if any."""
    token = _caller.set(parse_traceparent(text))
    try:
        yield
    finally:
        _caller.reset(token)


def format_current() -> str | None:
    """Format the current span as a ``traceparent``; None without one.

    That is OpenTelemetry's current span, whose API is used only if it is already imported.
    """
    api = sys.modules.get("opentelemetry.trace")
    found = None if api is None else api.get_current_span().get_span_context()
    if found is None or not found.is_valid:
        return None
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags & 1:02x}"


find_caller: Final = _caller.get
"""Returns the span that sends are linked to; None if unknown. Called at every step, so it has no frame of Python."""
