"""The shares of the pump: under which of them each conversation at work was taken up.

Owns what is held. A conversation keeps its share until it is let go, so that what was decided under an earlier one is
refused, however soon the pump regains it. Refuses to know how shares are claimed and what follows from a loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.ports import FencedError, Share

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentserver.ports import Engine


class Shares(dict[str, Share]):
    """The share of each conversation at work, found where it is asked for: raises FencedError for one elsewhere.

    Args:
        engine: says which share a conversation is in.

    ``held`` are those that the pump has taken up; ``lost`` is told of one that a commit has shown to be lost.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self.held: frozenset[Share] = frozenset()
        self.lost: Callable[[Share], None] = lambda _: None

    def __missing__(self, conversation: str) -> Share:
        """Find the share of a conversation that comes to work."""
        share = self._engine.share_of(conversation)
        if share is None or share not in self.held:
            raise FencedError("another process has the conversation")
        self[conversation] = share
        return share

    async def stays(self, conversation: str, meanwhile: Awaitable[object]) -> bool:
        """Wait for something; True when a conversation is not let go meanwhile.

        One of which the engine alone knows that it is elsewhere may be back before the pump hears of it.
        """
        share = self.get(conversation)
        await meanwhile
        return share is not None and self.get(conversation) is share

    def has(self, conversation: str) -> bool:
        """True when the pump may work on a conversation."""
        return conversation in self or self._engine.share_of(conversation) in self.held
