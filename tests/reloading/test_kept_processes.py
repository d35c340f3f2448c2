"""Walled workers and programs of MCP servers: unchanged ones survive a reload."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from agentserver.assembly import ReloadResult
from agentserver.config.code.tools import lock_path
from agentserver.reloading.keepers import mark_files
from agentserver.worker.wall.raising import list_missing
from tests.mcp.client.projects import HOSTILE, wait_for_file
from tests.mcp.client.projects import Project as McpProject
from tests.reloading.projects import ask, wait_settled
from tests.reloading.projects import project as _project

pytestmark = pytest.mark.anyio
project = _project
needs_wall = pytest.mark.skipif(
    bool(list_missing(ports=False)), reason="this system cannot hold a wall: NOT tested"
)

WHOSE = """
import os
from agentserver import HandlerResponse
from listeners.forms import Ask, Told

async def tell(payload: Ask, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Told(str(os.getpid())))
"""

LISTENERS = (
    (
        "name: whose, trust: inert, handler: listeners.whose.tell, payload_class: listeners.forms.Ask, "
        "replies: [listeners.forms.Told], isolation: {warm: 1}"
    ),
    "name: other, trust: inert, handler: edition_other.tell",
)

MORE = """
provenance: {mode: audit}
mcp:
  - name: far
    command: COMMAND
    env: [NAMED]
    restarts: 3
    tools: [{name: echo, trust: source}]
"""


class Desk:
    """A project with a walled listener and an MCP server, whose notes lie elsewhere."""

    def __init__(self, project, notes):
        self.project, self.notes = project, notes

    async def processes(self, server):
        """The ids of the processes that answer."""
        await ask(server, "good day", "far.echo")
        return int(await ask(server, "who", "whose")), int((self.notes / "pid").read_text())

    def change(self, name, old="", new=""):
        self.project.change(name, old, new)


@pytest.fixture
def desk(project, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("NAMED", "named")
    far = McpProject(tmp_path_factory.mktemp("far"))
    far.lock()
    (project.root / lock_path("far")).parent.mkdir(parents=True)
    shutil.copy(far.root / lock_path("far"), project.root / lock_path("far"))
    project.write("listeners/whose.py", WHOSE)
    project.write("edition_other.py", WHOSE)
    project.write("programs/far.py", HOSTILE.read_text())
    command = json.dumps([sys.executable, "programs/far.py", str(far.notes)])
    project.organism(*LISTENERS, more=MORE.replace("COMMAND", command))
    return Desk(project, far.notes)


def runs(process):
    return Path(f"/proc/{process}").exists()


CHANGES = {
    "nothing": (lambda desk: None, (True, True)),
    "other code": (lambda desk: desk.change("edition_other.py"), (True, True)),
    "times": (lambda desk: (desk.project.root / "listeners/whose.py").touch(), (True, True)),
    "other keys": (lambda desk: desk.change("organism.yaml", "name: other", "name: another"), (True, True)),
    "its code": (lambda desk: desk.change("listeners/whose.py"), (False, True)),
    "its wall": (lambda desk: desk.change("organism.yaml", "warm: 1", "warm: 1, files: 100"), (False, True)),
    "its program": (lambda desk: desk.change("programs/far.py"), (True, False)),
    "its server": (lambda desk: desk.change("organism.yaml", "restarts: 3", "restarts: 4"), (True, False)),
}
"""Changes, and whether the walled worker and the program of the MCP server run on over them."""


@needs_wall
async def test_an_unchanged_process_survives_a_reload(desk):
    async with await desk.project.server() as server:
        before = await desk.processes(server)
        for name, (change, kept) in CHANGES.items():
            change(desk)
            assert isinstance(await desk.project.reload(server), ReloadResult), name
            await wait_settled(server)
            after = await desk.processes(server)
            assert tuple(old == new for old, new in zip(before, after, strict=True)) == kept, name
            assert tuple(map(runs, before)) == kept, name
            before = after
    await wait_for_file(lambda: not any(map(runs, before)))


@needs_wall
async def test_a_server_that_was_given_up_is_started_by_a_reload_without_a_change(desk):
    desk.change("organism.yaml", "restarts: 3", "restarts: 0")
    async with await desk.project.server() as server:
        _, program = await desk.processes(server)
        os.kill(program, signal.SIGKILL)
        await wait_for_file(lambda: not runs(program))
        assert "internal" in await ask(server, "good day", "far.echo")
        assert isinstance(await desk.project.reload(server), ReloadResult)
        assert await ask(server, "good day", "far.echo") == ["good day"]


def test_a_mark_identifies_the_program_that_would_run(tmp_path):
    code, data = tmp_path / "code.py", tmp_path / "data.txt"
    code.write_text("a = 1\n")
    data.write_text("one")
    (tmp_path / "out").mkdir()
    before = mark_files([tmp_path])
    code.write_text("a = 1\n")
    (tmp_path / "out" / "journal").write_text("a line")
    assert mark_files([tmp_path]) == before
    code.write_text("a = 2\n")
    changed = mark_files([tmp_path])
    assert changed != before
    data.write_text("two")
    assert mark_files([tmp_path]) not in {before, changed}
    data.unlink()
    assert mark_files([tmp_path]) != changed


def test_more_files_than_are_looked_at_have_no_mark(tmp_path, monkeypatch):
    monkeypatch.setattr("agentserver.reloading.keepers.FILES", 3)
    for number in range(4):
        (tmp_path / f"{number}.py").touch()
    assert mark_files([tmp_path / "0.py"]) is not None
    assert mark_files([tmp_path]) is None
