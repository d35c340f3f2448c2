"""The count of words in a value, however they are separated.

Owns the count behind the word budget. Refuses to know languages and meanings: it sees ASCII letters, which is
all that an interpolated value may hold.
"""

from __future__ import annotations

import re
from math import ceil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

BUDGET: Final = 3
"""Words that an interpolated value may spell unless its intent says otherwise."""
MOST: Final = 12
"""The highest budget that an intent may ask for."""
WORD: Final = 10
"""Letters that pass for one word: each begun ten of a longer run count as one more."""
SINGLES: Final = 5
"""Letters standing alone that pass for one word."""
ALPHABET: Final = 8
"""With no more different letters than this, as in hexadecimal, nothing can be spelled."""

_RUNS = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def count(value: str, own: AbstractSet[str] = frozenset()) -> int:
    """Words in ``value``: runs of letters, also where only a capital parts them.

    A single letter is no word by itself, but each ``SINGLES`` of them are one, so that ``i-g-n-o-r-e`` is not
    free. Words in ``own``, lower-case, are not counted.
    """
    runs = [run for run in _RUNS.findall(value) if run.lower() not in own]
    spelled = sum(ceil(len(run) / WORD) for run in runs if len(run) > 1)
    return spelled + sum(len(run) == 1 for run in runs) // SINGLES
