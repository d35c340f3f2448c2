"""Workers on other machines are killed at random instants under load, and their server; then the books are checked.

Nothing that was accepted is lost, and nothing counts twice: what a killed worker had stored and said is gone with it.
The long form only, for a call of a worker that is gone waits until it is missed: ./run crash --cluster.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from agentserver.cli import cli
from agentserver.config import forget
from agentserver.rulebook import rules
from agentserver.worker.wall.raising import missing
from tests.brokers import one
from tests.crash.books import Told, check
from tests.crash.test_walled import counted
from tests.crash.walled import ORGANISM, lay_out, loaded
from tests.machine import HANGS

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
ELSEWHERE = 'broker: {{url: "{url}", credentials: users/walled}}\n'
LACKS = missing(ports=False)
WORKERS = 3


def laid_out(folder, url):
    """An organism whose listener has its workers at a broker."""
    remote = ORGANISM.replace("isolation: process", "isolation: {remote: true}")
    lay_out(folder, remote + ELSEWHERE.format(url=url))


def users(folder):
    """The broker's users, as ``agentserver cluster permissions`` writes them."""
    words = ["cluster", "permissions", str(folder / "organism.yaml"), "--credentials", str(folder / "users")]
    told = CliRunner().invoke(cli, words)
    assert told.exit_code == 0, told.output
    return told.output


class Begun:
    """A process, and a task that reads what it says until it ends."""

    def __init__(self, process, lines, heard):
        self._process = process
        self._reading = asyncio.create_task(self._read(lines, heard))

    async def _read(self, lines, heard):
        while line := (await lines.readline()).decode():
            if line.endswith("\n"):
                heard(line)

    async def killed(self):
        if self._process.returncode is None:
            self._process.kill()
        await self.ended()

    async def ended(self):
        await self._reading
        return await self._process.wait()


class Field:
    """A server and its workers, which may be killed."""

    def __init__(self, folder, url, told, random):
        self.folder, self.url, self.told, self.random = folder, url, told, random
        self.replies, self.opened = asyncio.Event(), asyncio.Event()

    def _hear(self, line):
        self.told.hear(line)
        (self.opened if line == "open\n" else self.replies).set()

    async def server(self, what):
        self.opened.clear()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.crash.walled", str(self.folder), what, str(self.random.random()),
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        return Begun(process, process.stdout, self._hear)

    async def worker(self):
        """A worker's process, once it takes calls."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "agentserver", "--log-level", "info", "worker", "counter",
            "--engine", self.url, "--credentials", str(self.folder / "users" / "walled+counter"),
            "--organism", str(self.folder / "organism.yaml"), cwd=self.folder, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        taking = asyncio.Event()
        begun = Begun(process, process.stderr, lambda line: "takes calls of" in line and taking.set())
        async with asyncio.timeout(HANGS):
            await taking.wait()
        return begun

    async def working(self):
        """A reply comes, again."""
        self.replies.clear()
        async with asyncio.timeout(HANGS):
            await self.replies.wait()


@pytest.mark.soak
@pytest.mark.skipif(bool(LACKS) and not os.environ.get("CI"), reason=f"no wall here: {'; '.join(LACKS)}")
async def test_workers_elsewhere_are_killed_and_nothing_is_lost_or_counts_twice(tmp_path, soak_scale):
    random, told = Random(os.environ.get("CRASH_SEED", "0")), Told()
    laid_out(tmp_path, "nats://127.0.0.1:1")
    more = await asyncio.to_thread(users, tmp_path)
    async with one(tmp_path / "broker", more=more) as node, AsyncExitStack() as stack:
        laid_out(tmp_path, node.url)
        field, kills = Field(tmp_path, node.url, told, random), soak_scale
        workers = [await field.worker() for _ in range(WORKERS)]
        stack.push_async_callback(lambda: asyncio.gather(*(each.killed() for each in workers)))
        server = await field.server("load")
        stack.push_async_callback(lambda: server.killed())
        for number in range(kills):
            await field.working()
            await asyncio.sleep(random.random())
            await workers.pop(random.randrange(WORKERS)).killed()
            if number % 5 == 4:
                await server.killed()
                server = await field.server("load")
            workers.append(await field.worker())
        await field.working()
        await server.killed()
        server = await field.server("rest")
        assert await server.ended() == 0
    assert told.rest
    figures = await asyncio.to_thread(books, tmp_path, told)
    print(kills, "kills of workers:", figures)  # noqa: T201 - for the reader


def books(folder, told):
    organism = loaded(folder)
    try:
        shop, path = rules(organism), folder / "journal.sqlite"
        return check(path, told, at_rest=True, shop=shop, seen=False) | dict(counted(path, shop))
    finally:
        forget(organism)
