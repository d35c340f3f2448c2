"""A command collects garbage once, and not at every module that it imports."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from agentserver.cli import process
from tests.cli.conftest import CHECKED
from tests.machine import HANGS

ASKED = """
import atexit, gc, sys
before = gc.get_stats()[0]["collections"]
def told():
    young = gc.get_stats()[0]["collections"] - before
    print(gc.get_threshold()[0], gc.get_freeze_count() > 10_000, young < 150, file=sys.stderr)
atexit.register(told)
sys.argv[0] = "agentserver"
from agentserver.cli import main
main()
"""


@pytest.fixture
def organism(tmp_path):
    (tmp_path / "collected.py").write_text(CHECKED)
    lines = "{name: a, description: Does., payload_class: collected.Say, handler: collected.say}"
    path = tmp_path / "organism.yaml"
    path.write_text(f"name: collected\nlisteners:\n  - {lines}\n")
    return path


@pytest.mark.parametrize(("verb", "threshold"), [("check", process.SELDOM), ("run", process.USUAL)])
def test_a_command_collects_seldom_until_its_server_runs_and_not_at_its_end(organism, verb, threshold):
    done = subprocess.run(
        [sys.executable, "-c", ASKED, verb, str(organism)], input="/quit\n", capture_output=True, text=True, timeout=HANGS, check=True,
    )  # fmt: skip
    assert done.stderr == f"{threshold} True True\n"


def test_the_process_of_a_program_is_not_changed():
    before = gc.get_threshold(), gc.get_freeze_count()
    process.collect_as_usual()
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def test_garbage_of_a_start_is_collected_again_after_a_reload():
    asked = "import gc\nfrom agentserver.cli import process as c\n"
    asked += "c.collect_rarely(); c.collect_as_usual(); assert gc.get_freeze_count(); c.unfreeze_replaced(); assert not gc.get_freeze_count()"
    subprocess.run([sys.executable, "-c", asked], check=True, timeout=HANGS)
