"""The invoice desk of examples/invoices: its own tests pass, and its page shows its files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import environment
from tests.examples.conftest import PROJECT

FOLDER = PROJECT / "examples/invoices"
PATH = f"{Path(sys.executable).parent}:/usr/bin:/bin"
"""Of the MCP server, whose library this environment has."""
PAGE = (PROJECT / "docs/examples/invoices.md").read_text("utf-8")


@pytest.mark.parametrize("file", ["invoices.py", "organism.yaml"])
def test_the_page_shows_the_file(file):
    assert (FOLDER / file).read_text("utf-8") in re.findall(r"(?ms)^```\w+\n(.*?)^```$", PAGE)


def test_it_is_as_short_as_the_page_says():
    def lines(name):
        return sum(1 for line in (FOLDER / name).read_text("utf-8").splitlines() if line.strip())

    assert lines("invoices.py") <= 45
    assert lines("organism.yaml") <= 40
    assert lines("test_invoices.py") <= 25


def test_its_own_tests_pass():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_invoices.py"]
    done = subprocess.run(
        command,
        cwd=FOLDER,
        env=environment(PATH=PATH),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout
