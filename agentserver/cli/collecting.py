"""The collector of cycles in the process of a command.

Owns how often it looks while the command starts, and that it leaves alone what a start has made. Refuses to touch the
process of a program that calls the command line: only ``main`` without arguments asks for it.

Modules, classes and the organism stay as long as the process. The collector would go through them dozens of times
during a start, and once more at the end of the process, and find nothing: a fifth of the time of a start and an end.
"""

from __future__ import annotations

import gc
from typing import Final

SELDOM: Final = 100_000
"""Objects after which the collector looks at the young ones while a command starts."""

USUAL: Final = 700
"""The same for a server that runs: CPython's own number, with which no pause is long."""


def seldom() -> None:
    """Let the collector look seldom."""
    gc.set_threshold(SELDOM)


def settled() -> None:
    """A server is made and is going to run: leave alone what there is, and look as often as usual.

    Does nothing where nobody called ``seldom``.
    """
    if gc.get_threshold()[0] == SELDOM:
        gc.freeze()
        gc.set_threshold(USUAL)


def replaced() -> None:
    """The server has loaded its organism again: what was there at its start may be garbage now."""
    gc.unfreeze()


def ended() -> None:
    """The process ends: what it has made goes with it."""
    gc.freeze()
