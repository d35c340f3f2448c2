"""The note of which listeners the servers of a log have, by which another organism of the same name is told apart.

Owns the rule. Pure: refuses to know where the note is kept.
"""

from __future__ import annotations

import json
from typing import Final

from agentserver.characters.printing import one_line

NOTE: Final = "listeners"
"""The name of the note."""

_SHOWN: Final = 5
_LONGEST: Final = 200


def words(listeners: frozenset[str]) -> str:
    """The note of a server with these listeners."""
    return json.dumps(sorted(listeners))


def objection(note: str, listeners: frozenset[str]) -> str:
    """The reason why a server with these listeners is of another organism; empty when nothing says so.

    Args:
        note: of the server that began last; empty for none.
        listeners: of the one that begins.

    Editions of one organism that are rolled out one after the other share a listener. Two organisms may share one too,
    and are not told apart then.
    """
    try:
        said = json.loads(note)
    except (ValueError, RecursionError):
        return ""
    before = frozenset(map(str, said)) if isinstance(said, list) else frozenset()
    if not before or not listeners or before & listeners:
        return ""
    return (
        f"the log is another organism's: the server that began last has the listeners {_shown(before)}, and this one"
        f" has none of them, but {_shown(listeners)}. Give this organism an engine.nats.name of its own; where it is an"
        " edition of that one, begin an edition first that has a listener of both"
    )


def _shown(listeners: frozenset[str]) -> str:
    first = one_line(", ".join(sorted(listeners)[:_SHOWN]))[:_LONGEST]
    more = len(listeners) - _SHOWN
    return f"{first} and {more} more" if more > 0 else first
