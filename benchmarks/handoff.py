"""What handoffs cost: a judged handoff against a plain hop, a timed validation against a process for each call.

The first: one agent of one running pump sends the same values and words by turns in a message of their own class to a
listener that takes it, and in a Handoff to one that takes a Task; blocks of both kinds alternate. A round is the
message and the same short answer. A hop is half a plain round, and what a handoff adds to the round is added to the
hop. With conversations in memory a hop is at its cheapest; with a journal it is what a server pays that is to survive.

The second: both sides validate the same payload by the same schema under the same wall-clock limit, in turns, in one
run.

Prints medians and their ratios. A busy machine shifts them, so that only --check makes them the exit code.

    python benchmarks/handoff.py [--check] [--rounds N] [calls]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from _targets import measure_floor, record
from annotated_types import MaxLen

from agentserver import HandlerMetadata, HandlerResponse, Handoff, Pattern, Task, xmlify
from agentserver.assembly import SystemClock
from agentserver.config.organism import Handoffs
from agentserver.core.blueprint import Limits
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, Sync
from agentserver.handoff.intents import Intent, Vocabulary, vocabulary
from agentserver.handoff.parameters import Parameter
from agentserver.handoff.validation.worker import ValidationWorker
from agentserver.hygiene.simple_types import Lexical
from agentserver.pump.editions import Callee
from agentserver.pump.pump import Pump
from agentserver.rulebook import build_rules
from agentserver.testing import listener, organism_of

if TYPE_CHECKING:
    from collections.abc import Callable

PROMISED = 20.0
AIMS = {"in memory": 1.5, "with a journal": 1.3}
FLOORS_AIM = 8.0
"""Plain hops that a judged handoff may cost."""
BLOCK = 100
"""Rounds of one kind before the other has its turn."""
TICKET = "[A-Z]{2,10}-[0-9]{1,7}"
WORDS = "The memo of last week says that the launch was moved. Please look at the dates again."
REVIEW = Intent(
    "review",
    ("clerk",),
    "Review launch ticket {ticket} using the launch-review skill.",
    (Parameter("ticket", Lexical((TICKET,), max_length=64)),),
    note="note",
    allow_peers=frozenset(),
)
SCHEMA_FILE = Path(__file__).parents[1] / "schemas/handoff-payloads/conflict-audit-result.v1.schema.json"
PAYLOAD = {
    "plan": "release.steps.csv",
    "verdict": "hard",
    "findings": [{"code": "PAYLOAD_MISMATCH", "severity": "HARD", "message": "step 1->step 2", "row": 2}] * 5,
}


@xmlify
@dataclass(frozen=True, slots=True)
class Review:
    """What a handoff says, as a message of its own."""

    ticket: Annotated[str, Pattern(TICKET)]
    note: Annotated[str, MaxLen(500)]


@xmlify
@dataclass(frozen=True, slots=True)
class Done:
    """The answer."""

    text: str = "ok"


async def plain(_payload: Review, _metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Done())


async def clerk(_payload: Task, _metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Done())


class Asker:
    """Sends blocks of both kinds by turns and notes the CPU time of each."""

    def __init__(self, blocks: int) -> None:
        self.spent: dict[str, list[float]] = {"plain": [], "clerk": []}
        self.over = asyncio.Event()
        self._left = 2 * (blocks + 2)  # one of each kind for warming up
        self._round = 0
        self._started = 0.0

    async def __call__(self, _payload: Done, _metadata: HandlerMetadata) -> HandlerResponse | None:
        to = "clerk" if self._left % 2 else "plain"
        if self._round == BLOCK:  # the answer to the last message of a block
            self.spent[to].append((time.process_time() - self._started) / BLOCK)
            self._left, self._round = self._left - 1, 0
            to = "clerk" if self._left % 2 else "plain"
        if not self._left:
            self.over.set()
            return None
        if not self._round:
            self._started = time.process_time()
        self._round += 1
        ticket = f"LEGAL-{self._round}"
        said = (
            Review(ticket, WORDS) if to == "plain" else Handoff.of("review", {"ticket": ticket}, note=WORDS)
        )
        return HandlerResponse(said, to)


async def rounds(blocks: int, journal: Path | None = None) -> Asker:
    """The asker after its last round."""
    asker = Asker(blocks)
    limits = Limits(hops=1 << 40, messages=1 << 40)
    listeners = (
        listener("asker", asker, Done, peers=["plain", "clerk"]),
        listener("plain", plain),
        listener("clerk", clerk),
    )
    words = vocabulary([REVIEW])
    assert isinstance(words, Vocabulary)
    organism = replace(organism_of(*listeners, limits=limits), handoffs=Handoffs(words))
    decided_by = build_rules(organism)
    bound = {
        one.listener.name: Callee(one.listener, one.handler) for one in organism.listeners if one.handler
    }
    place = None if journal is None else JournalOptions(journal, Sync.NORMAL)
    engine = MemoryEngine() if place is None else SqliteEngine(place, decided_by.guards)
    async with engine, Pump(decided_by, bound, engine, SystemClock()) as running:
        handle = await running.open("bench")
        await handle.send(decided_by.codecs.of(Done).encode(Done()).encode(), "asker")
        await asker.over.wait()
    return asker


def hops(blocks: int) -> None:
    """Measure and print what a judged handoff costs in plain hops."""
    with TemporaryDirectory() as folder:
        for where, journal in (("in memory", None), ("with a journal", Path(folder) / "journal.sqlite")):
            print_progress(f"handoffs {where}, {blocks} blocks of {BLOCK} rounds of each kind")
            spent = anyio.run(rounds, blocks, journal).spent
            pairs = list(zip(spent["plain"][2:], spent["clerk"][2:], strict=True))
            ratio = statistics.median(1 + (judged - plain) / (plain / 2) for plain, judged in pairs)
            hop = statistics.median(plain for plain, _ in pairs) / 2
            if journal is None:
                floor = measure_floor(2000) / 1e6
                record("judged handoff in memory, floors", [hop * ratio / floor], FLOORS_AIM)
            print(f"plain hop {where:<14} {hop * 1e6:9.1f} us of CPU time")
            print(
                f"  judged handoff         {hop * ratio * 1e6:9.1f} us: {ratio:.2f} hops (aim: {AIMS[where]})"
            )


def once(payload: Any, schema: Any, queue: Any) -> None:
    """What the process of one call does."""
    import jsonschema

    jsonschema.validate(payload, schema)
    queue.put(("ok", None))


def process_per_call(schema: Any, method: str) -> None:
    """Validate as the published library does: start a process, wait for its result under a limit, end it."""
    context = get_context(method)
    queue = context.Queue()
    process = context.Process(target=once, args=(PAYLOAD, schema, queue))  # type: ignore[attr-defined] # of every context
    process.start()
    status, _ = queue.get(timeout=100.0)  # a guard against hanging
    process.join()
    if status != "ok":
        raise RuntimeError(status)


def median(calls: int, call: Callable[[], None]) -> float:
    """Median seconds of a call."""
    spent = []
    for _ in range(calls):
        started = time.perf_counter()
        call()
        spent.append(time.perf_counter() - started)
    return statistics.median(spent)


def print_progress(doing: str) -> None:
    """Print a line of progress."""
    print(f"{doing} ...", file=sys.stderr, flush=True)


def time_call(call: Callable[[], None]) -> float:
    """Seconds of one call."""
    return median(1, call)


def measure(calls: int) -> float:
    """Measure and print; how many times the warm worker is cheaper."""
    schema = json.loads(SCHEMA_FILE.read_text())
    with ValidationWorker() as worker:
        good = partial(worker.validate, PAYLOAD, schema)
        print_progress(f"warm worker, {calls * 20} calls")
        first = time_call(good)
        warm = median(calls * 20, good)
        cold = {}
        for method in ("spawn", "fork"):
            print_progress(f"process per call, {method}, {calls} calls")
            cold[method] = median(calls, partial(process_per_call, schema, method))
        print_progress("warm worker, killed once")
        with suppress(RuntimeError):
            worker.validate("a" * 40, {"pattern": "^(a+)+b$"}, timeout=0.2)
        again = time_call(good)
    print(f"warm worker              {warm * 1e3:9.3f} ms a call")
    print(f"  its first call {first * 1e3:.0f} ms, the call after it was killed {again * 1e3:.0f} ms")
    for method, spent in cold.items():
        times = f"{spent / warm:.0f} times the warm worker"
        print(f"process per call, {method:<6} {spent * 1e3:9.3f} ms a call: {times}")
    return min(cold.values()) / warm


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "calls", nargs="?", type=positive, default=15, help="processes of each kind, %(default)s"
    )
    parser.add_argument("--rounds", type=positive, default=30, help="blocks of each kind, %(default)s")
    parser.add_argument("--check", action="store_true", help=f"exit 1 below a ratio of {PROMISED:.0f}")
    args = parser.parse_args()
    hops(args.rounds)
    ratio = measure(args.calls)
    print(f"ratio to the cheaper of the two: {ratio:.0f} (promised: {PROMISED:.0f})")
    return 1 if args.check and ratio < PROMISED else 0


if __name__ == "__main__":
    raise SystemExit(main())
