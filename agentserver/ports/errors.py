"""Errors of engines and of gateways' requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentserver.core.messages import EventPlace
    from agentserver.core.receipts import Receipt
    from agentserver.ports.ingress import RejectReason


class EngineError(Exception):
    """The engine could not commit and stored no part of the outcome."""


class QuotaError(RuntimeError):
    """The principal has reached a quota of its own."""


class ConflictError(EngineError):
    """The conversation has changed since the decision: load it and decide again."""


class FencedError(EngineError):
    """Another process has the conversation now: drop it, without retrying or waiting."""


class UnheardError(EngineError):
    """No outcome arrived in time: the request is stored for the owner of the conversation and may still take effect."""

    def __init__(self) -> None:
        super().__init__("no outcome arrived in time: the request is stored and may still take effect")


class UnfitError(EngineError):
    """The outcome itself cannot be stored, now or later."""


class DamagedError(EngineError):
    """A conversation cannot be read. The others can."""


class RepeatedError(EngineError):
    """The same message was committed before under its sender's id; this one was not stored."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__("a message is there already under this id of its sender's")
        self.receipt = receipt


class OtherMessageError(ValueError):
    """Another message was committed before under this sender's id; this one was not stored."""


class UnkeptError(RuntimeError):
    """A message was not stored and has no effect. ``why`` is the reason."""

    def __init__(self, why: RejectReason) -> None:
        super().__init__(_UNKEPT[str(why)])
        self.why = why


_UNKEPT = {
    "stopping": "the server is stopping or not running",
    "over": "the conversation has ended",
    "unkept": "the server cannot keep messages at present",
}


class ForgottenError(LookupError):
    """Some events after a place are no longer stored; all after ``since`` are."""

    def __init__(self, since: EventPlace) -> None:
        super().__init__("some events after this place are no longer stored")
        self.since = since
