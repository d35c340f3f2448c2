"""The provenance adapters against the real frameworks, one environment for each framework and version.

Keeps the environments below .cache/adapters and prints a table of the results. The oldest version of a framework is the
lower bound of its extra in pyproject.toml; the newest is pinned by a lock: that of the tests if they use the framework,
or a lock next to its test. pip uses its configured index.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from environments import CACHE, PROJECT, ROOT, NotInstalledError, locked, prepare

TESTS = Path("tests/provenance/adapters")
DEV = ROOT / "requirements-dev.lock"
CHOSEN = "AGENTSERVER_ADAPTER"
"""Names the framework that must be there to the test; without it, a missing one is a skip."""

PYTEST = ("pytest", "--noconftest", "-qrs", "-Wdefault", "--disable-warnings", "-ofaulthandler_timeout=120")
UNKNOWN, INTERRUPTED = 64, 130


@dataclass(frozen=True, slots=True)
class Adapter:
    """A framework.

    Args:
        name: its package, which is its extra in pyproject.toml too.
        module: what a program imports.
        test: the file below tests/provenance/adapters.
        also: versions outside the extra's bounds, not promised, that are known to work.
    """

    name: str
    module: str
    test: str
    also: tuple[str, ...] = ()

    @property
    def oldest(self) -> str:
        """The lower bound of the extra."""
        (wanted,) = PROJECT["project"]["optional-dependencies"][self.name]
        return re.sub(rf"^{self.name}>=|,.*", "", wanted)

    @property
    def lock(self) -> Path:
        """Where the newest version is pinned."""
        own = ROOT / TESTS / f"{self.name}.lock"
        return own if own.exists() else DEV

    @property
    def newest(self) -> str:
        """What the lock pins."""
        found = re.search(rf"^{self.name}==(\S+)", self.lock.read_text("utf-8"), re.MULTILINE)
        return found[1] if found else "unlocked"


ADAPTERS = (
    Adapter("langchain", "langchain", "test_langchain.py"),
    Adapter("langchain-core", "langchain_core", "test_langchain.py"),
    Adapter("mcp", "mcp", "test_mcp.py", also=("1.30.0",)),
    Adapter("openai-agents", "agents", "test_openai_agents.py"),
    Adapter("google-adk", "google.adk", "test_google_adk.py"),
    Adapter("crewai", "crewai", "test_crewai.py"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One environment: an adapter and the version of its framework that is asked for."""

    adapter: Adapter
    version: str

    @property
    def home(self) -> Path:
        """The environment's folder."""
        return CACHE / "adapters" / f"{self.adapter.name}-{self.version}"

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.home / "bin/python"

    @property
    def wanted(self) -> tuple[str, ...]:
        """List the arguments of pip: the framework's lock, or the requirements of project and row.

        They always include the package's dependencies: an extra must be installable together with them.
        """
        if self.adapter.lock != DEV and self.version == self.adapter.newest:
            return locked(self.adapter.lock)
        own, tests = PROJECT["project"]["dependencies"], PROJECT["dependency-groups"]["adapters"]
        return (*own, *tests, f"{self.adapter.name}=={self.version}")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a row; seconds are wall time."""

    row: Row
    outcome: str
    imported: str = "-"
    installing: float = 0.0
    testing: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the version that was asked for ran, and all its tests passed."""
        return re.fullmatch(r"\d+ passed(, \d+ skipped)?", self.outcome) is not None

    def __str__(self) -> str:
        name, version = self.row.adapter.name, self.row.version
        times = f"install {self.installing:5.1f} s  tests {self.testing:5.1f} s"
        return f"{name:<15} {version:<9} imported {self.imported:<9} {times}  {self.outcome}"


# --- one row ---------------------------------------------------------------------------------------------------------


def find_imported_version(row: Row) -> str:
    """The version of the framework that a program in the environment gets, after importing it."""
    asked = f"import {row.adapter.module}, importlib.metadata as m; print(m.version({row.adapter.name!r}))"
    done = subprocess.run(
        [row.python, "-c", asked], cwd=row.home, check=False, capture_output=True, text=True
    )
    return done.stdout.strip().splitlines()[-1] if done.returncode == 0 else "-"


def examine(row: Row) -> str:
    """Run the framework's tests from the checkout and return pytest's own count.

    The conftest of the checkout stays out: it wants the whole of the tests' environment. A framework's warnings are its
    own affair here; where it lives with the other tests they are errors as everywhere.
    """
    done = subprocess.run(
        [row.python, "-m", "coverage", "run", "-m", *PYTEST, TESTS / row.adapter.test],
        cwd=ROOT,
        env={**os.environ, CHOSEN: row.adapter.name},
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    counted = re.findall(r"^(\d+ (?:passed|failed|skipped|error)\b.*) in [\d.]+s", done.stdout, re.MULTILINE)
    if done.returncode or not counted:
        print(done.stdout, flush=True)
    return re.sub(r", \d+ warnings?", "", counted[-1]) if counted else f"pytest ended with {done.returncode}"


def run(row: Row) -> Result:
    """Install, look, test."""
    print(f"... {row.adapter.name} {row.version}", flush=True)
    start = time.monotonic()
    try:
        prepare(row.home, row.wanted)
    except NotInstalledError as error:
        return Result(row, f"NOT INSTALLED: {error}", installing=time.monotonic() - start)
    installed = time.monotonic()
    version = find_imported_version(row)
    if version != row.version:
        return Result(row, "ANOTHER VERSION", version, installed - start)
    outcome = examine(row)
    return Result(row, outcome, version, installed - start, time.monotonic() - installed)


# --- the whole -------------------------------------------------------------------------------------------------------


def select(names: list[str], *, short: bool) -> list[Row]:
    """The rows that the arguments ask for: NAME for all versions of one framework, NAME==VERSION for any one version.

    Raises:
        KeyError: no adapter has that name.
    """
    known = {adapter.name: adapter for adapter in ADAPTERS}
    if short:
        return [Row(each, each.newest) for each in ADAPTERS if each.lock != DEV]
    rows: list[Row] = []
    for asked in names or known:
        name, _, version = asked.partition("==")
        adapter = known[name]
        versions = (version,) if version else (*adapter.also, adapter.oldest, adapter.newest)
        rows += [Row(adapter, each) for each in dict.fromkeys(versions)]
    return rows


def table() -> str:
    """The frameworks, as the documentation shows them."""
    lines = [
        "| extra | oldest | newest tested | also runs on | test | in each run of CI |",
        "|---|---|---|---|---|---|",
    ]
    for each in ADAPTERS:
        short = "with the other tests" if each.lock == DEV else "in an environment of its own"
        cells = (
            f"`{each.name}`",
            each.oldest,
            each.newest,
            ", ".join(each.also) or "-",
            f"`{each.test}`",
            short,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def report(results: list[Result], wanted: int) -> int:
    """Print one line for each row and the sum; the exit status."""
    print("\n".join(["", *map(str, results)]))
    good = sum(result.passed for result in results)
    print(f"{good} of {wanted} environments passed, on Python {sys.version.split()[0]}", flush=True)
    return 0 if good == wanted else 1


def main(argv: list[str]) -> int:
    """Run the requested rows, even after a failure."""
    parser = argparse.ArgumentParser(prog="./run adapters", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME[==VERSION]")
    parser.add_argument("--short", action="store_true", help="only what CI runs apart from the other tests")
    parser.add_argument("--list", action="store_true", help="print the table of the documentation and stop")
    asked = parser.parse_args(argv)
    if asked.list:
        print(table())
        return 0
    try:
        rows = select(asked.names, short=asked.short)
    except KeyError as error:
        print(
            f"unknown adapter {error}; adapters: {', '.join(each.name for each in ADAPTERS)}",
            file=sys.stderr,
        )
        return UNKNOWN
    results: list[Result] = []
    try:
        for row in rows:
            results.append(run(row))
            print(f"    {results[-1]}", flush=True)
    except KeyboardInterrupt:
        report(results, len(rows))
        return INTERRUPTED
    return report(results, len(rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
