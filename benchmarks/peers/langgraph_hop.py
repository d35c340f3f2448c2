"""One measurement of LangGraph, run by ``benchmarks/peers.py`` in the peers' environment.

Prints one JSON line: CPU seconds, seconds by the clock, and deliveries. A graph of ten nodes in a row, invoked again
and again by so many threads, each time as a thread of conversation of its own. ``memory`` stores nothing; ``sqlite``
stores the state after every node, before the next one begins (``durability="sync"``).
"""

import json
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

CHAIN = 10
WARM = 10


class Order(TypedDict):
    note: str
    count: int
    price: float
    urgent: bool


def step(order: Order) -> dict[str, object]:
    return {"count": order["count"] + 1, "urgent": not order["urgent"]}


def main(kind: str, hops: int, flight: int, place: str) -> None:
    builder = StateGraph(Order)
    names = [f"step{number}" for number in range(CHAIN)]
    for name in names:
        builder.add_node(name, step)
    for name, following in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(name, following)
    with closing(sqlite3.connect(place, check_same_thread=False)) as connection:
        connection.execute("pragma synchronous = full")
        stored = kind == "sqlite"
        graph = builder.compile(checkpointer=SqliteSaver(connection) if stored else None)

        def invoke(number: int) -> None:
            order: Order = {"note": "x" * 120, "count": 1, "price": 199.95, "urgent": True}
            more = {"durability": "sync"} if stored else {}
            graph.invoke(order, {"configurable": {"thread_id": str(number)}}, **more)

        with ThreadPoolExecutor(flight) as pool:
            list(pool.map(invoke, range(-WARM, 0)))
            wall, cpu = time.perf_counter(), time.process_time()
            list(pool.map(invoke, range(hops // CHAIN)))
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu, "wall": wall, "deliveries": hops // CHAIN * CHAIN}))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
