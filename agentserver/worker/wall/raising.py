"""Raises the wall in the process itself, before it runs code of the project, and rules on system calls with arguments.

It is raised completely or not at all: a system that lacks a part is refused. Landlock rules files and TCP ports; the
conditions here cover the rest.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agentserver.worker.wall import landlock, seccomp
from agentserver.worker.wall.landlock import Grant, Right, mount_scratch
from agentserver.worker.wall.seccomp import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "CLONE_NAMESPACES",
    "CLONE_THREAD",
    "MSG_FASTOPEN",
    "CallRule",
    "Check",
    "Permits",
    "Wall",
    "WallError",
    "conditions",
    "missing",
    "raise_wall",
]

LOW = 0xFFFFFFFF
CLONE_THREAD = 0x00010000
CLONE_NAMESPACES = 0x7E020000
CLONE_PTRACE = 0x00002000
MSG_FASTOPEN = 0x20000000

_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_TYPE, _SOCK_STREAM = 0xF, 1
_IPPROTO_DEFAULT, _IPPROTO_TCP = 0, 6
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1031, 1032)  # duplicates, flags, locks and sizes of pipes
_IOCTL = (
    0x5401,
    0x802C542A,
    0x5413,
    0x541B,
    0x5421,
    0x5450,
    0x5451,
)  # is it a terminal, how wide, how much, flags
_ARCH_PRCTL = (0x1002, 0x1003)  # where a thread keeps its own data: libraries set it when a program starts
_PRCTL = (15, 16, 0x53564D41)  # the names of threads and of memory


class Check(NamedTuple):
    """A condition on one argument: its masked value is in a set.

    Args:
        argument: 0 to 5.
        values: allowed values of its lower 32 bits.
        mask: the bits that count.
        wide: True where the kernel reads 64 bits: the upper ones must be 0.
    """

    argument: int
    values: tuple[int, ...]
    mask: int = LOW
    wide: bool = False


class CallRule(NamedTuple):
    """A call is allowed when every check holds, and fails with ``error`` otherwise."""

    checks: tuple[Check, ...]
    error: int = errno.EPERM


@dataclass(frozen=True, slots=True)
class Permits:
    """The permissions of one process beyond computing and its files.

    Args:
        pid: its own, the only one it may signal.
        ports: TCP to ports that Landlock names.
        commands: becoming a program that Landlock names.
        fork: making processes, and signals within the wall, which Landlock holds then.
        messages: messages that may carry descriptors.
    """

    pid: int
    ports: bool = False
    commands: bool = False
    fork: bool = False
    messages: bool = False


_REFUSED = CallRule((Check(0, ()),))
_FREE = CallRule(())


def conditions(permits: Permits) -> Mapping[str, CallRule]:
    """Build the condition of each call of the judged table; a call without one is refused.

    - ``socket``: none without ports, since Landlock rules neither UDP nor named sockets of the file system. With
      ports TCP alone, by its own protocol: MPTCP would bypass Landlock, and so would TCP Fast Open.
    - ``socketpair``: streams, which event loops need. A pair of datagrams can be aimed at named sockets.
    - ``sendmsg``: only for processes whose bytes the kernel bounds. It can pass descriptors, and a filter cannot see
      whether it does; a file on its way from one socket to another is in no list of the system's.
    - ``clone``: threads. ``clone3`` keeps its flags in memory where no filter can read them.
    - ``kill``, ``tgkill``: oneself, which ``abort`` does.
    - ``fcntl``, ``ioctl``: without those that make the kernel send signals to an owner.
    - ``prlimit64``: reading, of oneself: with a pid a process would set its parent's limits.
    - ``execve``: the programs that Landlock names; the first steps of a new program need it.
    - ``prctl``: names. Further options would let it outlive its parent.
    """
    own = Check(0, (permits.pid,))
    tcp = (
        Check(0, (_AF_INET, _AF_INET6)),
        Check(1, (_SOCK_STREAM,), _SOCK_TYPE),
        Check(2, (_IPPROTO_DEFAULT, _IPPROTO_TCP)),
    )
    spaces = Check(0, (0,), CLONE_NAMESPACES | CLONE_PTRACE)
    thread = (Check(0, (CLONE_THREAD,), CLONE_THREAD), spaces)
    rules = {
        "socket": CallRule(tcp) if permits.ports else _REFUSED,
        "connect": _FREE if permits.ports else _REFUSED,
        "socketpair": CallRule((Check(0, (_AF_UNIX,)), Check(1, (_SOCK_STREAM,), _SOCK_TYPE))),
        "sendto": CallRule((Check(3, (0,), MSG_FASTOPEN),)),
        "sendmsg": CallRule((Check(2, (0,), MSG_FASTOPEN),)) if permits.messages else _REFUSED,
        "clone": CallRule((spaces,) if permits.fork else thread),
        "clone3": CallRule((Check(0, ()),), errno.ENOSYS),
        "kill": _FREE if permits.fork else CallRule((own,)),
        "tgkill": _FREE if permits.fork else CallRule((own,)),
        "fcntl": CallRule((Check(1, _FCNTL),)),
        "ioctl": CallRule((Check(1, _IOCTL),)),
        "prctl": CallRule((Check(0, _PRCTL),)),
        "prlimit64": CallRule((Check(0, (0,)), Check(2, (0,), wide=True))),
        "sched_getaffinity": CallRule((Check(0, (0,)),)),
    }
    programs = {"execve": _FREE, "set_tid_address": _FREE, "arch_prctl": CallRule((Check(0, _ARCH_PRCTL),))}
    processes = dict.fromkeys(("fork", "vfork", "wait4", "waitid"), _FREE)
    return {**rules, **(programs if permits.commands else {}), **(processes if permits.fork else {})}


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

    def grants(self) -> Iterator[Grant]:
        """List all Landlock grants."""
        yield from (Grant(path, Right.READ) for path in self.read)
        yield from (Grant(path, Right.LIST) for path in self.list)
        yield from (Grant(path, Right.RUN) for path in self.commands)
        yield Grant(Path("/dev/null"), Right.READ_FILE | Right.WRITE_FILE)
        yield Grant(Path("/dev/urandom"), Right.READ_FILE)
        if self.scratch is not None:
            yield Grant(self.scratch, Right.WRITE)


def machine() -> Machine | None:
    """Identify the machine of this process; None if the wall has no table for it."""
    name = platform.machine()
    known = sys.platform == "linux" and sys.byteorder == "little" and sys.maxsize > 2**32
    return Machine(name) if known and name in set(Machine) else None


def missing(*, ports: bool = False, fork: bool = False) -> tuple[str, ...]:
    """List the parts of the wall that this system lacks; empty if it can be raised."""
    here = machine()
    if here is None:
        return (
            f"a wall for {sys.platform} on {platform.machine()}: there are Linux on x86_64 and on aarch64",
        )
    needed = _LANDLOCK_FORK if fork else _LANDLOCK_PORTS if ports else _LANDLOCK
    found = landlock.version()
    lacks = []
    if found < needed:
        has = f"this kernel has version {found}" if found else "this kernel has none, or it is switched off"
        lacks.append(f"Landlock {needed} or later: {has}")
    if not seccomp.available(here):
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
    here, lacks = machine(), missing(ports=bool(wall.ports), fork=wall.fork)
    if here is None or lacks:
        raise WallError("this system lacks " + "; ".join(lacks))
    if len(list(Path("/proc/self/task").iterdir())) != 1:
        raise WallError("a thread runs already, which Landlock would not hold")
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        bounded = wall.scratch is None or mount_scratch(wall.scratch, wall.disk)
        libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            raise WallError("the process that asked for it is gone")  # before the signal could be arranged
        _drop(libc, here)
        _limit(wall)
        landlock.restrict(wall.grants(), wall.ports)
        messages = bounded and (bool(wall.ports) or wall.fork)
        permits = Permits(os.getpid(), bool(wall.ports), bool(wall.commands), wall.fork, messages)
        seccomp.install(here, permits)
    except (OSError, ValueError) as error:
        raise WallError(f"the wall does not stand: {error}") from error


def _drop(libc: ctypes.CDLL, here: Machine) -> None:
    """Give up every capability: with them a process of root would raise its limits again."""
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges; Landlock asks for it
    libc.prctl(_CLEAR_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    none = (ctypes.c_uint32 * 6)()
    if libc.syscall(_CAPSET[here], ctypes.byref(header), ctypes.byref(none)):
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
    for limit, most in limits.items():
        _, hard = resource.getrlimit(limit)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (least, least))
