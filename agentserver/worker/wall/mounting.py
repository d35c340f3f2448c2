"""A file system of a process's own, as large as it may write: the kernel refuses what does not fit.

Owns the namespaces in which an ordinary user may mount one, and the attempt. Refuses to do half of it: a child tries
it first, and where the child cannot, nothing is changed. Each file counts towards the same bytes: open, mapped,
nameless, or on its way to another process.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

__all__ = ["MOST_FILES", "mounted"]

MOST_FILES = 10_000
"""Files and folders of one file system: the kernel keeps about a kilobyte for each."""

_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_NO_SETUID, _NO_DEVICES = 2, 4


def mounted(folder: Path, size: int) -> bool:
    """Give this process a file system of its own at a folder. False, with nothing changed, where it may not.

    The process must have one thread. It keeps its user and group, and has every capability of its own namespace.

    Args:
        folder: an existing one.
        size: bytes that the file system holds.

    Raises OSError when the kernel lets a child do it, and not the process itself.
    """
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            _mount(folder, size)
            failed = 0
        finally:  # also for a signal: nothing of the process's own may run twice
            os._exit(failed)
    if os.waitpid(child, 0)[1]:
        return False
    _mount(folder, size)
    return True


def _mount(folder: Path, size: int) -> None:
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_NEW_USERS | _NEW_MOUNTS), "no namespaces")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    options = f"size={max(size, 1)},nr_inodes={MOST_FILES},mode=700".encode()  # 0 would mean no limit
    flags = ctypes.c_ulong(_NO_SETUID | _NO_DEVICES)
    _check(libc.mount(b"agentserver", os.fsencode(folder), b"tmpfs", flags, options), "no file system")


def _check(done: int, what: str) -> None:
    if done:
        raise OSError(ctypes.get_errno(), what)
