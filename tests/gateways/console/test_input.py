from __future__ import annotations

import os

import anyio
import pytest

from agentserver.gateways.console import lines as lines_module
from agentserver.gateways.console.lines import ControlKey, PlainLines
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


async def all_of(lines):
    found = []
    with anyio.fail_after(HANGS):
        while not isinstance(found[-1] if found else "", ControlKey):
            found.append(await lines.next("> "))
    return found


async def test_lines_of_a_pipe():
    reading, writing = os.pipe()
    lines = PlainLines(reading)
    os.write(writing, b"eins\nzw")
    assert await lines.next("") == "eins"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(
            anyio.to_thread.run_sync,
            os.write,
            writing,
            "ö\r\n\nlast \udcff".encode("utf-8", "surrogateescape"),
        )
        assert await lines.next("") == "zwö"
    os.close(writing)
    assert await all_of(lines) == ["", "last \udcff", ControlKey.END]
    assert await lines.next("") is ControlKey.END
    os.close(reading)


async def test_lines_of_a_file(tmp_path):
    path = tmp_path / "script"
    path.write_text("a\nb")
    with path.open() as stream:
        assert await all_of(PlainLines(stream.fileno())) == ["a", "b", ControlKey.END]


async def test_an_endless_line_ends_the_input(tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "MAX_LINE", 10)
    path = tmp_path / "script"
    path.write_text("x" * 11)
    with path.open() as stream:
        assert await all_of(PlainLines(stream.fileno())) == [ControlKey.TOO_LONG]


async def test_a_prompt_is_shown_when_somebody_looks(tmp_path):
    shown = []
    path = tmp_path / "script"
    path.write_text("a\n")
    with path.open() as stream:
        await all_of(PlainLines(stream.fileno(), shown.append))
    assert shown == ["> ", "> "]


async def test_waiting_can_be_cancelled():
    reading, writing = os.pipe()
    with anyio.move_on_after(0.01) as scope:
        await PlainLines(reading).next("")
    assert scope.cancelled_caught
    os.close(reading)
    os.close(writing)
