"""The records that an engine keeps of requests that a stopped server left.

Owns how much of them is read. Refuses to know what is told of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.core.encoding.snapshot import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.ports import EngineReader

STEPS: Final = 20_000
"""Steps that are read, of all conversations together; those beyond are told without what was before."""


def left(reader: EngineReader) -> list[list[Sequence[AuditRecord]]]:
    """The records of conversations in which something waits, step by step."""
    found: list[list[Sequence[AuditRecord]]] = []
    if not reader.recorded:
        return found
    room = STEPS
    for key in reader.active():
        try:
            now = reader.load(key)
            if now is None or now.version > room:
                continue
            room -= now.version
            kept = reader.recorded_conversation(key)
            found.append([kept.records_of(step) for step in kept.steps])
        except (UnreadableError, LookupError):
            continue  # what cannot be read is set aside, and told of elsewhere
    return found
