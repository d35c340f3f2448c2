"""The first hour of somebody who has the README alone: ``./run first``.

A fresh clone, an empty home, a terminal: what the README says is typed, and each step is timed. It fails when the way
to a blocked attack takes longer than ten minutes, or when a step shows something else than the README promises. The
environment is set up as by anybody, so it needs the package index.

    python .ci/first.py            the whole, with its own environment
    python .ci/first.py --short    with the environment of this interpreter, which a test runs too
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pexpect  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
BOUND = 600.0
"""Seconds to the blocked attack."""
SLOW, QUICK = 1200, 60
"""Seconds after which setting up, and any other step, is given up."""

Times = dict[str, float]


@contextmanager
def timed(times: Times, name: str) -> Iterator[None]:
    """Keep what a step takes, and print it as soon as it is known."""
    print(f"{name:<26} ", end="", flush=True)
    began = time.monotonic()
    yield
    times[name] = time.monotonic() - began
    print(f"{times[name]:7.1f} s", flush=True)


def promised(readme: str) -> tuple[list[list[str]], list[str]]:
    """The two commands of the README, and what it says to type at the prompt."""
    block = re.search(r"(?s)```sh\n(.*?)```", readme)
    typed = re.findall(r"`(@router [^`]+)`", readme)
    if block is None or len(typed) != 2:  # noqa: PLR2004 - the question, and the mail
        raise SystemExit("the README shows no two commands, or no two lines to type")
    return [line.partition("#")[0].split() for line in block[1].splitlines()], typed


def environment(home: Path) -> dict[str, str]:
    """That of somebody who has just logged in, with the way to the package index that this machine has."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in {"PATH", "LANG", "PYTHON"} or name.lower().endswith("_proxy") or name.startswith("PIP_")
    }
    return {**passed, "HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8"}


def walked(folder: Path, *, short: bool) -> Times:
    """Go the way in this folder; gives the seconds of each step.

    Raises:
        pexpect.ExceptionPexpect: a step shows something else.
        subprocess.CalledProcessError: a command fails.
    """
    times: Times = {}
    home, clone = folder / "home", folder / "agentserver"
    home.mkdir()
    outside = environment(home)
    with timed(times, "clone"):
        git = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)]
        subprocess.run(git, check=True, env=outside)
    commands, typed = promised((clone / "README.md").read_text("utf-8"))
    python = [sys.executable, "-m", "agentserver"]

    def door(words: list[str]) -> list[str]:
        """The command, as the README has it or by this interpreter."""
        if not short:
            return [str(clone / "run"), *words[1:]]
        return [*python, *words[2:]] if len(words) > 1 else [*python, "run", "config/organism.yaml"]

    if short:
        outside["PYTHONPATH"] = str(clone)
    first, *more = door(commands[0])
    outside["PROMPT_TOOLKIT_NO_CPR"] = "1"  # nobody answers where the cursor is
    options: dict[str, Any] = {
        "encoding": "utf-8",
        "dimensions": (50, 140),
        "timeout": QUICK if short else SLOW,
    }
    with timed(times, "./run, to its prompt"):
        console = pexpect.spawn(first, more, cwd=str(clone), env=outside, **options)
        console.expect_exact("research-desk")
        console.expect_exact("router>")
    console.timeout = QUICK
    with timed(times, "a question"):
        console.send(f"{typed[0]}\r")
        console.expect_exact("badger-club.html\r\n")
    with timed(times, "the attack, blocked"):
        console.send(f"{typed[1]}\r")
        console.expect_exact("BLOCKED: outbox()")
        console.expect_exact("eve@evil.example")
        console.expect_exact("Action: blocked")
    with timed(times, "leaving"):
        console.send("/quit\r")
        console.expect(pexpect.EOF)
        console.close()
    with timed(times, "why it was refused"):
        listed = said(door(["./run", "agentserver", "conversations"]), clone, outside)
        told = said(door(["./run", "agentserver", "explain", listed.split()[0]]), clone, outside)
        if "rule:destination" not in told:
            raise SystemExit(f"explain tells no rule:\n{told}")
    with timed(times, "a project of one's own"):
        said(door(commands[1]), clone, outside)
        said(door(["./run", "agentserver", "check"]), clone / commands[1][-1], outside)
    return times


def said(command: list[str], folder: Path, outside: dict[str, str]) -> str:
    """What a command prints."""
    done = subprocess.run(
        command, cwd=folder, env=outside, check=True, stdout=subprocess.PIPE, text=True, timeout=QUICK
    )
    return done.stdout


def reached(times: Times) -> float:
    """Seconds until the attack was blocked."""
    names = list(times)
    return sum(times[name] for name in names[: names.index("the attack, blocked") + 1])


def main() -> int:
    """Walk, and print what it came to."""
    with tempfile.TemporaryDirectory(prefix="agentserver-first-") as folder:
        times = walked(Path(folder), short="--short" in sys.argv)
    total = reached(times)
    print(f"{'to the blocked attack':<26} {total:7.1f} s, of {BOUND:.0f}")
    return 0 if total <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
