"""The bits that a call can carry out by its choices: which link, in which case, in which order, with which number.

Owns the counting. Each count is the length of a code word of a prefix code that tells the choice, so that the sum over
a conversation bounds what a receiver can learn from all of them, the number of calls included. Refuses to know what was
offered, and to decide.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.provenance.evidence.destinations import Destination

CALL: Final = 1.0
"""Bits of a call as such: it was made, or it was not."""

FRAGMENT: Final = 8.0
"""Bits of each character behind the number sign of a link, which the authority form leaves out."""


class Choice(NamedTuple):
    """One choice of a call.

    Args:
        what: the choice, for people.
        bits: that it can carry, at least 0.
    """

    what: str
    bits: float


def sum_bits(parts: Iterable[Choice]) -> float:
    """The bits of several choices."""
    return math.fsum(part.bits for part in parts)


def choice_bits(offered: int, taken: int = 1) -> float:
    """The bits in which of ``offered`` things were taken, without their order."""
    offered = max(offered, taken)
    return max(0.0, _log2(offered) - _log2(taken) - _log2(offered - taken))


def order_bits(count: int) -> float:
    """The bits in the order of so many things."""
    return _log2(count)


def number_bits(value: int) -> float:
    """The bits of a number from 0 on: the length of its Elias gamma code. Small numbers are cheap, none is free."""
    return 2.0 * (value + 1).bit_length() - 1


def case_bits(letters: str) -> float:
    """The bits in the case of letters."""
    return float(sum(char.upper() != char.lower() for char in letters))


def spelling_bits(place: Destination) -> float:
    """The bits in a link's spelling beyond its authority form: case, port, last slash, scheme and fragment."""
    if place.written == place.key:
        return 0.0
    plain, _, fragment = place.written.partition("#")
    head = plain[: len(plain) - len(place.path) - len(place.query)]
    bits = 1.0 + FRAGMENT * len(fragment) + bool(fragment)
    return bits + (case_bits(head) if head != head.lower() else 0.0)


def _log2(count: int) -> float:
    """The logarithm of a factorial."""
    return math.lgamma(count + 1) / math.log(2)
