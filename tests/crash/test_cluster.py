"""Three servers on three brokers are killed, stopped and cut off under load; then the books of each replica are checked.

The short form kills one server. The long form does all of it a hundred times: ./run crash --cluster; with
``--soak-scale=5`` each is done once, in an order that CRASH_SEED chooses (docs/cluster.md, how it was tried). Of each
server its folder keeps what it told, and of a run that fails its log says what each of its tasks waits for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack, closing
from functools import partial
from hashlib import blake2b
from pathlib import Path
from random import Random

import pytest

from agentserver.engines.replica.log import PARTITIONS
from tests.brokers import Gate, three
from tests.crash.books import Told, check
from tests.machine import HANGS

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
NAMES = ("a", "b", "c")
LEASE = 2.0


class Server:
    """A server's process, which may end and begin again; what it tells goes into the books of all."""

    def __init__(self, name, folder, told, gates):
        self.name, self.folder, self.gates = name, folder, gates
        self.holds, self.since, self.starts = frozenset(), 0.0, 0
        self.said, self.refused = Counter(), Counter()
        self._told, self._process, self._reading = told, None, None

    @property
    def url(self):
        return ",".join(gate.url for gate in self.gates)

    async def start(self):
        self.starts += 1
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self._process = await self._begun(log)
        self._reading = asyncio.create_task(self._read(self._process.stdout))

    def _begun(self, log):
        return asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.crash.cluster", self.url, self.name, str(self.folder),
            f"{self.name}{self.starts}", str(LEASE), cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
        )  # fmt: skip

    async def _read(self, out):
        with (self.folder / f"{self.name}.told").open("a") as kept:
            while line := (await out.readline()).decode():
                if not line.endswith("\n"):
                    return
                kept.write(f"{time.time():.3f} {line}")
                self._hear(line)

    def _hear(self, line):
        match line.split():
            case ["holds", at, shares]:
                self.holds = frozenset() if shares == "-" else frozenset(map(int, shares.split(",")))
                self.since = float(at)
            case ["refused", what]:
                self.refused[what] += 1
            case [("open" | "hushed" | "rest") as word]:
                self.said[word, self.starts] += 1
            case _:
                self._told.hear(line)

    async def heard(self, word):
        await until(lambda: self.said[word, self.starts] or self.ended(), f"server {self.name}: {word}")

    async def show(self):
        """Have it write into its log where each of its tasks stands."""
        if self._process is not None and self._process.returncode is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGUSR1)
            await asyncio.sleep(1)

    def ended(self):
        """False; fails where the process has ended by itself, or has told what cannot be."""
        if self._reading.done() and not self._reading.cancelled() and self._reading.exception() is not None:
            raise self._reading.exception()  # what it tells from now on is read by nobody
        if self._process.returncode is not None:
            log = (self.folder / f"{self.name}.log").read_text()[-3000:]
            pytest.fail(f"server {self.name} has ended with {self._process.returncode}:\n{log}")
        return False

    def say(self, word):
        self._process.stdin.write(f"{word}\n".encode())

    async def kill(self):
        self._process.kill()
        await asyncio.wait([self._reading])
        await self._process.wait()
        self._process.stdin.close()
        self.holds = frozenset()

    def signal(self, number):
        self._process.send_signal(number)

    async def end(self):
        """Let it end by itself."""
        self._process.stdin.close()
        async with asyncio.timeout(HANGS):
            await self._reading
            assert await self._process.wait() == 0, f"server {self.name} did not end well"

    def cut(self):
        for gate in self.gates:
            gate.cut()

    def mend(self):
        for gate in self.gates:
            gate.mend()


async def until(said, what, patience=HANGS):
    last = time.monotonic() + patience
    while not said():
        if time.monotonic() > last:
            pytest.fail(f"waited {patience} s for {what}")
        await asyncio.sleep(0.02)


class Cluster:
    """Three brokers and three servers, and what was seen of them."""

    def __init__(self, brokers, servers, told, random):
        self.brokers, self.servers, self.told, self.random = brokers, servers, told, random
        self.acts, self.took = Counter(), {}

    def settles(self):
        """Whether every server holds something, and every partition is held by one."""
        if any(one.ended() for one in self.servers):
            return True
        held = [partition for one in self.servers for partition in one.holds]
        return all(one.holds for one in self.servers) and sorted(held) == [*range(PARTITIONS)]

    async def taken_over(self, victim, what):
        """The others have all that this one had; tells how long that took."""
        start, others = time.time(), [one for one in self.servers if one is not victim]
        await until(
            lambda: len(frozenset().union(*(one.holds for one in others))) == PARTITIONS,
            f"take-over after {what}",
        )
        took = max((one.since for one in others), default=start) - start
        self.took.setdefault(what, []).append(took)

    async def working(self, what, least=20):
        """Messages are accepted, again."""
        start, before = time.time(), len(self.told.accepted)
        await until(
            lambda: any(one.ended() for one in self.servers) or len(self.told.accepted) >= before + least,
            f"accepted messages after {what}",
        )
        self.took.setdefault(what, []).append(time.time() - start)

    async def a_server_is_killed(self):
        victim = self.random.choice(self.servers)
        await victim.kill()
        await self.taken_over(victim, "kill -9 of a server")
        await victim.start()
        await victim.heard("open")

    async def a_server_is_stopped(self):
        victim = self.random.choice(self.servers)
        victim.signal(signal.SIGSTOP)
        await self.taken_over(victim, "SIGSTOP of a server")
        victim.signal(signal.SIGCONT)

    async def a_server_is_cut_off(self):
        victim = self.random.choice(self.servers)
        victim.cut()
        await self.taken_over(victim, "a server cut off")
        victim.mend()

    async def the_leading_broker_is_killed(self):
        leader = await self.brokers.leading("AS_LOG_crash") or self.brokers.nodes[0]
        leader.kill()
        await self.working("kill -9 of the leading broker")
        await leader.start()

    async def the_leading_broker_is_cut_off(self):
        leader = await self.brokers.leading("AS_LOG_crash") or self.brokers.nodes[0]
        self.brokers.cut(leader)
        await self.working("the leading broker cut off")
        self.brokers.mend()

    async def fight(self, rounds):
        """Each of them, in another order each round; without rounds one server is killed, once."""
        acts = [
            self.a_server_is_killed, self.a_server_is_stopped, self.a_server_is_cut_off,
            self.the_leading_broker_is_killed, self.the_leading_broker_is_cut_off,
        ]  # fmt: skip
        for _ in range(rounds or 1):
            acts = acts if rounds else [self.a_server_is_killed]
            self.random.shuffle(acts)
            for act in acts:
                await until(self.settles, "every partition to have an owner")
                await self.working("nothing")
                await act()
                self.acts[act.__name__] += 1
        await until(self.settles, "every partition to have an owner")

    async def come_to_rest(self):
        for word in ("hush", "rest"):
            for server in self.servers:
                server.say(word)
            for server in self.servers:
                await server.heard({"hush": "hushed"}.get(word, word))

    def alike(self):
        """Every replica has the same conversations, in the same versions, with the same chains."""
        return len({rows(replica(one.folder, one.name)) for one in self.servers}) == 1


def replica(folder, name):
    return folder / name / "replica.db"


def rows(path):
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return tuple(connection.execute("select id, version, chain from conversation order by id"))


def contents(path):
    """A digest of all that steps have left in a replica. What was acknowledged last may be in some of them only."""
    digest = blake2b()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        for table in ("conversation", "step", "delivery", "event", "value", "head", "receipt", "state"):
            found = connection.execute(f"select name from pragma_table_info('{table}')").fetchall()
            left_out = {"waiting", "mark"} if table == "event" else set()  # the mark is of the row with it
            names = ", ".join(name for (name,) in found if name not in left_out)
            digest.update(table.encode())
            for row in connection.execute(f"select {names} from {table} order by {names}"):
                digest.update(repr(row).encode())
    return digest.digest()


@pytest.mark.soak
async def test_whoever_is_killed_stopped_or_cut_off_nothing_is_lost_or_done_twice(tmp_path, soak_scale):
    random = Random(os.environ.get("CRASH_SEED", "0"))
    told = Told()
    async with three(tmp_path / "brokers", gates=True) as brokers, AsyncExitStack() as stack:
        servers = []
        for name in NAMES:
            gates = [await stack.enter_async_context(Gate(node.port)) for node in brokers.nodes]
            servers.append(Server(name, tmp_path, told, gates))
            stack.push_async_callback(ended, servers[-1])
            await servers[-1].start()
        stack.push_async_exit(partial(show, servers))
        cluster = Cluster(brokers, servers, told, random)
        await cluster.fight(0 if soak_scale == 1 else soak_scale // 5)
        await cluster.come_to_rest()
        await until(cluster.alike, "replicas to be the same")
        for server in servers:
            await server.end()
    diaries = {f"crash-{name}": tmp_path / f"{name}.diary" for name in NAMES}
    assert len({contents(replica(tmp_path, name)) for name in NAMES}) == 1, "the replicas have the same rows"
    one = replica(tmp_path, random.choice(NAMES))
    report(cluster, await asyncio.to_thread(check, one, told, at_rest=True, diaries=diaries))


async def show(servers, kind, *_):
    """Of a run that fails the log of each server says what its tasks wait for."""
    if kind is not None:
        for server in servers:
            await server.show()


async def ended(server):
    if server._process is not None and server._process.returncode is None:
        server.signal(signal.SIGCONT)
        await server.kill()


def report(cluster, figures):
    print(dict(cluster.acts), figures)  # noqa: T201 - for the reader
    for what, took in sorted(cluster.took.items()):
        print(f"{what}: {min(took):.1f} to {max(took):.1f} s, {len(took)} times")  # noqa: T201
    print("refused:", dict(sum((one.refused for one in cluster.servers), Counter())))  # noqa: T201
