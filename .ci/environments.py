"""Virtual environments below .cache, each created once and recreated when its requirements change.

pip uses its configured index.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
AGENTDOJO_LOCK = ROOT / "benchmarks/agentdojo/agentdojo.lock"
STAMP = "complete"


class NotInstalledError(Exception):
    """pip could not make the environment; the message is its last line about why."""


def locked(path: Path) -> tuple[str, ...]:
    """List the arguments with which pip installs exactly the pins of a lock."""
    return ("--require-hashes", "--requirement", str(path))


def prepare(home: Path, wanted: tuple[str, ...]) -> Path:
    """The interpreter of an environment, which is made unless a complete one of the same contents is there.

    Args:
        home: its folder.
        wanted: arguments of pip install.

    Raises:
        NotInstalledError: something of it cannot be installed here.
    """
    python, complete = home / "bin/python", home / STAMP
    files = [Path(each).read_text("utf-8") for each in wanted if each.endswith(".lock")]
    stamp = "\n".join([sys.version, *wanted, *files])
    if complete.exists() and complete.read_text("utf-8") == stamp:
        return python
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n", "utf-8")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install"]
    done = subprocess.run(
        [*pip, "--quiet", "--only-binary=:all:", *wanted], check=False, capture_output=True, text=True
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstalledError(said[0] if said else done.stderr[-300:])
    complete.write_text(stamp, "utf-8")
    return python
