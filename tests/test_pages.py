"""What the documentation shows is what there is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("script", ["reference.py", "picture.py"])
def test_a_page_that_is_made_from_the_code_is_current(script):
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / script), "--check"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"run python docs/{script}\n{done.stdout}{done.stderr}"
