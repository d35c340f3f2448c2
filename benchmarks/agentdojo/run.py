"""AgentDojo 0.1.35, benchmark v1.2.2: utility, attack success and questions, for every defence in one run.

python -m benchmarks.agentdojo.run [--suite NAME] [--only "DEFENCE|DEFENCE"] [--encode KIND|all] [--show]
[--markdown] [--require UTILITY ATTACKS]
python -m benchmarks.agentdojo.run --variation NAME|all [--quick] [--into FOLDER] [--json FILE] [--processes N]
[--cpu-minutes N] [--sample TASKS] [--injections N] [--seed N] [the same, without --encode]
"""

from __future__ import annotations

import argparse
import logging
import math
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentdojo.task_suite.load_suites import get_suites

from benchmarks.agentdojo import varied
from benchmarks.agentdojo.contestants import VERSION, contestants
from benchmarks.agentdojo.encodings import ENCODINGS
from benchmarks.agentdojo.kept import ResultFolder, digest
from benchmarks.agentdojo.measure import CLASSES, Tally, attackers, benign, count_attack, rate
from benchmarks.agentdojo.variations.forms import PLAIN, in_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.agentdojo.defences import Defence
    from benchmarks.agentdojo.variations.forms import Form

ENVELOPE = """\
Exact on values and on spans of 24 letters and digits, through the encodings listed, whoever passes them on.
No model is asked. Not decided by lineage: paraphrase, an indirect choice among the system's own records,
quantities, negation, words that mislead the user. The compromised agent obeys every injection at once;
nothing here says how often a model would.\
"""


def rows(defences: list[Any], tallies: dict[str, Tally]) -> list[list[str]]:
    head = ["defence", "utility", "attack success", "questions per 100 benign calls"]
    kinds = [kind for kind in tallies if kind != "plain"]
    table = [head + kinds]
    for defence in defences:
        count = tallies["plain"][defence.name]
        won = f"{count['attacks']}/{count['pairs']} = {rate(count, '', 'pairs', 'attacks')}"
        asked = rate(count, "", "calls", "questions").removesuffix(" %")
        line = [defence.name, f"{count['utility']}/{count['tasks']}", won, asked]
        table.append(line + [rate(tallies[kind][defence.name], "", "pairs", "attacks") for kind in kinds])
    return table


def parts(defences: list[Any], tallies: dict[str, Tally], suites: list[str]) -> list[list[str]]:
    table = [
        [
            "defence",
            *(f"utility {name}" for name in suites),
            *(f"attacks {name}" for name in suites),
            *CLASSES,
        ]
    ]
    for defence in defences:
        count = tallies["plain"][defence.name]
        line = [defence.name]
        line += [f"{count[f'{name} utility']}/{count[f'{name} tasks']}" for name in suites]
        line += [rate(count, f"{name} ", "pairs", "attacks") for name in [*suites, *CLASSES]]
        table.append(line)
    return table


def format_table(table: list[list[str]], *, markdown: bool) -> str:
    if markdown:
        lines = [f"| {' | '.join(row)} |" for row in table]
        return "\n".join([lines[0], "|" + "---|" * len(table[0]), *lines[1:]])
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table
    )


def in_variations(options: argparse.Namespace) -> list[str]:
    """Measures and prints the variations; what misses the requirement."""
    sample = (
        varied.Sample(options.sample, options.injections, options.seed)
        if options.sample is not None
        else None
    )
    asked = varied.Asked(options.variation, options.suite, options.only, options.quick, options.show, sample)
    part = str(sample) if sample else "short form" if options.quick else ""
    kept = ResultFolder(options.into, digest(part)) if options.into else None
    tallies = varied.results(asked, kept, options.processes, 60 * options.cpu_minutes)
    print(format_table(varied.table(asked, tallies), markdown=options.markdown))
    print(f"\n{varied.extent(asked)}", *varied.last_lines(asked, tallies), sep="\n")
    if options.json:
        options.json.write_text(varied.as_json(asked, tallies), "utf-8")
    return [*varied.misses(asked, tallies, *options.require)] if options.require else []


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--suite")
    parser.add_argument("--only")
    parser.add_argument("--encode", default="plain")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--require", nargs=2, type=float, metavar=("UTILITY", "ATTACKS"))
    parser.add_argument("--variation", help="a variation's name, several with commas between, or all")
    parser.add_argument("--quick", action="store_true", help="a few tasks of each suite; with --variation")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="what is measured, to go on with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every count; with --variation")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--cpu-minutes", type=float, default=math.inf, help="stop there; --into continues")
    parser.add_argument("--sample", type=int, metavar="TASKS", help="a random part; with --variation")
    parser.add_argument("--injections", type=int, default=3, help="of each task of the sample (default 3)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default 1)")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if options.variation:
        sys.exit("\n".join(in_variations(options)) or None)
    if options.quick or options.json or options.into or options.sample is not None:
        parser.error("--quick, --sample, --json and --into go with --variation")
    suites = {name: suite for name, suite in get_suites(VERSION).items() if options.suite in (None, name)}
    wanted = options.only.split("|") if options.only else [""]
    defences = [one for one in contestants(PLAIN.guise) if any(part in one.name for part in wanted)]
    kinds = list(ENCODINGS) if options.encode == "all" else [options.encode]
    tallies: dict[str, Tally] = {kind: defaultdict(Counter) for kind in dict.fromkeys(["plain", *kinds])}
    sides = [(in_code(kind), defences, tallies[kind]) for kind in kinds]

    def print_notable(form: Form, defence: Defence, line: str) -> None:
        if options.show:
            print(f"  {defence.name}, {form.title}: {line}")

    for suite in suites.values():
        for task in suite.user_tasks.values():
            benign(suite, task, [(PLAIN, defences, tallies["plain"])], print_notable)
            for injection in suite.injection_tasks.values():
                if injection.ID in attackers(suite.name):
                    count_attack(suite, task, injection, sides, print_notable)
    print(format_table(rows(defences, tallies), markdown=options.markdown))
    print()
    print(format_table(parts(defences, tallies, list(suites)), markdown=options.markdown))
    print(f"\n{ENVELOPE}")
    if options.require and (missed := [*misses(defences, tallies, *options.require)]):
        sys.exit("\n".join(missed))


def misses(defences: list[Any], tallies: dict[str, Tally], utility: float, attacks: float) -> Iterator[str]:
    """Which defences are below a utility or above an attack success, both in per cent."""
    for defence in defences:
        plain = tallies["plain"][defence.name]
        if 100 * plain["utility"] < utility * plain["tasks"]:
            yield f"{defence.name}: utility below {utility:g} %"
        for kind, tally in tallies.items():
            count = tally[defence.name]
            if 100 * count["attacks"] > attacks * count["pairs"]:
                yield f"{defence.name}: attack success above {attacks:g} % ({kind})"


if __name__ == "__main__":
    main()
