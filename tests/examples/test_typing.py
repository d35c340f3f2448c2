"""The examples as mypy and pyright read them, and what both say of mistakes in functions that are listeners."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.conftest import PROJECT
from tests.machine import in_ci, report_missing

EXAMPLES = PROJECT / "examples"

MISTAKES = """
from decimal import Decimal

from bank import Receipt, transfer

from agentserver.payload.functions import payload_of
from agentserver.testing import listener, organism_of

Transfer = payload_of(transfer)
NAMED = payload_of("bank.Transfer")
BANK = organism_of(listener("bank", transfer))

sound = Transfer(iban="DE02", amount=Decimal(1))
named = NAMED(iban="DE02", amount=Decimal(1))
wrong_type = Transfer(iban=5, amount=Decimal(1))
wrong_name = Transfer(ibn="DE02", amount=Decimal(1))
too_few = Transfer(iban="DE02")


async def wrong_answer(number: int) -> Receipt:
    return number


async def wrong_call() -> Receipt:
    return await transfer("DE02", "much")
"""

WRONG = [
    number
    for number, line in enumerate(MISTAKES.splitlines(), 1)
    if line.startswith(("wrong", "too_few")) or "return number" in line or '"much"' in line
]


def pyright() -> str:
    """The command of pyright: of this environment, of the machine, or in CI one that is installed for it."""
    beside = Path(sys.executable).parent
    found = [
        shutil.which(name, path=f"{beside}:{os.environ['PATH']}") for name in ("basedpyright", "pyright")
    ]
    if not any(found) and in_ci():
        make = runpy.run_path(str(PROJECT / ".ci/environments.py"))
        return str(
            make["prepare"](make["CACHE"] / "pyright", ("basedpyright>=1.30",)).parent / "basedpyright"
        )
    return next(filter(None, found), None) or report_missing(
        "no pyright here (pip install basedpyright): NOT tested"
    )


def said_by_pyright(folder: Path) -> set[tuple[str, int]]:
    """File and line of each error below a folder; the modules of each folder in it are found there."""
    roots = [folder, *(each for each in sorted(folder.iterdir()) if each.is_dir())]
    paths = [str(PROJECT), str(EXAMPLES / "bank")]
    config = {
        "include": [str(folder)],
        "typeCheckingMode": "standard",
        "executionEnvironments": [{"root": str(root), "extraPaths": paths} for root in reversed(roots)],
    }
    place = folder / "pyrightconfig.json"
    place.write_text(json.dumps(config))
    done = subprocess.run(
        [pyright(), "--outputjson", "--pythonpath", sys.executable, "-p", str(place)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    found = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    return {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in found}


def said_by_mypy(file: Path) -> set[int]:
    """The lines of a file's errors."""
    environment = {**os.environ, "MYPYPATH": f"{PROJECT}:{EXAMPLES / 'bank'}"}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(PROJECT / "pyproject.toml"), str(file)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=PROJECT,
        env=environment,
    )
    return {int(line) for line in re.findall(rf"{file.name}:(\d+): error", done.stdout)}


@pytest.fixture
def client(tmp_path):
    file = tmp_path / "client.py"
    file.write_text(MISTAKES)
    return file


def test_mypy_reports_the_mistakes_and_nothing_else(client):
    assert said_by_mypy(client) == set(WRONG)


def test_pyright_reports_the_mistakes_and_nothing_in_the_examples(client):
    for name in ("bank", "batch", "contract", "hours", "tutorial"):
        shutil.copytree(EXAMPLES / name, client.parent / name, ignore=shutil.ignore_patterns("__pycache__"))
    assert said_by_pyright(client.parent) == {("client.py", line) for line in WRONG}
