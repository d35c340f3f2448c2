"""Outcomes to commit, and journals to commit them to."""

from __future__ import annotations

from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions


class Journal:
    """Engines on one file."""

    def __init__(self, path, **more):
        self.path = path
        self.more = more

    def __call__(self, guards=()):
        return SqliteEngine(JournalOptions(self.path), guards, **self.more)


def fill_conversation(story, number=1):
    """A conversation in which so many messages wait."""
    outcome = story.receive(story.start(), "0")
    outcomes = [outcome]
    for request in range(1, number):
        outcomes.append(story.receive(outcomes[-1].conversation, str(request)))
    return outcomes
