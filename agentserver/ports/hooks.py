"""Hooks: events that other services send to the door."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


HookSignature: TypeAlias = Literal["github", "slack", "standard", "stripe"]
"""Ways in which senders sign an event; all are HMAC-SHA256 with a shared secret."""


@dataclass(frozen=True, slots=True)
class Hook:
    """Source of events.

    Args:
        name: the last part of its path; its principal is ``hook-NAME``.
        listener: gets the events.
        root: root element of the payload.
        signature: of the sender.
        secret: shared with the sender.
        fields: for a field of the payload, the path of its value in the body; its own name by default.
        only: headers and values of the events to take.
        tolerance: seconds that the sender's time may be off.
    """

    name: str
    listener: str
    root: str
    signature: HookSignature
    secret: str = field(repr=False)
    fields: Mapping[str, str] = field(default_factory=dict)
    only: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 300.0

    @property
    def principal(self) -> str:
        """The name of its principal."""
        return f"hook-{self.name}"
