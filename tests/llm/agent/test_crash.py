"""A process that dies in a call of the model repeats that call and no other, and sends nothing twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.llm.agent.conftest import CODE, YAML

ROOT = Path(__file__).resolve().parents[3]


def run(folder):
    command = [sys.executable, "-m", "tests.llm.agent.killed", str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_one_call_is_repeated(tmp_path):
    (tmp_path / "desk_code.py").write_text(CODE)
    (tmp_path / "prompt.md").write_text("Work.\n")
    (tmp_path / "script.yaml").write_text("- text: nothing\n")
    (tmp_path / "organism.yaml").write_text(YAML.format(agent="", more=""))
    first = run(tmp_path)
    assert first.returncode == -signal.SIGKILL, first.stderr
    second = run(tmp_path)
    assert second.returncode == 0, second.stderr
    assert "well" in second.stdout
    assert (tmp_path / "calls").read_text().split() == ["2", "5", "5"]
