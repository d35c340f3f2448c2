"""The frames that a worker on another machine and a server exchange: those of the wall, and three more.

Each is the body of a request or of its answer. A worker asks for a call, says that it begins with it, and from then on
that it lives; it passes on what the handler asks, and ends with the handler's result.

Owns the shapes and their bounds. Refuses to know HTTP.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked

from agentserver.foreign_json.models import ForeignModel
from agentserver.foreign_json.reading import JsonLimits, RefusedJson
from agentserver.worker import frames

__all__ = ["AliveFrame", "Answer", "FrameCodec", "GivenFrame", "HeardFrame", "Spoken", "TakeFrame"]

_STRICT = ConfigDict(extra="forbid", strict=True)
_T = TypeVar("_T")


@checked(frozen=True, slots=True, config=_STRICT)
class TakeFrame:
    """A worker wants a call.

    Args:
        version: of the frames that it understands.
        wait: seconds for which it waits for one.
        kind: the shape.
    """

    version: int
    wait: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]
    kind: Literal["take"] = "take"


@checked(frozen=True, slots=True, config=_STRICT)
class AliveFrame:
    """The worker begins with a call, or works on it."""

    call: int
    kind: Literal["alive"] = "alive"


@checked(frozen=True, slots=True, config=_STRICT)
class HeardFrame:
    """The server has taken a frame; a question has no answer yet."""

    call: int
    kind: Literal["heard"] = "heard"


@checked(frozen=True, slots=True, config=_STRICT)
class GivenFrame:
    """A call for a worker.

    Args:
        key: names the call to this worker alone.
        call: the call.
        kind: the shape.
    """

    key: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    call: frames.CallFrame
    kind: Literal["given"] = "given"


Spoken: TypeAlias = (
    AliveFrame | frames.ProgressFrame | frames.CompleteFrame | frames.ReturnedFrame | frames.FailedFrame
)
"""The frames of a worker about a call."""
Answer: TypeAlias = GivenFrame | HeardFrame | frames.CompletedFrame
"""The frames of a server."""


class FrameCodec:
    """Reads frames.

    Args:
        longest: bytes of a frame.
    """

    def __init__(self, longest: int) -> None:
        self._limits = JsonLimits(bytes=longest, values=frames.VALUES, members=frames.MEMBERS)
        self._take: ForeignModel[TakeFrame] = ForeignModel(TakeFrame)
        self._spoken: ForeignModel[Spoken] = ForeignModel(Annotated[Spoken, Field(discriminator="kind")])
        self._answer: ForeignModel[Answer] = ForeignModel(Annotated[Answer, Field(discriminator="kind")])

    def take(self, data: bytes) -> TakeFrame:
        """Read what asks for a call. Raises FrameError."""
        return self._read(self._take, data)

    def spoken(self, data: bytes) -> Spoken:
        """Read a worker's frame. Raises FrameError."""
        return self._read(self._spoken, data)

    def answer(self, data: bytes) -> Answer:
        """Read a server's frame. Raises FrameError."""
        return self._read(self._answer, data)

    def _read(self, form: ForeignModel[_T], data: bytes) -> _T:
        found = form.read(data, self._limits)
        if isinstance(found, RefusedJson):
            raise frames.FrameError(str(found))
        return found
