"""What the walled handlers take and say: the server imports this module, and none of theirs."""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import xmlify


@xmlify
@dataclass(frozen=True)
class Try:
    """An act to try."""

    act: str
    about: str = ""


@xmlify
@dataclass(frozen=True)
class Got:
    """The outcome, as the handler saw it."""

    text: str


@xmlify
@dataclass(frozen=True)
class Count:
    """How often a thread was here."""

    number: int
