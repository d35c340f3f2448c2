"""What a timed validation by a foreign schema costs: a warm worker against one process for each call.

Both sides validate the same payload by the same schema under the same wall-clock limit, in turns, in one run. Prints
the median of each and their ratio; exits 1 below the ratio that the project promises.

    python benchmarks/handoff.py [calls]
"""

from __future__ import annotations

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


def main(calls: int) -> int:
    """Measure and print; the exit code."""
    schema = json.loads(SCHEMA_FILE.read_text())
    with ValidationWorker() as worker:
        started = time.perf_counter()
        worker.validate(PAYLOAD, schema)
        first = time.perf_counter() - started
        warm = median(calls * 20, partial(worker.validate, PAYLOAD, schema))
        cold = {
            method: median(calls, partial(process_per_call, schema, method)) for method in ("spawn", "fork")
        }
        with suppress(RuntimeError):
            worker.validate("a" * 40, {"pattern": "^(a+)+b$"}, timeout=0.2)
        started = time.perf_counter()
        worker.validate(PAYLOAD, schema)
        again = time.perf_counter() - started
    print(f"warm worker              {warm * 1e3:9.3f} ms a call")
    print(f"  its first call {first * 1e3:.0f} ms, the call after it was killed {again * 1e3:.0f} ms")
    for method, spent in cold.items():
        print(
            f"process per call, {method:<6} {spent * 1e3:9.3f} ms a call: {spent / warm:.0f} times the warm worker"
        )
    worst = min(cold.values()) / warm
    print(f"ratio to the cheaper of the two: {worst:.0f} (promised: {PROMISED:.0f})")
    return 0 if worst >= PROMISED else 1


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 15))
