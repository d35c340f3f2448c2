"""The reading of a journal's file.

Owns the connection of a reader. Must not change the file.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite.file import DRIVER, open_reading, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from agentserver.core.guard import CoreGuard


@contextmanager
def reading(path: Path, guards: Sequence[CoreGuard] = ()) -> Iterator[Reader]:
    """Read the journal at a path, while a server may be writing it. Raises EngineError.

    Args:
        path: of the file.
        guards: those whose memories are kept; without them a conversation that holds one cannot be loaded.
    """
    try:
        with closing(open_reading(path)) as connection:
            yield Reader(connection, guards)
    except DRIVER as error:
        raise told(path, error) from error
