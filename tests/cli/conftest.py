"""A project in a directory, and ways to run the command on it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner

from agentserver.cli import cli
from tests.cli import journals
from tests.machine import HANGS

ROOT = Path(__file__).resolve().parents[2]

CHECKED = """
from dataclasses import dataclass
from agentserver import xmlify

@xmlify
@dataclass(frozen=True)
class Say:
    text: str

async def say(payload: Say, metadata):
    return None
"""
"""The module of an organism that has little to import."""

HANDLERS = '''
from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Annotated

import anyio

from agentserver import Attribute, HandlerResponse, SystemError, xmlify


@dataclass(frozen=True)
class Item:
    sku: str
    count: int = 1


@xmlify
@dataclass(frozen=True)
class Greet:
    """Somebody to greet."""

    name: str


@xmlify(version=2)
@dataclass(frozen=True)
class Order:
    who: str
    number: Annotated[int | None, Attribute("no")] = None
    items: list[Item] = field(default_factory=list)


@xmlify
@dataclass(frozen=True)
class Wait:
    seconds: float


@xmlify
@dataclass(frozen=True)
class Ping:
    timeout: int = 0


@xmlify
@dataclass(frozen=True)
class Greeting:
    text: str


async def greet(payload, metadata):
    return HandlerResponse.respond(Greeting(f"Good day, {payload.name}!"))


async def both(payload: Order | Greet, metadata):
    return HandlerResponse.respond(payload)


async def wait(payload: Wait, metadata):
    if payload.seconds < 0:
        time.sleep(-payload.seconds)  # holds the event loop
    await anyio.sleep(payload.seconds)
    return HandlerResponse.respond(Greeting("waited"))


async def twice(payload: Ping, metadata):
    return [HandlerResponse.respond(Greeting("one")), HandlerResponse.respond(Greeting("two"))]


async def silent(payload: Ping, metadata):
    return None


async def crash(payload: Ping, metadata):
    raise RuntimeError("the key is " + os.environ.get("DESK_KEY", "none") + "\\x1b[31m")
'''

ORGANISM = """
name: cli-desk
listeners:
  - {name: greeter, description: Greets., payload_class: cli_desk.Greet, handler: cli_desk.greet, peers: [waiter]}
  - {name: both, description: Takes two payloads., handler: cli_desk.both}
  - {name: waiter, description: "Waits.", handler: cli_desk.wait, agent: true, peers: []}
  - {name: twice, description: Answers twice., handler: cli_desk.twice}
  - {name: silent, description: Says nothing., handler: cli_desk.silent}
  - {name: crash, description: Crashes., handler: cli_desk.crash}
"""


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """A project directory, in which nothing is written after this."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "cli_desk.py").write_text(HANDLERS)
    (folder / "config").mkdir()
    (folder / "config" / "organism.yaml").write_text(ORGANISM)
    return folder


@pytest.fixture
def here(project, monkeypatch):
    """The project as the working directory."""
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def command(monkeypatch):
    """Run the command in this process; its changes to the process are undone."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def run(*args, **options):
        return CliRunner().invoke(cli, list(args), prog_name="agentserver", **options)

    yield run
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    warnings.resetwarnings()


def spawn(*args, **more):
    """Start the command in a process of its own, whose streams are pipes by default."""
    options = {
        "env": environment(),
        "text": True,
        **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE),
    }
    return subprocess.Popen([sys.executable, "-m", "agentserver", *args], **{**options, **more})


def environment(**more):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **more}


@pytest.fixture
def shell():
    """Run the command as a program."""

    def run(*args, cwd, given="", **more):
        return subprocess.run(
            [sys.executable, "-m", "agentserver", *args],
            cwd=cwd, input=given, capture_output=True, text=True, env=environment(**more), timeout=HANGS, check=False,
        )  # fmt: skip

    return run


def organism(folder, text):
    """An organism of one file."""
    path = folder / "organism.yaml"
    path.write_text(dedent(text))
    return path


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """The recorded organism with its journal, without the secret of its environment."""
    home = journals.shop(tmp_path)
    monkeypatch.chdir(home)
    monkeypatch.delenv("SHOP_KEY", raising=False)
    return home
