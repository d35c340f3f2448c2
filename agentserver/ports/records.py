"""Protocols of the stream of committed records: sinks, and the source that they attach to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.records.audit import AuditRecord

Records: TypeAlias = "tuple[AuditRecord, ...]"
"""The records of one committed step, in order."""


class Sink(Protocol):
    """Function that receives the records of each committed step.

    It is called on the event loop and must not block. An exception is logged, and later steps still reach it. A sink
    that needs more time puts them into a queue of its own.
    """

    def __call__(self, records: Records, /) -> object:
        """Receive the records of one step."""


class RecordSource(Protocol):
    """Stream of records that sinks attach to."""

    def attach(self, sink: Sink) -> Callable[[], None]:
        """Call a sink with the records of each later step. Returns a function that detaches it."""
