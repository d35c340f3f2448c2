"""Refusals, and the table of SystemError texts: one text per code, so that a refusal reveals nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentserver.contract import Code, SystemError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.core.records.details import Detail


class ServiceUnreachableError(Exception):
    """A remote service could not be reached, so no work was started: the listener is ``busy``."""


@dataclass(frozen=True, slots=True)
class ErrorWording:
    """Text of a code, and whether the sender may retry."""

    message: str
    retry_allowed: bool


ERROR_WORDINGS: dict[Code, ErrorWording] = {
    # The routing text is the contract's own, word for word.
    Code.ROUTING: ErrorWording(
        "Message could not be delivered. Please verify your target and try again.", True
    ),
    Code.VALIDATION: ErrorWording("The payload does not satisfy its schema.", True),
    Code.DENIED: ErrorWording("The message was not permitted.", False),
    Code.TIMEOUT: ErrorWording("No answer was given in time.", True),
    Code.INTERNAL: ErrorWording("The message could not be processed.", False),
    Code.BUDGET: ErrorWording("The conversation has used up its budget.", False),
    Code.BUSY: ErrorWording("The server is busy. Please try again later.", True),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason why a message was not admitted.

    Args:
        code: the one that its sender learns.
        detail: why, for operators only.
        to: the target that the sender named, or else the only receiver; for the log and the audit only.
        corrections: for ``validation``, the necessary changes in the schema's terms.
        root: name of the payload element, if its schema refused it.
        payload_text: that payload as text, if it could be serialised.
        place: index of the refused message in its sender's result, from zero.
    """

    code: Code
    detail: Detail | None = None
    to: str = ""
    corrections: tuple[str, ...] = ()
    root: str = ""
    payload_text: str = ""
    place: int = 0


def make_system_error(code: Code, corrections: Sequence[str] = (), *, final: bool = False) -> SystemError:
    """Make the payload for a code; ``final`` forbids a retry.

    Only ``validation`` shows corrections: every other code has one text.
    """
    wording = ERROR_WORDINGS[code]
    listed = corrections if code is Code.VALIDATION else ()
    message = " ".join([wording.message, *(f"{line}." for line in listed)])
    return SystemError(code, message, wording.retry_allowed and not final)
