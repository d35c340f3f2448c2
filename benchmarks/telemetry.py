"""What telemetry adds to a hop, as ratios measured in one run.

The organism, the ways and the messages are those of hop.py. `off` tells nobody, `metrics` counts for Prometheus,
`spans` sends a span of each delivery to a collector in a process of its own, `content` the messages too, `gone` has a
collector that is not there. CPU time is that of the whole process with all its threads, from the first delivery that
counts until the server has ended and sent what waited. Every figure comes from a fresh process; rounds are interleaved,
and ratios are medians over rounds.

A span costs a small part of what it is measured beside, so the difference of two processes that ran at different times
shows the machine more than the span. Its figure takes the modes in the order off, spans, spans, off, a floor with them,
and the least of each.

    ./run bench telemetry
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "shop"))

import organism as shops
import shop
from _targets import measure_floor, record
from hop import PAYLOADS, WARM, WAYS

from agentserver.assembly import build
from agentserver.config.organism import Otel
from agentserver.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from agentserver.config import Organism

MODES = ("off", "metrics", "spans", "content", "gone")
AIM, SPAN_AIM = 1.2, 0.8
"""Times a hop without telemetry, and floors of one span."""
"""Times a hop without telemetry, for spans."""

SIZE = "0.4 kB"


class Sink(BaseHTTPRequestHandler):
    """Takes anything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass


def set_telemetry(organism: Organism, mode: str, url: str) -> Organism:
    """The organism as the mode tells of it."""
    if mode in {"off", "metrics"}:
        return organism
    where = "http://127.0.0.1:9" if mode == "gone" else url
    return replace(organism, otel=Otel(where, content=mode == "content"))


def child(way: str, mode: str, hops: int, url: str) -> None:
    """One measurement; prints one JSON line."""
    seen, begun = 0, 0.0
    over = anyio.Event()

    def hit() -> bool:
        nonlocal seen, begun
        seen += 1
        if seen == WARM:
            begun = time.process_time()
        return seen < WARM + hops

    async def talk(organism: Organism) -> int:
        metrics = Metrics(bound.listener.name for bound in organism.listeners)
        server = build(organism)
        if mode == "metrics":
            server.stream.attach(metrics)
        async with server, anyio.create_task_group() as tasks:
            handle = await server.open("bench")
            data = server.rules.codecs.of(shop.Order).encode(PAYLOADS[SIZE]).encode()

            async def send() -> None:
                while not over.is_set():
                    await handle.ask(data, WAYS[way])

            tasks.start_soon(send)
            await over.wait()
            tasks.cancel_scope.cancel()
        return server.lost or 0

    shop.meters[:] = [shop.Meter(hit, over.set)]
    with shops.organism("Order") as organism:
        lost = anyio.run(talk, set_telemetry(organism, mode, url))
    print(json.dumps({"cpu": (time.process_time() - begun) / hops * 1e6, "lost": lost}))


def measure_deliveries(way: str, mode: str, hops: int, url: str) -> tuple[float, int]:
    """CPU microseconds per delivery, and the spans that were lost, of one fresh process."""
    command = [sys.executable, __file__, "--child", way, mode, str(hops), url]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    line = json.loads(done.stdout.splitlines()[-1])
    return line["cpu"], line["lost"]


def measure_span(way: str, hops: int, url: str) -> float:
    """Measure what a span adds to a delivery, in floors, from four processes in a row and their floor."""
    cpu: dict[str, list[float]] = {"off": [], "spans": []}
    for mode in ("off", "spans", "spans", "off"):
        cpu[mode].append(measure_deliveries(way, mode, hops, url)[0])
    return (min(cpu["spans"]) - min(cpu["off"])) / measure_floor(hops)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hops", type=int, default=8000)
    parser.add_argument("--child", nargs=4, metavar=("WAY", "MODE", "HOPS", "URL"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        way, mode, hops, url = args.child
        child(way, mode, int(hops), url)
        return
    sink = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{sink.server_address[1]}"
    print(f"{SIZE}, {args.rounds} rounds of {args.hops} deliveries; aim of spans {AIM}")
    print(f"{'':28}{'CPU us':>9}{'spread':>15}{'x off':>8}{'lost':>8}")
    for way in ("ask and answer", "chain of 10"):
        rounds = [
            {mode: measure_deliveries(way, mode, args.hops, url) for mode in MODES}
            for _ in range(args.rounds)
        ]
        spans = [measure_span(way, args.hops, url) for _ in range(args.rounds)]
        record(f"a span, {way}, floors", spans, SPAN_AIM)
        print(f"a span, {way}: {statistics.median(spans):.2f} floors ({min(spans):.2f} to {max(spans):.2f})")
        for mode in MODES:
            cpu = [one[mode][0] for one in rounds]
            ratio = statistics.median(one[mode][0] / one["off"][0] for one in rounds)
            lost = max(one[mode][1] for one in rounds)
            spread = f"{min(cpu):>8.1f}-{max(cpu):<6.1f}"
            print(f"{way + ', ' + mode:28}{statistics.median(cpu):>9.1f}{spread}{ratio:>8.2f}{lost:>8}")


if __name__ == "__main__":
    main()
