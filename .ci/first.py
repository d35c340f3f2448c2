"""The first hour of a new user: ``./run first``.

In a fresh clone, with an empty home and a terminal, it types the commands of the README, the quickstart and the
tutorial, and then deploys, serves, calls and reloads a project. Each step is timed. It fails if a blocked attack takes
more than ten minutes to reach, or if the output of a step differs from the pages. It installs packages from the index.

    python .ci/first.py            the whole, with its own environment
    python .ci/first.py --short    with the environment of this interpreter, which a test runs too; the two pages are
                                   left to tests/test_typed.py, which types them
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pexpect  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
BOUND = 600.0
"""Seconds to the blocked attack."""
SLOW, QUICK = 1200, 60
"""Seconds after which setting up, and any other step, is given up."""

Times = dict[str, float]


@contextmanager
def time_step(times: Times, name: str) -> Iterator[None]:
    """Keep what a step takes, and print it as soon as it is known."""
    print(f"{name:<26} ", end="", flush=True)
    began = time.monotonic()
    yield
    times[name] = time.monotonic() - began
    print(f"{times[name]:7.1f} s", flush=True)


def read_promises(readme: str) -> tuple[list[list[str]], list[str]]:
    """Read the commands of the README's first block, and the lines to type at the prompt."""
    block = re.search(r"(?s)```sh\n(.*?)```", readme)
    typed = re.findall(r"`(@router [^`]+)`", readme)
    if block is None or len(typed) != 2:  # noqa: PLR2004 - the question, and the mail
        raise SystemExit("the README shows no commands, or no two lines to type")
    return [line.partition("#")[0].split() for line in block[1].splitlines()], typed


def environment(home: Path) -> dict[str, str]:
    """Build the environment of a fresh login, with this machine's settings of the package index."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in {"PATH", "LANG", "PYTHON"} or name.lower().endswith("_proxy") or name.startswith("PIP_")
    }
    return {**passed, "HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8"}


def run_steps(folder: Path, *, short: bool) -> Times:
    """Go the way in this folder; gives the seconds of each step.

    Raises:
        pexpect.ExceptionPexpect: a step shows something else.
        subprocess.CalledProcessError: a command fails.
    """
    times: Times = {}
    home, clone = folder / "home", folder / "agentserver"
    home.mkdir()
    outside = environment(home)
    with time_step(times, "clone"):
        git = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)]
        subprocess.run(git, check=True, env=outside)
    commands, typed = read_promises((clone / "README.md").read_text("utf-8"))
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
    with time_step(times, "./run, to its prompt"):
        console = pexpect.spawn(first, more, cwd=str(clone), env=outside, **options)
        console.expect_exact("research-desk")
        console.expect_exact("router>")
    console.timeout = QUICK
    with time_step(times, "a question"):
        console.send(f"{typed[0]}\r")
        console.expect_exact("badger-club.html\r\n")
    with time_step(times, "the attack, blocked"):
        console.send(f"{typed[1]}\r")
        console.expect_exact("BLOCKED: outbox()")
        console.expect_exact("eve@evil.example")
        console.expect_exact("Action: blocked")
    with time_step(times, "leaving"):
        console.send("/quit\r")
        console.expect(pexpect.EOF)
        console.close()
    with time_step(times, "why it was refused"):
        listed = run_and_read(door(["./run", "agentserver", "conversations"]), clone, outside)
        told = run_and_read(door(["./run", "agentserver", "explain", listed.split()[0]]), clone, outside)
        shows("rule:destination", told)
    with time_step(times, "a project of one's own"):
        run_and_read(door(commands[-1]), clone, outside)
        run_and_read(door(["./run", "agentserver", "check"]), clone / commands[-1][-1], outside)
    if not short:
        type_pages(times, home, clone, outside)
    serve(times, clone, door, outside)
    return times


def type_pages(times: Times, home: Path, clone: Path, outside: dict[str, str]) -> None:
    """Type the quickstart and the tutorial into one terminal, from top to bottom."""
    sys.path.insert(0, str(ROOT))
    typist = import_module("tests.typist").Typist(home, {}, outside)
    try:
        for page in ("quickstart", "tutorial"):
            with time_step(times, f"the {page}, typed"):
                typist.follow(
                    (clone / "docs" / f"{page}.md").read_text("utf-8"), os.path.relpath(clone, home)
                )
    finally:
        typist.close()


def serve(times: Times, clone: Path, door: Callable[[list[str]], list[str]], outside: dict[str, str]) -> None:
    """Deploy a project, serve it, send it a message, reload it, and end it."""
    verb, project = ["./run", "agentserver"], clone / "desk"
    with time_step(times, "init --deploy"):
        run_and_read(door([*verb, "init", "desk", "--deploy"]), clone, outside)
    organism, code = project / "config/organism.yaml", project / "listeners/greeter.py"
    organism.write_text(organism.read_text("utf-8").replace("127.0.0.1:8420", "127.0.0.1:0"), "utf-8")
    unit = (project / "deploy/agentserver.service").read_text("utf-8")
    words = re.search(r"(?m)^ExecStart=/\S+ (.*)$", unit)
    assert words is not None
    token = run_and_read(
        door([*verb, "principals", "add", "ada", "--may", "greeter"]), project, outside
    ).strip()
    with time_step(times, "serve, as the unit does"):
        served = subprocess.Popen(
            door([*verb, *words[1].split()]), cwd=project, env=outside, stderr=subprocess.PIPE, text=True
        )
        address = wait_for_line(served, r"http://\S+")
    asking = {**outside, "AGENTSERVER_TOKEN": token, "AGENTSERVER_URL": address}
    send = door([*verb, "send", '{"name": "Ada"}', "--to", "greeter"])
    with time_step(times, "send"):
        shows("GOOD DAY, ADA!", run_and_read(send, project, asking))
    with time_step(times, "reload, and a new answer"):
        code.write_text(code.read_text("utf-8").replace("Good day, {", "Welcome, {"), "utf-8")
        served.send_signal(signal.SIGHUP)
        wait_for_line(served, r".* is reloaded")
        shows("WELCOME, ADA!", run_and_read(send, project, asking))
    with time_step(times, "stopping"):
        served.send_signal(signal.SIGTERM)
        served.communicate(timeout=QUICK)
    if served.returncode:
        raise SystemExit(f"the server ended with {served.returncode}")


def wait_for_line(process: subprocess.Popen[str], pattern: str) -> str:
    """Read what a process says until a line of this form, and give that line."""
    assert process.stderr is not None
    heard = []
    for line in process.stderr:
        heard.append(line)
        if re.fullmatch(pattern, line.strip()):
            return line.strip()
    raise SystemExit(f"the server ended and never said {pattern}:\n{''.join(heard)}")


def shows(wanted: str, printed: str) -> None:
    """Exit with the output unless it contains this text."""
    if wanted not in printed:
        raise SystemExit(f"not {wanted!r} but:\n{printed}")


def run_and_read(command: list[str], folder: Path, outside: dict[str, str]) -> str:
    """What a command prints."""
    done = subprocess.run(
        command, cwd=folder, env=outside, check=True, stdout=subprocess.PIPE, text=True, timeout=QUICK
    )
    return done.stdout


def sum_to_blocked_attack(times: Times) -> float:
    """Seconds until the attack was blocked."""
    names = list(times)
    return sum(times[name] for name in names[: names.index("the attack, blocked") + 1])


def main() -> int:
    """Run all steps, and print the times."""
    with tempfile.TemporaryDirectory(prefix="agentserver-first-") as folder:
        times = run_steps(Path(folder), short="--short" in sys.argv)
    total = sum_to_blocked_attack(times)
    print(f"{'to the blocked attack':<26} {total:7.1f} s, of {BOUND:.0f}")
    return 0 if total <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
