"""The mutation score of the core and the guards, from a sample that is the same in each run of the same code.

Owns the sampling and the printed table; mutmut makes the mutants and runs the tests that reach them, with the settings
in pyproject.toml. A mutant that no test reaches counts as one that survived. One that ran out of time is run again
alone: on a busy machine tests are slow without noticing anything.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = 400
MISSED = {"survived", "no tests"}
TIMEOUT = "timeout"


def mutmut(*args: str, quiet: bool = False) -> str:
    """Run mutmut at the top of the checkout; its output when quiet.

    Raises:
        subprocess.CalledProcessError: the tests fail without any mutation, or mutmut itself does.
    """
    output = subprocess.PIPE if quiet else None
    return subprocess.run(
        [sys.executable, "-m", "mutmut", *args],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        text=True,
        check=True,
    ).stdout


def results() -> dict[str, str]:
    """Read the result of each mutant, by its name."""
    return dict(
        re.findall(
            r"^\s*(\S+__mutmut_\d+): (.+)$", mutmut("results", "--all", "true", quiet=True), re.MULTILINE
        )
    )


def mutants() -> list[str]:
    """Make all mutants, by running a few of one module, and list their names."""
    mutmut("run", "agentserver.guards.base.*__mutmut_1")
    return sorted(results())


def sample(names: list[str], globs: list[str]) -> list[str]:
    """Draw as many as the MUTANTS variable says (a number or `all`) of those that a glob matches."""
    wanted = [name for name in names if not globs or any(fnmatch(name, glob) for glob in globs)]
    size = os.environ.get("MUTANTS", str(SAMPLE))
    count = len(wanted) if size == "all" else min(int(size), len(wanted))
    return sorted(random.Random(0).sample(wanted, count))  # noqa: S311 - a repeatable choice, no secret


def module(name: str) -> str:
    """Return the module of a mutant by its name."""
    return re.split(r"\.x(?:_|ǁ)", name)[0]


def report(chosen: list[str], total: int) -> None:
    """Print the score of each module, of all, and the mutants that no test noticed."""
    found = results()
    table: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    for name in chosen:
        for row in (module(name), "all"):
            table[row][found[name] not in MISSED] += 1
    missed = [f"  {name}: {found[name]}" for name in chosen if found[name] in MISSED]
    print("\n".join(["", "not noticed (see: python -m mutmut show NAME):", *missed, ""]))
    for row, counts in sorted(table.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"{row:<40} {counts[True]:5} of {counts.total():5}  {counts[True] / counts.total():4.0%}")
    late = sum(found[name] == TIMEOUT for name in chosen)
    print(
        f"mutation score {table['all'][True] / len(chosen):.1%} of {len(chosen)} sampled from {total} mutants,"
        f" {late} noticed by running out of time alone"
    )


def main(globs: list[str]) -> int:
    """Sample, run, print."""
    shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    names = mutants()
    chosen = sample(names, globs)
    if not chosen:
        print(f"no mutant matches {globs}", file=sys.stderr)
        return 1
    print(f"{len(chosen)} of {len(names)} mutants", flush=True)
    mutmut("run", *chosen)
    late = [name for name, result in results().items() if result == TIMEOUT and name in chosen]
    for number, name in enumerate(late, 1):
        print(f"{number} of {len(late)} that ran out of time, alone: {name}", flush=True)
        mutmut("run", "--max-children", "1", name)
    report(chosen, len(names))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    except KeyboardInterrupt:
        sys.exit(130)
