"""The filter as the kernel would run it: every number, and arguments at their edges."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.worker.wall import seccomp
from agentserver.worker.wall.seccomp import (
    ALLOW,
    CLONE_THREAD,
    FREE,
    JUDGED,
    KILL,
    MSG_FASTOPEN,
    NEWEST,
    Machine,
    ProcessPermissions,
    assemble_program,
    build_refusal,
    numbers,
)

PID = 4711
EPERM, ENOSYS = build_refusal(errno.EPERM), build_refusal(errno.ENOSYS)
X32 = 0x40000000
HEADERS = {
    Machine.X86_64: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    Machine.AARCH64: Path("/usr/include/asm-generic/unistd.h"),
}
PROGRAMS = {
    (machine, ports, commands, fork, messages): assemble_program(
        machine, ProcessPermissions(PID, ports, commands, fork, messages)
    )
    for machine in Machine
    for ports in (False, True)
    for commands in (False, True)
    for fork in (False, True)
    for messages in (False, True)
}


def run(code, number, arguments=(), audit=None):
    """What a kernel gives for a call: classic BPF over ``struct seccomp_data``."""
    words = {0: number, 4: audit}
    for place, value in enumerate([*arguments, *[0] * (6 - len(arguments))]):
        words[16 + 8 * place], words[20 + 8 * place] = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
    at, held = 0, 0
    while True:
        step = code[at]
        at += 1
        if step.code == seccomp.LOAD:
            held = words[step.operand]
        elif step.code == seccomp.AND:
            held &= step.operand
        elif step.code == seccomp.RETURN:
            return step.operand
        else:
            holds = held == step.operand if step.code == seccomp.EQUAL else held >= step.operand
            at += step.yes if holds else step.no


def judge_syscall(
    name, *arguments, machine=Machine.X86_64, ports=False, commands=False, fork=False, messages=False
):
    number = {**numbers(FREE, machine), **numbers(JUDGED, machine)}[name]
    return run(PROGRAMS[machine, ports, commands, fork, messages], number, arguments, machine.audit)


@pytest.mark.parametrize("machine", Machine)
def test_numbers_are_those_of_the_headers(machine):
    if not HEADERS[machine].exists():
        pytest.skip(f"{HEADERS[machine]} is missing: sudo apt-get install linux-libc-dev")
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", HEADERS[machine].read_text()))
    found.setdefault("newfstatat", found.get("fstatat"))
    for name, number in {**numbers(FREE, machine), **numbers(JUDGED, machine)}.items():
        assert int(found[name]) == number, name


@pytest.mark.parametrize("machine", Machine)
def test_every_number_of_no_table_is_refused(machine):
    known = {*numbers(FREE, machine).values(), *numbers(JUDGED, machine).values()}
    code = PROGRAMS[machine, False, False, False, False]
    for number in set(range(NEWEST + 200)) - known:
        assert run(code, number, audit=machine.audit) == (EPERM if number <= NEWEST else ENOSYS), number
    for number in numbers(FREE, machine).values():
        assert run(code, number, audit=machine.audit) == ALLOW


@given(number=st.integers(0, 2**32 - 1), audit=st.integers(0, 2**32 - 1))
def test_another_machine_ends_the_process_whatever_it_calls(number, audit):
    for machine in Machine:
        if audit != machine.audit:
            assert run(PROGRAMS[machine, True, True, True, True], number, audit=audit) == KILL


@given(number=st.integers(0, NEWEST))
def test_no_number_of_x32_is_allowed(number):
    assert (
        run(PROGRAMS[Machine.X86_64, True, True, True, True], X32 | number, audit=Machine.X86_64.audit)
        == ENOSYS
    )


@pytest.mark.parametrize("machine", Machine)
def test_programs_are_as_long_as_the_kernel_takes_and_jump_within(machine):
    for (which, *_), code in PROGRAMS.items():
        if which is machine:
            assert len(code) <= 4096
            for at, step in enumerate(code):
                assert max(step.yes, step.no) < 256
                assert at + 1 + max(step.yes, step.no) <= len(code)


@given(flags=st.integers(0, 2**64 - 1))
def test_clone_makes_threads_and_nothing_else(flags):
    namespaces = 0x7E020000 | 0x2000
    thread = bool(flags & CLONE_THREAD) and not flags & namespaces
    assert judge_syscall("clone", flags) == (ALLOW if thread else EPERM)
    assert judge_syscall("clone3", flags) == ENOSYS


@given(domain=st.integers(0, 50), kind=st.integers(0, 2**32 - 1), protocol=st.integers(0, 300))
def test_sockets_are_tcp_where_ports_are_named_and_none_elsewhere(domain, kind, protocol):
    assert judge_syscall("socket", domain, kind, protocol) == EPERM
    tcp = domain in {2, 10} and kind & 0xF == 1 and protocol in {0, 6}
    assert judge_syscall("socket", domain, kind, protocol, ports=True) == (ALLOW if tcp else EPERM)
    assert judge_syscall("connect", 3) == EPERM
    pair = domain == 1 and kind & 0xF == 1
    assert judge_syscall("socketpair", domain, kind) == (ALLOW if pair else EPERM)


@given(flags=st.integers(0, 2**32 - 1))
def test_no_message_opens_a_connection(flags):
    expected = EPERM if flags & MSG_FASTOPEN else ALLOW
    assert judge_syscall("sendto", 3, 0, 0, flags, ports=True) == expected
    assert judge_syscall("sendmsg", 3, 0, flags, ports=True, messages=True) == expected


@given(flags=st.integers(0, 2**32 - 1))
def test_no_message_hands_a_descriptor_on_where_nobody_could_count_it(flags):
    assert judge_syscall("sendmsg", 3, 0, flags, ports=True, fork=True) == EPERM


@pytest.mark.parametrize("machine", Machine)
def test_no_file_is_locked_that_may_only_be_read(machine):
    """``flock`` asks for no right to write; the locks of ``fcntl`` that exclude readers do."""
    number = {Machine.X86_64: 73, Machine.AARCH64: 32}[machine]
    assert run(PROGRAMS[machine, True, True, True, True], number, (3, 2), machine.audit) == EPERM


@given(pid=st.integers(0, 2**32 - 1))
def test_signals_go_to_oneself(pid):
    assert judge_syscall("kill", pid) == (ALLOW if pid == PID else EPERM)
    assert judge_syscall("tgkill", pid) == (ALLOW if pid == PID else EPERM)


@given(pid=st.integers(0, 2**32 - 1), new=st.sampled_from([0, 1, 1 << 32, 2**63]))
def test_limits_are_read_of_oneself_and_never_set(pid, new):
    assert judge_syscall("prlimit64", pid, 7, new) == (ALLOW if (pid, new) == (0, 0) else EPERM)


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("fcntl", 1, 8),  # F_SETOWN
        ("fcntl", 1, 15),  # F_SETOWN_EX
        ("fcntl", 1, 10),  # F_SETSIG
        ("ioctl", 1, 0x8901),  # FIOSETOWN
        ("ioctl", 1, 0x5412),  # TIOCSTI
        ("prctl", 0, 1),  # PR_SET_PDEATHSIG
        ("prctl", 0, 22),  # PR_SET_SECCOMP
        ("sched_getaffinity", 0, 1),
    ],
)
def test_syscalls_that_reach_beyond_the_process_are_refused(name, argument, value):
    assert judge_syscall(name, *[0] * argument, value) == EPERM


@pytest.mark.parametrize("name", ["execve", "set_tid_address"])
def test_only_a_process_that_becomes_a_command_may_start_programs(name):
    assert judge_syscall(name) == judge_syscall(name, fork=True) == EPERM
    assert judge_syscall(name, commands=True) == ALLOW


@pytest.mark.parametrize("code", [0x1001, 0x1004, 0x3001, 0x1011])
def test_a_fresh_program_sets_the_place_of_its_own_data_only(code):
    assert judge_syscall("arch_prctl", 0x1002) == EPERM
    assert judge_syscall("arch_prctl", 0x1002, commands=True) == ALLOW
    assert judge_syscall("arch_prctl", code, commands=True) == EPERM


@pytest.mark.parametrize("name", ["fork", "vfork", "wait4", "waitid"])
def test_processes_are_made_by_nobody_who_did_not_ask_for_it(name):
    assert judge_syscall(name) == judge_syscall(name, commands=True) == EPERM
    assert judge_syscall(name, commands=True, fork=True) == ALLOW


@given(flags=st.integers(0, 2**64 - 1))
def test_with_fork_clone_makes_processes_in_no_other_namespace(flags):
    plain = not flags & (0x7E020000 | 0x2000)
    assert judge_syscall("clone", flags, commands=True, fork=True) == (ALLOW if plain else EPERM)
    assert judge_syscall("clone", flags, commands=True) == (
        ALLOW if plain and flags & CLONE_THREAD else EPERM
    )


@given(pid=st.integers(0, 2**32 - 1))
def test_with_fork_signals_are_for_landlock_to_hold(pid):
    assert judge_syscall("kill", pid, commands=True) == (ALLOW if pid == PID else EPERM)
    assert judge_syscall("kill", pid, commands=True, fork=True) == ALLOW


@pytest.mark.parametrize(
    "name", ["execveat", "chmod", "ptrace", "io_uring_setup", "memfd_create", "symlinkat"]
)
def test_needless_syscalls_are_in_no_table(name):
    for machine in Machine:
        assert name not in {**numbers(FREE, machine), **numbers(JUDGED, machine)}
