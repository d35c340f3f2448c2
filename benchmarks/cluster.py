"""The cost of several servers on one Postgres, against one server on a SQLite file, in the same run.

Every server is a process of ``agentserver serve``; clients come by HTTP. CPU is that of all servers and of all
processes of the database together, by /proc. The database has fsync on, one disk and no standby. A hop is a delivery
to a listener.

- requests: CPU of a request with 1, 2 and 3 servers, and its ratio to SQLite with full sync. Each request goes to any
  server, as behind a balancer, or (kept) all of a conversation to the server where it began.
- idle: CPU that servers use which have nothing to do.
- hops: a second, with so many conversations in flight; round trips, bytes and WAL of a hop; rows that marks have cost.
- takeover: seconds from the kill of a server to the answers of others for its conversations.
- memory: of a server with many conversations, few of them live.
- move: a conversation with so many bytes of strangers' text goes to another server.
- bloat: of the tables after many steps.

    ./run bench cluster                  # at full length
    ./run bench cluster --steps=1000000  # the tables after a million steps
    ./run bench cluster --quick          # as CI runs it
    ./run bench cluster | cat            # one JSON object a line
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from _targets import record

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from agentserver.engines.postgres.leases import MOST  # noqa: E402
from tests.crash.cluster.proxy import Proxy  # noqa: E402 - the servers and databases of the tests
from tests.crash.cluster.servers import Server, command  # noqa: E402
from tests.crash.cluster.stage import RIGHTS  # noqa: E402
from tests.postgres import Postgres, run_server  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

TICKS = os.sysconf("SC_CLK_TCK")
CHAIN = 100
"""Hops of one request of the measurement of hops."""

LEASE = 5.0
"""Seconds of the lease of a server, the default."""

REQUEST_ONE, REQUEST_THREE = 1.6, 1.15
"""Aims for the CPU of a request: of one server against SQLite, and of three against one."""

OTHER_KB = 0.5
"""Aim for the memory of a conversation that is not live: less than an object of its own has."""

WAITS = 60
"""Requests of one principal that may wait at a door at once."""

LISTENERS = """
name: bench
http: {bind: "127.0.0.1:0"}
listeners:
  - {name: desk, description: Takes orders., payload_class: bench_desk.Order, handler: bench_desk.desk,
     replies: bench_desk.Answer, peers: [tool, page], concurrency: 1024}
  - {name: tool, description: Answers., payload_class: bench_desk.Ask, handler: bench_desk.tool, concurrency: 1024}
  - {name: page, description: Reads a page of a stranger., payload_class: bench_desk.Ask, handler: bench_desk.page,
     replies: bench_desk.Page, trust: source, concurrency: 1024}
limits: {principal_conversations: 1000000, principal_queue: 100000, queue: 100000, hops: 10000, concurrency: 1024,
         messages: 100000, drain: 3s}
"""

CODE = '''
from dataclasses import dataclass

from agentserver import HandlerResponse, xmlify


@xmlify
@dataclass(frozen=True)
class Order:
    """An order: so many calls of a tool, or a page to be read."""

    calls: int
    text: str


@xmlify
@dataclass(frozen=True)
class Ask:
    calls: int
    text: str


@xmlify
@dataclass(frozen=True)
class Answer:
    calls: int
    text: str


@xmlify
@dataclass(frozen=True)
class Page:
    text: str


async def desk(payload: object, metadata) -> HandlerResponse:
    if isinstance(payload, Order) and payload.calls < 0:
        return HandlerResponse(Ask(-payload.calls, payload.text), "page")
    if isinstance(payload, Order | Answer) and payload.calls > 0:
        return HandlerResponse(Ask(payload.calls - 1, payload.text), "tool")
    return HandlerResponse.respond(Answer(0, "done"))


async def tool(payload: Ask, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Answer(payload.calls, payload.text))


async def page(payload: Ask, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Page(" ".join(f"{payload.text}{number}" for number in range(payload.calls // 12))))
'''

TRACKED = "provenance: {}"
TEXT = "x" * 300


class Printer:
    """Prints figures: as text at a terminal, as JSON elsewhere."""

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain

    def __call__(self, measure: str, **figures: Any) -> None:
        """Print the figures of one measurement. Lists are shown as median, least and most."""
        if not self._plain:
            print(json.dumps({"measure": measure, **figures}), flush=True)
            return
        shown = (f"{name.replace('_', ' ')} {self._shown(value)}" for name, value in figures.items())
        print(f"{measure:<9} {'   '.join(shown)}", flush=True)

    def _shown(self, value: Any) -> str:
        if isinstance(value, list):
            return f"{statistics.median(value):.4g} ({min(value):.4g} to {max(value):.4g})"
        return f"{value:.4g}" if isinstance(value, float) else str(value)


def cpu(pid: int, *, children: bool = True) -> float:
    """Seconds of CPU of a process, of the children that have ended, and of those that live."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        alive = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split() if children else []
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS + sum(cpu(int(child)) for child in alive)


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text("utf-8").split()[1]) * 4096


class Line:
    """A client's connection to one server, which is kept."""

    def __init__(self, server: Server, token: str) -> None:
        self._server, self._token = server, token
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Make a request; return its status and body. Again where the server closed a connection without requests."""
        try:
            return await self._ask(method, path, body)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.close()
            return await self._ask(method, path, body)

    async def _ask(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        port = int(self._server.url.rpartition(":")[2])
        if self._writer is None or self._writer.is_closing() or self._reader is None or self._reader.at_eof():
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {self._token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        self._writer.write(head.encode() + data)
        found = await self._reader.readuntil(b"\r\n\r\n")
        length = int(found.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0] or 0)
        text = await self._reader.readexactly(length)
        return int(found[9:12]), json.loads(text) if text else None

    def close(self) -> None:
        """Close it."""
        if self._writer is not None:
            self._writer.close()


@dataclass
class Cluster:
    """Servers that run, and their database if they have one."""

    servers: list[Server]
    tokens: list[str]
    database: Postgres | None = None

    def cpu(self) -> tuple[float, float]:
        """Seconds of CPU of the servers, and of the database."""
        return sum(cpu(one.pid) for one in self.servers), cpu(self.database.pid) if self.database else 0.0

    def lines(self, number: int = 0) -> list[Line]:
        """A connection to each server, as the principal of the client of this number."""
        return [Line(server, self.tokens[number % len(self.tokens)]) for server in self.servers]

    def query(self, statement: str) -> str:
        """Ask the database."""
        assert self.database is not None
        words = ("psql", "-h", str(self.database.folder), "-U", "postgres", "-Atqc", statement)
        return str(self.database.run(*words).stdout).strip()


def add_principal(folder: Path, name: str, url: str) -> str:
    """Add a principal; gives its token."""
    name = f"{name}-{time.monotonic_ns()}"
    return str(command(folder, "principals", "add", name, *RIGHTS, DATABASE_URL=url).stdout.strip())


@asynccontextmanager
async def cluster(
    count: int,
    folder: Path,
    url: str = "",
    database: Postgres | None = None,
    more_keys: str = "",
    principals: int = 1,
) -> AsyncIterator[Cluster]:
    """Servers of one organism: on the database of ``url``, or one on a file of its own."""
    keeping = "engine: {postgres: {url: '${DATABASE_URL}'}}" if url else "journal: {path: journal.sqlite}"
    (folder / "bench_desk.py").write_text(CODE, "utf-8")
    listeners = LISTENERS if more_keys else LISTENERS.replace("trust: source, ", "")
    (folder / "organism.yaml").write_text(f"{listeners}{keeping}\n{more_keys}\n", "utf-8")
    more = {"DATABASE_URL": url}
    if url:
        await asyncio.to_thread(command, folder, "engine", "migrate", **more)
    tokens = [
        await asyncio.to_thread(add_principal, folder, f"bench{number}", url) for number in range(principals)
    ]
    servers = [Server(folder, f"s{number}", **more) for number in range(count)]
    for server in servers:
        server.launch()
    try:
        for server in servers:
            await asyncio.to_thread(server.await_door)
        yield Cluster(servers, tokens, database)
    finally:
        for server in servers:
            if server.alive:
                server.signal(signal.SIGTERM)
        for server in servers:
            await asyncio.to_thread(server.kill if server.process is None else server.process.wait)


async def open_conversation(line: Line) -> str:
    """Open a conversation; gives its path."""
    status, found = await line.ask("POST", "/v1/conversations")
    assert status == 201, found
    return f"/v1/conversations/{found['conversation']}"


async def order(line: Line, path: str, calls: int = 0, text: str = TEXT) -> None:
    """Send an order and wait for its answer."""
    body = {"calls": calls, "text": text}
    status, found = await line.ask("POST", f"{path}/messages?to=desk&payload=Order&wait=60", body)
    while status in {202, 503}:  # 503: its owner is gone, and its lease not yet over
        if status == 503:
            await asyncio.sleep(0.1)
            status, found = await line.ask("POST", f"{path}/messages?to=desk&payload=Order&wait=60", body)
            continue
        await asyncio.sleep(0.01)
        status, found = await line.ask("GET", f"{path}/events?wait=1&after={found['after']}")
    assert status == 200, (status, found)


async def load(found: Cluster, clients: int, each: int, calls: int, *, anywhere: bool) -> float:
    """Have clients send so many orders each; gives the seconds that this took."""
    random = Random(clients)

    async def client(number: int) -> None:
        lines = found.lines(number)
        home = lines[number % len(lines)]
        path = await open_conversation(home)
        for _ in range(each):
            await order(random.choice(lines) if anywhere else home, path, calls)
        for line in lines:
            line.close()

    began = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    return time.perf_counter() - began


async def request_cost(found: Cluster, requests: int, *, anywhere: bool) -> dict[str, float]:
    """Measure milliseconds of CPU of a request, and requests a second."""
    clients = 16
    await load(found, clients, 3, 0, anywhere=anywhere)
    before = found.cpu()
    took = await load(found, clients, requests // clients, 0, anywhere=anywhere)
    servers, database = (after - first for after, first in zip(found.cpu(), before, strict=True))
    each = 1000 / requests
    return {"all": (servers + database) * each, "servers": servers * each, "database": database * each,
            "rate": requests / took}  # fmt: skip


WAYS = (
    ("sqlite", 1, False),
    ("postgres", 1, False),
    ("postgres", 2, True),
    ("postgres", 3, True),
    ("postgres", 3, False),
)


class Bench:
    """All measurements, on one database."""

    def __init__(self, say: Printer, database: Postgres, folder: Path, args: argparse.Namespace) -> None:
        self.say, self.database, self.folder, self.args = say, database, folder, args
        self._homes = 0
        self.aims: list[tuple[str, float, float]] = []

    def aim(self, name: str, figure: float, most: float) -> None:
        """Note a figure that has an aim, for the end."""
        self.aims.append((name, figure, most))

    def print_aims(self) -> None:
        """Print each aim with its figure."""
        for name, figure, most in self.aims:
            self.say("aim", of=name, at_most=most, figure=figure, met=figure <= most)
            record(f"several servers: {name}", [figure], most)

    def home(self) -> Path:
        """Make a folder for a project."""
        self._homes += 1
        found = self.folder / f"home{self._homes}"
        found.mkdir()
        return found

    def on(self, count: int, url: str | None = None, more_keys: str = "", principals: int = 1) -> Any:
        """Start servers on the database."""
        there = self.database.url() if url is None else url
        return cluster(count, self.home(), there, self.database, more_keys, principals)

    async def requests(self) -> None:
        """Print what a request costs, against SQLite. The rounds of all ways take turns."""
        ways = (*WAYS[:2], WAYS[3]) if self.args.quick else WAYS
        seen: dict[tuple[str, int, bool], list[dict[str, float]]] = {way: [] for way in ways}
        for _ in range(self.args.rounds):
            for kind, count, anywhere in ways:
                async with self.on(count, "" if kind == "sqlite" else None) as found:
                    cost = await request_cost(found, self.args.requests, anywhere=anywhere)
                    seen[kind, count, anywhere].append(cost)
        base = [one["all"] for one in seen[WAYS[0]]]
        for (kind, count, anywhere), costs in seen.items():
            ratios = [one["all"] / least for one, least in zip(costs, base, strict=True)]
            columns = {f"ms_{name}": [one[name] for one in costs] for name in ("all", "servers", "database")}
            rate = [one["rate"] for one in costs]
            where = "any server" if anywhere else "kept"
            self.say(
                "requests", engine=kind, servers=count, sent_to=where, ratio=ratios, **columns, a_second=rate
            )
        one = [cost["all"] for cost in seen[WAYS[1]]]
        self.aim("CPU a request, one server / SQLite", min(one) / min(base), REQUEST_ONE)
        for (_, count, anywhere), costs in list(seen.items())[2:]:
            text = f"CPU a request, {count} servers / one, {'any server' if anywhere else 'kept'}"
            self.aim(text, min(cost["all"] for cost in costs) / min(one), REQUEST_THREE)

    async def idle(self) -> None:
        """Print the CPU of servers that have nothing to do."""
        for count in (1,) if self.args.quick else (1, 3):
            async with self.on(count) as found:
                await asyncio.sleep(3)
                before = found.cpu()
                await asyncio.sleep(self.args.idle)
                servers, database = (
                    (after - first) * 1000 / self.args.idle
                    for after, first in zip(found.cpu(), before, strict=True)
                )
                self.say(
                    "idle", servers=count, ms_a_second_of_servers=servers, ms_a_second_of_database=database
                )

    async def hops(self) -> None:
        """Print hops a second."""
        for count in (1,) if self.args.quick else (1, 3):
            async with self.on(count, principals=max(self.args.flights) // WAITS + 1) as found:
                await load(found, 4, 1, CHAIN // 2, anywhere=False)
                for flight in self.args.flights:
                    each = max(1, self.args.hops // (flight * CHAIN)) if flight > 1 else 2
                    rates = []
                    for _ in range(self.args.rounds):
                        took = await load(found, flight, each, CHAIN // 2, anywhere=False)
                        rates.append(flight * each * (CHAIN + 1) / took)
                    self.say("hops", servers=count, in_flight=flight, a_second=rates)

    async def way(self) -> None:
        """Print what a hop sends to the database and has it write."""
        proxy = Proxy([self.database.folder / ".s.PGSQL.5432"])
        await proxy.open()
        async with self.on(1, proxy.url()) as found:
            await load(found, 4, 1, CHAIN // 2, anywhere=False)
            for flight in (1, 64):
                before, traffic = found.query(WRITTEN).split("|"), (vars(proxy.traffic)).copy()
                await load(found, flight, 2, CHAIN // 2, anywhere=False)
                await asyncio.sleep(1.5)  # the statistics of the database come late
                after, hops = found.query(WRITTEN).split("|"), flight * 2 * (CHAIN + 1)
                names = ("wal", "suspects", "commits")
                rows = {
                    name: (float(b) - float(a)) / hops
                    for name, a, b in zip(names, before, after, strict=True)
                }
                turns, sent, received = (
                    (vars(proxy.traffic)[name] - traffic[name]) / hops
                    for name in ("turns", "sent", "received")
                )
                self.say("a hop", in_flight=flight, round_trips=turns, bytes_sent=sent, bytes_received=received,
                         wal_bytes=rows["wal"], rows_of_marks=rows["suspects"],
                         transactions=rows["commits"])  # fmt: skip
        await proxy.close()

    async def memory(self) -> None:
        """Print the memory of a server that has had many conversations, few of them live.

        A first round fills caches, which have bounds: the latest step of so many conversations is the largest. What
        the server holds of an idle conversation shows in the growth that the second round leaves behind.
        """
        many, live = self.args.conversations, 100
        rounds = (0 if self.args.quick else MOST, many - live)
        async with self.on(1) as found:
            (line,), (server,) = found.lines(), found.servers
            paths = [await open_conversation(line) for _ in range(live)]
            for path in paths:
                await order(line, path)
            few, all_held, rested, claimed, took = resident(server.pid), [], [], [], []
            for count in rounds:
                began = time.monotonic()
                await self._hold(found, count)
                took.append(time.monotonic() - began)
                all_held.append(resident(server.pid))
                claimed.append(await self._rest(found, line, paths))
                rested.append(resident(server.pid))
            line.close()
            other = (rested[1] - rested[0]) / rounds[1] / 1e3
            self.say("memory", conversations=many, live=live, mb_with_live_alone=few / 1e6,
                     mb_before_rest=[one / 1e6 for one in all_held], mb_after_rest=[one / 1e6 for one in rested],
                     claimed_after_rest=claimed, kb_of_another=other, opened_in_s=took)  # fmt: skip
            if self.args.rest:  # in the quick form nothing has been idle for long enough to be released
                self.aim("kB of a conversation that is not live", other, OTHER_KB)
                self.aim("conversations claimed, of which 100 are live", max(claimed), live)

    async def _hold(self, found: Cluster, count: int) -> None:
        """Open so many conversations and send an order in each."""

        async def send_some(number: int) -> None:
            (own,) = found.lines()
            for _ in range(number, count, 16):
                await order(own, await open_conversation(own))
            own.close()

        await asyncio.gather(*map(send_some, range(16)))

    async def _rest(self, found: Cluster, line: Line, paths: Sequence[str]) -> int:
        """Use some conversations until the server has given back all others; return how many it still has."""
        end = time.monotonic() + self.args.rest
        while True:
            for path in paths:
                await order(line, path)
            owned = int(found.query("select count(*) from agentserver.conversation where owner is not null"))
            if owned <= len(paths) or time.monotonic() > end:
                return owned
            await asyncio.sleep(5)

    async def move(self) -> None:
        """Print what it costs to move a conversation with so much foreign text."""
        proxy = Proxy([self.database.folder / ".s.PGSQL.5432"])
        await proxy.open()
        async with AsyncExitStack() as stack:
            one = await stack.enter_async_context(self.on(1, more_keys=TRACKED))
            two = await stack.enter_async_context(self.on(1, proxy.url(), TRACKED))
            (first,), (second,) = one.lines(), two.lines()
            second = Line(two.servers[0], one.tokens[0])
            path = await open_conversation(first)
            for number in range(self.args.history // 10_000):
                await order(first, path, -10_000, f"word{number}x")
            (size,) = found_size(one, path)
            await asyncio.to_thread(one.servers[0].stop)
            small = await open_conversation(second)
            await order(second, small)
            figures = {}
            for name in ("moved", "after"):
                before, began = proxy.traffic.received, time.perf_counter()
                await order(second, path)
                figures[name] = (
                    (time.perf_counter() - began) * 1000,
                    (proxy.traffic.received - before) / 1e3,
                )
            second.close()
            self.say("move", history_kb=self.args.history / 1e3, kept_kb=size / 1e3, ms_moved=figures["moved"][0],
                     kb_read=figures["moved"][1], ms_after=figures["after"][0],
                     kb_after=figures["after"][1])  # fmt: skip
        await proxy.close()

    async def takeover(self) -> None:
        """Print the seconds from the kill of a server to the answers of others for its conversations."""
        async with self.on(2 if self.args.quick else 3) as found:
            times: list[float] = []
            for number in range(self.args.kills):
                await asyncio.sleep(LEASE + 1)  # a server that has just connected ends no lease
                victim = number % len(found.servers)
                lines = found.lines()
                paths = [await open_conversation(lines[victim]) for _ in range(8)]
                for path in paths:
                    await order(lines[victim], path)
                found.servers[victim].kill()
                began = time.monotonic()

                async def time_answer(
                    number: int, path: str, gone: int = victim, began: float = began
                ) -> float:
                    lines = [line for at, line in enumerate(found.lines()) if at != gone]
                    await order(lines[number % len(lines)], path)
                    return time.monotonic() - began

                times += await asyncio.gather(*(time_answer(at, path) for at, path in enumerate(paths)))
                await asyncio.to_thread(found.servers[victim].start)
            self.say("takeover", seconds=times, kills=self.args.kills)
            self.aim("takeover s, slowest", max(times), LEASE + 1)

    async def bloat(self) -> None:
        """Print the size and the dead rows of the tables after many steps."""
        async with self.on(1) as found:
            first = int(found.query("select count(*) from agentserver.step"))
            done, took = 0, 0.0
            while done < self.args.steps:
                took += await load(found, 64, 1, CHAIN // 2, anywhere=False)
                done = int(found.query("select count(*) from agentserver.step")) - first
            for row in found.query(SIZES).splitlines():
                name, alive, dead, size, vacuums = row.split("|")
                self.say("bloat", table=name, steps=done, rows=int(alive), dead_rows=int(dead),
                         bytes_a_step=int(size) / (first + done), autovacuums=int(vacuums))  # fmt: skip
            self.say("bloat", steps=done, steps_a_second=done / took)


WRITTEN = (
    "select pg_current_wal_lsn() - '0/0', (select n_tup_ins + n_tup_upd + n_tup_del from pg_stat_user_tables"
    " where relname = 'suspect'), (select xact_commit from pg_stat_database where datname = 'postgres')"
)
SIZES = (
    "select relname, n_live_tup, n_dead_tup, pg_total_relation_size(relid), autovacuum_count from pg_stat_user_tables"
    " where n_live_tup + n_dead_tup > 0 or pg_total_relation_size(relid) > 1000000 order by 4 desc"
)


def found_size(found: Cluster, path: str) -> tuple[int]:
    """Bytes of the rows of a conversation's steps and deliveries."""
    key = path.rpartition("/")[2]
    return (int(found.query(
        "select (select sum(pg_column_size(s.*)) from agentserver.step s where s.conversation = c.number) +"
        " (select sum(pg_column_size(d.*)) from agentserver.delivery d where d.conversation = c.number)"
        f" from agentserver.conversation c where c.id = '{key}'"
    )),)  # fmt: skip


def measures(bench: Bench, names: Sequence[str]) -> list[Callable[[], Coroutine[Any, Any, None]]]:
    """The measurements of these names, or all."""
    every = {"requests": bench.requests, "idle": bench.idle, "hops": bench.hops, "way": bench.way,
             "takeover": bench.takeover, "memory": bench.memory, "move": bench.move, "bloat": bench.bloat}  # fmt: skip
    return [work for name, work in every.items() if not names or name in names]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default="", help="some of requests,idle,hops,way,takeover,memory,move,bloat"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=1600)
    parser.add_argument("--hops", type=int, default=12_800)
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=9)
    parser.add_argument("--history", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="few of everything")
    args = parser.parse_args()
    args.flights, args.rest, args.idle = (1, 16, 64, 256), 120, 20
    if args.quick:
        args.rounds, args.requests, args.hops, args.flights = 1, 160, 400, (16,)
        args.conversations, args.rest, args.history, args.steps = 200, 0, 100_000, 2000
        args.idle, args.kills = 2, 1
    names = [name for name in args.only.split(",") if name]
    with (
        run_server(fsync="on", shared_buffers="'128MB'", track_counts="on") as database,
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
    ):
        bench = Bench(Printer(plain=sys.stdout.isatty()), database, Path(folder), args)
        for work in measures(bench, names):
            asyncio.run(work())
        bench.print_aims()


if __name__ == "__main__":
    main()
