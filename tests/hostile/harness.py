"""The harness of attacks: starts ``agentserver serve`` as a process and measures what an attack costs it.

Owns the process, the sampling of /proc and the probe that ordinary clients are still answered. Traffic goes to loopback
only; each attack bounds its own number of requests. Knows no attack. Attacks run in an event loop of their own and may
not block it under pytest: ``usage`` and ``log`` of a target are read before and after, or in a thread.

An attack is a module ``attack_NAME.py`` in this folder with a tuple ``ATTACKS``::

    async def nested(server: Target) -> str:
        async with server.client() as client: ...
        return "413 to each"          # the outcome; raise AssertionError when the server did not hold

    ATTACKS = (Attack("deep body", nested, ORGANISM),)
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx

from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.principals import Caller, Rate, Role, document, tokens
from tests.cli.served import write
from tests.machine import HANGS, PLAIN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
TICK = os.sysconf("SC_CLK_TCK")
PROBES = 0.05
"""Seconds between two requests of the client that only wants to be served."""


@dataclass(frozen=True)
class Usage:
    """The resources that a process has used.

    Args:
        loop: CPU seconds of its first thread, which runs the event loop.
        cpu: CPU seconds of all its threads.
        rss: resident bytes now.
        peak: most resident bytes since ``Target.forget_peak``.
    """

    loop: float
    cpu: float
    rss: int
    peak: int


def usage(pid: int) -> Usage:
    """Read the usage of a process from /proc. Raises OSError when it has ended."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    sizes = {
        name: int(kib) * 1024 for name, kib in re.findall(r"^(VmRSS|VmHWM):\s+(\d+)", status, re.MULTILINE)
    }
    if not sizes:
        raise ProcessLookupError(pid)  # a zombie
    return Usage(
        _cpu(f"/proc/{pid}/task/{pid}/stat"), _cpu(f"/proc/{pid}/stat"), sizes["VmRSS"], sizes["VmHWM"]
    )


def _cpu(path: str) -> float:
    fields = Path(path).read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@dataclass
class Target:
    """A running server.

    Args:
        process: of the server.
        url: at which it listens.
        home: the directory of its organism.
        tokens: of the principals that were enrolled, by name.
    """

    process: subprocess.Popen[bytes]
    url: str
    home: Path
    tokens: dict[str, str]

    @property
    def usage(self) -> Usage:
        """Its usage now. Fails with its log when it has ended."""
        try:
            return usage(self.process.pid)
        except OSError:
            raise AssertionError(f"the server has ended: {self.log[-3000:]}") from None

    @property
    def log(self) -> str:
        """Everything that it has written to standard error."""
        return (self.home / "server.log").read_text("utf-8", "replace")

    def forget_peak(self) -> None:
        """Let the peak of its memory begin at its present size."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", "ascii")

    async def posted(self, path: str, body: bytes, heads: dict[str, str], name: str = "ada") -> int:
        """Post a body on a connection of its own. Returns the status, or 0 when the connection was cut."""
        async with self.client(name) as client:
            try:
                return (await client.post(path, content=body, headers=heads)).status_code
            except httpx.TransportError:
                return 0

    def client(self, name: str = "ada", **more: object) -> httpx.AsyncClient:
        """Make a client that shows the token of a principal."""
        heads = {"authorization": f"Bearer {self.tokens[name]}"}
        return httpx.AsyncClient(
            base_url=self.url, headers=heads, timeout=HANGS, trust_env=False, verify=PLAIN, **more
        )


@dataclass(frozen=True)
class Attack:
    """One attack.

    Args:
        name: for the table.
        run: attacks a server and returns the outcome; an AssertionError or a lost connection means that the server did not hold.
        prepare: writes the organism into a directory.
        around: entered after that with the directory, and left after the server has ended: for companion processes.
        principals: names to enrol, with their roles.
        loop: most CPU seconds of the event loop that the attack may cost; None only prints it.
        memory: most bytes that the peak may lie above the size before; None only prints it.
        env: more environment of the server.
    """

    name: str
    run: Callable[[Target], Awaitable[str]]
    prepare: Callable[[Path], None] = lambda home: write(home, "http: {bind: '127.0.0.1:0'}")
    around: Callable[[Path], AbstractContextManager[None]] = lambda _: nullcontext()
    principals: dict[str, Role] = field(default_factory=lambda: {"ada": Role.OPERATOR})
    loop: float | None = None
    memory: int | None = None
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """The outcome of one attack.

    Args:
        attack: its name.
        met: the outcome.
        before: usage when it began.
        after: usage when it was over.
        seconds: of wall time.
        slowest: seconds of the slowest answer that an ordinary client got meanwhile.
        held: whether the server held.
    """

    attack: str
    met: str
    before: Usage
    after: Usage
    seconds: float
    slowest: float
    held: bool

    @property
    def loop(self) -> float:
        """CPU seconds of the event loop."""
        return self.after.loop - self.before.loop

    @property
    def memory(self) -> int:
        """Bytes of the peak above the size before."""
        return self.after.peak - self.before.rss

    def __str__(self) -> str:
        """The row of a table."""
        cpu = f"{self.loop:6.2f} s loop {self.after.cpu - self.before.cpu:6.2f} s all"
        memory = f"{self.before.rss / 1e6:5.0f} MB +{self.memory / 1e6:5.0f} MB"
        word = "held" if self.held else "FAILED"
        return f"{self.attack:<44} {cpu}  {memory}  {self.slowest:6.2f} s slowest  {word:<6}  {self.met}"


@contextmanager
def serve_directory(attack: Attack, home: Path) -> Iterator[Target]:
    """Serve the organism in a directory as a process, which is killed at the end."""
    shown = {name: enrol(home, name, role) for name, role in attack.principals.items()}
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "agentserver", "serve", "organism.yaml"],
            cwd=home, env={**os.environ, "PYTHONPATH": str(ROOT), **attack.env},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        yield Target(process, _address(process, home), home, shown)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def enrol(home: Path, name: str, role: Role = Role.USER, rate: float = 100_000, opens: int = 100_000) -> str:
    """Enrol a principal of an organism whose journal lies in ``out`` and return its token."""
    caller = Caller(Principal(name, Trust.ORDERS, None), role, Rate(rate, "s"), opens)
    return tokens.add(document.locate_principal_file(home / "out" / "journal.sqlite"), caller)


def _address(process: subprocess.Popen[bytes], home: Path) -> str:
    log = home / "server.log"
    until = time.monotonic() + HANGS
    while process.poll() is None and time.monotonic() < until:
        found = re.search(r"^(http://127\.0\.0\.1:\d+)$", log.read_text("utf-8", "replace"), re.MULTILINE)
        if found:
            return found[1]
        time.sleep(0.02)
    raise AssertionError(f"the server does not start: {log.read_text('utf-8', 'replace')[-3000:]}")


def measure(attack: Attack, home: Path) -> Row:
    """Run one attack, in an event loop of its own, against a server of its own."""
    attack.prepare(home)
    with attack.around(home), serve_directory(attack, home) as target:
        target.forget_peak()
        before, began = target.usage, time.monotonic()
        met, held, slowest = anyio.run(_run_attack, attack, target)
        seconds = time.monotonic() - began
        ended = target.process.poll()
        if ended is not None:
            return Row(
                attack.name,
                f"the server has ended ({ended}): {met}",
                before,
                before,
                seconds,
                slowest,
                held=False,
            )
        return _judge_row(attack, Row(attack.name, met, before, target.usage, seconds, slowest, held))


async def _run_attack(attack: Attack, target: Target) -> tuple[str, bool, float]:
    """Run an attack and an ordinary client: the outcome, whether the server held, the slowest ordinary answer."""
    slowest = [0.0]
    async with target.client(next(iter(attack.principals))) as bystander, anyio.create_task_group() as tasks:
        await bystander.get("/healthz")
        tasks.start_soon(_stand_by, bystander, slowest)
        try:
            met, held = await attack.run(target), True
        except (AssertionError, httpx.TransportError) as error:
            met, held = " ".join(f"{type(error).__name__}: {error}".split())[:200], False
        tasks.cancel_scope.cancel()
    return met, held, slowest[0]


def _judge_row(attack: Attack, row: Row) -> Row:
    over = [
        text
        for text, used, most in (
            ("CPU of the loop", row.loop, attack.loop),
            ("bytes", row.memory, attack.memory),
        )
        if most is not None and used > most
    ]
    if not over:
        return row
    met = f"more {' and '.join(over)} than allowed; {row.met}"
    return Row(row.attack, met, row.before, row.after, row.seconds, row.slowest, held=False)


async def _stand_by(client: httpx.AsyncClient, slowest: list[float]) -> None:
    """Ask for the health of the server now and then and note the slowest answer."""
    while True:
        began = time.monotonic()
        try:
            await client.get("/healthz")
        except httpx.HTTPError:
            pass  # that it was not served shows in the time
        finally:
            slowest[0] = max(slowest[0], time.monotonic() - began)
        await anyio.sleep(PROBES)


def attacks() -> Iterator[Attack]:
    """Yield the attacks of every module ``attack_*.py`` in this folder, in order of their names."""
    for path in sorted(Path(__file__).parent.glob("attack_*.py")):
        yield from import_module(f"tests.hostile.{path.stem}").ATTACKS
