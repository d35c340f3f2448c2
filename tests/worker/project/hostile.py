"""A handler that tries, by name, forbidden acts. A successful act says so; a refused one raises."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from words import Count, Got, Try

from agentserver import HandlerResponse, invocation, xmlify
from agentserver.llm import CompletionError, complete

LIBC = ctypes.CDLL(None, use_errno=True)


def scratch(name):
    return Path(os.environ["TMPDIR"]) / name


def checked(number, *arguments):
    done = LIBC.syscall(number, *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return done


def read(about):
    return Path(about).read_text(errors="replace")[:100]


def inherited(_):
    """Descriptors beyond the socket and the standard ones."""
    found = []
    for number in range(3, 64):
        try:
            found.append((number, os.fstat(number).st_mode))
        except OSError:
            continue
    others = [number for number, mode in found if (mode & 0o170000) not in (0o140000, 0o010000, 0)]
    if not others:
        raise PermissionError("nothing was inherited")
    return str(others)


def write(about):
    return str(Path(about).write_text("mine"))


def link(about):
    scratch("own").write_text("x")
    os.link(about, scratch("linked"))


def symlink(about):
    scratch("symlinked").symlink_to(about)


def chmod(about):
    Path(about).chmod(0o777)


def rename(about):
    Path(about).rename(scratch("moved"))


def tcp(about):
    with socket.create_connection(("127.0.0.1", int(about)), timeout=1):
        return "connected"


def udp(_):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return str(sock.sendto(b"x", ("127.0.0.1", 9)))


def named(about):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(about)


def abstract(about):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("\0" + about)


def datagrams(_):
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


def names(_):
    return str(socket.getaddrinfo("example.org", 80))


def kill(about):
    os.kill(int(about), signal.SIGTERM)


def everybody(_):
    os.kill(-1, signal.SIGTERM)


def trace(about):
    return str(checked(101, 16, int(about), 0, 0))  # PTRACE_ATTACH


def memory_of(about):
    return str(checked(310, int(about), None, 0, None, 0, 0))  # process_vm_readv


def limits_of(about):
    return str(checked(302, int(about), 7, (ctypes.c_ulong * 2)(9, 9), None))  # prlimit64


def outlive(_):
    return str(LIBC.prctl(1, 0, 0, 0, 0) or "free")


def fork(_):
    return str(os.fork())


def clone3(_):
    return str(checked(435, (ctypes.c_ulong * 11)(), 88))


def execute(_):
    os.execv("/bin/true", ["true"])


def run(_):
    return str(subprocess.run(["/bin/true"], check=True))


def ring(_):
    return str(checked(425, 8, (ctypes.c_ulong * 16)()))


def nameless(_):
    return str(os.memfd_create("x"))


def namespace(_):
    return str(checked(272, 0x10000000))


def x32(_):
    return str(checked(0x40000000 | 39))


def hoard(_):
    return str(len(bytearray(4 << 30)))


def shared(_):
    return str(len(mmap.mmap(-1, 4 << 30)))


def one_file(_):
    with scratch("big").open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 10**6)
    return "written"


def many_files(_):
    for number in range(100):
        scratch(f"part{number}").write_bytes(b"x" * 10**6)
        time.sleep(0.02)
    time.sleep(30)  # it is ended before
    return "written"


def kept_aside(keep):
    """Write 40 MB in files of a megabyte, and unlink each."""
    held = []
    for number in range(40):
        path = scratch(f"aside{number}")
        held.append(keep(path))
        time.sleep(0.02)
    time.sleep(30)  # it is ended before, if nothing was refused
    return f"{len(held)} MB are kept"


def unlinked(_):
    def keep(path):
        file = path.open("wb", buffering=0)
        path.unlink()
        file.write(b"x" * 10**6)
        return file

    return kept_aside(keep)


def mapped(_):
    """Without a descriptor, which Python's own maps keep."""

    def keep(path):
        with path.open("wb", buffering=0) as file:
            file.write(b"x" * 10**6)
        number = os.open(path, os.O_RDONLY)
        LIBC.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, number, 0)
        os.close(number)
        path.unlink()

    return kept_aside(keep)


def unreadable(_):
    def keep(path):
        path.mkdir(0o300)
        with (path / "file").open("wb", buffering=0) as file:
            file.write(b"x" * 10**6)

    return kept_aside(keep)


def passed(_):
    """Descriptors that are on their way to another process."""
    ends = socket.socketpair()

    def keep(path):
        with path.open("wb", buffering=0) as file:
            path.unlink()
            file.write(b"x" * 10**6)
            socket.send_fds(ends[0], [b"x"], [file.fileno()])

    return kept_aside(keep)


def listed(_):
    return str(sorted(Path(os.environ["TMPDIR"]).iterdir()))


def nested(_):
    """Folders in one another, more than Python walks by recursion; then an endless loop."""
    place = os.open(os.environ["TMPDIR"], os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    spin(_)


def lock(about):
    """Keep others from a file that may only be read."""
    with Path(about).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def threads(_):
    threading.stack_size(1 << 16)
    for _ in range(1000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    time.sleep(30)  # it is ended before
    return "started"


def spin(_):
    while True:
        pass


def die(_):
    os._exit(7)


def crash(_):
    ctypes.string_at(0)


def pour(number, left):
    """Write all of it, unless nobody reads there: the event loop has sockets of its own."""
    for _ in range(500):
        try:
            left = left[os.write(number, left) :]
        except BlockingIOError:
            time.sleep(0.002)
        if not left:
            return


def raw(about, wait=5):
    """Write to the server's socket without asking."""
    for number in range(3, 64):
        try:
            if os.fstat(number).st_mode & 0o170000 == 0o140000:
                pour(number, bytes.fromhex(about))
        except OSError:
            continue
    time.sleep(wait)


def spoken(**changes):
    """Answer in the place of the worker, as if this call had ended."""
    at = sys._getframe()
    while "frame" not in at.f_locals:
        at = at.f_back
    markup = '<Got xmlns="urn:agentserver:payload:Got:v1"><text>refused: the first answer counts</text></Got>'
    said = [{"to": None, "caller": True, "markup": markup}]
    answer = {"call": at.f_locals["frame"].call, "messages": said}
    data = json.dumps({**answer, "kind": "returned", **changes}).encode()
    return (len(data).to_bytes(4, "big") + data).hex()


def twice(_):
    raw(spoken() * 2, 0.2)


def another(_):
    raw(spoken(call=10**6))


def kept(_):
    markup = f'<Got xmlns="urn:agentserver:payload:Got:v1"><text>{"x" * 2_000_000}</text></Got>'
    raw(spoken(effects={"stored": {"{urn:agentserver:payload:Got:v1}Got": markup}}))


ACTS = {
    name: each
    for name, each in list(globals().items())
    if callable(each) and name not in {"scratch", "checked", "spoken", "pour", "kept_aside"}
}


async def hello(about):
    return f"hello {about}"


async def count(_):
    storage = invocation().storage
    known = storage.get(Count)
    storage.set(Count(1 + (known.number if known else 0)))
    storage.append(Got("here"))
    return f"{storage.get(Count).number} {len(storage.log(Got))}"


@xmlify
@dataclass(frozen=True)
class Blob:
    """A class of this module, which the server does not import."""

    number: int


async def blob(_):
    storage = invocation().storage
    known = storage.get(Blob)
    storage.set(Blob(1 + (known.number if known else 0)))
    storage.append(Blob(storage.get(Blob).number))
    return f"{storage.get(Blob).number} {[each.number for each in storage.log(Blob)]}"


async def ask(about):
    words = [{"role": "user", "content": about}]
    if about == "nobody":
        try:
            await complete(model="nobody", messages=words)
        except LookupError as error:
            return type(error).__name__
    if about == "short":
        try:
            await complete(model="short", messages=words)
        except CompletionError as error:
            done = await complete(model="short", messages=words, allow_partial=True)
            return f"{error.fault} {error.partial == done} {done.finish} {done.content}"
    one, two = await asyncio.gather(
        complete(model="m", messages=words), complete(model="typed", messages=words, output=Got)
    )
    return f"{one.content} {two.output.text}"


async def spend(_):
    """Ask until the budget of the request is spent."""
    while True:
        await complete(model="m", messages=[{"role": "user", "content": "x" * 1000}])


async def tell(_):
    """Progress without end, of any length."""
    for number in range(2000):
        invocation().progress(f"{number} " + "x" * 10_000)
        await asyncio.sleep(0)
    return "told"


async def wait(_):
    await asyncio.sleep(60)


async def stubborn(_):
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


ORDINARY = {each.__name__: each for each in (hello, count, blob, ask, spend, tell, wait, stubborn)}


async def attempt(payload: Try, metadata):
    if payload.act == "forge":
        return HandlerResponse(Got("forged"), to=payload.about)
    if payload.act in ORDINARY:
        return HandlerResponse.respond(Got(await ORDINARY[payload.act](payload.about)))
    try:
        told = ACTS[payload.act](payload.about)
    except (OSError, MemoryError) as error:
        return HandlerResponse.respond(Got(f"refused: {type(error).__name__} {error}"))
    return HandlerResponse.respond(Got(f"DONE: {told}"))
