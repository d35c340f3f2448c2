"""The errors that cross the seams.

Owns which trouble of an engine or of a gateway's has a name. Refuses to know how one comes about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentserver.core.messages import EventPlace
    from agentserver.core.receipts import Receipt
    from agentserver.ports.ingress import RejectReason


class EngineError(Exception):
    """The engine could not commit, and kept nothing of the outcome."""


class QuotaError(RuntimeError):
    """The principal has as much of something as it may have. Others are not concerned."""


class ConflictError(EngineError):
    """The conversation has moved on since the outcome was decided: load it and decide again."""


class FencedError(EngineError):
    """Another process has the conversation now: let go of it. Nothing is decided again and nothing waited for."""


class UnheardError(EngineError):
    """Nothing was heard of it in time: it is kept for the process that has the conversation, and may be done yet."""

    def __init__(self) -> None:
        super().__init__("nothing was heard of it in time: it is kept, and may be carried out yet")


class UnfitError(EngineError):
    """The outcome itself cannot be kept: the engine's answer to it stays the same."""


class DamagedError(EngineError):
    """A conversation cannot be read. The others can."""


class RepeatedError(EngineError):
    """A message is there already under the id that its sender gave this one: nothing of this one is kept."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__("a message is there already under this id of its sender's")
        self.receipt = receipt


class OtherMessageError(ValueError):
    """Another message is there already under this id of the sender's: nothing of this one is kept."""


class UnkeptError(RuntimeError):
    """Nothing of a message was kept, so that nothing will come of it. ``why`` says why."""

    def __init__(self, why: RejectReason) -> None:
        super().__init__(_UNKEPT[str(why)])
        self.why = why


_UNKEPT = {
    "stopping": "the server is stopping or not running",
    "over": "the conversation is over",
    "unkept": "the server cannot keep messages at present",
}


class ForgottenError(LookupError):
    """Events that left after a place are not kept any more. After ``since`` everything is."""

    def __init__(self, since: EventPlace) -> None:
        super().__init__("some of what left after this place is not kept any more")
        self.since = since
