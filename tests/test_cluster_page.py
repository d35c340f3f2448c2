"""The page about several servers: its commands are typed, in its order, and each test that it names exists."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

import pytest

from tests.typist import Typist

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "cluster.md").read_text("utf-8")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@pytest.fixture
def typist(tmp_path, database):
    """A stranger whose database is that of the tests, and who has agentserver installed."""
    programs, home = tmp_path / "bin", tmp_path / "home"
    programs.mkdir()
    home.mkdir()
    command = programs / "agentserver"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m agentserver "$@"\n', "utf-8")
    command.chmod(0o700)
    outside = {"PATH": f"{programs}:{os.environ['PATH']}", "DATABASE_URL": database}
    made = Typist(home, {"8421": free_port(), "8422": free_port()}, outside)
    yield made
    for pid in home.glob("*/*.pid"):
        made.line(f"kill -9 $(cat {pid}) 2> /dev/null || true")
    made.close()


def test_the_pages_commands_have_the_documented_effect(typist):
    typist.follow(PAGE)
    assert any(line.startswith("kill -9 ") for line in typist.typed)


def test_each_failure_names_a_test_that_is_there():
    rows = re.findall(r"(?m)^\| .* \| `(test_\w+)` \|$", PAGE)
    assert len(rows) == len(re.findall(r"(?m)^\| (?!failure)\w.* \|$", PAGE)) > 10
    known = "".join(file.read_text("utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in rows if f"def {name}(" not in known] == []
