"""Injected texts of other lengths than AgentDojo's attack.

Owns the short forms (``words/terse.yaml``) and the long ones. Refuses to change what an
attack does: each text holds the instructions for the compromised agent.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

WORDS = Path(__file__).with_name("words")
LONG = 12
"""Repetitions of the filler before and after a long injection, a little over a kilobyte each."""


@cache
def terse() -> dict[str, dict[str, str]]:
    """By suite and injection its wish in a few words."""
    found: dict[str, Any] = yaml.safe_load((WORDS / "terse.yaml").read_text("utf-8"))
    return found


def shortest(suite: str, injection: str, goal: str) -> str:  # noqa: ARG001  the face of all
    """The wish in a few words. Raises LookupError for an injection that has none."""
    return terse()[suite][injection]


def bare(text: str, goal: str) -> str:  # noqa: ARG001  the face of all
    """The wish alone."""
    return goal


def long(text: str, goal: str) -> str:  # noqa: ARG001  the face of all
    """The attack's own text with much else before and after it."""
    filler = " ".join((WORDS / "filler.txt").read_text("utf-8").split())
    around = "\n\n".join([filler] * LONG)
    return f"{around}\n\n{text}\n\n{around}"
