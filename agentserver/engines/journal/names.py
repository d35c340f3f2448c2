"""Names that principals gave conversations, in a journal.

Owns the table that says which conversation has which name, from before the conversation's first step on. Refuses to
know what a name was made of: it has a digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.engines.journal.seal import digest
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.engines.journal.connection import Connection


def claim(connection: Connection, name: str, conversation: str, at: float) -> str:
    """Give a conversation a name, unless another has it; gives the one that has it. Raises as ``claimed`` does."""
    row = (name, conversation, float(at))
    connection.execute(
        "insert into opening values (?, ?, ?, ?) on conflict do nothing",
        (*row, digest(row)),
    )
    return claimed(connection, name) or conversation


def claimed(connection: Connection, name: str) -> str | None:
    """The conversation that has a name; None when none has it. Raises EngineError for a row that was altered."""
    row = connection.execute("select conversation, at, seal from opening where name = ?", (name,)).fetchone()
    if row is None:
        return None
    found, since, seal = row
    if seal != digest((name, found, since)):
        raise EngineError("the name of a conversation is not what was written")
    return str(found)


def damaged(connection: Connection) -> list[str]:
    """The damage to names."""
    rows = connection.execute("select name, conversation, at, seal from opening order by name").fetchall()
    return [
        f"the name of conversation {row[1]} is not what was written"
        for *row, seal in rows
        if seal != digest(row)
    ]


def forget(connection: Connection, before: float) -> None:
    """Forget the names, given before, of conversations that never began."""
    connection.execute(
        "delete from opening where at < ? and not exists"
        " (select 1 from conversation c where c.id = opening.conversation)",
        (before,),
    )


def only(connection: Connection, conversations: Collection[str]) -> None:
    """Forget every name but those of some conversations."""
    names = [
        (name,)
        for name, key in connection.execute("select name, conversation from opening")
        if key not in conversations
    ]
    connection.executemany("delete from opening where name = ?", names)
