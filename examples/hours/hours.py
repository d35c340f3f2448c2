"""A rule of this project's own: some listeners get nothing outside opening hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time

from agentserver.guards import Guard, Listener, Message, Verdict, deny


@dataclass(frozen=True)
class OpeningHours(Guard):
    """Denies what is sent to these listeners while they are closed. Times are in UTC."""

    listeners: tuple[str, ...]
    opens: time
    closes: time

    def __post_init__(self) -> None:
        if self.opens >= self.closes:
            raise ValueError(
                f"opens at {self.opens:%H:%M} and closes at {self.closes:%H:%M}, which is not later"
            )

    def check(self, listeners: Mapping[str, Listener]) -> None:
        """Refuse a name that means no listener: a slip of the pen would switch the rule off."""
        for name in self.listeners:
            if name not in listeners:
                raise ValueError(f'"{name}" is no listener')

    def judge(self, message: Message, memory: object) -> Verdict:
        """Decide by the time of the message, so that a replay decides as it was decided then."""
        if message.to not in self.listeners or self.opens <= message.at.time() < self.closes:
            return None
        return deny(f"{message.to} opens at {self.opens:%H:%M}")
