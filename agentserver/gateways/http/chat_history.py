"""Histories of chat clients: recognizes the chat that the server has kept from the turns that a client sends.

A history only selects a conversation. Its texts reach no listener.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from agentserver.core.messages import Reply
from agentserver.ports import EngineError, MessageConflictError, RejectReason, SubmitResult

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from agentserver.gateways.http.parts import DoorHost
    from agentserver.gateways.principals import Caller

    Turn: TypeAlias = tuple[str, str]
    """Role and text of a message, or of consecutive messages of one role."""

USER: Final = "user"
ASSISTANT: Final = "assistant"

KEPT: Final = 64
"""Chats of a principal that stay open because their clients may send their histories."""

PRINCIPALS: Final = 4096
"""Principals with such chats that are remembered; the chats of others end when they are idle."""

EQUAL: Final = 16
"""Conversations with equal histories that are tried, the latest first."""

ATTEMPTS: Final = 16
"""Attempts at one turn, each after the failure of the one before."""


def digest_history(model: str, turns: Sequence[Turn]) -> str:
    """Digest a history. White space does not count, since clients trim and fold it."""
    found = sha256()
    for text in (model, *(each for turn in turns for each in turn)):
        folded = " ".join(text.split()).encode("utf-8", "surrogatepass")
        found.update(len(folded).to_bytes(8, "big") + folded)
    return found.hexdigest()


def _key(digest: str, newer: str = "") -> str:
    """Make the key of the latest conversation with a history, or of the one before a ``newer`` one."""
    return f"openai-history-{digest}-{newer}" if newer else f"openai-history-{digest}"


async def note_history(server: DoorHost, caller: Caller, conversation: str, digest: str) -> None:
    """Note that a conversation has this history now. Earlier ones with an equal history are found after it.

    Raises LookupError and EngineError.
    """
    before = await server.move_key(caller.name, conversation, _key(digest))
    if before not in (None, conversation):
        with suppress(LookupError):  # the earlier one is no longer known
            await server.move_key(caller.name, before, _key(digest, conversation))


async def submit_after(
    server: DoorHost, caller: Caller, digest: str, message: bytes, to: str
) -> tuple[str, SubmitResult] | None:
    """Submit a message to a conversation that has exactly this history. Returns its id and the message's fate.

    A conversation that has continued otherwise is passed over. None if no conversation is left. Raises EngineError.
    """
    newer = ""
    for _ in range(EQUAL):
        found = await server.find_opened(caller.name, _key(digest, newer))
        if found is None:
            return None
        if not found.over:
            submitted = await _submit_turn(server, caller, found.conversation, digest, message, to)
            if submitted is not None:
                return found.conversation, submitted
        newer = found.conversation
    return None


async def _submit_turn(
    server: DoorHost, caller: Caller, conversation: str, digest: str, message: bytes, to: str
) -> SubmitResult | None:
    """Submit the turn after a history, once. None if another message was answered there or is being answered.

    The same message is the same turn. After a failure the turn may be attempted with any message.
    """
    for attempt in range(ATTEMPTS):
        same: SubmitResult | None = None
        try:
            own = f"openai-turn-{digest}-{attempt}"
            same = await server.submit(caller.name, conversation, message, to, request=own)
            request = same.request
        except MessageConflictError as error:
            request = error.request
        except LookupError:
            return None
        if same is not None and same.code is RejectReason.OVER:
            return None
        if same is not None and not same.again:
            return same
        answer = next(iter(await server.find_events(caller.name, conversation, request)), None)
        if answer is None or (isinstance(answer, Reply) and not answer.error):
            return same
    return None


@dataclass
class UnnamedChats:
    """Chats without a name that stay open for their clients, the latest of each principal.

    They are those of this process. Others end when they are idle.
    """

    _of: OrderedDict[str, OrderedDict[str, None]] = field(default_factory=OrderedDict)

    def add(self, caller: Caller, conversation: str) -> list[str]:
        """Keep a chat whose turn was answered. Returns those that are to be ended for it."""
        own = self._of.setdefault(caller.name, OrderedDict())
        self._of.move_to_end(caller.name)
        own[conversation] = None
        own.move_to_end(conversation)
        if len(self._of) > PRINCIPALS:
            self._of.popitem(last=False)
        maximum = max(1, min(KEPT, caller.open // 2))
        return [own.popitem(last=False)[0] for _ in range(len(own) - maximum)]

    def take(self, caller: Caller, conversation: str) -> None:
        """Remove a chat while its next turn is answered, so that it is not ended meanwhile."""
        own = self._of.get(caller.name, OrderedDict())
        own.pop(conversation, None)
        if not own:
            self._of.pop(caller.name, None)


async def end_chats(server: DoorHost, caller: Caller, conversations: Sequence[str]) -> None:
    """End chats of a principal."""
    for each in conversations:
        with suppress(LookupError, EngineError):
            await server.end(caller.name, each, by=caller.name)
