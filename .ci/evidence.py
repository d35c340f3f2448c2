"""The evidence for the provenance engine in one table: suites, policies, both sides, intervals; resumable in a budget.

    python .ci/evidence.py [--cpu-minutes 20] [--suites recorded,outside,fresh,agentdojo] [--whole]

Benign cases that reach their goal and attacks that do not, in per cent, under policies that say more from left to
right: nothing (zero), which tools are trusted (plain), one line for each tool (per tool), a plan for each request
(planned). An interval is the 95 % bootstrap over clusters: a domain of recorded conversations, a domain of the outside
and the fresh suite, a user task of AgentDojo, whose cases share words and records. A run of AgentDojo continues where
the last one of the same code ended. It takes every user task, in random order and in all variations at once, with three
random injections each, so that a run whose budget ends early has measured a random sample. ``--whole`` takes every
pair, variation by variation, which takes hours.

No model is asked: a benign agent makes the calls of a script, a compromised one obeys every injection at once.
AgentDojo is graded by its own checks, unpatched. Suites that the package index does not have (AgentDyn, InjecAgent) are
not here.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import resource
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from environments import AGENTDOJO_LOCK, CACHE, ROOT, NotInstalledError, locked, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

sys.path.insert(0, str(ROOT))

OUT = ROOT / "out" / "evidence"
COLUMNS = ("zero", "plain", "per tool", "planned")
NAMES = {
    "zero configuration": "zero",
    "plain policy": "plain",
    "general policy": "per tool",
    "general policy and plans": "planned",
}
"""Names of policies in the benchmarks, and the column of each."""

VARIATIONS = (
    "plain",
    "outputs as text",
    "realistic arguments",
    "encoded values",
    "languages",
    "synonyms",
    "pasted document",
    "public names",
    "opaque names",
    "get is a sink",
    "attacker as author",
    "short injection",
    "long injection",
)
RESAMPLES, SEED = 1000, 20261129
TASKS, INJECTIONS, DRAW = 97, 3, 1
"""The sample of AgentDojo: user tasks, injections for each, and the seed."""


@dataclass(slots=True)
class Side:
    """Cases of one side under one policy: good ones and all, by cluster."""

    clusters: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, cluster: str, good: int, total: int) -> None:
        """Add cases to a cluster."""
        before = self.clusters.get(cluster, (0, 0))
        self.clusters[cluster] = (before[0] + good, before[1] + total)

    def describe(self) -> str:
        """Describe the share and its interval, as ``93/97 = 95.9 % (91-99)``."""
        good, total = (sum(each[place] for each in self.clusters.values()) for place in (0, 1))
        if not total:
            return "-"
        low, high = self.find_interval()
        return f"{good}/{total} = {100 * good / total:.1f} % ({low:.0f}-{high:.0f})"

    def find_interval(self) -> tuple[float, float]:
        """Find the 95 % interval of the share, in per cent, by drawing whole clusters with replacement."""
        counts = [each for each in self.clusters.values() if each[1]]
        dice = random.Random(SEED)  # noqa: S311 - the same intervals for the same counts
        shares = []
        for _ in range(RESAMPLES):
            drawn = dice.choices(counts, k=len(counts))
            shares.append(100 * sum(good for good, _ in drawn) / sum(total for _, total in drawn))
        shares.sort()
        return shares[round(0.025 * RESAMPLES)], shares[round(0.975 * RESAMPLES) - 1]


Row = dict[str, tuple[Side, Side]]
"""By column the benign side and the attacked side."""


def new_row() -> Row:
    """Make a row without cases."""
    return {column: (Side(), Side()) for column in COLUMNS}


def measure_recorded() -> Iterator[tuple[str, Row]]:
    """Judge the recorded conversations: under trust alone, and with the line of a tool that grants something."""
    recorded = importlib.import_module("tests.provenance.recorded")
    rows: dict[str, Row] = {}
    for column, grants in (("plain", False), ("per tool", True)):
        for case in recorded.read_conversations(grants=grants):
            sides = rows.setdefault(f"recorded, {case.half}", new_row())[column]
            domain = case.name.partition("-")[0]
            sides[case.attack].add(domain, case.judge().allowed is not case.attack, 1)
    yield from sorted(rows.items())


def measure_outside() -> Iterator[tuple[str, Row]]:
    """Run the suite of benchmarks/outside."""
    names = ("run", "cases", "defences")
    run, cases, policies = (importlib.import_module(f"benchmarks.outside.{name}") for name in names)
    defences = [one for one in policies.contestants() if one.name in NAMES]
    for half in ("one", "two"):
        row = new_row()
        for one in run.results([half], cases.DOMAINS, defences):
            row[NAMES[one.defence]][one.attack].add(one.domain, one.reached is not one.attack, 1)
        yield f"outside, half {half}", row


def measure_fresh() -> Iterator[tuple[str, Row]]:
    """Run the suite of benchmarks/fresh: the half that is looked at, and the half that is not."""
    run = importlib.import_module("benchmarks.fresh.run")
    rows = {half: new_row() for half in run.HALVES}
    for policy, case, reached, _ in run.measure():
        rows[case.half][policy][case.attack].add(case.domain, reached is not case.attack, 1)
    for half, row in rows.items():
        yield f"fresh, {half}", row


def measure_agentdojo(seconds: float, *, whole: bool) -> Iterator[tuple[str, Row]]:
    """Run AgentDojo until the budget is used, and read all that is measured so far.

    Args:
        seconds: of CPU.
        whole: every pair, variation by variation, in place of a sample in all variations at once.

    Raises:
        NotInstalledError: the environment cannot be made here.
    """
    code = importlib.import_module("benchmarks.agentdojo.kept").digest("" if whole else "sample")
    python, folder = prepare(CACHE / "agentdojo", locked(AGENTDOJO_LOCK)), OUT / f"agentdojo-{code}"
    drawn = () if whole else (f"--sample={TASKS}", f"--injections={INJECTIONS}", f"--seed={DRAW}")
    began = used_cpu()
    for variation in VARIATIONS if whole else ("all",):
        if (left := seconds - (used_cpu() - began)) > 0:
            print(
                f"... AgentDojo, {variation}, {left / 60:.0f} CPU minutes left", file=sys.stderr, flush=True
            )
            what = (f"--variation={variation}", f"--only={'|'.join(NAMES)}", *drawn)
            argv = (*what, f"--into={folder}", f"--cpu-minutes={left / 60}")
            command = (str(python), "-m", "benchmarks.agentdojo.run", *argv)
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    yield from read_agentdojo(folder, "AgentDojo" if whole else f"AgentDojo, {INJECTIONS} injections a task")


def used_cpu() -> float:
    """Seconds of CPU of the programs that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def read_agentdojo(folder: Path, name: str = "AgentDojo") -> Iterator[tuple[str, Row]]:
    """Read the measured forms: a row for each, clustered by user task.

    A form that changes the attack alone has no benign side.
    """
    rows: dict[str, Row] = defaultdict(new_row)
    for path in sorted(folder.glob("*/*.json")):
        for task, forms in json.loads(path.read_text("utf-8"))["tasks"].items():
            for form, found in forms.items():
                for defence, column in NAMES.items():
                    counts = found.get(defence, {}).get("counts", {})
                    benign, attacked = rows[form][column]
                    cluster = f"{path.parent.name} {task}"
                    benign.add(cluster, counts.get("utility", 0), counts.get("tasks", 0))
                    pairs = counts.get("pairs", 0)
                    attacked.add(cluster, pairs - counts.get("attacks", 0), pairs)
    for form, row in rows.items():
        yield f"{name}, {form}", row


def format_table(rows: Sequence[tuple[str, Row]]) -> str:
    """Format the rows as Markdown; the tasks of AgentDojo that are not measured yet are not in its figures."""
    heads = [f"{column}: {side}" for column in COLUMNS for side in ("benign done", "attacks stopped")]
    lines = [["suite", *heads]]
    for name, row in rows:
        lines.append([name, *(side.describe() for column in COLUMNS for side in row[column])])
    table = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([table[0], "|---" * len(lines[0]) + "|", *table[1:]])


def main(argv: Sequence[str]) -> int:
    """Measure, print the table, and write it to out/evidence/table.md."""
    parser = argparse.ArgumentParser(prog="./run evidence")
    parser.add_argument("--cpu-minutes", type=float, default=20.0, help="budget of AgentDojo (default 20)")
    parser.add_argument(
        "--suites", default="recorded,outside,fresh,agentdojo", help="some of them, with commas"
    )
    parser.add_argument("--whole", action="store_true", help="every pair of AgentDojo, which takes hours")
    options = parser.parse_args(argv)
    suites: dict[str, Callable[[], Iterator[tuple[str, Row]]]] = {
        "recorded": measure_recorded,
        "outside": measure_outside,
        "fresh": measure_fresh,
        "agentdojo": lambda: measure_agentdojo(60 * options.cpu_minutes, whole=options.whole),
    }
    rows: list[tuple[str, Row]] = []
    for name in options.suites.split(","):
        if name not in suites:
            parser.error(f"no suite {name!r}; suites: {', '.join(suites)}")
        print(f"... {name}", file=sys.stderr, flush=True)
        try:
            rows += suites[name]()
        except NotInstalledError as error:
            print(f"evidence: AgentDojo is skipped: {error}", file=sys.stderr)
    OUT.mkdir(parents=True, exist_ok=True)
    table = format_table(rows)
    (OUT / "table.md").write_text(table + "\n", "utf-8")
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
