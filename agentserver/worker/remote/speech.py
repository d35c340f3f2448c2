"""The frames that a worker on another machine and a server exchange: those of the wall, and three more.

Each is the body of a request or of its answer. A worker asks for a call, says that it begins with it, and from then on
that it lives; it passes on what the handler asks, and ends with the handler's result.

Owns the shapes and their bounds. Refuses to know HTTP.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agentserver.foreign_json.reading import JsonLimits
from agentserver.worker import frames
from agentserver.worker.frames import read_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.codec import ValueCodec

__all__ = [
    "AliveFrame", "Answer", "FrameCodec", "GivenFrame", "HeardFrame", "Spoken", "TakeFrame", "dump_answer",
    "dump_asked",
]  # fmt: skip

LONGEST_WAIT: Final = 3600.0
"""Seconds for which a worker may wait for a call."""


@dataclass(frozen=True, slots=True)
class TakeFrame:
    """A worker wants a call.

    Args:
        version: of the frames that it understands.
        wait: seconds for which it waits for one.
    """

    version: int
    wait: float


@dataclass(frozen=True, slots=True)
class AliveFrame:
    """The worker begins with a call, or works on it."""

    call: int


@dataclass(frozen=True, slots=True)
class HeardFrame:
    """The server has taken a frame; a question has no answer yet."""

    call: int


@dataclass(frozen=True, slots=True)
class GivenFrame:
    """A call for a worker.

    Args:
        key: names the call to this worker alone.
        call: the call.
    """

    key: str
    call: frames.CallFrame


Spoken: TypeAlias = (
    AliveFrame | frames.ProgressFrame | frames.CompleteFrame | frames.ReturnedFrame | frames.FailedFrame
)
"""The frames of a worker about a call."""
Answer: TypeAlias = GivenFrame | HeardFrame | frames.CompletedFrame
"""The frames of a server."""


def _check_wait(frame: TakeFrame) -> None:
    if not 0 <= frame.wait <= LONGEST_WAIT:
        raise ValueError


def _check_key(frame: GivenFrame) -> None:
    if _KEY.fullmatch(frame.key) is None:
        raise ValueError


_KEY: Final = re.compile("[0-9a-f]{32}")
_TAGS: Final = {AliveFrame: "alive", GivenFrame: "given", HeardFrame: "heard"}
_CHECKS: Final[Mapping[type, Callable[[Any], object]]] = {TakeFrame: _check_wait, GivenFrame: _check_key}
_TAKE: Final[ValueCodec[TakeFrame]] = frames.derive_frames(TakeFrame, _TAGS, _CHECKS)
_SPOKEN: Final[ValueCodec[Spoken]] = frames.derive_frames(Spoken, _TAGS, _CHECKS)
_ANSWER: Final[ValueCodec[Answer]] = frames.derive_frames(Answer, _TAGS, _CHECKS)


def dump_asked(frame: TakeFrame | Spoken) -> bytes:
    """Write a worker's frame. Raises ValueError for texts that are not Unicode."""
    if isinstance(frame, TakeFrame):
        return frames.dump_frame(_TAKE, frame)
    return frames.dump_frame(_SPOKEN, frame)


def dump_answer(frame: Answer) -> bytes:
    """Write a server's frame. Raises ValueError for texts that are not Unicode."""
    return frames.dump_frame(_ANSWER, frame)


class FrameCodec:
    """Reads frames.

    Args:
        longest: bytes of a frame.
    """

    def __init__(self, longest: int) -> None:
        self._limits = JsonLimits(bytes=longest, values=frames.VALUES, members=frames.MEMBERS)

    def take(self, data: bytes) -> TakeFrame:
        """Read what asks for a call. Raises FrameError."""
        return read_frame(_TAKE, data, self._limits)

    def spoken(self, data: bytes) -> Spoken:
        """Read a worker's frame. Raises FrameError."""
        return read_frame(_SPOKEN, data, self._limits)

    def answer(self, data: bytes) -> Answer:
        """Read a server's frame. Raises FrameError."""
        return read_frame(_ANSWER, data, self._limits)
