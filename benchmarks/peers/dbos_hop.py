"""One measurement of DBOS, run by ``benchmarks/peers.py`` in the peers' environment.

Prints one JSON line: CPU seconds of this process, seconds by the clock, and deliveries. A workflow of ten steps, run
again and again by so many threads; the result of every step is stored before the next one begins.
"""

import json
import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS

CHAIN = 10
WARM = 10


@DBOS.step()
def step(order: dict[str, object]) -> dict[str, object]:
    return {**order, "count": int(str(order["count"])) + 1, "urgent": not order["urgent"]}


@DBOS.workflow()
def chain(order: dict[str, object]) -> dict[str, object]:
    for _ in range(CHAIN):
        order = step(order)
    return order


def main(hops: int, flight: int, url: str) -> None:
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "CRITICAL"})
    DBOS.launch()
    logging.disable(logging.CRITICAL)

    def run(_: int) -> None:
        chain({"note": "x" * 120, "count": 1, "price": 199.95, "urgent": True})

    with ThreadPoolExecutor(flight) as pool:
        list(pool.map(run, range(WARM)))
        wall, cpu = time.perf_counter(), time.process_time()
        list(pool.map(run, range(hops // CHAIN)))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu, "wall": wall, "deliveries": hops // CHAIN * CHAIN}), flush=True)
    DBOS.destroy()


main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
