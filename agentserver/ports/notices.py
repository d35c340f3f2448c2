"""Notifiers: ways to announce messages that wait for an approval."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Notifier:
    """Command or webhook that announces messages that wait for an approval.

    Args:
        name: part of the ids of its notices.
        command: program and arguments; empty for a webhook.
        env: names of the environment variables of the command.
        webhook: address; empty for a command.
        key: signs the requests of a webhook.
        listeners: whose messages it announces; empty for all.
        after: seconds that a message has waited before it is announced.
    """

    name: str
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    webhook: str = field(default="", repr=False)
    key: bytes = field(default=b"", repr=False)
    listeners: tuple[str, ...] = ()
    after: float = 0.0
