"""Spans and their parts, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.trace.traceparent import Traceparent

Value: TypeAlias = str | int | float | tuple[str, ...]
Pair: TypeAlias = tuple[str, Value]


class SpanEvent(NamedTuple):
    """An event of a span; ``at`` in seconds since the epoch."""

    name: str
    at: float
    attributes: tuple[Pair, ...] = ()


class About(NamedTuple):
    """The common parts of spans of one name."""

    name: str
    attributes: tuple[Pair, ...]


class Span(NamedTuple):
    """A span that is over.

    Args:
        trace: 16 bytes.
        id: 8 bytes.
        parent: 8 bytes; empty for a request's.
        about: its name, and attributes that others have too.
        began: in seconds since the epoch.
        ended: likewise.
        error: the code of its failure; empty for none.
        link: whence its request came.
        client: whether it is a call of something outside.
    """

    trace: bytes
    id: bytes
    parent: bytes
    about: About
    began: float
    ended: float
    attributes: Sequence[Pair] = ()
    events: Sequence[SpanEvent] = ()
    error: str = ""
    link: Traceparent | None = None
    client: bool = False
