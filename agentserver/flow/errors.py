"""Errors that a flow can catch, and those that end it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from agentserver.contract import Code, SystemError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Refused(Exception):  # noqa: N818 - the word for what happened to the message
    """Message of a flow that the system refused, or whose listener failed.

    A flow that does not catch it passes the refusal on to its caller if it is the answer that it has just got.
    """

    def __init__(self, error: SystemError, to: str) -> None:
        super().__init__(f"{to}: {error.code.value}: {error.message}")
        self.error, self.to = error, to

    @property
    def code(self) -> Code:
        """The reason."""
        return self.error.code

    @property
    def retry_allowed(self) -> bool:
        """True when a corrected message may be sent again."""
        return self.error.retry_allowed


class Denied(Refused):
    """Message that a rule of the server, a guard or a person denied."""


class TimedOut(Refused):
    """Message whose listener did not answer in time, or an expired ``wait_for``."""


_KINDS: Final[Mapping[Code, type[Refused]]] = MappingProxyType({Code.DENIED: Denied, Code.TIMEOUT: TimedOut})


def convert_answer(payload: Any, to: str) -> Any:
    """Return the payload of an answer, or the exception for a refusal. ``to`` was asked."""
    if not isinstance(payload, SystemError):
        return payload
    return _KINDS.get(payload.code, Refused)(payload, to)


def time_out(seconds: float, of: str) -> TimedOut:
    """Make the exception for an expired ``wait_for``."""
    return TimedOut(SystemError(Code.TIMEOUT, f"no result within {seconds:g} s", retry_allowed=True), of)


class FlowError(RuntimeError):
    """Mistake in the code of a flow. It ends the flow; the caller gets ``internal``."""


class DivergedError(FlowError):
    """Run of a flow from its log that differs from the recorded one."""


class NotDurableError(FlowError):
    """Wait for something else than a message, in a flow, outside ``once``."""


class WrongReplyError(FlowError):
    """Answer of another class than ``reply=`` names, such as a message with which the awaited peer asks back."""
