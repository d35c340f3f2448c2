"""Raises the wall in the process itself, before it runs code of the project.

It is raised completely or not at all: a system that lacks a part is refused.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentserver.worker.wall import landlock, seccomp
from agentserver.worker.wall.landlock import Grant, Right, mount_scratch
from agentserver.worker.wall.seccomp import Machine, ProcessPermissions

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Wall", "WallError", "list_missing", "raise_wall"]

_DEATH_SIGNAL, _CLEAR_AMBIENT = 1, 47
_CLEAR_ALL = 4
_CAPABILITIES_3 = 0x20080522
_CAPSET = {Machine.X86_64: 126, Machine.AARCH64: 91}
_LANDLOCK, _LANDLOCK_PORTS, _LANDLOCK_FORK = 3, 4, 6


class WallError(Exception):
    """Error of a wall that is not raised, after which nothing may run."""


@dataclass(frozen=True, slots=True)
class Wall:
    """The resources of one process.

    Args:
        memory: bytes of address space.
        cpu: seconds of processor time in its whole life, None without a bound; the caller measures single calls.
        files: open files at once.
        disk: bytes of one file, and of the scratch folder where the kernel bounds it; otherwise the caller measures it.
        read: files, and folders with everything below them.
        list: folders whose names alone may be read.
        scratch: a folder of its own to write to; None without one.
        ports: TCP ports that it may connect to, at any address.
        commands: programs that it may become.
        fork: whether it may make processes; only with Landlock 6 or later, which confines their signals.
    """

    memory: int
    cpu: int | None
    files: int
    disk: int
    read: tuple[Path, ...] = ()
    list: tuple[Path, ...] = ()
    scratch: Path | None = None
    ports: tuple[int, ...] = ()
    commands: tuple[Path, ...] = ()
    fork: bool = False

    def list_grants(self) -> Iterator[Grant]:
        """List all Landlock grants."""
        yield from (Grant(path, Right.READ) for path in self.read)
        yield from (Grant(path, Right.LIST) for path in self.list)
        yield from (Grant(path, Right.RUN) for path in self.commands)
        yield Grant(Path("/dev/null"), Right.READ_FILE | Right.WRITE_FILE)
        yield Grant(Path("/dev/urandom"), Right.READ_FILE)
        if self.scratch is not None:
            yield Grant(self.scratch, Right.WRITE)


def identify_machine() -> Machine | None:
    """Identify the machine of this process; None if the wall has no table for it."""
    name = platform.machine()
    known = sys.platform == "linux" and sys.byteorder == "little" and sys.maxsize > 2**32
    return Machine(name) if known and name in set(Machine) else None


def list_missing(*, ports: bool = False, fork: bool = False) -> tuple[str, ...]:
    """List the parts of the wall that this system lacks; empty if it can be raised."""
    detected = identify_machine()
    if detected is None:
        return (
            f"a wall for {sys.platform} on {platform.machine()}: there are Linux on x86_64 and on aarch64",
        )
    needed = _LANDLOCK_FORK if fork else _LANDLOCK_PORTS if ports else _LANDLOCK
    found = landlock.version()
    lacks = []
    if found < needed:
        has = f"this kernel has version {found}" if found else "this kernel has none, or it is switched off"
        lacks.append(f"Landlock {needed} or later: {has}")
    if not seccomp.available(detected):
        lacks.append("seccomp filters that let calls fail")
    return tuple(lacks)


def raise_wall(wall: Wall, parent: int) -> None:
    """Restrict this process to the wall for good; it dies when its parent does.

    The file system, privileges, limits, Landlock and the filter come in this order, since each needs what the next
    takes away. Without its own file system the process may not pass descriptors, which could not be counted then.

    Args:
        wall: the resources of the process.
        parent: the process id of its parent.

    Raises WallError, with the wall partly raised or not at all: the process must end then.
    """
    detected, lacks = identify_machine(), list_missing(ports=bool(wall.ports), fork=wall.fork)
    if detected is None or lacks:
        raise WallError("this system lacks " + "; ".join(lacks))
    if len(list(Path("/proc/self/task").iterdir())) != 1:
        raise WallError("a thread runs already, which Landlock would not hold")
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        bounded = wall.scratch is None or mount_scratch(wall.scratch, wall.disk)
        libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            raise WallError("the process that asked for it is gone")  # before the signal could be arranged
        _drop(libc, detected)
        _limit(wall)
        landlock.restrict(wall.list_grants(), wall.ports)
        messages = bounded and (bool(wall.ports) or wall.fork)
        permits = ProcessPermissions(os.getpid(), bool(wall.ports), bool(wall.commands), wall.fork, messages)
        seccomp.install(detected, permits)
    except (OSError, ValueError) as error:
        raise WallError(f"the wall does not stand: {error}") from error


def _drop(libc: ctypes.CDLL, detected: Machine) -> None:
    """Give up every capability: with them a process of root would raise its limits again."""
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges; Landlock asks for it
    libc.prctl(_CLEAR_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    none = (ctypes.c_uint32 * 6)()
    if libc.syscall(_CAPSET[detected], ctypes.byref(header), ctypes.byref(none)):
        raise OSError(ctypes.get_errno(), "capabilities cannot be given up")


def _limit(wall: Wall) -> None:
    limits = {
        resource.RLIMIT_AS: wall.memory,
        resource.RLIMIT_NOFILE: wall.files,
        resource.RLIMIT_FSIZE: wall.disk,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if wall.cpu is not None:
        limits[resource.RLIMIT_CPU] = wall.cpu
    for limit, maximum in limits.items():
        _, hard = resource.getrlimit(limit)
        minimum = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
        resource.setrlimit(limit, (minimum, minimum))
