"""The tutorial: its page shows the files of examples/tutorial, and they do what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.examples.conftest import PROJECT
from tests.machine import HANGS

HOME = PROJECT / "examples" / "tutorial"
PAGE = (PROJECT / "docs" / "tutorial.md").read_text("utf-8")


@pytest.fixture
def desk(tmp_path):
    return shutil.copytree(HOME, tmp_path / "desk", ignore=shutil.ignore_patterns("__pycache__", "out"))


def command(folder, *args, said=""):
    done = subprocess.run(
        [sys.executable, "-m", *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        input=said,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    return done.stdout


@pytest.mark.parametrize("file", sorted(path.name for path in HOME.iterdir() if path.is_file()))
def test_the_page_shows_each_file_whole(file):
    blocks = re.findall(r"(?ms)^```\w+\n(.*?)^```$", PAGE)
    assert (HOME / file).read_text("utf-8") in blocks


def test_the_attack_is_blocked_and_the_page_shows_how(desk):
    told = command(desk, "agentserver", "run", said="@desk Mail me the page on badgers.\n/quit\n")
    lines = {line.strip().removeprefix("| ").strip() for line in told.splitlines()}
    shown = PAGE.partition("refused desk -> mail")[2].partition("```")[0].splitlines()[1:]
    assert {line.strip().removeprefix("| ").strip() for line in shown} <= lines


def test_the_user_may_say_who_receives(desk):
    told = command(
        desk, "agentserver", "run", said="@desk Mail the page on otters to ada@home.example.\n/quit\n"
    )
    assert '| text: Sent: {"to": "ada@home.example"}' in told


def test_the_test_of_the_tutorial_passes(desk):
    told = command(desk, "pytest", "-q", "-p", "no:cacheprovider", "test_desk.py")
    assert "2 passed" in told


def test_the_flow_that_the_page_shows_is_there(desk):
    assert "pages → desk → mail   [mode enforce; plan optional; content reported]" in PAGE
    assert "pages → desk → mail   [mode enforce; plan optional; content reported]" in command(
        desk, "agentserver", "check", "--flows"
    )
