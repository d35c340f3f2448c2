"""The threads of large conversations as they were last written, so that a step writes again only what it changed.

Owns how many conversations that is kept of. Refuses to know what is written of a thread.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentserver.core.conversation import Conversation
    from agentserver.core.snapshot import Rows

LARGE = 32
"""Threads from which on a conversation is large."""

CONVERSATIONS = 64
"""Large conversations that are remembered: those written last."""


class Written:
    """Rows of threads by conversation."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Rows] = OrderedDict()

    def of(self, conversation: Conversation) -> Rows:
        """The written rows of a conversation, to be read and changed. Of a small or closed one nothing is kept."""
        rows = self._kept.pop(conversation.id, {})
        if conversation.closed or len(conversation.tree.nodes) < LARGE:
            return {}
        self._kept[conversation.id] = rows
        if len(self._kept) > CONVERSATIONS:
            self._kept.popitem(last=False)
        return rows
