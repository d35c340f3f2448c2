"""A session that reloads its organism at SIGHUP: a real process, real signals."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from tests.cli.conftest import environment, spawn
from tests.machine import HANGS

CODE = """
from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from agentserver import HandlerResponse, xmlify

@xmlify
@dataclass
class Ask:
    text: str

@xmlify
@dataclass
class Told:
    text: str

async def tell(payload: Ask, metadata) -> HandlerResponse:
    if payload.text == "slow":
        print("at work", flush=True)
        while not Path("go").exists():
            await asyncio.sleep(0.01)
    return HandlerResponse.respond(Told(f"WORD {payload.text}"))
"""

YAML = """
name: demo
listeners:
  - {name: teller, handler: tell.tell, description: Tells.}
"""


class Session:
    """Start ``agentserver run`` with a pipe as standard input."""

    def __init__(self, folder, *options, **variables):
        self.folder = folder
        take_hangups = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
        self.process = spawn(
            "run", *options, cwd=folder, env=environment(**variables), preexec_fn=take_hangups
        )

    def say(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def hear(self, text):
        while text not in (line := self.process.stdout.readline()):
            assert line, self.process.stderr.read()
        return line

    def hang_up(self):
        self.process.send_signal(signal.SIGHUP)
        return self.process.stderr.readline()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=HANGS)


def write(folder, word="old", yaml=YAML):
    (folder / "tell.py").write_text(CODE.replace("WORD", word))
    (folder / "organism.yaml").write_text(yaml)


def put(path, text):
    """Write one file at once: what watches it never meets half of it, nor two changes for one."""
    aside = path.with_name(f"{path.name}~")
    aside.write_text(text)
    aside.replace(path)


@pytest.fixture
def session(tmp_path):
    begun = []

    def begin(*options, watching=False):
        write(tmp_path)
        missing = tmp_path / ".without"
        missing.mkdir()
        (missing / "sitecustomize.py").write_text("import sys\nsys.modules['watchfiles'] = None\n")
        path = os.pathsep.join([str(missing), environment()["PYTHONPATH"]])
        begun.append(Session(tmp_path, *options, **({} if watching else {"PYTHONPATH": path})))
        if options and not watching:
            assert "that needs the extra reload" in begun[-1].process.stderr.readline()
        return begun[-1]

    yield begin
    for each in begun:
        with each.process as process:
            process.kill()


def test_a_hangup_loads_the_organism_again(session, tmp_path):
    one = session("--reload")
    one.say("@teller 1")
    one.hear("old 1")
    write(tmp_path, "new")
    assert one.hang_up() == f"{tmp_path}/organism.yaml is reloaded\n"
    one.say("@teller 2")
    one.hear("new 2")
    write(tmp_path, "third", YAML + "limits: {stall: 1h}\n")
    assert "is not reloaded, and nothing changes" in one.hang_up()
    assert one.process.stderr.readline() == "limits.stall was 30 and is 3600: it needs a restart\n"
    write(tmp_path, "bro(ken")
    (tmp_path / "tell.py").write_text("import nowhere_at_all\n")
    assert "is not reloaded" in one.hang_up()
    assert "nowhere_at_all" in one.process.stderr.readline()
    one.say("@teller 3")
    one.hear("new 3")
    assert one.end() == 0


def test_a_change_of_its_files_loads_the_organism_again(session, tmp_path):
    one, reloaded = session("--reload", watching=True), f"{tmp_path}/organism.yaml is reloaded\n"
    one.say("@teller 1")
    one.hear("old 1")
    put(tmp_path / "tell.py", CODE.replace("WORD", "new"))
    assert one.process.stderr.readline() == reloaded
    one.say("@teller 2")
    one.hear("new 2")
    put(tmp_path / "tell.py", "import nowhere_at_all\n")
    assert "is not reloaded" in one.process.stderr.readline()
    assert "nowhere_at_all" in one.process.stderr.readline()
    (tmp_path / "journal.sqlite").write_text("no source")
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / "mail.txt").write_text("no source")
    put(tmp_path / "tell.py", CODE.replace("WORD", "third"))
    assert one.process.stderr.readline() == reloaded
    put(tmp_path / "organism.yaml", YAML.replace("name: teller", "name: other"))
    assert one.process.stderr.readline() == reloaded
    one.say("a text for a listener that is gone")
    one.hear("teller was removed by a reload")
    one.say("a text for the first that there is")
    one.hear("third a text")
    one.say("@other 3")
    one.hear("third 3")
    assert one.end() == 2


def test_running_work_finishes_in_the_old_code(session, tmp_path):
    one = session("--reload")
    one.say("@teller slow")
    one.hear("at work")
    write(tmp_path, "new")
    assert "is reloaded; 1 conversation finishes a step in the old code" in one.hang_up()
    (tmp_path / "go").touch()
    one.hear("old slow")
    one.say("@teller 2")
    one.hear("new 2")
    assert one.end() == 0


def test_without_the_option_a_hangup_ends_the_process(session):
    one = session()
    one.say("@teller 1")
    one.hear("old 1")
    one.process.send_signal(signal.SIGHUP)
    assert one.process.wait(timeout=HANGS) == -signal.SIGHUP
