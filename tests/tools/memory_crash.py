"""Run as a script, a server that keeps notes and kills itself in the middle of a write: FOLDER, and the point.

``inside`` is within the transaction, after the note's row is written; ``after`` is between the commit of the note and the
step that finishes the delivery.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from agentserver.engines.journal import notes
from tests.tools.memory_desk import Desk
from tests.tools.test_memory import browse_and_write, write


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point):
    """Let the next note kill the process."""
    if point == "inside":
        notes._append = die
        return
    add = notes.StoredNotes.add

    async def add_and_die(self, note, limits):
        assert await add(self, note, limits)
        die()

    notes.StoredNotes.add = add_and_die


async def main(folder, point):
    os.chdir(folder)
    async with Desk(Path(folder)).start() as run:
        await write(run, "The first note is whole.", "first")
        arm(point)
        await browse_and_write(run, "The last note is a stranger's.", name="last")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
