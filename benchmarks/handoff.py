"""What a timed validation by a foreign schema costs: a warm worker against one process for each call.

Both sides validate the same payload by the same schema under the same wall-clock limit, in turns, in one run. Prints
the median of each and their ratio. A busy machine shifts the ratio, so that only --check makes it the exit code.

    python benchmarks/handoff.py [--check] [calls]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentserver.handoff.edge.worker import ValidationWorker

if TYPE_CHECKING:
    from collections.abc import Callable

PROMISED = 20.0
SCHEMA_FILE = Path(__file__).parents[1] / "schemas/handoff-payloads/conflict-audit-result.v1.schema.json"
PAYLOAD = {
    "plan": "release.steps.csv",
    "verdict": "hard",
    "findings": [{"code": "PAYLOAD_MISMATCH", "severity": "HARD", "message": "step 1->step 2", "row": 2}] * 5,
}


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
    status, _ = queue.get(timeout=10.0)
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


def told(doing: str) -> None:
    """Show what is going on, for whoever waits."""
    print(f"{doing} ...", file=sys.stderr, flush=True)


def timed(call: Callable[[], None]) -> float:
    """Seconds of one call."""
    return median(1, call)


def measure(calls: int) -> float:
    """Measure and print; how many times the warm worker is cheaper."""
    schema = json.loads(SCHEMA_FILE.read_text())
    with ValidationWorker() as worker:
        good = partial(worker.validate, PAYLOAD, schema)
        told(f"warm worker, {calls * 20} calls")
        first = timed(good)
        warm = median(calls * 20, good)
        cold = {}
        for method in ("spawn", "fork"):
            told(f"process per call, {method}, {calls} calls")
            cold[method] = median(calls, partial(process_per_call, schema, method))
        told("warm worker, killed once")
        with suppress(RuntimeError):
            worker.validate("a" * 40, {"pattern": "^(a+)+b$"}, timeout=0.2)
        again = timed(good)
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
    parser.add_argument("--check", action="store_true", help=f"exit 1 below a ratio of {PROMISED:.0f}")
    args = parser.parse_args()
    ratio = measure(args.calls)
    print(f"ratio to the cheaper of the two: {ratio:.0f} (promised: {PROMISED:.0f})")
    return 1 if args.check and ratio < PROMISED else 0


if __name__ == "__main__":
    raise SystemExit(main())
