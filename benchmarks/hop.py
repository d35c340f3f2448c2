"""What a hop costs, as ratios measured in one run.

A table for each size of message. A row is a way that messages take through a real server, which was loaded from YAML,
built and opened as a user would; `off` has no `provenance:`, `audit` has it with nothing untrusted in the
conversation, and `undeclared` has it with nothing declared, so that each listener counts as source and sink: two of
them pass the principal's own words on (`ask and answer`), or say something new each time (`new words`), which is
flagged each time. `dirty` is `audit` in a conversation that has read a page of a source, so that both may pass on a
stranger's words. Columns: CPU microseconds per delivery (median of the rounds, and their spread), the ratio to the
floor, the ratio to the floor with decoding and encoding, and calls of Python functions per delivery, which do not
depend on the machine: the event loop turns after as many deliveries as it does without counting. The floor is a bare
loop of lxml: parse with a hardened parser, validate the envelope and the payload, build an envelope around the
payload, serialise. A hop of the server does less in one respect: it parses and validates what a handler said once, and
does not parse the envelope again on the way to the next handler. The text of every message needs escaping. The
collector of a server is set as ``agentserver run`` sets it: one collection of all that the start has made would take
as long as 500 hops, and whether it falls into a measurement is chance.

Every figure comes from a fresh process; rounds of all candidates are interleaved, and ratios are medians over rounds,
because the machine may be shared. The core is pure Python: nothing is compiled.

A hop of a long conversation is compared with one of its beginning: the hops of the last part of GROWN with those of the
first part.

The longest pauses of the event loop come last, as a second task of the loop sees them between two of its turns: in CPU
time of the loop's thread, and by the clock, which includes what else the machine did. A relay reads pages of a source
until the conversation holds so much untrusted text. Then it calls a sink with a quantity for the first time, and again.

    ./run bench hop                  # floor and agentserver
    ./run bench hop --rounds 6       # six rounds
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from lxml import etree

sys.path.insert(0, str(Path(__file__).parent / "shop"))

import organism as shops
import shop
from _targets import record

from agentserver.cli.process import collect_as_usual, collect_rarely
from agentserver.engines.sqlite.marks import MarkFile
from agentserver.payload.codec import Codecs
from agentserver.pump import schedule
from agentserver.wire import envelope

if TYPE_CHECKING:
    from agentserver.assembly import Server

WARM = 400
IN_A_SPELL = 6
"""Deliveries between two turns of the event loop while calls are counted: as many as take 0.3 ms."""
NEW_WORDS = {"0.4 kB": (60, 400), "4 kB text": (30, 150), "64 kB text": (10, 40)}
"""Deliveries before the measurement, and in it, where each adds untrusted text to the conversation."""
GROWN = 3000
"""Deliveries of a conversation whose last sixth is compared with its second one; the first has what begins once."""
GROWTH_AIM = 1.1
DIRTY_AIM = 1.5
"""Times the same hop of a clean conversation."""
PAUSES = ((1_000_000, 8_000), (10_000_000, 8_000), (10_000_000, 64_000))
"""Characters of history, and of each page."""
FULL = 1000
"""Deliveries from which on a measurement has its full length; below, only the shorter history is read."""
PAUSE_AIM = 20.0
"""Milliseconds."""
LIVE_AIM = 2.5
"""Kilobytes of a live conversation."""
OUTER: Any = {None: envelope.NAMESPACE}
THREAD = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
ESCAPED = 'R&D says "5 < 7" & so on: '
AIMS = {
    ("ask and answer", "off"): 3.5,
    ("ask and answer", "audit"): 4.0,
    ("ask and answer", "undeclared"): 12.0,
    ("new words", "undeclared"): 20.0,
    ("chain of 10", "off"): 5.0,
    ("chain of 10", "audit"): 5.5,
    ("fan-out 1-100-1", "off"): 4.5,
    ("from outside", "off"): 9.0,
}
"""Times the floor, at 0.4 kB, for pure Python."""

PAYLOADS: dict[str, shop.Order | shop.Items] = {
    "0.4 kB": shop.Order(ESCAPED + "x" * 90, 1, 199.95, urgent=True),
    "4 kB text": shop.Order(ESCAPED + "x" * 3400, 1, 199.95, urgent=True),
    "64 kB text": shop.Order(ESCAPED + "x" * 64000, 1, 199.95, urgent=True),
    "4 kB items": shop.Items([f"SKU-{n:05d} & {n}" for n in range(140)]),
}
FLOORS = {"floor": False, "floor with codec": True}
WAYS = {
    "ask and answer": "ask",
    "chain of 10": "step0",
    "fan-out 1-100-1": "spread",
    "from outside": "echo",
    "new words": "ask_new",
}


class Window:
    """CPU time or calls from the ``warm``-th delivery on, until ``hops`` more have passed.

    Args:
        hops: deliveries that count.
        warm: deliveries before them.
        counting: whether calls are counted instead of time.
    """

    def __init__(self, hops: int, warm: int = WARM, *, counting: bool = False) -> None:
        self.hops, self.warm, self.seen, self.start, self.cpu = hops, warm, 0, 0.0, 0.0
        self.counting, self.calls = counting, 0

    def hit(self) -> bool:
        """Count a delivery; False when there have been enough."""
        self.seen += 1
        if self.seen == self.warm:
            self.start = time.process_time()
            if self.counting:
                sys.setprofile(self._call)
        elif self.seen == self.warm + self.hops:
            sys.setprofile(None)
            self.cpu = time.process_time() - self.start
        return self.seen < self.warm + self.hops

    def _call(self, _frame: object, event: str, _arg: object) -> None:
        self.calls += event == "call"


def floor(window: Window, payload: Any, *, coded: bool) -> None:
    """Bare lxml, no event loop."""
    codec = Codecs([type(payload)]).of(type(payload))
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    outer = etree.XMLSchema(etree.fromstring(envelope.SCHEMA.encode()))
    inner = etree.XMLSchema(etree.fromstring(codec.xsd().encode()))
    raw = envelope.write("a", "b", THREAD, codec.encode(payload))
    space = f"{{{envelope.NAMESPACE}}}"
    while window.hit():
        root = etree.fromstring(raw, parser)
        if not (outer.validate(root) and inner.validate(root[-1])):
            raise ValueError("the message is valid")
        if coded:
            codec.encode(codec.decode(root[-1]))
        built = etree.Element(f"{space}message", nsmap=OUTER)
        for name, said in (("from", "a"), ("to", "b"), ("thread", THREAD)):
            etree.SubElement(built, space + name).text = said
        built.append(root[-1])
        raw = etree.tostring(built)


def way(window: Window, payload: Any, to: str, provenance: str) -> None:
    """Send messages through a server until the window ends."""
    over = anyio.Event()
    collect_rarely()
    if window.counting:  # which takes time itself, so the loop turns after deliveries as quick as without it
        schedule.SPELL = IN_A_SPELL
        schedule.RunQueue.__init__.__defaults__ = (count().__next__,)
    to = "ask_dirty" if provenance == "dirty" else to
    if to == "ask_new":
        shop.new_words[:] = [shop.NewWords((window.warm + window.hops + 2) * len(payload.note))]
    shop.meters[:] = [shop.Meter(window.hit, over.set)]

    async def talk(server: Server) -> None:
        async with server, anyio.create_task_group() as tasks:
            collect_as_usual()
            handle = await server.open("bench")
            data = server.rules.codecs.of(type(payload)).encode(payload).encode()

            async def send() -> None:
                while not over.is_set():
                    await handle.ask(data, to)

            tasks.start_soon(send)
            await over.wait()
            tasks.cancel_scope.cancel()

    with shops.organism(type(payload).__name__, provenance) as organism:
        anyio.run(talk, shops.server(organism))


class Stretches(Window):
    """CPU time of the sixths of a number of deliveries."""

    def __init__(self, hops: int) -> None:
        super().__init__(hops, 1)
        self.ends: list[float] = []

    def hit(self) -> bool:
        """Count a delivery; False when there have been enough."""
        going = super().hit()
        if self.seen % (self.hops // 6) == 0:
            self.ends.append(time.process_time())
        return going


def growth(mode: str, hops: int) -> float:
    """CPU time of the last sixth of a conversation's hops over that of the second."""
    stretches = Stretches(hops)
    way(stretches, PAYLOADS["0.4 kB"], "ask", mode)
    took = [after - before for before, after in pairwise(stretches.ends)]
    return took[4] / took[0]


def show_growth(rounds: int, hops: int, mode: str) -> None:
    """Print how a hop grows with its conversation, measured in fresh processes."""
    command = [sys.executable, str(Path(__file__)), "--growth", mode, str(hops)]
    found = []
    for _ in range(rounds):
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        found.append(float(done.stdout.strip().splitlines()[-1]))
    shown = f"{statistics.median(found):>9.2f}{min(found):>9.2f}-{max(found):<5.2f}{GROWTH_AIM:>6.1f}"
    print(f"{f'last sixth of {hops} hops, {mode}':40}{shown}")
    record(f"growth over {hops} hops, provenance {mode}", found, GROWTH_AIM)


def resident() -> int:
    """Resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory(count: int) -> float:
    """Bytes of resident memory per live conversation with one idle thread."""
    payload = PAYLOADS["0.4 kB"]
    shop.meters[:] = [shop.Meter(lambda: True, lambda: None)]

    async def talk(server: Server) -> float:
        kept = []
        async with server:
            data = server.rules.codecs.of(type(payload)).encode(payload).encode()
            for number in range(count + 200):
                if number == 200:
                    start = resident()
                handle = await server.open(f"bench{number}")
                await handle.ask(data, "echo")
                kept.append(handle)
            return (resident() - start) / count

    with shops.organism("Order") as organism:
        return anyio.run(talk, shops.server(organism))


def measure_marks(calls: int) -> float:
    """Measure CPU microseconds for marking a call in the journal's marks file and clearing it."""
    with tempfile.TemporaryDirectory() as folder:
        marks = MarkFile(Path(folder) / "journal.sqlite")
        anyio.run(marks.begin, {}, 64)
        start = time.process_time()
        for _ in range(calls):
            marks.leave(marks.enter(THREAD, THREAD))
        took = time.process_time() - start
        marks.close()
    return took / calls * 1e6


class Watch:
    """A task that sees how long the event loop was held between two of its turns."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    async def watch(self) -> None:
        """Watch until cancelled."""
        cpu, wall = time.thread_time(), time.perf_counter()
        while True:
            await anyio.lowlevel.checkpoint()
            now, clock = time.thread_time(), time.perf_counter()
            self.cpu, self.wall = max(self.cpu, now - cpu), max(self.wall, clock - wall)
            cpu, wall = now, clock

    def take(self) -> tuple[float, float]:
        """The longest pause so far, in milliseconds of CPU time and by the clock; begins again."""
        longest = self.cpu * 1e3, self.wall * 1e3
        self.cpu = self.wall = 0.0
        return longest


def pauses(history: int, page: int) -> dict[str, tuple[float, float]]:
    """The longest pauses of the loop while a conversation reads so much, and while it calls a sink then."""
    collect_rarely()
    shop.meters[:] = [shop.Meter(lambda: True, lambda: None)]
    shop.new_words[:] = [shop.NewWords(history + page)]
    watch = Watch()
    found: dict[str, tuple[float, float]] = {}

    async def talk(server: Server) -> None:
        async with server, anyio.create_task_group() as tasks:
            handle = await server.open("bench")
            codec = server.rules.codecs.of(shop.Order)
            read = codec.encode(shop.Order("Read a page.", page, 1.0, urgent=False)).encode()
            pay = codec.encode(shop.Order("Pay it.", 4711, 98765.4, urgent=True)).encode()
            await handle.ask(read, "reader")
            collect_as_usual()
            tasks.start_soon(watch.watch)
            for _ in range(history // page):
                await handle.ask(read, "reader")
            found["reading"] = watch.take()
            for which in ("first call", "second call"):
                await handle.ask(pay, "reader")
                found[which] = watch.take()
            tasks.cancel_scope.cancel()

    with shops.organism("Order", "pauses") as organism:
        anyio.run(talk, shops.server(organism))
    return found


def show_pauses(history: int, page: int) -> None:
    """Print the longest pauses, measured in a fresh process."""
    command = [sys.executable, str(Path(__file__)), "--pauses", str(history), str(page)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1200)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    for name, (cpu, wall) in found.items():
        told = f"{history // 1_000_000} MB in pages of {page // 1000} kB, {name}"
        print(f"{told:48}{cpu:>9.1f}{wall:>9.1f}{PAUSE_AIM:>6.0f}")
        record(f"longest pause, {told}, ms of CPU", [cpu], PAUSE_AIM)


def child(kind: str, size: str, mode: str, hops: int, what: str) -> None:
    """One measurement; prints one JSON line."""
    warm, hops = min((WARM, hops), NEW_WORDS[size]) if kind == "new words" else (WARM, hops)
    window = Window(hops, warm, counting=what == "calls")
    if kind in FLOORS:
        floor(window, PAYLOADS[size], coded=FLOORS[kind])
    else:
        way(window, PAYLOADS[size], WAYS[kind], mode)
    print(json.dumps({"cpu": window.cpu, "calls": window.calls, "deliveries": hops}))


def measure(command: list[str], what: str = "cpu") -> float:
    """CPU microseconds, or calls, per delivery of one fresh process."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    line = json.loads(done.stdout.strip().splitlines()[-1])
    return float(line[what]) / int(line["deliveries"]) * (1e6 if what == "cpu" else 1)


def own(kind: str, size: str, mode: str, hops: int, what: str = "cpu") -> list[str]:
    """The command of one of our measurements."""
    return [sys.executable, str(Path(__file__)), "--child", kind, size, mode, str(hops), what]


def candidates(hops: int, size: str) -> dict[tuple[str, str], list[str]]:
    """The command of each row, by its name and mode."""
    commands = {(kind, ""): own(kind, size, "off", hops) for kind in FLOORS}
    rows = [(kind, mode) for kind in WAYS if kind != "new words" for mode in ("off", "audit")]
    if size == "0.4 kB":
        rows.append(("ask and answer", "dirty"))
    if size in NEW_WORDS:
        rows += [(kind, "undeclared") for kind in ("ask and answer", "new words")]
    if size == "64 kB text":
        rows = [(kind, mode) for kind, mode in rows if kind in {"ask and answer", "new words"}]
    commands |= {(kind, mode): own(kind, size, mode, hops) for kind, mode in rows}
    return commands


def compare(rounds: int, hops: int, size: str) -> None:
    """All candidates, round by round, and their medians."""
    commands = candidates(hops, size)
    took: dict[tuple[str, str], list[float]] = {name: [] for name in commands}
    for number in range(rounds):
        for name, command in commands.items():
            progress = f"{size}: round {number + 1} of {rounds}, {' '.join(name)}"
            print(f"\r{progress:<70}", end="", file=sys.stderr, flush=True)
            took[name].append(measure(command))
    print("\r" + " " * 70, end="\r", file=sys.stderr)
    print(f"\n{size}, {rounds} rounds of {hops} deliveries, pure Python")
    print(f"{'':24}{'CPU us':>9}{'spread':>15}{'x floor':>9}{'aim':>6}{'x with codec':>14}{'calls':>7}")
    for (kind, mode), values in took.items():
        print(row(kind, mode, size, took) if kind in WAYS else bare(kind, values))
    if ("ask and answer", "dirty") in took:
        pairs = zip(took["ask and answer", "dirty"], took["ask and answer", "audit"], strict=True)
        times = [dirty / clean for dirty, clean in pairs]
        print(f"{'a dirty hop over a clean one':40}{statistics.median(times):>9.2f}{DIRTY_AIM:>6.1f}")
        record("dirty hop over a clean one, listeners declared", times, DIRTY_AIM)


def bare(kind: str, values: list[float]) -> str:
    """The row of a floor."""
    return f"{kind:24}{statistics.median(values):>9.1f}{min(values):>8.1f}-{max(values):<6.1f}"


def row(kind: str, mode: str, size: str, took: dict[tuple[str, str], list[float]]) -> str:
    """The row of a way through the server."""
    values = took[kind, mode]

    def times(name: tuple[str, str]) -> float:
        return statistics.median(v / f for v, f in zip(values, took[name], strict=True))

    calls = measure(own(kind, size, mode, 300, "calls"), "calls")
    aim = AIMS.get((kind, mode)) if size == "0.4 kB" else None
    if aim:
        floors = [one / floor for one, floor in zip(values, took["floor", ""], strict=True)]
        record(f"{kind}, provenance {mode}, floors", floors, aim)
        record(f"{kind}, provenance {mode}, calls", [calls])
    told = f"{aim:>6.1f}" if aim else " " * 6
    ratios = f"{times(('floor', '')):>9.2f}{told}{times(('floor with codec', '')):>14.2f}{calls:>7.0f}"
    return f"{bare(kind + ', ' + mode, values)}{ratios}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hops", type=int, default=4000)
    parser.add_argument("--size", choices=PAYLOADS, action="append", help="only this size (may be repeated)")
    parser.add_argument(
        "--child", nargs=5, metavar=("KIND", "SIZE", "MODE", "HOPS", "WHAT"), help=argparse.SUPPRESS
    )
    parser.add_argument("--pauses", nargs=2, type=int, metavar=("HISTORY", "PAGE"), help=argparse.SUPPRESS)
    parser.add_argument("--growth", nargs=2, metavar=("MODE", "HOPS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.growth:
        print(growth(args.growth[0], int(args.growth[1])))
        return
    if args.pauses:
        print(json.dumps(pauses(*args.pauses)))
        return
    if args.child:
        kind, size, mode, hops, what = args.child
        child(kind, size, mode, int(hops), what)
        return
    for size in args.size or PAYLOADS:
        compare(args.rounds, args.hops, size)
    for mode in ("audit", "dirty", "undeclared"):
        show_growth(args.rounds, GROWN if args.hops >= FULL else args.hops, mode)
    print(f"\n{'longest pauses of the event loop, ms':48}{'CPU':>9}{'clock':>9}{'aim':>6}")
    for history, page in PAUSES if args.hops >= FULL else PAUSES[:1]:
        show_pauses(history, page)
    print(f"\nmarking a call: {min(measure_marks(20_000) for _ in range(args.rounds)):.2f} us (aim 1.5)")
    live = memory(2000) / 1024
    print(f"memory per live conversation: {live:.1f} kB (aim {LIVE_AIM})")
    record("memory of a live conversation, kB", [live], LIVE_AIM)


if __name__ == "__main__":
    main()
