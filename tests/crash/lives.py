"""The lives of processes that are killed: each lasts for so many lines that it tells, and a moment more.

A life that lasted for a time would do nothing at all on a busy machine.
"""

from __future__ import annotations

import time


def lived(process, random, most, least=0):
    """Let a process work and kill it; return its output. One in ten dies sooner, maybe before it has begun."""
    if random.random() < 0.9 or least:
        assert process.stdout.readline() == b"open\n"
        lines = least + int(random.random() ** 2 * (most - least))
        said = [process.stdout.readline() for _ in range(lines)]
        assert all(said), "it does not end by itself"
    else:
        said = []
    time.sleep(random.random() * 0.02)
    process.kill()
    said.append(process.stdout.read())
    process.wait()
    process.stdout.close()
    return b"".join(said).decode()
