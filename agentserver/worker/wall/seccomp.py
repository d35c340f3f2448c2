"""The filter of system calls, written for seccomp, and the numbers of the calls on each supported machine.

Two tables list the calls: those allowed with any arguments, and those with a condition. All other calls are refused.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


__all__ = [
    "ALLOW",
    "CLONE_NAMESPACES",
    "CLONE_THREAD",
    "FREE",
    "JUDGED",
    "KILL",
    "MSG_FASTOPEN",
    "NEWEST",
    "CallRule",
    "Check",
    "Instruction",
    "Machine",
    "ProcessPermissions",
    "assemble_program",
    "available",
    "build_conditions",
    "build_refusal",
    "install",
    "numbers",
]


class Machine(StrEnum):
    """A kind of processor, as the kernel calls it in ``uname``."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"

    @property
    def audit(self) -> int:
        """Constant that identifies the machine of a call to a filter (AUDIT_ARCH_* of linux/audit.h)."""
        return {Machine.X86_64: 0xC000003E, Machine.AARCH64: 0xC00000B7}[self]


NEWEST = 441
"""The highest number in the tables. A later call is answered as an older kernel would: libraries then do without it."""

# Each entry: name, number on x86_64, number on aarch64; a dash where the machine has no such call.
FREE = """
    read 0 63; write 1 64; readv 19 65; writev 20 66; pread64 17 67; pwrite64 18 68; preadv 295 69; pwritev 296 70;
    preadv2 327 286; pwritev2 328 287; lseek 8 62; close 3 57; close_range 436 436; dup 32 23; dup2 33 -;
    dup3 292 24; pipe 22 -; pipe2 293 59; ftruncate 77 46; fallocate 285 47; fsync 74 82; fdatasync 75 83;
    sync_file_range 277 84; fadvise64 221 223; readahead 187 213; copy_file_range 326 285; sendfile 40 71;
    open 2 -; openat 257 56; access 21 -; faccessat 269 48; faccessat2 439 439; stat 4 -; lstat 6 -; fstat 5 80;
    newfstatat 262 79; statx 332 291; statfs 137 43; fstatfs 138 44; readlink 89 -; readlinkat 267 78;
    getcwd 79 17; chdir 80 49; fchdir 81 50; getdents 78 -; getdents64 217 61; mkdir 83 -; mkdirat 258 34;
    rmdir 84 -; unlink 87 -; unlinkat 263 35; rename 82 -; renameat 264 38; renameat2 316 276; truncate 76 45;
    umask 95 166;
    mmap 9 222; munmap 11 215; mremap 25 216; mprotect 10 226; madvise 28 233; msync 26 227; brk 12 214;
    membarrier 324 283;
    futex 202 98; set_robust_list 273 99; rseq 334 293; exit 60 93; exit_group 231 94; restart_syscall 219 128;
    sched_yield 24 124; getcpu 309 168;
    rt_sigaction 13 134; rt_sigprocmask 14 135; rt_sigreturn 15 139; rt_sigpending 127 136; rt_sigsuspend 130 133;
    rt_sigtimedwait 128 137; sigaltstack 131 132; pause 34 -; alarm 37 -; getitimer 36 102; setitimer 38 103;
    clock_gettime 228 113; clock_getres 229 114; clock_nanosleep 230 115; nanosleep 35 101; gettimeofday 96 169;
    time 201 -; times 100 153;
    epoll_create 213 -; epoll_create1 291 20; epoll_ctl 233 21; epoll_wait 232 -; epoll_pwait 281 22;
    epoll_pwait2 441 441; poll 7 -; ppoll 271 73; select 23 -; pselect6 270 72; eventfd 284 -; eventfd2 290 19;
    timerfd_create 283 85; timerfd_settime 286 86; timerfd_gettime 287 87;
    getpid 39 172; gettid 186 178; getppid 110 173; getuid 102 174; geteuid 107 175; getgid 104 176;
    getegid 108 177; getgroups 115 158; getresuid 118 148; getresgid 120 150; getpgrp 111 -; getpgid 121 155;
    getsid 124 156; uname 63 160; sysinfo 99 179; getrusage 98 165; getrlimit 97 163; getrandom 318 278;
    recvfrom 45 207; recvmsg 47 212; shutdown 48 210; getsockname 51 204; getpeername 52 205; getsockopt 55 209;
    setsockopt 54 208;
"""
"""May be made with any arguments. Landlock rules those that take a path, and the wall's limits the rest."""

JUDGED = """
    sendto 44 206; sendmsg 46 211; clone 56 220; kill 62 129; tgkill 234 131; fcntl 72 25; ioctl 16 29;
    prctl 157 167; prlimit64 302 261; sched_getaffinity 204 123; socket 41 198; socketpair 53 199;
    connect 42 203; clone3 435 435; execve 59 221; fork 57 -; vfork 58 -; wait4 61 260; waitid 247 95;
    arch_prctl 158 -; set_tid_address 218 96;
"""
"""May be made with some arguments, or by a worker that is allowed more than most."""


def numbers(table: str, machine: Machine) -> Mapping[str, int]:
    """Return the numbers of a table's calls on a machine, without those that it lacks."""
    column = 1 if machine is Machine.X86_64 else 2
    entries = (entry.split() for entry in table.replace("\n", " ").split(";"))
    return MappingProxyType(
        {entry[0]: int(entry[column]) for entry in entries if entry and entry[column] != "-"}
    )


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
class ProcessPermissions:
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


def build_conditions(permits: ProcessPermissions) -> Mapping[str, CallRule]:
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


ALLOW = 0x7FFF0000
KILL = 0x80000000
_ERRNO = 0x00050000

LOAD, EQUAL, AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
"""BPF: load a word of the call, jump if equal, jump if not less, mask, end (linux/bpf_common.h)."""

_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
"""Places in ``struct seccomp_data``; both machines keep the lower half of an argument first."""

_SET_NO_NEW_PRIVILEGES = 38
_SECCOMP = {Machine.X86_64: 317, Machine.AARCH64: 277}
_SET_FILTER, _ACTION_AVAILABLE = 1, 2
_SYNCHRONISE_THREADS = 1


class Instruction(NamedTuple):
    """One instruction: its code, how many to skip when it holds and when not, and its operand."""

    code: int
    yes: int
    no: int
    operand: int

    def pack(self) -> bytes:
        """Pack it as the kernel reads it (``struct sock_filter``)."""
        return struct.pack("=HBBI", self.code, self.yes, self.no, self.operand)


def build_refusal(error: int) -> int:
    """Build the filter value that fails a call with an error."""
    return _ERRNO | error


def assemble_program(machine: Machine, permits: ProcessPermissions) -> tuple[Instruction, ...]:
    """Assemble the filter of a process."""
    judged, rules = numbers(JUDGED, machine), build_conditions(permits)
    return (
        _load(_MACHINE),
        Instruction(EQUAL, 1, 0, machine.audit),
        _end(KILL),
        _load(_NUMBER),
        *(each for number in numbers(FREE, machine).values() for each in _compile_rule(number, CallRule(()))),
        *(
            each
            for name, rule in rules.items()
            if name in judged
            for each in _compile_rule(judged[name], rule)
        ),
        Instruction(AT_LEAST, 0, 1, NEWEST + 1),
        _end(build_refusal(errno.ENOSYS)),
        _end(build_refusal(errno.EPERM)),
    )


def _load(place: int) -> Instruction:
    return Instruction(LOAD, 0, 0, place)


def _end(action: int) -> Instruction:
    return Instruction(RETURN, 0, 0, action)


def _compile_rule(number: int, rule: CallRule) -> tuple[Instruction, ...]:
    block = (*(each for check in rule.checks for each in _compile_check(check, rule.error)), _end(ALLOW))
    return Instruction(EQUAL, 0, len(block), number), *block


def _compile_check(check: Check, error: int) -> Iterator[Instruction]:
    """Continue if the argument has one of the values, else fail."""
    place = _ARGUMENTS + 8 * check.argument
    if check.wide:
        yield from (_load(place + 4), Instruction(EQUAL, 1, 0, 0), _end(build_refusal(error)))
    yield _load(place)
    if check.mask != LOW:
        yield Instruction(AND, 0, 0, check.mask)
    for remaining, value in zip(range(len(check.values), 0, -1), check.values, strict=True):
        yield Instruction(EQUAL, remaining, 0, value)
    yield _end(build_refusal(error))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def available(machine: Machine) -> bool:
    """Tell whether the kernel supports failing calls and killing a process by a filter."""
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = (ctypes.c_uint32(_ERRNO), ctypes.c_uint32(KILL))
    return all(
        libc.syscall(_SECCOMP[machine], _ACTION_AVAILABLE, 0, ctypes.byref(action)) == 0 for action in wanted
    )


def install(machine: Machine, permits: ProcessPermissions) -> None:
    """Hold every thread of this process to the filter, for good. Raises OSError when the kernel does not."""
    code = b"".join(each.pack() for each in assemble_program(machine, permits))
    buffer = ctypes.create_string_buffer(code, len(code))
    given = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no-new-privileges cannot be set")
    done = libc.syscall(_SECCOMP[machine], _SET_FILTER, _SYNCHRONISE_THREADS, ctypes.byref(given))
    if done:
        raise OSError(
            ctypes.get_errno() if done < 0 else errno.EBUSY, "the filter of system calls does not stand"
        )
