"""The seam at which rules about messages are hooked in.

Owns the Guard protocol and the bundle of rules that a conversation decides by. Refuses to know any rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lxml import etree

    from agentserver.contract import Code
    from agentserver.core.blueprint import Blueprint
    from agentserver.core.envelope import Bounds
    from agentserver.core.messages import Delivery
    from agentserver.core.payload.codec import Codecs
    from agentserver.core.routing import Proposal


@dataclass(frozen=True, slots=True)
class Denied:
    """A proposal may not be sent. The sender learns ``code``; ``reason`` is for the log and the audit."""

    code: Code
    reason: str


Verdict: TypeAlias = Denied | None
"""None lets a proposal pass."""


class Guard(Protocol):
    """A rule with a memory of its own, which is part of the conversation and committed with it.

    Both methods are pure: equal arguments give equal results.
    """

    @property
    def name(self) -> str:
        """The key of the guard's memory."""
        ...

    def observe(self, memory: object, delivery: Delivery, element: etree._Element) -> object:
        """The memory after a listener has been given a message. ``memory`` is None at first."""
        ...

    def judge(self, memory: object, proposal: Proposal) -> Verdict:
        """Whether a message may be sent."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What a conversation decides by. Guards are asked in order; the first denial counts."""

    blueprint: Blueprint
    codecs: Codecs
    guards: tuple[Guard, ...]
    bounds: Bounds

    def observe(
        self, memory: Mapping[str, object], delivery: Delivery, element: etree._Element
    ) -> Mapping[str, object]:
        """Each guard's memory after a listener has been given a message."""
        return {guard.name: guard.observe(memory.get(guard.name), delivery, element) for guard in self.guards}

    def verdict(self, memory: Mapping[str, object], proposal: Proposal) -> Verdict:
        """What the guards say about a message."""
        for guard in self.guards:
            denied = guard.judge(memory.get(guard.name), proposal)
            if denied is not None:
                return denied
        return None
