"""Payloads of the jobs."""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import xmlify


@xmlify
@dataclass(frozen=True)
class Job:
    """Something to do."""

    act: str
    about: str = ""


@xmlify
@dataclass(frozen=True)
class Sum:
    """Something for the other."""

    act: str


@xmlify
@dataclass(frozen=True)
class Ask:
    """Something for the server."""

    act: str


@xmlify
@dataclass(frozen=True)
class Done:
    """What came of it."""

    text: str


@xmlify
@dataclass(frozen=True)
class Count:
    """How often a thread was here."""

    number: int
