"""The organism that is killed, with poison: one delivery in fifty ends the process, each time its handler runs.

Run as a script it is the supervisor too: it starts the server under load a few times, then again and again until one
becomes idle by itself. It reports as the servers do, and ``starts NUMBER`` at the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from pathlib import Path
from random import Random

from agentserver import invocation
from tests.crash import organism
from tests.crash.organism import tell

DIED, FAILED = 66, 67


def poison(delivery):
    return Random(f"poison {delivery}").random() < 1 / 50


def fatal(handler):
    async def run(payload, metadata):
        if poison(invocation().idempotency_key):
            tell("ran", invocation().idempotency_key)
            os._exit(DIED)
        return await handler(payload, metadata)

    return run


def start(path, seed, *, load):
    """Run a server in a process of its own; True if it became idle."""
    child = os.fork()
    if not child:
        signal.alarm(120)
        try:
            asyncio.run(organism.main(path, load, seed))
        except BaseException:  # noqa: BLE001 - the child must not go on as a second supervisor
            traceback.print_exc()
            os._exit(FAILED)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, DIED):
        sys.exit(f"a server ended with {code}")
    return code == 0


def supervise(path, rounds, seed):
    organism.HANDLERS.update({name: fatal(handler) for name, handler in organism.HANDLERS.items()})
    random, starts = Random(seed), 0
    for _ in range(rounds):
        starts += 1
        start(path, random.random(), load=True)
    starts += 1
    while not start(path, 0, load=False):
        starts += 1
    tell("starts", starts)


if __name__ == "__main__":
    supervise(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
