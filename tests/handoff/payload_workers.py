"""Workers for the test seam of ``validate``: a spawned process imports them by name."""

import os
import time


def accept_payloads(payload, schema, queue):
    queue.put(("ok", None))


def refuse_payloads(payload, schema, queue):
    queue.put(("err", f"no: {sorted(payload)} {sorted(schema)}"))


def slow(payload, schema, queue):
    time.sleep(60)


def silent(payload, schema, queue):
    return


def die_at_once(payload, schema, queue):
    os._exit(7)
