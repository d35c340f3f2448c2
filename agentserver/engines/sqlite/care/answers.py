"""Answers to questions, by way of the journal's file.

Owns the table in which another process, which has not the journal's lock, leaves what a person answered until the
server that has it, or the next one, decides about it. Refuses to know whether an answer counts: it may be to a
message that does not wait any more.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from agentserver.characters.printing import legible
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.engines.sqlite.file import open_reading, told
from agentserver.engines.sqlite.proof.seal import digest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

AUTHOR = 256
"""Characters of who answered."""

_KNOWN = {str(answer): answer for answer in Answer}
_LEAVE = "insert or ignore into answer values (?, ?, ?, ?, ?, ?)"
_DENY = "insert or replace into answer values (?, ?, ?, ?, ?, ?)"


class LeftAnswers:
    """The answers in the journal of a running engine.

    Args:
        do: has the thread of the engine work on its connection.
    """

    def __init__(self, do: Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]]) -> None:
        self._do = do

    async def left(self) -> list[tuple[ApprovalAnswer, float]]:
        """The answers that stand. Raises EngineError."""
        answers: list[tuple[ApprovalAnswer, float]] = await self._do(found)
        return answers

    async def drop(self, approvals: Sequence[str]) -> None:
        """Forget answers that were decided about. Raises EngineError."""
        await self._do(lambda connection: drop(connection, approvals))


def leave(path: Path, answered: ApprovalAnswer, at: float) -> bool:
    """Write an answer; when this returns it is on the disk. A server may have the journal meanwhile.

    The first answer counts, but that a denial takes the place of an approval. False when another one stands.
    Raises EngineError.
    """
    open_reading(path).close()
    statement = _DENY if answered.answer is Answer.DENY else _LEAVE
    row = (answered.approval, answered.digest, str(answered.answer), answered.by, float(at))
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        with closing(connection):
            connection.execute("pragma synchronous = full")
            return connection.execute(statement, (*row, digest(row))).rowcount == 1
    except sqlite3.Error as error:
        raise told(path, error) from error


def found(connection: sqlite3.Connection) -> list[tuple[ApprovalAnswer, float]]:
    """The answers that stand, with when they were given.

    One that this version does not know is a denial, and so is one that is not what was written.
    """
    rows = connection.execute("select approval, digest, said, author, at, seal from answer order by at")
    return [
        (ApprovalAnswer(row[0], row[1], _said(row, sealed), legible(row[3], AUTHOR)), row[4])
        for *row, sealed in rows
    ]


def _said(row: list[Any], sealed: bytes) -> Answer:
    return Answer.DENY if sealed != digest(row) else _KNOWN.get(row[2], Answer.DENY)


def drop(connection: sqlite3.Connection, approvals: Sequence[str]) -> None:
    """Forget the answers to these."""
    connection.executemany("delete from answer where approval = ?", [(key,) for key in approvals])
