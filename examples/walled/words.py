"""Payloads of the sandbox. The server imports this module, but never that of the handler."""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import xmlify


@xmlify
@dataclass(frozen=True)
class Code:
    """Python code that a model wrote."""

    text: str


@xmlify
@dataclass(frozen=True)
class Output:
    """Output of the code."""

    text: str
