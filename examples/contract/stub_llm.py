"""Fake client of a language model, so that the examples need no key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Completion:
    """Answer of a model.

    Args:
        content: its text.
    """

    content: str


async def complete(model: str, messages: Sequence[Mapping[str, str]], agent_id: str | None) -> Completion:
    """Answer with the agent, the model, the question and the number of peers in the prompt."""
    system, user = (message["content"] for message in messages)
    known = system.count("\n## ")
    return Completion(f"{agent_id} asked {model} about {user}, knowing {known} sections")
