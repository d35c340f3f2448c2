"""Answers to questions, left in a journal's file beside the server that has it.

Owns the connection of one answer. Must not decide whether an answer counts.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from agentserver.engines.journal.care import answers
from agentserver.engines.sqlite.file import open_reading, told

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.core.state.approvals import ApprovalAnswer


def leave(path: Path, answered: ApprovalAnswer, at: float) -> bool:
    """Write an answer; when this returns it is on the disk. A server may have the journal meanwhile.

    Returns what ``answers.put`` does. Raises EngineError.
    """
    open_reading(path).close()
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        with closing(connection):
            connection.execute("pragma synchronous = full")
            return answers.put(connection, answered, at)
    except sqlite3.Error as error:
        raise told(path, error) from error
