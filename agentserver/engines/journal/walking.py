"""The steps of a conversation in SQL: each names the one before it, and every 64th is in an index.

An index of all steps would have a page of its own for each long conversation, and most transactions would write one
page of it for each of their steps. So the steps are read from the last one back, which the row of the conversation
names, or from an indexed one. The chain and the seal cover these numbers.
"""

from __future__ import annotations

from typing import Final

APART: Final = 64
"""Versions from one indexed step to the next."""

_LAST: Final = "(select c.last from conversation c where c.number = ?1)"
_INDEXED: Final = (
    f"coalesce((select i.number from step i where i.conversation = ?1 and i.version % {APART} = 0"  # noqa: S608 - our own text
    f" and i.version >= ?3 order by i.version limit 1), {_LAST})"
)


def _format_walk(start: str) -> str:
    """Format the steps before and at a number. A step that names a later one by damage ends the walk."""
    return (
        "(with recursive walk(number, version, previous) as ("  # noqa: S608 - our own text
        f" select b.number, b.version, b.previous from step b where b.number = {start} and b.conversation = ?1"
        " union all select b.number, b.version, b.previous from walk w join step b on b.number = w.previous"
        " and b.conversation = ?1 and b.version < w.version where w.version > ?2 + 1)"
        " select number from walk where version > ?2) as w"
        " join step as s on s.number = w.number and s.conversation = ?1"
    )


STEPS: Final = _format_walk(_LAST)
"""The steps ``s`` of the conversation ``?1`` after the version ``?2``."""

INDEXED_STEPS: Final = "step s where s.conversation = ?1 and s.version > ?2"
"""The same, also of a conversation without a row, where an index has all steps."""

STEPS_UNTIL: Final = _format_walk(_INDEXED)
"""The steps ``s`` of the conversation ``?1`` after the version ``?2`` and up to ``?3`` or some more."""
