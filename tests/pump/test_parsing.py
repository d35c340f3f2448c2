"""What strangers write leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.core.decide import intake
from agentserver.core.messages import Draft, Drafts, OutsideMessage
from agentserver.core.state.requests import ResultLimits
from agentserver.pump import parsing as module
from agentserver.pump.editions import Editions
from agentserver.pump.parsing import THREADS, OffloadedParser
from tests.core.paper import Answer, Ask, errors, listener, rules
from tests.machine import HANGS
from tests.pump.desk import desk, wait_until

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
MOST = 24 * MIB
"""Memory that may remain after any number of documents: one in reading, and the allocator's reserve for the next."""

SHOP = rules(listener("a"))
STRANGE = OutsideMessage(
    b'<p:Ask xmlns:p="urn:agentserver:payload:Ask:v1"><p:text>hi</p:text></p:Ask>', "r", "a"
)


def flood(number, kind):
    """A document of names that no other one has."""
    match kind:
        case "attributes":
            inner = "<Ask " + " ".join(f"n{number}a{i}='1'" for i in range(3000)) + "/>"
        case "elements":
            inner = "<Ask>" + "".join(f"<n{number}e{i}/>" for i in range(3000)) + "</Ask>"
        case "prefixes":
            inner = (
                "<Ask>"
                + "".join(f"<n{number}p{i}:x xmlns:n{number}p{i}='u:{i}'/>" for i in range(60))
                + "</Ask>"
            )
        case "namespaces":
            inner = "<Ask>" + "".join(f"<x xmlns='urn:{number}:{i}'/>" for i in range(3000)) + "</Ask>"
        case "instructions":
            inner = "<Ask>" + "".join(f"<?n{number}i{i}?>" for i in range(3000)) + "</Ask>"
        case _:
            inner = "<Ask>" + "".join(f"&n{number}r{i};" for i in range(3000)) + "</Ask>"
    return inner.encode()


KINDS = ("attributes", "elements", "prefixes", "namespaces", "instructions", "references")


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def measure_memory(count):
    """Memory that the documents of strangers left behind, from outside and as text of a model."""

    async def text(payload, metadata):
        return flood(int(payload.text), KINDS[int(payload.text) % len(KINDS)])

    async with desk((listener("a"), text), refusals=1) as d:
        handle = await d.open()
        for number in range(count):
            if number == 50:
                start = resident()
            kind = KINDS[number % len(KINDS)]
            assert d.decode(await handle.ask(flood(number, kind), "a")).code in {"validation", "routing"}
            if number % 4 == 0:
                assert errors([await d.ask(Ask(str(-number)), handle=handle)]) == ["internal"]
    return resident() - start


@pytest.mark.soak
def test_documents_with_names_of_their_own_leave_no_memory_behind(soak_scale):
    """300 of them, or as many thousands as fit the soak scale: the remainder does not depend on their number."""
    count = min(300 * soak_scale, 3000)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.pump.test_parsing", str(count)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MOST


async def test_a_familiar_message_is_parsed_in_the_deciding_thread(monkeypatch):
    reader = OffloadedParser(Editions(SHOP, {}))
    monkeypatch.setattr(module, "ThreadPoolExecutor", None)
    codec = SHOP.codecs.of(Ask)
    short = STRANGE._replace(data=codec.encode(Ask("hi")).encode())
    assert await reader.parse_outside("p", "c", short) == (SHOP, None)
    said = await reader.parse_result("c", HandlerResponse.respond(Answer("x")), ResultLimits(1, 1000))
    assert isinstance(said, Drafts)


async def test_anything_else_is_read_in_a_thread_of_its_own(monkeypatch):
    reader, threads = OffloadedParser(Editions(SHOP, {})), []
    whole = intake.read_outside

    def note_whole(*args):
        threads.append(threading.current_thread())
        return whole(*args)

    monkeypatch.setattr(intake, "read_outside", note_whole)
    for _ in range(3):
        assert (await reader.parse_outside("p", "c", STRANGE)).read.root == SHOP.codecs.of(Ask).name
    assert len(set(threads)) == 3
    assert threading.main_thread() not in threads


async def test_a_long_message_is_parsed_in_a_thread_as_well(monkeypatch):
    reader, threads = OffloadedParser(Editions(SHOP, {})), []
    monkeypatch.setattr(module, "check_familiar", lambda *_: threads.append("asked") or True)
    long = SHOP.codecs.of(Ask).encode(Ask("x" * module.SHORT)).encode()
    assert isinstance((await reader.parse_outside("p", "c", STRANGE._replace(data=long))).read, Draft)
    assert isinstance(await reader.parse_result("c", long, ResultLimits(1, 1 << 20)), Drafts)
    assert not threads  # not even looked through where the event loop waits


async def test_a_message_that_cannot_be_parsed_elsewhere_is_left_to_the_decision(monkeypatch):
    def fails(*args):
        raise LookupError

    monkeypatch.setattr(intake, "read_outside", fails)
    assert await OffloadedParser(Editions(SHOP, {})).parse_outside("p", "c", STRANGE) is None


async def test_a_few_are_read_at_once_and_principals_take_turns():
    reader, running, most, order = OffloadedParser(Editions(SHOP, {})), 0, 0, []
    gate, lock = threading.Event(), threading.Lock()

    async def one(principal):
        def work():
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            gate.wait(HANGS)
            with lock:
                running -= 1
                order.append(principal)

        (await reader._run_in_thread(principal, principal, work)).result()

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one, "flood")
        await asyncio.sleep(0)
        tasks.start_soon(one, "other")
        given_up = asyncio.create_task(one("third"))
        await asyncio.sleep(0)
        given_up.cancel()
        await wait_until(lambda: running == THREADS)
        gate.set()
    assert most == THREADS
    assert order.index("other") <= 2 * THREADS
    assert len(order) == 21
    assert reader._free == THREADS


if __name__ == "__main__":
    sys.stdout.write(str(anyio.run(measure_memory, int(sys.argv[1]))))
