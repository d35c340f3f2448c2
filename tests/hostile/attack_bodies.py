"""Attacks with JSON bodies of HTTP and AG-UI."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import anyio

from tests.cli.served import write
from tests.hostile.harness import Attack

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hostile.harness import Target

FRONT = {"content-type": "application/json", "accept": "text/event-stream"}


def with_front_end(home: Path) -> None:
    """Write an organism that AG-UI front ends reach."""
    write(home, "http: {bind: '127.0.0.1:0', agui: yes}")


async def sixteen_large(server: Target) -> str:
    """Send sixteen bodies at once that are larger than any may be."""
    answers: Counter[int] = Counter()
    body = b'{"threadId":"%s"}' % (b"a" * 2_000_000)

    async def ask() -> None:
        answers[await server.posted("/v1/agui/greeter", body, FRONT)] += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(16):
            tasks.start_soon(ask)
    assert set(answers) <= {413, 0}, answers
    return f"{dict(answers)}"


ATTACKS = (Attack("AG-UI: 16 bodies of 2 MB", sixteen_large, with_front_end, loop=2.0),)
