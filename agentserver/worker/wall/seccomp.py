"""A filter of system calls, as a program for the kernel.

Owns the program and its instructions. Refuses to know which calls are harmless: ``rules`` and ``syscalls`` say that.
The first question is the machine, since the same number means another call elsewhere; what no rule names is refused.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from typing import TYPE_CHECKING, NamedTuple

from agentserver.worker.wall.rules import LOW, CallRule, Check, conditions
from agentserver.worker.wall.syscalls import FREE, JUDGED, NEWEST, Machine, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.worker.wall.rules import Permits

__all__ = ["ALLOW", "KILL", "Instruction", "available", "install", "program", "refusal"]

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

    def packed(self) -> bytes:
        """As the kernel reads it (``struct sock_filter``)."""
        return struct.pack("=HBBI", self.code, self.yes, self.no, self.operand)


def refusal(error: int) -> int:
    """The value of a filter that lets a call fail with an error."""
    return _ERRNO | error


def program(machine: Machine, permits: Permits) -> tuple[Instruction, ...]:
    """The filter of a process."""
    judged, rules = numbers(JUDGED, machine), conditions(permits)
    return (
        _load(_MACHINE),
        Instruction(EQUAL, 1, 0, machine.audit),
        _end(KILL),
        _load(_NUMBER),
        *(each for number in numbers(FREE, machine).values() for each in _ruled(number, CallRule(()))),
        *(each for name, rule in rules.items() if name in judged for each in _ruled(judged[name], rule)),
        Instruction(AT_LEAST, 0, 1, NEWEST + 1),
        _end(refusal(errno.ENOSYS)),
        _end(refusal(errno.EPERM)),
    )


def _load(place: int) -> Instruction:
    return Instruction(LOAD, 0, 0, place)


def _end(action: int) -> Instruction:
    return Instruction(RETURN, 0, 0, action)


def _ruled(number: int, rule: CallRule) -> tuple[Instruction, ...]:
    block = (*(each for check in rule.checks for each in _checked(check, rule.error)), _end(ALLOW))
    return Instruction(EQUAL, 0, len(block), number), *block


def _checked(check: Check, error: int) -> Iterator[Instruction]:
    """Go on when the argument is one of the values, and end with the error otherwise."""
    place = _ARGUMENTS + 8 * check.argument
    if check.wide:
        yield from (_load(place + 4), Instruction(EQUAL, 1, 0, 0), _end(refusal(error)))
    yield _load(place)
    if check.mask != LOW:
        yield Instruction(AND, 0, 0, check.mask)
    for left, value in zip(range(len(check.values), 0, -1), check.values, strict=True):
        yield Instruction(EQUAL, left, 0, value)
    yield _end(refusal(error))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def available(machine: Machine) -> bool:
    """True when the kernel can let calls fail and can end a process by a filter."""
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = (ctypes.c_uint32(_ERRNO), ctypes.c_uint32(KILL))
    return all(
        libc.syscall(_SECCOMP[machine], _ACTION_AVAILABLE, 0, ctypes.byref(action)) == 0 for action in wanted
    )


def install(machine: Machine, permits: Permits) -> None:
    """Hold every thread of this process to the filter, for good. Raises OSError when the kernel does not."""
    code = b"".join(each.packed() for each in program(machine, permits))
    kept = ctypes.create_string_buffer(code, len(code))
    given = _Program(len(code) // 8, ctypes.cast(kept, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no-new-privileges cannot be set")
    done = libc.syscall(_SECCOMP[machine], _SET_FILTER, _SYNCHRONISE_THREADS, ctypes.byref(given))
    if done:
        raise OSError(
            ctypes.get_errno() if done < 0 else errno.EBUSY, "the filter of system calls does not stand"
        )
