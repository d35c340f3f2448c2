"""Writes deploy/requirements.lock: what a server with a door and a console needs, each file by its hash.

The pins are those of requirements-dev.lock, with which the tests run; this takes the part that the extras need.

python deploy/requirements.py          # write it
python deploy/requirements.py --check  # exit 1 when it is out of date
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
LOCK = HERE / "requirements.lock"
EXTRAS = ("console", "http", "provenance")
HEAD = "# Written by deploy/requirements.py from requirements-dev.lock.\n"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==.*?(?=^\S)", re.DOTALL | re.MULTILINE)


def pins() -> dict[str, str]:
    """The pins of the tests with their hashes, by name."""
    text = (HERE.parent / "requirements-dev.lock").read_text("utf-8") + "#\n"
    found = {canonicalize_name(match[1]): match[0] for match in PIN.finditer(text)}
    return {
        name: "".join(line for line in pin.splitlines(keepends=True) if not line.lstrip().startswith("#"))
        for name, pin in found.items()
    }


def needed(known: dict[str, str]) -> set[str]:
    """The names of all that the extras need, and of what that needs, on any system that has a pin."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    waiting, names = [Requirement(one) for one in wanted], set[str]()
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in names or name not in known:
            continue
        names.add(name)
        asked = {"extra": ""}, *({"extra": extra} for extra in one.extras)
        for text in requires(name) or ():
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate(each) for each in asked):
                waiting.append(inner)
    return names


def lock() -> str:
    """The text of the file."""
    known = pins()
    return HEAD + "".join(known[name] for name in sorted(needed(known)))


if __name__ == "__main__":
    text = lock()
    if sys.argv[1:] == ["--check"]:
        sys.exit(
            0
            if LOCK.is_file() and LOCK.read_text("utf-8") == text
            else f"run python deploy/{Path(__file__).name}"
        )
    LOCK.write_text(text, encoding="utf-8")
