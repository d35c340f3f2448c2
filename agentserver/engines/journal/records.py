"""Answers to questions, by way of the journal.

Owns the table in which another process, which does not run the conversation, leaves what a person answered until the
server that has it, or the next one, decides about it. Refuses to know whether an answer counts: it may be to a
message that does not wait any more.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from agentserver.characters.printing import clean_line
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.core.state.elapsed import Calendar, Jump
from agentserver.engines.journal.connection import transaction
from agentserver.engines.journal.seal import digest
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from agentserver.engines.journal.connection import Connection


AUTHOR = 256
"""Characters of who answered."""

_KNOWN = {str(answer): answer for answer in Answer}
_LEAVE = "insert into answer values (?, ?, ?, ?, ?, ?) on conflict do nothing returning approval"
_DENY = (
    "insert into answer values (?, ?, ?, ?, ?, ?) on conflict (approval) do update set digest = excluded.digest,"
    " said = excluded.said, author = excluded.author, at = excluded.at, seal = excluded.seal returning approval"
)


class StoredAnswers:
    """The answers in the journal of a running engine.

    Args:
        do: has the thread of the engine work on its connection.
    """

    def __init__(self, do: Callable[[Callable[[Connection], Any]], Awaitable[Any]]) -> None:
        self._do = do

    async def list_pending(self) -> list[tuple[ApprovalAnswer, float]]:
        """The answers that stand. Raises EngineError."""
        answers: list[tuple[ApprovalAnswer, float]] = await self._do(read_answers)
        return answers

    async def drop(self, approvals: Sequence[str]) -> None:
        """Forget answers that were decided about. Raises EngineError."""
        await self._do(lambda connection: drop_answers(connection, approvals))


def put_answer(connection: Connection, answered: ApprovalAnswer, at: float) -> bool:
    """Leave an answer. The first one counts, but that a denial takes the place of an approval.

    Returns False when another one stands.
    """
    statement = _DENY if answered.answer is Answer.DENY else _LEAVE
    row = (answered.approval, answered.digest, str(answered.answer), answered.by, float(at))
    return connection.execute(statement, (*row, digest(row))).fetchone() is not None


def read_answers(connection: Connection) -> list[tuple[ApprovalAnswer, float]]:
    """The answers that stand, with when they were given.

    One that this version does not know is a denial, and so is one that is not what was written.
    """
    rows = connection.execute("select approval, digest, said, author, at, seal from answer order by at")
    return [
        (ApprovalAnswer(row[0], row[1], _read_verdict(row, sealed), clean_line(row[3], AUTHOR)), row[4])
        for *row, sealed in rows
    ]


def _read_verdict(row: list[Any], sealed: bytes) -> Answer:
    return Answer.DENY if sealed != digest(row) else _KNOWN.get(row[2], Answer.DENY)


def drop_answers(connection: Connection, approvals: Sequence[str]) -> None:
    """Forget the answers to these."""
    connection.executemany("delete from answer where approval = ?", [(key,) for key in approvals])


def claim_name(connection: Connection, name: str, conversation: str, at: float) -> str:
    """Name a conversation, unless another one has the name. Returns the id of the one that has it.

    Raises EngineError for a row that was altered.
    """
    row = (name, conversation, float(at))
    connection.execute(
        "insert into opening values (?, ?, ?, ?) on conflict do nothing",
        (*row, digest(row)),
    )
    return find_named_conversation(connection, name) or conversation


def find_named_conversation(connection: Connection, name: str) -> str | None:
    """The conversation that has a name; None when none has it. Raises EngineError for a row that was altered."""
    row = connection.execute("select conversation, at, seal from opening where name = ?", (name,)).fetchone()
    if row is None:
        return None
    found, since, seal = row
    if seal != digest((name, found, since)):
        raise EngineError("the name of a conversation is not what was written")
    return str(found)


def find_damaged_names(connection: Connection) -> list[str]:
    """The damage to names."""
    rows = connection.execute("select name, conversation, at, seal from opening order by name").fetchall()
    return [
        f"the name of conversation {row[1]} is not what was written"
        for *row, seal in rows
        if seal != digest(row)
    ]


def forget_names(connection: Connection, before: float) -> None:
    """Forget the names, given before, of conversations that never began."""
    connection.execute(
        "delete from opening where at < ? and not exists"
        " (select 1 from conversation c where c.id = opening.conversation)",
        (before,),
    )


def keep_names_of(connection: Connection, conversations: Collection[str]) -> None:
    """Forget every name but those of some conversations."""
    names = [
        (name,)
        for name, key in connection.execute("select name, conversation from opening")
        if key not in conversations
    ]
    connection.executemany("delete from opening where name = ?", names)


logger = logging.getLogger("agentserver.journal")


def is_calendar_intact(connection: Connection) -> bool:
    """True when the kept calendar is as it was written."""
    rows = connection.execute("select jumps, last, seal from calendar").fetchall()
    return len(rows) < 2 and all(seal == digest((jumps, last)) for jumps, last, seal in rows)  # noqa: PLR2004 - one row


def read_calendar(connection: Connection) -> Calendar:
    """The known part of the calendar. Where nothing can be read, no time that has passed so far counts."""
    if not is_calendar_intact(connection):
        logger.error("the journal's calendar is not what was written: all deadlines count from now")
        return Calendar(last=0.0)
    row = connection.execute("select jumps, last from calendar").fetchone()
    if row is None:
        return Calendar(last=connection.execute("select max(touched) from conversation").fetchone()[0])
    jumps, last = row
    return Calendar(tuple(Jump(at, to) for at, to in json.loads(jumps)), last)


def write_calendar(connection: Connection, calendar: Calendar) -> None:
    """Write it."""
    row = (json.dumps(calendar.jumps), float(calendar.last or 0.0))
    with transaction(connection):
        connection.execute("delete from calendar")
        connection.execute("insert into calendar values (?, ?, ?)", (*row, digest(row)))
