"""Numbers of examples of property tests, by profile."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
"""Examples of a test that names no number, in the usual profile."""


def examples(usual: int) -> int:
    """Scale a test's usual number of examples to the profile: fewer in ``quick``, more in ``fuzz``."""
    return max(1, usual * settings().max_examples // USUAL)
