"""Workers for the test seam of ``validate``: a spawned process imports them by name."""

import os
import time


def accepting(payload, schema, queue):
    queue.put(("ok", None))


def refusing(payload, schema, queue):
    queue.put(("err", f"no: {sorted(payload)} {sorted(schema)}"))


def slow(payload, schema, queue):
    time.sleep(60)


def silent(payload, schema, queue):
    return


def dying(payload, schema, queue):
    os._exit(7)
