"""The span on whose behalf somebody calls, as W3C Trace Context writes it.

Owns the form of ``traceparent`` and the way from a gateway, which reads one, to the telemetry of the request that it
sends. Refuses to take anything of it over: who calls from outside chooses no id of ours, so it only links to the span.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Traceparent", "caller", "current", "link_requests", "parse_traceparent"]

_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[!-~]{0,200})?")

LONGEST: Final = 300
"""Characters that are looked at."""


class Traceparent(NamedTuple):
    """A span somewhere.

    Args:
        trace: 16 bytes.
        span: 8 bytes.
    """

    trace: bytes
    span: bytes


_caller: ContextVar[Traceparent | None] = ContextVar("caller", default=None)


def parse_traceparent(text: object) -> Traceparent | None:
    """The span that a ``traceparent`` names; None for anything that is none."""
    found = _FORM.fullmatch(text) if isinstance(text, str) and len(text) <= LONGEST else None
    if found is None:
        return None
    version, trace, span, more = found.groups()
    if version == "ff" or (version == "00" and more) or not (int(trace, 16) and int(span, 16)):
        return None
    return Traceparent(bytes.fromhex(trace), bytes.fromhex(span))


@contextmanager
def link_requests(text: object) -> Iterator[None]:
    """Let the requests that are sent within come from the span that ``text`` names, if it names any."""
    token = _caller.set(parse_traceparent(text))
    try:
        yield
    finally:
        _caller.reset(token)


def current() -> str | None:
    """The span that the present work is part of, as a ``traceparent``; None where there is none.

    It is OpenTelemetry's current one, whose API is looked for only where something has imported it.
    """
    api = sys.modules.get("opentelemetry.trace")
    found = None if api is None else api.get_current_span().get_span_context()
    if found is None or not found.is_valid:
        return None
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags & 1:02x}"


def caller() -> Traceparent | None:
    """The span from which comes what is sent here; None where that is not known."""
    return _caller.get()
