"""What the sandbox takes and gives. The server imports this module; the handler's own it never does."""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import xmlify


@xmlify
@dataclass(frozen=True)
class Code:
    """A piece of Python, as a model wrote it."""

    text: str


@xmlify
@dataclass(frozen=True)
class Printed:
    """What it printed."""

    text: str
