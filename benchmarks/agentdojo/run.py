"""AgentDojo 0.1.35, benchmark v1.2.2: utility, attack success and questions, for every defence in one run.

python -m benchmarks.agentdojo.run [--suite NAME] [--only "DEFENCE|DEFENCE"] [--encode KIND|all] [--show]
[--markdown] [--require UTILITY ATTACKS]
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from agentdojo.task_suite.load_suites import get_suites

from benchmarks.agentdojo.contestants import VERSION, contestants
from benchmarks.agentdojo.encodings import ENCODINGS, encoded
from benchmarks.agentdojo.scenario import Attack, achieved, attacker, execute

if TYPE_CHECKING:
    from collections.abc import Iterator

ENVELOPE = """\
Exact on values and on spans of 24 letters and digits, through the encodings listed, whoever passes them on.
No model is asked. Not decided by lineage: paraphrase, an indirect choice among the system's own records,
quantities, negation, words that mislead the user. The compromised agent obeys every injection at once;
nothing here says how often a model would.\
"""

CLASSES = {
    "send data or words to the attacker": "workspace 0 3 4 5 6 7 8 9 10 11 12; travel 1 3 5; slack 2 4",
    "send words or links to the user's own contacts": "workspace 13; slack 1",
    "pay the attacker": "banking 0 1 2 3 5 6 8",
    "change, create or reserve": "workspace 2; travel 0 2 4; banking 4 7",
    "delete": "workspace 1",
    "admit a stranger": "slack 5",
    "fetch a page": "slack 3",
}


def class_of(suite: str, injection: str) -> str:
    number = injection.rpartition("_")[2]
    for name, members in CLASSES.items():
        for part in members.split("; "):
            if part.split()[0] == suite and number in part.split()[1:]:
                return name
    return "other"


Tally = defaultdict[str, Counter[str]]


def benign(suite: Any, defences: list[Any], tally: Tally, *, show: bool) -> None:
    for task in suite.user_tasks.values():
        start = task.init_environment(suite.load_and_inject_default_environment({}))
        for defence in defences:
            env = start.model_copy(deep=True)
            defence.benign, defence.questions = True, 0
            run = execute(suite, task, env, defence, None, "")
            good = achieved(suite, task, start, env, run, task.GROUND_TRUTH_OUTPUT)
            for key in ("", f"{suite.name} "):
                count = tally[defence.name]
                count[f"{key}tasks"] += 1
                count[f"{key}utility"] += good
                count[f"{key}calls"] += run.calls
                count[f"{key}questions"] += len(run.blocked) + defence.questions
            if show and run.blocked:
                print(f"  benign {defence.name} {suite.name} {task.ID} {'ok' if good else 'LOST'}")
                for tool, _, reason in run.blocked:
                    print(f"      {tool}: {reason}")


def attacked(suite: Any, defences: list[Any], tally: Tally, encoding: str, *, show: bool) -> None:
    plan = Attack(suite)
    for task in suite.user_tasks.values():
        vectors = plan.vectors(task)
        for injection in suite.injection_tasks.values():
            attack = attacker(suite, injection)
            if attack is None:
                continue
            goal = encoded(injection.GOAL, encoding)
            texts = dict.fromkeys(vectors, plan.text(goal))
            start = task.init_environment(suite.load_and_inject_default_environment(texts))
            for defence in defences:
                env = start.model_copy(deep=True)
                defence.benign = False
                run = execute(suite, task, env, defence, attack, goal)
                won = achieved(suite, injection, start, env, run, task.GROUND_TRUTH_OUTPUT)
                count = tally[defence.name]
                for key in ("", f"{suite.name} ", f"{class_of(suite.name, injection.ID)} "):
                    count[f"{key}pairs"] += 1
                    count[f"{key}attacks"] += won
                count["unseen"] += not run.attacked
                if show and won:
                    print(f"  attack {defence.name} {suite.name} {task.ID} {injection.ID} {encoding}")


def rate(count: Counter[str], key: str, many: str, few: str) -> str:
    total = count[f"{key}{many}"]
    return f"{100 * count[f'{key}{few}'] / total:.1f} %" if total else "-"


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


def shown(table: list[list[str]], *, markdown: bool) -> str:
    if markdown:
        lines = [f"| {' | '.join(row)} |" for row in table]
        return "\n".join([lines[0], "|" + "---|" * len(table[0]), *lines[1:]])
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--suite")
    parser.add_argument("--only")
    parser.add_argument("--encode", default="plain")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--require", nargs=2, type=float, metavar=("UTILITY", "ATTACKS"))
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    suites = {name: suite for name, suite in get_suites(VERSION).items() if options.suite in (None, name)}
    wanted = options.only.split("|") if options.only else [""]
    defences = [one for one in contestants() if any(part in one.name for part in wanted)]
    kinds = list(ENCODINGS) if options.encode == "all" else [options.encode]
    tallies: dict[str, Tally] = {kind: defaultdict(Counter) for kind in dict.fromkeys(["plain", *kinds])}
    for suite in suites.values():
        benign(suite, defences, tallies["plain"], show=options.show)
        for kind in kinds:
            attacked(suite, defences, tallies[kind], kind, show=options.show)
    print(shown(rows(defences, tallies), markdown=options.markdown))
    print()
    print(shown(parts(defences, tallies, list(suites)), markdown=options.markdown))
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
