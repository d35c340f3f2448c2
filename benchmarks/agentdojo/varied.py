"""The variations of AgentDojo: every form of every variation for every column, and the worst of each.

Owns the order of the work, the table and the JSON of it. A row is a variation; where it has several forms, each of
its figures is the worst form's. Forms that change the attack alone have the benign figures of the plain form.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from random import Random
from time import monotonic, process_time
from typing import TYPE_CHECKING, Any

from agentdojo.task_suite.load_suites import get_suites

from benchmarks.agentdojo.contestants import COLUMNS, GENERAL, VERSION, columns
from benchmarks.agentdojo.kept import Measured
from benchmarks.agentdojo.measure import Side, Tally, attackers, benign, count_attack
from benchmarks.agentdojo.variations.forms import PLAIN, Form, select_forms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.agentdojo.defences import Defence
    from benchmarks.agentdojo.kept import ResultFolder

UNDEFENDED = "none"
QUICK_TASKS, QUICK_INJECTIONS = 8, 3
"""The short form takes every eighth user task and every third injection of each suite."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Random part of the suites: the same for the same seed, and a larger one begins with the smaller.

    Args:
        tasks: number of user tasks, drawn from all suites together.
        injections: number of injections, drawn for each of them.
        seed: of both draws.
    """

    tasks: int
    injections: int
    seed: int

    def __str__(self) -> str:
        return f"sample with seed {self.seed} of {self.injections} injections for each task"


@dataclass(frozen=True, slots=True)
class Asked:
    """The selection of a measurement.

    Args:
        variations: their names with commas between, or ``all``.
        suite: one suite, or all of them.
        only: names of columns, or parts of them, with bars between; the columns of the report if left out.
        quick: a few tasks of each suite.
        show: whether each refused benign call and each attack that succeeds is printed.
        sample: a random part of the suites, in random order.
    """

    variations: str
    suite: str | None = None
    only: str | None = None
    quick: bool = False
    show: bool = False
    sample: Sample | None = None

    def forms(self) -> list[Form]:
        """The plain form and those of the variations."""
        return select_forms(self.variations)

    def tasks(self) -> list[tuple[str, str]]:
        """Suite and user task, the dearest suite first, so that two processes end together; a sample in its order."""
        step = QUICK_TASKS if self.quick else 1
        suites = get_suites(VERSION).values()
        found = [
            (suite.name, task)
            for suite in sorted(suites, key=lambda each: len(each.user_tasks), reverse=True)
            if self.suite in (None, suite.name)
            for task in [*suite.user_tasks][::step]
        ]
        if self.sample is None:
            return found
        Random(self.sample.seed).shuffle(found)
        return found[: self.sample.tasks]

    def injections(self, suite: str, task: str) -> list[Any]:
        """The injections of a suite that ask for calls; in a sample those that are drawn for a user task."""
        whole = get_suites(VERSION)[suite].injection_tasks.values()
        known = [each for each in whole if each.ID in attackers(suite)]
        if self.sample is not None:
            dice = Random(f"{self.sample.seed} {suite} {task}")
            return dice.sample(known, min(self.sample.injections, len(known)))
        return known[:: QUICK_INJECTIONS if self.quick else 1]

    def columns(self) -> list[str]:
        """The names of the defences."""
        wanted = self.only.split("|") if self.only else None
        names = [defence.name for defence in columns(PLAIN.guise)]
        if not wanted:
            return [name for name in names if name in COLUMNS]
        parts = [each for each in wanted if each not in names]
        return [name for name in names if name in wanted or any(part in name for part in parts)]


Work = tuple[Asked, str, str, tuple[str, ...]]
"""A job: a suite, a user task, and the titles of the forms to measure."""

Found = dict[str, dict[str, Measured]]
"""Results of one task, by form and column."""


@cache
def sides(asked: Asked) -> list[tuple[Form, Any]]:
    """Each form with its defences, made once in a process."""
    names = asked.columns()
    return [(form, [one for one in columns(form.guise) if one.name in names]) for form in asked.forms()]


def measure_task(work: Work) -> tuple[str, str, Found, float]:
    """Measure one user task: its suite, its name, its counts, and the seconds of CPU that they took."""
    began = process_time()
    asked, suite_name, task_name, titles = work
    suite = get_suites(VERSION)[suite_name]
    task = suite.user_tasks[task_name]
    here: list[Side] = [(*side, defaultdict(Counter)) for side in sides(asked) if side[0].title in titles]
    found: Found = {
        form.title: {one.name: {"counts": {}, "told": []} for one in defences} for form, defences, _ in here
    }

    def told(form: Form, defence: Defence, line: str) -> None:
        found[form.title][defence.name]["told"].append(line)

    benign(suite, task, [side for side in here if not side[0].attack_alone], told)
    for injection in asked.injections(suite_name, task_name):
        count_attack(suite, task, injection, here, told)
    for form, _, tally in here:
        for name, count in tally.items():
            found[form.title][name]["counts"] = dict(count)
    return suite_name, task_name, found, process_time() - began


def results(
    asked: Asked, kept: ResultFolder | None = None, processes: int = 2, budget: float = math.inf
) -> dict[str, Tally]:
    """By form the counts of every column. Progress goes to the standard error.

    Args:
        asked: the selection.
        kept: the stored results; they are not measured again.
        processes: how many share the work.
        budget: seconds of CPU after which no more results are awaited; the rest is left out of the counts.
    """
    forms, names = {form.title: form for form in asked.forms()}, asked.columns()
    tallies: dict[str, Tally] = {title: defaultdict(Counter) for title in forms}
    works: list[Work] = []
    for suite, task in asked.tasks():
        before = {title: _stored_results(kept, names, suite, task, form) for title, form in forms.items()}
        _add(asked, tallies, {title: found for title, found in before.items() if found})
        if missing := tuple(title for title, found in before.items() if not found):
            works.append((asked, suite, task, missing))
    began, used = monotonic(), 0.0
    for number, (suite, task, found, cpu) in enumerate(_share_works(works, processes), 1):
        used += cpu
        _add(asked, tallies, found)
        if kept:
            kept.keep(suite, task, {forms[title]: columns_ for title, columns_ in found.items()})
        spent = monotonic() - began
        rest = spent / number * (len(works) - number)
        line = f"  {number}/{len(works)} {suite} {task}, {spent:.0f} s, about {rest:.0f} s to go"
        print(line, file=sys.stderr, flush=True)
        if used > budget and number < len(works):
            print(f"  out of budget: {len(works) - number} tasks are left", file=sys.stderr, flush=True)
            break
    plain = tallies[PLAIN.title]
    for form in asked.forms():
        if form.attack_alone:
            for column, count in tallies[form.title].items():
                shared = {key: n for key, n in plain[column].items() if key.endswith(BENIGN)}
                count.update(shared)
    return tallies


def _stored_results(
    kept: ResultFolder | None, names: list[str], suite: str, task: str, form: Form
) -> dict[str, Measured]:
    """Stored results of a task in a form; empty, unless every column has one."""
    said = {name: kept.of(suite, task, form, name) for name in names} if kept else {}
    whole = {name: one for name, one in said.items() if one is not None}
    return whole if len(whole) == len(said) else {}


def _share_works(works: list[Work], processes: int) -> Iterator[tuple[str, str, Found, float]]:
    """The works as they are done."""
    if processes == 1 or len(works) < WORTH_A_PROCESS:
        yield from map(measure_task, works)
        return
    with multiprocessing.get_context("spawn").Pool(min(processes, len(works))) as pool:
        yield from pool.imap_unordered(measure_task, works)


WORTH_A_PROCESS = 2


def _add(asked: Asked, tallies: dict[str, Tally], found: Found) -> None:
    for title, columns_ in found.items():
        for column, said in columns_.items():
            tallies[title][column].update(said["counts"])
            for line in said["told"] if asked.show else ():
                print(f"  {column}, {title}: {line}")


BENIGN = ("tasks", "utility", "calls", "questions")
"""Format the end of the line of counts in benign runs."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One kind of figure: the larger its cost, the worse.

    Args:
        name: as the head of a column.
        cost: of the counts of one form.
        said: those counts in a cell.
    """

    name: str
    cost: Callable[[Counter[str]], float]
    said: Callable[[Counter[str]], str]


def _share(count: Counter[str], few: str, many: str) -> float:
    return count[few] / count[many] if count[many] else 0.0


FIGURES = (
    Figure(
        "utility",
        lambda count: -_share(count, "utility", "tasks"),
        lambda count: f"{count['utility']}/{count['tasks']}",
    ),
    Figure(
        "attack success",
        lambda count: _share(count, "attacks", "pairs"),
        lambda count: (
            f"{count['attacks']}/{count['pairs']} = {100 * _share(count, 'attacks', 'pairs'):.1f} %"
        ),
    ),
    Figure(
        "questions per 100",
        lambda count: _share(count, "questions", "calls"),
        lambda count: f"{100 * _share(count, 'questions', 'calls'):.1f}",
    ),
)


def worst(figure: Figure, forms: Iterable[Form], tallies: dict[str, Tally], column: str) -> Form:
    """The form in which a figure of a column is the worst; the first of equals."""
    return max(forms, key=lambda form: figure.cost(tallies[form.title][column]))


def table(asked: Asked, tallies: dict[str, Tally]) -> list[list[str]]:
    """The head and a row for each variation, the form named where a variation has several."""
    rows: dict[str, list[Form]] = {}
    for form in asked.forms():
        rows.setdefault(form.variation, []).append(form)
    names = asked.columns()
    lines = [["variation", *(f"{name}: {figure.name}" for name in names for figure in FIGURES)]]
    for variation, forms in rows.items():
        line = [variation]
        for column in names:
            for figure in FIGURES:
                form = worst(figure, forms, tallies, column)
                told = f" ({form.name})" if form.name else ""
                line.append(figure.said(tallies[form.title][column]) + told)
        lines.append(line)
    return lines


def last_lines(asked: Asked, tallies: dict[str, Tally]) -> Iterator[str]:
    """The worst of all forms, figure by figure, for each column."""
    for column in asked.columns():
        said = []
        for figure in FIGURES:
            form = worst(figure, asked.forms(), tallies, column)
            said.append(f"{figure.name} {figure.said(tallies[form.title][column])} ({form.title})")
        yield f"WORST {column}: {'; '.join(said)}"


def misses(asked: Asked, tallies: dict[str, Tally], utility: float, attacks: float) -> Iterator[str]:
    """Which columns are in some form below a utility or above an attack success, both in per cent.

    Without a defence an attack has to succeed as it does in the plain form: else a variation is broken, not survived.
    """
    for column in asked.columns():
        plain = _share(tallies[PLAIN.title][column], "attacks", "pairs")
        for form in asked.forms():
            count = tallies[form.title][column]
            won = _share(count, "attacks", "pairs")
            if 100 * _share(count, "utility", "tasks") < utility:
                yield f"{column}, {form.title}: utility below {utility:g} %"
            if 100 * won > attacks:
                yield f"{column}, {form.title}: attack success above {attacks:g} %"
            if column == UNDEFENDED and won < plain:
                yield f"{column}, {form.title}: the attack itself fails"


def extent(asked: Asked) -> str:
    """Describe the run in a line."""
    tasks = asked.tasks()
    pairs = sum(len(asked.injections(*one)) for one in tasks)
    part = ""
    if asked.quick:
        part = f"SHORT FORM, every {QUICK_TASKS}th task and {QUICK_INJECTIONS}rd injection: "
    elif asked.sample is not None:
        part = f"{asked.sample}: "
    size = f"{len(tasks)} tasks, {pairs} attacked pairs, {len(asked.forms())} forms"
    return f"{part}{size}; policy {GENERAL.name}"


def as_json(asked: Asked, tallies: dict[str, Tally]) -> str:
    """Every count of every form and column, and the worst."""
    forms = {
        form.title: {
            "variation": form.variation,
            "form": form.name,
            "columns": {name: dict(tallies[form.title][name]) for name in asked.columns()},
        }
        for form in asked.forms()
    }
    whole = {"extent": extent(asked), "forms": forms, "worst": [*last_lines(asked, tallies)]}
    return json.dumps(whole, indent=1, ensure_ascii=False)
