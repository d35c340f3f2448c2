"""Guards of a project on a real server: named in the YAML, killed with it, restored with it, replayed."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from agentserver.assembly import build
from agentserver.cli import cli
from agentserver.config import forget, load
from agentserver.guards.builtin import BUILTIN_GUARDS
from tests.machine import HANGS

CODE = """
from __future__ import annotations
from dataclasses import dataclass
from agentserver import HandlerMetadata, HandlerResponse, SystemError, xmlify
from agentserver.guards import Guard, deny

@xmlify
@dataclass(frozen=True)
class Say:
    text: str

@xmlify
@dataclass(frozen=True)
class Said:
    text: str

async def a(payload: Say | Said | SystemError, metadata: HandlerMetadata) -> HandlerResponse:
    if isinstance(payload, Say):
        return HandlerResponse(payload, "b")
    return HandlerResponse.respond(Said(payload.text if isinstance(payload, Said) else payload.code))

async def b(payload: Say, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Said(payload.text))

@dataclass(frozen=True)
class Once(Guard):
    to: str

    def begin(self):
        return []

    def observe(self, message, memory):
        return [*memory, message.payload.text] if message.to == self.to else memory

    def judge(self, message, memory):
        return deny("again") if message.to == self.to and message.payload.text in memory else None

class Broken(Guard):
    def judge(self, message, memory):
        return {}["gone"] if message.to == "b" else None
"""

ORGANISM = """
name: twice
listeners:
  - {name: a, description: Asks., payload_class: talkers.Say, handler: talkers.a, peers: [b]}
  - {name: b, description: Answers., payload_class: talkers.Say, handler: talkers.b}
"""

GUARDS = "guards: [{use: talkers.Once, name: once, to: b}]\n"

KILLED = """
import os, signal, sys
from pathlib import Path
import anyio
from agentserver.assembly import build
from agentserver.config import load

async def main():
    async with build(load(Path("organism.yaml"), environ={}), durable=True) as server:
        handle = await server.open("console")
        await handle.ask(b'<Say xmlns="urn:agentserver:payload:Say:v1"><text>tea</text></Say>', "a")
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


def say(text):
    return f'<Say xmlns="urn:agentserver:payload:Say:v1"><text>{text}</text></Say>'.encode()


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("talkers.py").write_text(CODE)
    Path("organism.yaml").write_text(ORGANISM + GUARDS)
    Path("lenient.yaml").write_text(ORGANISM)
    yield tmp_path
    sys.modules.pop("talkers", None)


def serve_talk(talk, **more):
    """The result of a talk with the organism's server."""
    organism = load(Path("organism.yaml"), environ={})

    async def main():
        with anyio.fail_after(HANGS):
            async with build(organism, **more) as server:
                return await talk(server)

    try:
        return anyio.run(main)
    finally:
        forget(organism)


def verb(*words):
    sys.modules.pop("talkers", None)
    done = CliRunner().invoke(cli, [*words])
    sys.modules.pop("talkers", None)
    return done.exit_code, done.output


def test_a_guards_memory_survives_a_kill_and_is_replayed(project):
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=project, timeout=HANGS, check=False)
    assert killed.returncode == -signal.SIGKILL

    async def come_back(server):
        (key,) = await server.left_over("console")
        handle = await server.resume("console", key)
        said = [await handle.ask(say(text), "a") for text in ("tea", "milk")]
        await handle.close()
        return said

    first, second = serve_talk(come_back, durable=True)
    assert b"<text>denied</text>" in first.message
    assert b"<text>milk</text>" in second.message
    code, told = verb("replay")
    assert (code, told.splitlines()[-1].partition("; ")[2]) == (0, "0 differ")
    code, told = verb("replay", "--against", "lenient.yaml")
    assert code == 1
    assert "was blocked, would have been let through" in told


def test_verbs_know_the_guards_of_a_project(project):
    own = ", ".join(name for name in BUILTIN_GUARDS if name not in ("denials", "approval", "lineage"))
    assert f"guards, in this order: {own}, once" in verb("check", "organism.yaml")[1]
    assert "denials by the guards once are not shown" in verb("graph", "organism.yaml")[1]
    assert "guards" not in verb("check", "lenient.yaml")[1]


def test_a_guard_that_fails_is_named_in_the_log_and_harms_nothing_else(project, caplog):
    Path("organism.yaml").write_text(ORGANISM + "guards: [{use: talkers.Broken}]\n")

    async def ask(server):
        handle, other = await server.open("console"), await server.open("console")
        return await handle.ask(say("tea"), "a"), await other.ask(say("tea"), "b")

    with caplog.at_level(logging.WARNING):
        answer, refused = serve_talk(ask)
    assert b"<text>denied</text>" in answer.message
    assert b"denied" in refused.message
    (line, _) = [record.getMessage() for record in caplog.records]
    assert "the guard Broken failed: KeyError: 'gone' (" in line
    assert "talkers.py:40)" in line


def test_guards_of_the_program_come_after_those_of_the_yaml(project):
    organism = load(Path("organism.yaml"), environ={})
    kinds = sys.modules["talkers"]
    server = build(organism, guards={"late": kinds.Once("a")})
    assert [guard.name for guard in server.rules.guards][-2:] == ["once", "late"]
    with pytest.raises(ValueError, match='two guards are called "once"'):
        build(organism, guards={"once": kinds.Once("a")})
    forget(organism)
