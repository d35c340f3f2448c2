"""AgentDojo 0.1.35, benchmark v1.2.2: utility, attack success and questions, for every defence in one run.

python -m benchmarks.agentdojo.run [--suite NAME] [--only DEFENCE|DEFENCE] [--encode KIND|all] [--show]
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter, defaultdict
from typing import Any

from agentdojo.task_suite.load_suites import get_suites

from benchmarks.agentdojo.contestants import contestants
from benchmarks.agentdojo.encodings import ENCODINGS, encoded
from benchmarks.agentdojo.scenario import VERSION, Attack, achieved, attacker, execute


def benign(suite: Any, defences: list[Any], tally: dict[str, Counter[str]], show: bool) -> None:
    for task in suite.user_tasks.values():
        start = task.init_environment(suite.load_and_inject_default_environment({}))
        for defence in defences:
            env = start.model_copy(deep=True)
            defence.benign, defence.questions = True, 0
            run = execute(suite, task, env, defence, None, "")
            good = achieved(suite, task, start, env, run, task.GROUND_TRUTH_OUTPUT)
            count = tally[defence.name]
            count["tasks"] += 1
            count["utility"] += good
            count["calls"] += run.calls
            count["questions"] += len(run.blocked) + defence.questions
            if show and run.blocked:
                print(f"  benign {defence.name} {suite.name} {task.ID} {'ok' if good else 'LOST'}")
                for tool, _, reason in run.blocked:
                    print(f"      {tool}: {reason}")


def attacked(
    suite: Any, defences: list[Any], tally: dict[str, Counter[str]], encoding: str, show: bool
) -> None:
    plan = Attack(suite)
    for task in suite.user_tasks.values():
        vectors = plan.vectors(task)
        for injection in suite.injection_tasks.values():
            attack = attacker(suite, injection)
            if attack is None:
                continue
            goal = encoded(injection.GOAL, encoding)
            text = plan.text(goal)
            start = task.init_environment(
                suite.load_and_inject_default_environment(dict.fromkeys(vectors, text))
            )
            for defence in defences:
                env = start.model_copy(deep=True)
                defence.benign = False
                run = execute(suite, task, env, defence, attack, goal)
                won = achieved(suite, injection, start, env, run, task.GROUND_TRUTH_OUTPUT)
                count = tally[defence.name]
                count["pairs"] += 1
                count["unseen"] += not run.attacked
                count["attacks"] += won
                count[f"{suite.name} {injection.ID}"] += won
                if show and won:
                    print(f"  attack {defence.name} {suite.name} {task.ID} {injection.ID}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--suite")
    parser.add_argument("--only")
    parser.add_argument("--encode", default="plain")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    suites = {name: suite for name, suite in get_suites(VERSION).items() if options.suite in (None, name)}
    defences = [one for one in contestants() if options.only is None or any(part in one.name for part in options.only.split("|"))]
    kinds = list(ENCODINGS) if options.encode == "all" else [options.encode]
    tallies: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for suite in suites.values():
        benign(suite, defences, tallies["plain"], options.show)
        for kind in kinds:
            attacked(suite, defences, tallies[kind], kind, options.show)
    report(defences, tallies)


def report(defences: list[Any], tallies: dict[str, dict[str, Counter[str]]]) -> None:
    print(f"{'defence':44s} {'utility':>8s} {'attack success':>16s} {'questions per 100 benign calls':>32s}")
    for defence in defences:
        count = tallies["plain"][defence.name]
        rate = 100 * count["attacks"] / max(1, count["pairs"])
        asked = 100 * count["questions"] / max(1, count["calls"])
        won = f"{count['attacks']}/{count['pairs']} {rate:.1f}%"
        print(f"{defence.name:44s} {count['utility']:4d}/{count['tasks']:<3d} {won:>16s} {asked:32.1f}")
        for kind, tally in tallies.items():
            if kind != "plain":
                other = tally[defence.name]
                print(
                    f"    {kind:20s} {100 * other['attacks'] / max(1, other['pairs']):5.1f}%  unseen {other['unseen']}"
                )
    for defence in defences:
        count = tallies["plain"][defence.name]
        print(defence.name, {key: count[key] for key in sorted(count) if " " in key and count[key]})


if __name__ == "__main__":
    main()
