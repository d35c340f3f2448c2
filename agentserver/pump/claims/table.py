"""The claims of the pump: under which of them each conversation at work was read.

Owns that a conversation keeps its claim until it is dropped, so that a decision under an earlier claim is refused,
however soon the process claims the conversation again. Refuses to know how conversations are claimed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from agentserver.ports import Claim, FencedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class ClaimTable(dict[str, Claim]):
    """The claim of each conversation at work. Raises FencedError for any other.

    ``lost`` is called with a conversation for which a commit was fenced, and the claim that it was made under.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lost: Callable[[str, Claim], None] = lambda _, __: None

    def __missing__(self, conversation: str) -> NoReturn:
        """Refuse."""
        raise FencedError("this process does not have the conversation")

    async def keeps(self, conversation: str, meanwhile: Awaitable[object]) -> bool:
        """Wait for something; True when the conversation keeps its claim meanwhile."""
        claim = self.get(conversation)
        await meanwhile
        return claim is not None and self.get(conversation) is claim
