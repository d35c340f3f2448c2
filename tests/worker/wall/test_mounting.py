"""The attempt at a file system of a process's own."""

from __future__ import annotations

import subprocess
import sys

from tests.machine import HANGS

ATTEMPT = """
import sys
from pathlib import Path
from agentserver.worker.wall.landlock import mount_scratch
try:
    print(mount_scratch(Path(sys.argv[1]), "no number"))
except Exception:
    print("the child goes its own way")
"""


def test_the_child_that_tries_never_returns(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ATTEMPT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS,
    )
    assert done.stdout == "False\n"
