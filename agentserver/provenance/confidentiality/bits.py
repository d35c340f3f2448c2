"""Counts the bits that a call can leak by its choices: links, letter case, order and numbers.

Each count is the length of a code word in a prefix code of the choices, so the sum over a conversation bounds what a
receiver can learn from all of them, the number of calls included.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.provenance.evidence.destinations import Destination

CALL: Final = 1.0
"""Bits that making a call leaks."""

FRAGMENT: Final = 8.0
"""Bits of each character in a link's fragment, which the authority form omits."""


class Choice(NamedTuple):
    """Choice that a call made.

    Args:
        what: a description for people.
        bits: bits that it can carry, at least 0.
    """

    what: str
    bits: float


def sum_bits(parts: Iterable[Choice]) -> float:
    """Sum the bits of several choices."""
    return math.fsum(part.bits for part in parts)


def choice_bits(offered: int, taken: int = 1) -> float:
    """Count the bits in an unordered selection from ``offered`` things."""
    offered = max(offered, taken)
    return max(0.0, _log2(offered) - _log2(taken) - _log2(offered - taken))


def order_bits(count: int) -> float:
    """Count the bits in the order of some things."""
    return _log2(count)


def number_bits(value: int) -> float:
    """Count the bits of a number from 0, as the length of its Elias gamma code."""
    return 2.0 * (value + 1).bit_length() - 1


def case_bits(letters: str) -> float:
    """Count the bits in the case of letters."""
    return float(sum(char.upper() != char.lower() for char in letters))


def spelling_bits(place: Destination) -> float:
    """Count the bits in a link's case, port, last slash, scheme and fragment, beyond its authority form."""
    if place.written == place.key:
        return 0.0
    plain, _, fragment = place.written.partition("#")
    head = plain[: len(plain) - len(place.path) - len(place.query)]
    bits = 1.0 + FRAGMENT * len(fragment) + bool(fragment)
    return bits + (case_bits(head) if head != head.lower() else 0.0)


def _log2(count: int) -> float:
    """Compute the binary logarithm of a factorial."""
    return math.lgamma(count + 1) / math.log(2)
