"""The words that spans hold of messages and of details.

Owns what of a message is told where spans hold any, and the rule that a detail names. Refuses to know spans, and to
take secrets out, which is done before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from agentserver.core.records.details import NAMES, Grounds, GuardNote, GuardQuestions, HandoffAttempt
from agentserver.findings import Findings
from agentserver.telemetry.names import Attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.core.records.details import Detail

CONTENT: Final = 8_000
"""Characters of a message, where spans hold any."""


def content(agent: bool, asked: bytes, said: Sequence[bytes]) -> tuple[tuple[str, str], ...]:  # noqa: FBT001 - within this module
    """The messages of a delivery, in the form that the conventions have for each kind of span."""
    given = asked.decode("utf-8", "replace")[:CONTENT]
    answered = b"\n".join(said).decode("utf-8", "replace")[:CONTENT]
    if agent:
        return (Attribute.INPUT, _message("user", given)), (Attribute.OUTPUT, _message("assistant", answered))
    return (Attribute.ARGUMENTS, given), (Attribute.RESULT, answered)


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def rule(detail: Detail) -> str:
    """The rule that a detail names, from the closed sets of the server and its guards."""
    match detail:
        case Findings():
            return ",".join(dict.fromkeys(one.rule for one in detail.findings)) or detail.decision
        case GuardNote():
            return detail.guard
        case GuardQuestions():
            return ",".join(one.guard for one in detail.asked)
        case Grounds():
            return detail.ground.value
        case HandoffAttempt():
            return detail.reason or detail.result
        case _:
            return NAMES[type(detail)]
