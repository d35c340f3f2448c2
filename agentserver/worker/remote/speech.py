"""The frames that a worker elsewhere and a server exchange: those of the wall, and three more.

A ticket in the queue holds nothing. A worker takes it to the server, which gives the call to the first that comes, and
to no other. From then on the worker tells the server that it lives, passes on what the handler asks, and ends with what
the handler gave. Every word is the worker's; the server only answers.

Owns the shapes and their bounds. Refuses to know a broker.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked

from agentserver.foreign_json.models import ForeignModel
from agentserver.foreign_json.reading import JsonLimits, RefusedJson
from agentserver.worker import frames

__all__ = ["AliveFrame", "Answer", "HeardFrame", "Spelling", "Spoken", "TakeFrame"]

_STRICT = ConfigDict(extra="forbid", strict=True)
_T = TypeVar("_T")


@checked(frozen=True, slots=True, config=_STRICT)
class TakeFrame:
    """A worker wants the call of a ticket; the answer is the call, or that it is not to be had.

    Args:
        version: of the frames that it understands.
        taker: of this worker for this ticket: asked again under the same, it is given the same.
        kind: the shape.
    """

    version: int
    taker: Annotated[str, Field(min_length=1, max_length=100)]
    kind: Literal["take"] = "take"


@checked(frozen=True, slots=True, config=_STRICT)
class AliveFrame:
    """The worker works on a call."""

    call: int
    kind: Literal["alive"] = "alive"


@checked(frozen=True, slots=True, config=_STRICT)
class HeardFrame:
    """The server has heard."""

    call: int
    kind: Literal["heard"] = "heard"


Spoken: TypeAlias = (
    TakeFrame
    | AliveFrame
    | frames.ProgressFrame
    | frames.CompleteFrame
    | frames.ReturnedFrame
    | frames.FailedFrame
)
"""The frames of a worker."""
Answer: TypeAlias = (
    frames.CallFrame | frames.CancelFrame | HeardFrame | frames.CompletedFrame | frames.FailedFrame
)
"""The frames of a server: CancelFrame is for what it does not wait for, FailedFrame for whom it does not understand."""


class Spelling:
    """Reads and writes what is said.

    Args:
        longest: bytes of what is read.
    """

    def __init__(self, longest: int) -> None:
        self._limits = JsonLimits(bytes=longest, values=frames.VALUES, members=frames.MEMBERS)
        self._spoken: ForeignModel[Spoken] = ForeignModel(Annotated[Spoken, Field(discriminator="kind")])
        self._answer: ForeignModel[Answer] = ForeignModel(Annotated[Answer, Field(discriminator="kind")])

    def spoken(self, data: bytes) -> Spoken:
        """A worker's frame as it is read. Raises FrameError."""
        return self._read(self._spoken, data)

    def answer(self, data: bytes) -> Answer:
        """A server's answer as it is read. Raises FrameError."""
        return self._read(self._answer, data)

    def _read(self, form: ForeignModel[_T], data: bytes) -> _T:
        found = form.read(data, self._limits)
        if isinstance(found, RefusedJson):
            raise frames.FrameError(str(found))
        return found
