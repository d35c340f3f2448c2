"""Which system calls a walled process may make, and with which arguments.

Owns the conditions and the reason of each. Refuses to know how a filter is written (``seccomp``) and whether files may
be opened: Landlock rules paths, this rules what Landlock does not know of.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CLONE_NAMESPACES", "CLONE_THREAD", "MSG_FASTOPEN", "CallRule", "Check", "Permits", "conditions"]

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
    """One argument, as far as a mask leaves it, is one of some values.

    Args:
        argument: 0 to 5.
        values: what its lower 32 bits may be.
        mask: the bits that count.
        wide: True where the kernel reads 64 bits: the upper ones are 0 then.
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
    """The rule of each call of the judged table; one that is missing here is refused.

    - ``socket``: without ports none at all, since Landlock rules neither UDP nor named sockets of the file system. With
      ports TCP alone, by its own protocol: MPTCP would pass Landlock by, and so would TCP Fast Open.
    - ``socketpair``: streams, which event loops need. A pair of datagrams can be aimed at named sockets.
    - ``sendmsg``: only for those whose bytes the kernel bounds. It hands descriptors on, and a filter cannot see
      whether it does; a file on its way from one socket to another is in no list of the system's.
    - ``clone``: threads. ``clone3`` keeps its flags in memory where no filter can read them.
    - ``kill``, ``tgkill``: oneself, which ``abort`` does.
    - ``fcntl``, ``ioctl``: without those that make the kernel send signals to an owner.
    - ``prlimit64``: reading, of oneself: with a pid a process would set its parent's limits.
    - ``execve``: the programs that Landlock names; what a fresh program does first comes with it.
    - ``prctl``: names. With more it would stop dying with its parent.
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
