"""Remedies: for each refusal and finding its meaning, where to look, and the change that helps.

Owns the one table of them, as values, and how an entry is found. Refuses to judge, and to read what a server has kept:
it knows names alone, and imports nothing else of agentserver. A test compares it with every code of the server.

Internal.
"""

from __future__ import annotations

import re
from typing import Final

from agentserver.remedies import configuration, edges, handoffs, messages, provenance, schemas
from agentserver.remedies.remedy import Remedy

__all__ = ["FAMILIES", "REMEDIES", "Remedy", "found", "of"]

FAMILIES: Final = {
    "code": "Codes of a SystemError, which the sender of a message is told",
    "ground": "Grounds of the server's own, which operators see in traces and logs",
    "guard": "Guards",
    "approval": "Approvals",
    "rule": "Rules of provenance",
    "handoff": "Refused handoffs",
    "step": "Findings of `agentserver plan audit`",
    "hygiene": "Rules about payload schemas",
    "envelope": "Documents that are no envelope",
    "repair": "Payload text that could not be read",
    "completion": "Failures of language models",
    "door": "Answers of the door (HTTP)",
    "unkept": "Messages of which nothing was kept",
    "watch": "Ends of a watch",
    "wall": "Behind the wall",
    "config": "Mistakes of a configuration",
}
"""The kinds of entries, in the order in which they are shown."""

REMEDIES: Final[tuple[Remedy, ...]] = (
    *messages.REMEDIES,
    *provenance.REMEDIES,
    *handoffs.REMEDIES,
    *schemas.REMEDIES,
    *edges.REMEDIES,
    *configuration.REMEDIES,
)
"""The table."""


_CODED: Final = re.compile(r"\[(\w+:[\w -]+)\]\s*$")
"""The code at the end of a printed line."""


def of(family: str, name: str) -> Remedy | None:
    """The entry of one code; None when the table has none."""
    return next((one for one in REMEDIES if (one.family, one.name) == (family, name)), None)


def found(text: str) -> tuple[Remedy, ...]:
    """The entries that a user asks for: by ``name`` or ``family:name``, or by printed lines that end with a code."""
    asked = " ".join(text.split()).lower()
    named = tuple(
        one for one in REMEDIES if asked in {one.name.lower(), one.said.lower(), str(one).lower()} - {""}
    )
    printed = [each[1] for each in map(_CODED.search, text.splitlines()) if each is not None]
    return named or tuple(one for code in dict.fromkeys(printed) for one in REMEDIES if str(one) == code)
