"""Changes of the journal besides steps: conversations are set aside, named, discarded, aged out.

Owns the transactions, which run in the reading thread by the statements of the journal. Refuses to know the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agentserver.engines.journal import aside, names, retention
from agentserver.engines.journal.connection import transaction
from agentserver.engines.postgres.rows import DRAW
from agentserver.ports import FencedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.messages import Done, Reply
    from agentserver.engines.postgres.reading import SyncConnection
    from agentserver.engines.postgres.rows import Numbers
    from agentserver.ports import Claim

    Setting = Callable[[Claim | None], tuple[Reply | Done, ...]]

_CLAIM = "select owner, epoch from conversation where id = ? and closed is null for update"
_RELEASE = "update conversation set owner = null where id = ?"


def set_aside(
    connection: SyncConnection, numbers: Numbers, conversation: str, reason: str, at: float
) -> Setting:
    """Make the work that sets a conversation aside under a claim. It raises FencedError under another one."""
    plain = cast("Any", connection)

    def draw(size: int) -> int:
        row = connection.execute(DRAW.replace("@", "").replace("$1", "?1"), (size,)).fetchone()
        assert row is not None
        numbers.note(int(row[0]), size)
        return int(row[0])

    def work(claim: Claim | None) -> tuple[Reply | Done, ...]:
        with transaction(plain):
            found = connection.execute(_CLAIM, (conversation,)).fetchone()
            if found is None:
                return ()
            if aside.is_aside(plain, conversation):  # by an earlier attempt that had no answer, or before
                return aside.said(plain, conversation, reason, at)
            if found != claim:
                raise FencedError("another process has the conversation")
            connection.execute(_RELEASE, (conversation,))  # whoever is first takes it, once it is put back
            return aside.put(plain, conversation, reason, at, draw)

    return work


def discard(connection: SyncConnection, delivery: str) -> bool:
    """Take a dead letter off the list."""
    return retention.discard(connection, delivery)


def give_name(connection: SyncConnection, name: str, conversation: str, at: float) -> str:
    """Give a conversation a name, unless another has it."""
    return names.claim(connection, name, conversation, at)
