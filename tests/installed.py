"""The wheel of this checkout, and environments that hold only its dependencies.

Each is made once for all processes of a run: building takes seconds, and installing as long again. Refuses to look at
the environment of the tests.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.machine import HANGS

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 2 * HANGS
"""Seconds for one command that asks a package index: it guards against hanging alone."""
WHOLE = 290
"""Seconds for a test of many commands with a guard each: just less than pytest gives to any test."""


@pytest.fixture(autouse=True)
def _each_command_has_its_guard(_nothing_hangs):
    """Give a test of many commands more than one that hangs may have."""
    signal.alarm(WHOLE)


def shared_folder(tmp_path_factory) -> Path:
    """Give the folder that all processes of this run have."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "installed"
    folder.mkdir(exist_ok=True)
    return folder


def build_wheel(folder: Path) -> Path:
    """Build the wheel, or find the one that was built."""
    with _make_once(folder / "dist") as new:
        if new:
            call("build", "--wheel", "--no-isolation", "--outdir", folder / "dist", ROOT)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def environment(folder: Path, *extras: str, more: tuple[str, ...] = ()) -> Path:
    """Make a virtual environment with the wheel, these extras and further packages, or find the one that was made."""
    wheel, home = build_wheel(folder), folder / "-".join(["env", *extras, *more])
    with _make_once(home) as new:
        if new:
            empty(home)
            wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
            pip(home, "--only-binary=:all:", "--constraint", constraints(folder), wanted, *more)
    return home


def empty(home: Path) -> None:
    """Make a virtual environment with nothing in it."""
    call("venv", "--without-pip", home)


def pip(home: Path, *args: object) -> None:
    """Install into an environment, with the pip of the tests."""
    call("pip", "--disable-pip-version-check", "--python", home / "bin/python", "install", "--quiet", *args)


def constraints(folder: Path) -> Path:
    """Write the versions of the lock without their hashes, which pip would then ask of the wheel as well."""
    lock = (ROOT / "requirements-dev.lock").read_text("utf-8")
    path = folder / "constraints.txt"
    path.write_text("\n".join(re.findall(r"(?m)^([a-z0-9-]+==.*?)(?: \\)?$", lock)), "utf-8")
    return path


def call(module: str, *args: object) -> None:
    """Run a module of this interpreter; show its output when it fails."""
    words = [sys.executable, "-m", module, *map(str, args)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"


@contextmanager
def _make_once(made: Path):
    """Tell whether a folder is still to be made; the other processes wait until it is."""
    with made.with_name(f"{made.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = made.with_name(f"{made.name}.done")
        yield not done.exists()
        done.touch()
