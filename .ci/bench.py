"""Runs the benchmarks: at full length, in their quick form, or compared with an earlier commit.

benchmarks/README.md says which benchmark measures what, and how long each form takes.

    ./run bench                                        # each at full length
    ./run bench hop durable --rounds 6                 # these; the options go to each
    ./run bench hop --quick                            # the quick form, which CI runs of each
    ./run bench hop --against COMMIT                   # this tree over an earlier one, in turns
    ./run bench hop --against COMMIT --rounds 5 --hops 3000
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from environments import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Figures = dict[str, list[float]]

SCRIPTS = {path.stem: path for path in sorted((ROOT / "benchmarks").glob("[!_]*.py"))}
QUICK = {
    "agents": ("--quick",),
    "cluster": ("--quick",),
    "durable": ("--quick",),
    "endurance": ("--hops=1000",),
    "fairness": ("--quick",),
    "find": ("--quick",),
    "flow": ("--rounds=1", "--steps=200"),
    "gateway": ("--quick",),
    "handoff": ("1",),
    "hop": ("--rounds=1", "--hops=300", "--size=0.4 kB"),
    "isolation": ("--quick",),
    "peers": ("--rounds=1", "--hops=100", "--flight=1"),
    "provenance": ("--quick",),
    "scale": ("--row=open requests", "--row=threads, with a journal", "--many=100"),
    "scanner": ("--megabytes=1",),
    "startup": ("--rounds=1",),
    "stream": ("--quick",),
    "telemetry": ("--rounds=1", "--hops=300"),
    "timers": ("--quick",),
}
COMPARED = {
    "durable": ("--rounds=1", "--hops=2000", "--big=2000"),
    "endurance": ("--hops=4000",),
    "flow": ("--rounds=1", "--steps=1000"),
    "handoff": ("1", "--rounds=12"),
    "hop": ("--rounds=1", "--hops=900", "--size=0.4 kB"),  # without the pauses of 10 MB, which take minutes
    "telemetry": ("--rounds=1", "--hops=1500"),
}
"""One round of a comparison, where the quick form is too short for a ratio."""

ROUNDS = 5
COLLECTED = "BENCH_TARGETS"
"""The variable that names the file of figures; see benchmarks/_targets.py."""


class BenchError(Exception):
    """A benchmark or a commit cannot be measured; the message says which and why."""


def run_script(tree: Path, name: str, args: Sequence[str], figures: Path, *, quiet: bool = False) -> None:
    """Run a benchmark of a checkout on that checkout's package.

    Raises:
        BenchError: it ended with another status than 0.
    """
    env = {**os.environ, COLLECTED: str(figures), "PYTHONPATH": str(tree)}
    script = tree / "benchmarks" / f"{name}.py"
    pipe = subprocess.PIPE if quiet else None
    done = subprocess.run(
        [sys.executable, script, *args], cwd=tree, env=env, check=False, stdout=pipe, stderr=pipe, text=True
    )
    if done.returncode:
        last = (done.stderr or "").strip().splitlines()[-1:]
        raise BenchError(f"{name} ended with status {done.returncode} in {tree}: {' '.join([*last, *args])}")


def run_each(options: dict[str, Sequence[str]]) -> None:
    """Run benchmarks with their options, and print the figures that have a target in one table at the end."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder, "figures.jsonl")
        figures.touch()
        for name, args in options.items():
            run_script(ROOT, name, args, figures)
        subprocess.run([sys.executable, ROOT / "benchmarks" / "_targets.py", figures], check=True)


def measure(tree: Path, name: str, args: Sequence[str]) -> Figures:
    """Run a benchmark silently, and return its records by the name of each figure."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder, "figures.jsonl")
        figures.touch()
        run_script(tree, name, args, figures, quiet=True)
        rows = [json.loads(line) for line in figures.read_text("utf-8").splitlines()]
    return {row["name"]: row["values"] for row in rows}


def git(*args: str) -> str:
    """Run git in the checkout.

    Raises:
        BenchError: it failed; with its output.
    """
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607 - git of the machine
    if done.returncode:
        raise BenchError(
            "\n".join([f"git {' '.join(args)}: status {done.returncode}", *done.stderr.splitlines()])
        )
    return done.stdout.strip()


@contextmanager
def earlier_tree(commit: str) -> Iterator[Path]:
    """Check a commit out in a folder of its own, which is removed in the end."""
    found = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    with tempfile.TemporaryDirectory(prefix="bench-against-") as folder:
        tree = Path(folder, "tree")
        git("worktree", "add", "--quiet", "--detach", str(tree), found)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def compare(name: str, commit: str, tree: Path, rounds: int, args: Sequence[str]) -> None:
    """Run a benchmark of both trees in turns, and print a row for each figure that both recorded.

    Raises:
        BenchError: the earlier commit has no such benchmark, or they have no figure in common.
    """
    if not (tree / "benchmarks" / f"{name}.py").exists():
        raise BenchError(f"commit {commit} has no benchmark {name}")
    seen: dict[Path, list[Figures]] = {ROOT: [], tree: []}
    for number in range(rounds):
        order = (ROOT, tree) if number % 2 else (tree, ROOT)  # a machine that slows down meets both
        for each in order:
            which = "this tree" if each == ROOT else commit
            print(f"{name}: round {number + 1} of {rounds}, {which}", file=sys.stderr, flush=True)
            seen[each].append(measure(each, name, args))
    common = [figure for figure in seen[ROOT][0] if all(figure in one for one in seen[tree])]
    if not common:
        raise BenchError(f"the benchmark {name} of {commit} records no figure that this tree records")
    print(f"\n{name} {' '.join(args)}: {rounds} rounds in turns; ratio of this tree to {commit}")
    print(f"{'':58}{'here':>9}{'then':>9}{'ratio':>8}{'least':>8}{'most':>8}")
    for figure in common:
        print(ratio_row(figure, *([median_of(one, figure) for one in seen[each]] for each in (ROOT, tree))))
    for figure in sorted(set(seen[ROOT][0]) - set(common)):
        print(f"{figure:58}{median_of(seen[ROOT][0], figure):>9.2f}{'none':>9}")


def median_of(figures: Figures, name: str) -> float:
    """Take the median of a figure of one run."""
    return statistics.median(figures[name])


def ratio_row(name: str, here: Sequence[float], then: Sequence[float]) -> str:
    """Format a figure: the least of each tree, and the median and spread of the rounds' ratios."""
    ratios = [one / other if other else float("inf") for one, other in zip(here, then, strict=True)]
    middle = statistics.median(ratios)
    return f"{name:58}{min(here):>9.2f}{min(then):>9.2f}{middle:>8.3f}{min(ratios):>8.3f}{max(ratios):>8.3f}"


def choose(names: Sequence[str]) -> list[str]:
    """Return the benchmarks of the names, or all of them.

    Raises:
        BenchError: for a name that no benchmark has.
    """
    unknown = [name for name in names if name not in SCRIPTS]
    if unknown:
        raise BenchError(f"no benchmark {', '.join(unknown)}; there are {', '.join(SCRIPTS)}")
    return [name for name in SCRIPTS if name in names or not names]


def main(argv: Sequence[str]) -> None:
    """Run what the arguments ask for: names first, then the options."""
    place = next((at for at, arg in enumerate(argv) if arg.startswith("-")), len(argv))
    names, options = choose(argv[:place]), [one for one in argv[place:] if one != "--quick"]
    parser = argparse.ArgumentParser(prog="./run bench", add_help=False, allow_abbrev=False)
    parser.add_argument("--against")
    known, rest = parser.parse_known_args(options)
    if known.against is None:
        quick = QUICK if "--quick" in argv else {}  # of an option that is given twice the last counts
        run_each({name: (*quick.get(name, ()), *options) for name in names})
        return
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    known, rest = parser.parse_known_args(options)
    with earlier_tree(known.against) as tree:
        for name in names:
            own = COMPARED.get(name, QUICK.get(name, ()))
            compare(name, known.against, tree, known.rounds, (*own, *rest))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the earlier tree on the way out
    try:
        main(sys.argv[1:])
    except BenchError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
