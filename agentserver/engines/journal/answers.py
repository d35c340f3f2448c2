"""Answers to questions, by way of the journal.

Owns the table in which another process, which does not run the conversation, leaves what a person answered until the
server that has it, or the next one, decides about it. Refuses to know whether an answer counts: it may be to a
message that does not wait any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.characters.printing import clean_line
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.engines.journal.seal import digest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from agentserver.engines.journal.connection import Connection

AUTHOR = 256
"""Characters of who answered."""

_KNOWN = {str(answer): answer for answer in Answer}
_LEAVE = "insert into answer values (?, ?, ?, ?, ?, ?) on conflict do nothing returning approval"
_DENY = (
    "insert into answer values (?, ?, ?, ?, ?, ?) on conflict (approval) do update set digest = excluded.digest,"
    " said = excluded.said, author = excluded.author, at = excluded.at, seal = excluded.seal returning approval"
)


class LeftAnswers:
    """The answers in the journal of a running engine.

    Args:
        do: has the thread of the engine work on its connection.
    """

    def __init__(self, do: Callable[[Callable[[Connection], Any]], Awaitable[Any]]) -> None:
        self._do = do

    async def left(self) -> list[tuple[ApprovalAnswer, float]]:
        """The answers that stand. Raises EngineError."""
        answers: list[tuple[ApprovalAnswer, float]] = await self._do(found)
        return answers

    async def drop(self, approvals: Sequence[str]) -> None:
        """Forget answers that were decided about. Raises EngineError."""
        await self._do(lambda connection: drop(connection, approvals))


def put(connection: Connection, answered: ApprovalAnswer, at: float) -> bool:
    """Leave an answer. The first one counts, but that a denial takes the place of an approval.

    Returns False when another one stands.
    """
    statement = _DENY if answered.answer is Answer.DENY else _LEAVE
    row = (answered.approval, answered.digest, str(answered.answer), answered.by, float(at))
    return connection.execute(statement, (*row, digest(row))).fetchone() is not None


def found(connection: Connection) -> list[tuple[ApprovalAnswer, float]]:
    """The answers that stand, with when they were given.

    One that this version does not know is a denial, and so is one that is not what was written.
    """
    rows = connection.execute("select approval, digest, said, author, at, seal from answer order by at")
    return [
        (ApprovalAnswer(row[0], row[1], _said(row, sealed), clean_line(row[3], AUTHOR)), row[4])
        for *row, sealed in rows
    ]


def _said(row: list[Any], sealed: bytes) -> Answer:
    return Answer.DENY if sealed != digest(row) else _KNOWN.get(row[2], Answer.DENY)


def drop(connection: Connection, approvals: Sequence[str]) -> None:
    """Forget the answers to these."""
    connection.executemany("delete from answer where approval = ?", [(key,) for key in approvals])
