"""Names for authors of observers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from agentserver.core.encoding.codecs import DETAILS
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.wording import WORDING

if TYPE_CHECKING:
    from agentserver.core.records.details import Detail

__all__ = ["AuditRecord", "Event", "Observer", "describe", "fields"]

Observer: TypeAlias = Callable[[tuple[AuditRecord, ...]], object]
"""Function that is called with the records of each committed step, in a thread of its own.

The records of one conversation come in order. The result is ignored: an observer can neither stop nor change a message.
"""


def describe(record: AuditRecord) -> str:
    """Return the detail of a record as lines of text, empty without one. ``fields`` returns it by name."""
    return WORDING.join_lines(record.detail)


def fields(detail: Detail | None) -> Any:
    """Return a detail by name, its kind and its fields, as values for JSON; None without a detail."""
    return DETAILS.plain(detail)
