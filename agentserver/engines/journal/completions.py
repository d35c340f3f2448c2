"""The table of recorded completions. They are no part of a conversation's state, and expire on their own."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from agentserver.core.encoding.codecs import COMPLETIONS
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.engines.journal import seal

if TYPE_CHECKING:
    from agentserver.completion import RecordedCompletion
    from agentserver.engines.journal.connection import Connection

AT_ONCE: Final = 1000
"""Completions deleted in one statement."""

_EXPIRED: Final = "select number from completion where until < ? order by until limit ?"


def add_completion(connection: Connection, done: RecordedCompletion, until: float) -> None:
    """Add a completion to its conversation, if that is still stored."""
    row = connection.execute("select number from conversation where id = ?", (done.conversation,)).fetchone()
    if row is None:
        return
    columns, data = (row[0], done.at, until), zlib.compress(COMPLETIONS.dump(done))
    connection.execute(
        "insert into completion (conversation, at, until, data, seal) values (?, ?, ?, ?, ?)",
        (*columns, data, seal.digest(columns, data)),
    )


def read_completions(connection: Connection, conversation: str) -> list[RecordedCompletion]:
    """Read the completions of a conversation, in the order in which they began. Raises UnreadableError."""
    rows = connection.execute(
        "select m.conversation, m.at, m.until, m.data, m.seal from completion m"
        " join conversation c on c.number = m.conversation where c.id = ? order by m.at, m.number",
        (conversation,),
    ).fetchall()
    if any(sealed != seal.digest(columns, data) for *columns, data, sealed in rows):
        raise UnreadableError(f"conversation {conversation}: a recorded completion fails its seal")
    try:
        return [COMPLETIONS.load(zlib.decompress(data)) for *_, data, _ in rows]
    except (ValueError, zlib.error) as error:
        raise UnreadableError(
            f"conversation {conversation}: a recorded completion cannot be read: {error}"
        ) from error


def expire_completions(connection: Connection, now: float) -> int:
    """Delete some of the completions past their retention. Returns their count."""
    rows = connection.execute(_EXPIRED, (now, AT_ONCE)).fetchall()
    connection.executemany("delete from completion where number = ?", rows)
    return len(rows)


def find_damaged_completions(connection: Connection) -> list[str]:
    """List completions that fail their seals, a line each."""
    rows = connection.execute(
        "select number, conversation, at, until, data, seal from completion order by number"
    )
    return [
        f"the recorded completion {number} fails its seal"
        for number, *columns, data, sealed in rows
        if sealed != seal.digest(columns, data)
    ]
