"""Projects with a journal, and the command on them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from click.testing import CliRunner

from agentserver.cli import cli

FIXTURES = Path(__file__).parents[1] / "fixtures" / "journals"


def shop(folder):
    """The recorded organism with its journal in its place."""
    home = folder / "shop"
    shutil.copytree(FIXTURES / "shop", home, ignore=shutil.ignore_patterns("__pycache__", "out"))
    (home / "out").mkdir()
    shutil.copy(FIXTURES / "shop.sqlite", home / "out" / "journal.sqlite")
    return home


def verb(*args, status=0):
    """Run a verb in this process; return its output, errors last."""
    sys.modules.pop("shop_handlers", None)
    try:
        done = CliRunner().invoke(cli, [*map(str, args)])
    finally:
        sys.modules.pop("shop_handlers", None)
    assert done.exit_code == status, done.output
    return done.stdout + done.stderr


def change(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
