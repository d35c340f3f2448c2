"""Stands in for a model's client, so that the examples need no key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered.

    Args:
        content: its text.
    """

    content: str


async def complete(model: str, messages: Sequence[Mapping[str, str]], agent_id: str | None) -> Completion:
    """Say which agent asked which model for what, and how much it was told about its peers."""
    system, user = (message["content"] for message in messages)
    known = system.count("\n## ")
    return Completion(f"{agent_id} asked {model} about {user}, knowing {known} sections")
