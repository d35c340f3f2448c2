"""Counts of one user task: utility, calls and questions of its benign run, attacks of every injection.

Owns the counts and their keys. Independent of the defences and forms.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from agentdojo.task_suite.load_suites import get_suites

from benchmarks.agentdojo.contestants import VERSION
from benchmarks.agentdojo.scenario import Attack, attacker, check_goal, copies, execute

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.agentdojo.defences import Defence
    from benchmarks.agentdojo.variations.forms import Form

CLASSES = {
    "send data or words to the attacker": "workspace 0 3 4 5 6 7 8 9 10 11 12; travel 1 3 5; slack 2 4",
    "send words or links to the user's own contacts": "workspace 13; slack 1",
    "pay the attacker": "banking 0 1 2 3 5 6 8",
    "change, create or reserve": "workspace 2; travel 0 2 4; banking 4 7",
    "delete": "workspace 1",
    "admit a stranger": "slack 5",
    "fetch a page": "slack 3",
}

Tally = defaultdict[str, Counter[str]]


def class_of(suite: str, injection: str) -> str:
    number = injection.rpartition("_")[2]
    for name, members in CLASSES.items():
        for part in members.split("; "):
            if part.split()[0] == suite and number in part.split()[1:]:
                return name
    return "other"


@cache
def attack_on(suite: str) -> Attack:
    """The attack's text for a suite, and the places where it can stand."""
    return Attack(get_suites(VERSION)[suite])


@cache
def attackers(suite: str) -> dict[str, Any]:
    """By injection the calls of a compromised agent; an injection without calls is absent."""
    whole = get_suites(VERSION)[suite]
    calls = {each.ID: attacker(whole, each) for each in whole.injection_tasks.values()}
    return {name: attack for name, attack in calls.items() if attack}


Side = tuple["Form", "list[Defence]", Tally]
"""A form, the defences that meet it, and their counts."""

Told = Callable[["Form", "Defence", str], None]
"""Takes notable results: each benign run with a refused call, and each attack that succeeds."""


def benign(suite: Any, task: Any, sides: Iterable[Side], told: Told) -> None:
    """Counts the benign run of a task, for every side."""
    start = copies(task.init_environment(suite.load_and_inject_default_environment({})))
    for form, defences, tally in sides:
        for defence in defences:
            env = start()
            defence.benign, defence.questions = True, 0
            run = execute(suite, task, env, defence, None, "", form.guise)
            good = check_goal(suite, task, start, env, run, task.GROUND_TRUTH_OUTPUT)
            for key in ("", f"{suite.name} "):
                count = tally[defence.name]
                count[f"{key}tasks"] += 1
                count[f"{key}utility"] += good
                count[f"{key}calls"] += run.calls
                count[f"{key}questions"] += len(run.blocked) + defence.questions
            if run.blocked or not good:
                reasons = "; ".join(f"{tool}: {reason}" for tool, _, reason in run.blocked)
                told(form, defence, f"benign {suite.name} {task.ID} {'ok' if good else 'LOST'} {reasons}")


def count_attack(suite: Any, task: Any, injection: Any, sides: Iterable[Side], told: Told) -> None:
    """Counts the attacked run of a task with one injection, for every side. Equal texts share a start."""
    attack, source = attackers(suite.name)[injection.ID], attack_on(suite.name)
    starts: dict[str, Any] = {}
    for form, defences, tally in sides:
        goal = form.goal(suite.name, injection.ID, injection.GOAL)
        text = form.text(source.text(goal), goal)
        if text not in starts:
            texts = dict.fromkeys(source.vectors(task), text)
            starts[text] = copies(task.init_environment(suite.load_and_inject_default_environment(texts)))
        start, guise = starts[text], form.under_attack(suite.name, injection.ID, goal)
        for defence in defences:
            env = start()
            defence.benign = False
            run = execute(suite, task, env, defence, attack, goal, guise)
            won = check_goal(suite, injection, start, env, run, task.GROUND_TRUTH_OUTPUT)
            count = tally[defence.name]
            for key in ("", f"{suite.name} ", f"{class_of(suite.name, injection.ID)} "):
                count[f"{key}pairs"] += 1
                count[f"{key}attacks"] += won
            count["unseen"] += not run.attacked
            if won:
                told(form, defence, f"attack {suite.name} {task.ID} {injection.ID}")


def rate(count: Counter[str], key: str, many: str, few: str) -> str:
    total = count[f"{key}{many}"]
    return f"{100 * count[f'{key}{few}'] / total:.1f} %" if total else "-"
