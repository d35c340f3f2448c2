"""Observers: what a program is told of everything that happens.

Owns the names that the author of an observer imports. Refuses to know how one is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from agentserver.core.encoding.detail_form import fields
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.wording import WORDING

__all__ = ["AuditRecord", "Event", "Observer", "fields", "told"]

Observer: TypeAlias = Callable[[tuple[AuditRecord, ...]], object]
"""Called with the records of a committed step, those of one conversation in order, in a thread of the observer's own.

The result is not looked at. It can neither stop nor change a message.
"""


def told(record: AuditRecord) -> str:
    """The detail of a record in words, by lines; empty for none. ``fields`` gives the same detail by name."""
    return WORDING.whole(record.detail)
