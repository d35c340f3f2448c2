"""Work that must not grow: an action's cost with n of something, over what it costs beside 10.

Each row is one action: its CPU microseconds (median of windows, after a warm-up) at n = 10 and at n = 1,000, their
ratio, and the ratio of calls of Python functions, which do not depend on the machine. Aim: 1.2. The journal's rows
use a file with relaxed sync, so that CPU and bytes show and not the disk.

    ./run bench scale
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

sys.path.insert(0, str(Path(__file__).parent / "shop"))

import organism as shops
import shop
from _targets import record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentserver.assembly import Server
    from agentserver.pump.handle import ServerHandle

FEW, MANY = 10, 1000
AIM = 1.2
WINDOWS, WINDOW, WARM = 12, 50, 100
ORDER = shop.Order('R&D says "5 < 7": ' + "x" * 90, 1, 199.95, urgent=True)


class Probe:
    """One server, one conversation, and what an action in it costs."""

    def __init__(self, server: Server, handle: ServerHandle, n: int) -> None:
        self.server, self.handle, self.n = server, handle, n

    def data(self, count: int = 1) -> bytes:
        """An order as a gateway hands it in."""
        order = replace(ORDER, count=count)
        return self.server.rules.codecs.of(shop.Order).encode(order).encode()

    async def ask(self) -> None:
        """A request and its answer."""
        await self.handle.ask(self.data(), "echo")

    async def send(self) -> None:
        """Hand in a message that nothing is ever done about."""
        await self.handle.send(self.data(), "stay")


async def threads(probe: Probe) -> Callable[[], Awaitable[None]]:
    """A request in a conversation with n idle threads."""
    await probe.handle.ask(probe.data(probe.n), "many")
    return probe.ask


async def requests(probe: Probe) -> Callable[[], Awaitable[None]]:
    """A message sent while n requests of the conversation are open, and those that were sent before it."""
    for _ in range(probe.n):
        await probe.send()
    return probe.send


async def answers(probe: Probe) -> Callable[[], Awaitable[None]]:
    """A request and its answer while n requests of the conversation are open."""
    await requests(probe)
    return probe.ask


async def add_listeners(probe: Probe) -> Callable[[], Awaitable[None]]:
    """A request in an organism of n listeners more."""
    return probe.ask


async def conversations(probe: Probe) -> Callable[[], Awaitable[None]]:
    """A request while n other conversations are open."""
    for number in range(probe.n):
        await (await probe.server.open(f"other{number}")).ask(probe.data(), "echo")
    return probe.ask


ROWS: dict[str, tuple[Callable[[Probe], Awaitable[Callable[[], Awaitable[None]]]], bool]] = {
    "threads of the conversation": (threads, False),
    "open requests": (requests, False),
    "an answer beside open requests": (answers, False),
    "listeners": (add_listeners, False),
    "other conversations": (conversations, False),
    "threads, with a journal": (threads, True),
    "open requests, with a journal": (requests, True),
    "other conversations, with a journal": (conversations, True),
}


async def cost(act: Callable[[], Awaitable[None]]) -> dict[str, float]:
    """CPU microseconds and calls of one action."""
    for _ in range(WARM):
        await act()
    took = []
    for _ in range(WINDOWS):
        start = time.process_time()
        for _ in range(WINDOW):
            await act()
        took.append((time.process_time() - start) / WINDOW * 1e6)
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    for _ in range(WINDOW):
        await act()
    sys.setprofile(None)
    return {"cpu": statistics.median(took), "calls": calls / WINDOW}


async def probe_once(row: str, n: int, folder: Path) -> dict[str, float]:
    """One measurement."""
    prepare, durable = ROWS[row]
    shop.meters[:] = [shop.Meter(lambda: True, lambda: None)]
    path = folder / "journal.sqlite" if durable else None
    with shops.organism("Order", more=n if row == "listeners" else 0) as organism:
        async with shops.server(organism, path) as server:
            handle = await server.open("bench")
            act = await prepare(Probe(server, handle, n))
            before = size(path)
            found = await cost(act)
            acts = WARM + WINDOWS * WINDOW + WINDOW
            return {**found, "bytes": (size(path) - before) / acts}


def size(path: Path | None) -> int:
    """Bytes of a journal with its log."""
    return 0 if path is None else sum(each.stat().st_size for each in path.parent.glob(path.name + "*"))


def child(row: str, n: int) -> None:
    """One measurement; prints one JSON line."""
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        print(json.dumps(anyio.run(probe_once, row, n, Path(folder))))


def measure(row: str, n: int) -> dict[str, Any]:
    """What a fresh process measures."""
    command = [sys.executable, str(Path(__file__)), "--child", row, str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", choices=ROWS, action="append", help="only this row (may be repeated)")
    parser.add_argument("--many", type=int, default=MANY)
    parser.add_argument("--child", nargs=2, metavar=("ROW", "N"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], int(args.child[1]))
        return
    print(
        f"{'':38}{'us at 10':>10}{f'us at {args.many}':>12}{'ratio':>8}{'calls':>8}   aim {AIM}", flush=True
    )
    for row in args.row or ROWS:
        few, many = measure(row, FEW), measure(row, args.many)
        ratio, calls = many["cpu"] / few["cpu"], many["calls"] / few["calls"]
        record(f"{row}, {args.many} over {FEW}", [ratio], AIM)
        print(f"{row:38}{few['cpu']:>10.0f}{many['cpu']:>12.0f}{ratio:>8.2f}{calls:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
