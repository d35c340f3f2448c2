"""The helpers of a running server as a test finds and kills them."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import threading


class Killed(Exception):
    """Raised in a helper from outside."""


def helpers():
    """The tasks of this loop that last until their owners end them, by name."""
    return {task.get_name(): task for task in asyncio.all_tasks() if task.get_name().startswith("helper ")}


def threads():
    """The threads of this process that do the same, by name."""
    return {thread.name: thread for thread in threading.enumerate() if thread.name.startswith("helper ")}


def helper(part):
    """The one whose name holds this."""
    (found,) = (task for name, task in helpers().items() if part in name)
    return found


def kill(task):
    """Make the awaited operation of a task fail, or cancel it."""
    waits = task._fut_waiter
    while isinstance(waits, asyncio.Task):
        task, waits = waits, waits._fut_waiter
    if task.done():
        return
    if waits is None or waits.done():  # it is about to run, and waits for something else then
        asyncio.get_running_loop().call_soon(kill, task)
    else:
        loop = asyncio.get_running_loop()
        for handle in (*loop._scheduled, *loop._ready):
            if waits in (
                handle._args or ()
            ):  # the end of a sleep may be due now, and would find the future done
                handle.cancel()
        for reader in gc.get_referrers(waits):
            # A stream wakes its reader unless that is cancelled: bytes that came now would find the future done.
            if isinstance(reader, asyncio.StreamReader):
                reader._waiter = None
        waits.set_exception(Killed("by a test"))


def kill_thread(thread):
    """Raise in a thread, once it runs Python again."""
    assert (
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Killed))
        == 1
    )
