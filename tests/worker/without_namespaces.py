"""Run Python as a container does that permits no namespaces: ``python without_namespaces.py ARGUMENTS OF PYTHON``."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys

from agentserver.worker.wall import seccomp
from agentserver.worker.wall.seccomp import ALLOW, EQUAL, LOAD, RETURN, Instruction, build_refusal

UNSHARE = {"x86_64": 272, "aarch64": 97}


def forbid() -> None:
    """Refuse ``unshare`` to this process and all that it starts."""
    code = (
        Instruction(LOAD, 0, 0, 0),
        Instruction(EQUAL, 0, 1, UNSHARE[platform.machine()]),
        Instruction(RETURN, 0, 0, build_refusal(errno.EPERM)),
        Instruction(RETURN, 0, 0, ALLOW),
    )
    kept = ctypes.create_string_buffer(b"".join(each.pack() for each in code))
    given = seccomp._Program(len(code), ctypes.cast(kept, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(given), 0, 0) == 0


if __name__ == "__main__":
    forbid()
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
