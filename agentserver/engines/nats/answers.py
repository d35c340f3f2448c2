"""The broker's answers to what is to be stored: kept at a place, refused, or nothing that is known.

Owns what an answer means by itself. Refuses to know what follows from it.
"""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.broker.address import BrokerError
from agentserver.broker.link import PermissionDeniedError
from agentserver.broker.remedies import ROOM
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.broker.link import Link

UNDECIDED: Final = 10164
"""The broker's error for an expectation that it did not look at, since another one is on its way: it says nothing."""

IN_PROCESS: Final = 10158
"""Its error for an id that it has, or is about to have: it says nothing."""

FORGOTTEN: Final = 10037
"""Its error for a place at which it keeps nothing."""

_DIGITS: Final = 20
"""Of the last place that a stream can have."""

AWAY: Final = 503
"""Its code for what it cannot do just now: without a leader, or without room."""

STORE_FAILED: Final = 10077
"""Its error for a stream that did not take something. It keeps nothing of it where the stream is at its maximum."""

NO_ROOM: Final = 10023
"""Its error for storage that is used up, before it keeps anything."""

ENOUGH: Final = 100
"""Refusals of an entry that may have been kept before, after which it is given up: a few seconds."""

ANSWER: Final = 5.0
"""Seconds for an answer of the broker."""


class OversizeError(EngineError):
    """The message is larger than the broker takes by now.

    Args:
        unknown: whether it may have been kept before.
    """

    def __init__(self, *, unknown: bool) -> None:
        super().__init__("it is larger than the broker takes (max_payload)")
        self.unknown = unknown


class UnsettledError(EngineError):
    """The broker refuses an entry each time, and may have kept it before."""


class BrokerAnswer(NamedTuple):
    """The broker's answer to something that was to be stored: its place, or the number of an error and its words."""

    place: int = 0
    error: int = 0
    words: str = ""


def answer_of(data: bytes) -> BrokerAnswer | None:
    """The answer in these bytes; None when they are none."""
    try:
        said = json.loads(data)
        error = said.get("error")
        if error is not None:
            answer = BrokerAnswer(0, int(error.get("err_code") or -1), str(error.get("description", "")))
            return answer if error.get("code") != AWAY or _is_full(answer) else None
        return BrokerAnswer(int(said["seq"]))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _is_full(answer: BrokerAnswer) -> bool:
    """True where nothing is kept for want of room."""
    return answer.error == NO_ROOM or (answer.error == STORE_FAILED and answer.words.startswith("maximum "))


def last_of(words: str) -> float:
    """The place that an expectation was not met with, as the broker's words end in it; past all places without one."""
    place = words.rpartition(" ")[2]
    return int(place) if place.isdecimal() and len(place) <= _DIGITS else inf


async def store(
    link: Link, subject: str, data: bytes, headers: Mapping[str, str], seconds: float = ANSWER
) -> BrokerAnswer | None:
    """Have the broker store a message once; None when it is not known whether it has."""
    try:
        return answer_of((await link.ask(subject, data, seconds, headers)).data)
    except PermissionDeniedError as error:
        return BrokerAnswer(0, -1, str(error))
    except BrokerError:
        return None


def refusal(answer: BrokerAnswer, times: int, *, unknown: bool) -> EngineError | None:
    """The error that a refusal is, or None where nothing follows from it yet.

    Args:
        answer: of the broker: an error.
        times: that it was refused before.
        unknown: whether it may have been kept before.
    """
    if answer.error in {UNDECIDED, IN_PROCESS} or (unknown and times < ENOUGH):
        return None
    return (UnsettledError if unknown else EngineError)(f"the broker keeps nothing: {answer.words}")


def unkept(answer: BrokerAnswer | None) -> str:
    """The words for a note that was not kept, and the way out."""
    return "it does not answer" if answer is None else f"{answer.words} ({ROOM})"
