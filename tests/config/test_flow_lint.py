"""What check finds in flows that may differ when they are run again."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import random as dice
import time
import uuid
from dataclasses import dataclass
from datetime import datetime as moment
from pathlib import Path

import pytest

from agentserver import xmlify
from agentserver.config.code.flow_lint import find_faults
from agentserver.flow import ask, changed, gather, now, once, random, sleep, tell


@xmlify
@dataclass(frozen=True)
class Job:
    text: str


def helper():
    return time.monotonic()


def fetch(path):
    return Path(path).read_text(encoding="utf-8")


async def clean(job: Job) -> str:
    at = await now()
    chance = await random()
    await sleep(dt.timedelta(days=1))
    text = await once(fetch, "file")
    later = await once(lambda: time.time())
    for word in sorted({job.text, "b"}):
        await ask("peer", Job(word))
    return os.path.join(str(at), str(chance), text, str(later), str(uuid.UUID(int=1)))  # noqa: PTH118 - no input


async def hide_difference(job: Job) -> str:
    await ask("peer", job)
    started = time.time()
    today = moment.now()  # noqa: DTZ005 - is found
    number = dice.choice([1, 2])
    name = uuid.uuid4()
    await asyncio.sleep(1)
    with open("file", encoding="utf-8") as file:  # noqa: ASYNC230, PTH123 - is found
        file.read()
    words = {"a", "b"}
    for word in words:
        await ask("peer", Job(word))
    listed = list({job.text})
    number_of_process = os.getpid()
    return f"{started} {today} {number} {name} {listed} {number_of_process} {helper()} {fetch('x')}"


async def forgetful(job: Job) -> str:
    began = now()
    tell("peer", job)
    if changed("greets"):
        gather(ask("peer", job))
    later = ask("peer", job)
    at, _ = await gather(now(), later)
    return f"{began} {at} {random()}"


async def no_flow(job: Job) -> str:
    return f"{time.time()} {job.text}"


def test_a_request_that_is_not_awaited_is_found():
    start = forgetful.__code__.co_firstlineno
    assert [(each.line - start, each.text, each.help) for each in find_faults(forgetful)] == [
        (line, f"{name}() is not awaited, so that it does nothing", f"write await {name}(...)")
        for line, name in [(1, "now"), (2, "tell"), (3, "changed"), (4, "gather"), (7, "random")]
    ]


def test_a_flow_that_may_differ_is_found_with_file_line_and_correction():
    found = list(find_faults(hide_difference))
    assert {each.file.name for each in found} == {"test_flow_lint.py"}
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    lines = [source[each.line - 1].partition("  #")[0].strip() for each in found]
    assert lines == [
        "started = time.time()",
        "today = moment.now()",
        "number = dice.choice([1, 2])",
        "name = uuid.uuid4()",
        "await asyncio.sleep(1)",
        'with open("file", encoding="utf-8") as file:',
        "for word in words:",
        "listed = list({job.text})",
        "number_of_process = os.getpid()",
        "return time.monotonic()",
        'return Path(path).read_text(encoding="utf-8")',
    ]
    assert found[0].help == "use now() or sleep() of agentserver.flow"
    assert found[6][2:] == ("the order of words differs from process to process", "sort it")


@pytest.mark.parametrize("function", [clean, no_flow])
def test_a_flow_that_repeats_itself_is_clean_and_so_is_a_function_that_awaits_no_message(function):
    assert list(find_faults(function)) == []
