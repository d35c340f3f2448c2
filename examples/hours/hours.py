"""A guard of the project: some listeners receive nothing outside opening hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time

from agentserver.guards import Guard, Listener, Message, Verdict, deny


@dataclass(frozen=True)
class OpeningHours(Guard):
    """Guard that denies messages to some listeners outside opening hours. Times are in UTC."""

    listeners: tuple[str, ...]
    opens: time
    closes: time

    def __post_init__(self) -> None:
        if self.opens >= self.closes:
            raise ValueError(
                f"opens at {self.opens:%H:%M} and closes at {self.closes:%H:%M}, which is not later"
            )

    def check(self, listeners: Mapping[str, Listener]) -> None:
        """Raise ValueError for an unknown listener: a typo would disable the rule."""
        for name in self.listeners:
            if name not in listeners:
                raise ValueError(f'"{name}" is no listener')

    def judge(self, message: Message, memory: object) -> Verdict:
        """Judge by the time of the message, so that a replay reaches the same verdict."""
        if message.to not in self.listeners or self.opens <= message.at.time() < self.closes:
            return None
        return deny(f"{message.to} opens at {self.opens:%H:%M}")
