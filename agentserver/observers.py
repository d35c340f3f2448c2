"""Observers: what a program is told of everything that happens.

Owns the names that the author of an observer imports. Refuses to know how one is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from agentserver.core.encoding.codecs import DETAILS
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.wording import WORDING

if TYPE_CHECKING:
    from agentserver.core.records.details import Detail

__all__ = ["AuditRecord", "Event", "Observer", "fields", "told"]

Observer: TypeAlias = Callable[[tuple[AuditRecord, ...]], object]
"""Called with the records of a committed step, those of one conversation in order, in a thread of the observer's own.

The result is not looked at. It can neither stop nor change a message.
"""


def told(record: AuditRecord) -> str:
    """The detail of a record in words, by lines; empty for none. ``fields`` gives the same detail by name."""
    return WORDING.whole(record.detail)


def fields(detail: Detail | None) -> Any:
    """Give a detail by name, its kind and its fields, as values for JSON; None for no detail."""
    return DETAILS.plain(detail)
