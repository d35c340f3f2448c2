"""How many examples a property is tried with.

Owns the way from what a test usually tries to what it tries under ``./run fuzz``.
"""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
"""Examples of a test that names no number, in the usual profile."""


def examples(usual: int) -> int:
    """So many in the usual profile; as many times more in another as that asks for more of every test."""
    return max(usual, usual * settings().max_examples // USUAL)
