"""The variations of AgentDojo: every form of every variation for every column, and the worst of each.

Owns the work of two processes, the table and the JSON of it. A row is a variation; where it has several forms, each of
its figures is the worst form's. Forms that change the attack alone have the benign figures of the plain form.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any

from agentdojo.task_suite.load_suites import get_suites

from benchmarks.agentdojo.contestants import COLUMNS, GENERAL, VERSION, columns
from benchmarks.agentdojo.measure import Side, Tally, attacked, attackers, benign
from benchmarks.agentdojo.variations.forms import PLAIN, Form, chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

WORKERS = 2
UNDEFENDED = "none"
QUICK_TASKS, QUICK_INJECTIONS = 8, 3
"""The short form takes every eighth user task and every third injection of each suite."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be measured.

    Args:
        variations: their names with commas between, or ``all``.
        suite: one suite, or all of them.
        only: parts of the names of columns with bars between; the columns of the report if left out.
        quick: a few tasks of each suite.
        show: whether each refused benign call and each attack that succeeds is printed.
    """

    variations: str
    suite: str | None = None
    only: str | None = None
    quick: bool = False
    show: bool = False

    def forms(self) -> list[Form]:
        """The plain form and those of the variations."""
        return chosen(self.variations)

    def tasks(self) -> list[tuple[str, str]]:
        """Suite and user task, the dearest suite first, so that two processes end together."""
        step = QUICK_TASKS if self.quick else 1
        suites = get_suites(VERSION).values()
        return [
            (suite.name, task)
            for suite in sorted(suites, key=lambda each: len(each.user_tasks), reverse=True)
            if self.suite in (None, suite.name)
            for task in [*suite.user_tasks][::step]
        ]

    def injections(self, suite: str) -> list[Any]:
        """The injections of a suite that ask for calls."""
        whole = get_suites(VERSION)[suite].injection_tasks.values()
        known = [each for each in whole if each.ID in attackers(suite)]
        return known[:: QUICK_INJECTIONS if self.quick else 1]

    def columns(self) -> list[str]:
        """The names of the defences."""
        wanted = self.only.split("|") if self.only else None
        names = [defence.name for defence in columns(PLAIN.guise)]
        return [
            name for name in names if (any(each in name for each in wanted) if wanted else name in COLUMNS)
        ]


Counts = dict[str, dict[str, dict[str, int]]]
"""By form and column the counts."""


@cache
def sides(asked: Asked) -> list[tuple[Form, Any]]:
    """Each form with its defences, made once in a process."""
    names = asked.columns()
    return [(form, [one for one in columns(form.guise) if one.name in names]) for form in asked.forms()]


def measured(work: tuple[Asked, str, str]) -> tuple[str, Counts]:
    """One user task: its name and what was counted."""
    asked, suite_name, task_name = work
    suite = get_suites(VERSION)[suite_name]
    task = suite.user_tasks[task_name]
    here: list[Side] = [(*side, defaultdict(Counter)) for side in sides(asked)]
    benign(suite, task, [side for side in here if not side[0].attack_alone], show=asked.show)
    for injection in asked.injections(suite_name):
        attacked(suite, task, injection, here, show=asked.show)
    counts = {form.title: {name: dict(count) for name, count in tally.items()} for form, _, tally in here}
    return f"{suite_name} {task_name}", counts


def results(asked: Asked) -> dict[str, Tally]:
    """By form the counts of every column. Progress goes to the standard error."""
    tallies: dict[str, Tally] = {form.title: defaultdict(Counter) for form in asked.forms()}
    works = [(asked, *task) for task in asked.tasks()]
    began = monotonic()
    with multiprocessing.get_context("spawn").Pool(min(WORKERS, len(works))) as pool:
        for number, (name, counts) in enumerate(pool.imap_unordered(measured, works), 1):
            for title, columns_ in counts.items():
                for column, count in columns_.items():
                    tallies[title][column].update(count)
            print(f"  {number}/{len(works)} {name}, {monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    plain = tallies[PLAIN.title]
    for form in asked.forms():
        if form.attack_alone:
            for column, count in tallies[form.title].items():
                shared = {key: n for key, n in plain[column].items() if key.endswith(BENIGN)}
                count.update(shared)
    return tallies


BENIGN = ("tasks", "utility", "calls", "questions")
"""The last words of what is counted in benign runs."""


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
    """What was run, in a line."""
    tasks = asked.tasks()
    pairs = sum(len(asked.injections(suite)) for suite, _ in tasks)
    policy = GENERAL
    part = (
        f"SHORT FORM, every {QUICK_TASKS}th task and {QUICK_INJECTIONS}rd injection: " if asked.quick else ""
    )
    return (
        f"{part}{len(tasks)} tasks, {pairs} attacked pairs, {len(asked.forms())} forms; policy {policy.name}"
    )


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


def report(
    asked: Asked,
    shown: Callable[[list[list[str]]], str],
    file: Path | None,
    required: tuple[float, float] | None,
) -> list[str]:
    """Measures, prints the table and the worst, writes the file if asked, and gives what misses the requirement."""
    tallies = results(asked)
    print(shown(table(asked, tallies)))
    print(f"\n{extent(asked)}")
    if file:
        file.write_text(as_json(asked, tallies), "utf-8")
    for line in last_lines(asked, tallies):
        print(line)
    return [*misses(asked, tallies, *required)] if required else []
