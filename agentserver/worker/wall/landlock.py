"""Landlock: unprivileged kernel rules for files and ports (linux/landlock.h), and the mount of a scratch folder.

Rules only add rights: access below a granted folder cannot be revoked.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "MOST_FILES",
    "Grant",
    "HandledRights",
    "Right",
    "list_handled",
    "mount_scratch",
    "restrict",
    "version",
]

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_BENEATH, _PORT = 1, 2
_BIND, _CONNECT = 1, 2
_NAMED_SOCKETS_AND_SIGNALS = 0b11
_NET_SINCE, _SCOPES_SINCE = 4, 6


class Right(IntFlag):
    """The acts on a file or below a folder. Bits 6 and 9 to 12 make devices, sockets, pipes and links."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15

    READ = READ_FILE | READ_DIR
    LIST = READ_DIR
    RUN = EXECUTE | READ_FILE
    WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE

    OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV


_SINCE = ((5, Right.IOCTL_DEV), (3, Right.TRUNCATE), (2, Right.REFER))


class Grant(NamedTuple):
    """A path with its access rights, which include everything below a folder."""

    path: Path
    files: Right


def version() -> int:
    """Return the Landlock version of the kernel; 0 without Landlock."""
    found = ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, ctypes.c_size_t(0), _ASK_VERSION)
    return max(int(found), 0)


class HandledRights(NamedTuple):
    """The acts that a version of Landlock refuses unless a rule allows them.

    Args:
        files: of files.
        net: of TCP: 1 to bind, 2 to connect.
        scoped: beyond what the rules hold: 1 abstract sockets, 2 signals.
        size: bytes of ``struct landlock_ruleset_attr`` that this version reads.
    """

    files: Right
    net: int
    scoped: int
    size: int


def list_handled(version: int) -> HandledRights:
    """Return all access rights that a version can restrict, of those known here."""
    files = Right((1 << 16) - 1)
    for since, right in _SINCE:
        if version < since:
            files &= ~right
    net = _BIND | _CONNECT if version >= _NET_SINCE else 0
    scoped = _NAMED_SOCKETS_AND_SIGNALS if version >= _SCOPES_SINCE else 0
    return HandledRights(files, net, scoped, 24 if scoped else 16 if net else 8)


def restrict(grants: Iterable[Grant], ports: Iterable[int] = ()) -> None:
    """Restrict this thread and its later children to the grants, and to TCP connections to the ports.

    All other file and TCP access that this Landlock version covers is refused, and where supported, signals to outside
    processes and outside abstract sockets.

    Args:
        grants: existing paths.
        ports: 1 to 65535.

    Raises OSError if the kernel rejects a rule, FileNotFoundError for a missing path.
    """
    ruled = list_handled(version())
    attributes = struct.pack("=QQQ", *ruled[:3])[: ruled.size]
    rules = _call(_CREATE, attributes, ctypes.c_size_t(ruled.size), 0, step="Landlock takes no rules")
    try:
        for grant in grants:
            _grant(rules, grant, ruled.files)
        for port in ports:
            rule = struct.pack("=QQ", _CONNECT, port)
            _call(_ADD, rules, _PORT, rule, 0, step=f"Landlock does not take port {port}")
        _call(_RESTRICT, rules, 0, step="Landlock does not stand")
    finally:
        os.close(rules)


def _grant(rules: int, grant: Grant, list_handled: Right) -> None:
    place = os.open(grant.path, os.O_PATH | os.O_CLOEXEC)
    try:
        allowed = grant.files & list_handled
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            allowed &= Right.OF_A_FILE
        if allowed:
            rule = struct.pack("=Qi", allowed, place)
            _call(_ADD, rules, _BENEATH, rule, 0, step=f"Landlock does not take {grant.path}")
    finally:
        os.close(place)


def _call(number: int, *arguments: object, step: str) -> int:
    done = int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))
    if done < 0:
        raise OSError(ctypes.get_errno(), step)
    return done


MOST_FILES = 10_000
"""Files and folders of one file system: the kernel keeps about a kilobyte for each."""

_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_NO_SETUID, _NO_DEVICES = 2, 4


def mount_scratch(folder: Path, size: int) -> bool:
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


def _check(done: int, step: str) -> None:
    if done:
        raise OSError(ctypes.get_errno(), step)
