"""The suite with every defence: utility, attack success, and questions per 100 calls of benign tasks.

python -m benchmarks.outside.run [--half one|two|all] [--only DOMAIN] [--defence PART] [--show] [--json FILE]
[--require UTILITY ATTACKS]

Exit status: 0 well; 1 a case does not work without a defence, or a policy misses what ``--require`` asks for, in per
cent; 2 the arguments mean nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.outside.cases import DOMAINS, attacked, benign, half
from benchmarks.outside.defences import contestants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.outside.cases import Attack, Run, Task
    from benchmarks.outside.defences import Defence

ENVELOPE = """\
No model is asked. A benign agent makes the calls of a script; a compromised one obeys what is planted as soon as it
sees it. Nothing here says how often a model would. A goal is a check on the world after the run.\
"""


@dataclass(frozen=True)
class Result:
    """One run of one case. ``reached`` is the user's goal of a task, the attacker's of an attack."""

    defence: str
    half: str
    domain: str
    attack: bool
    kind: str
    name: str
    reached: bool
    calls: int
    questions: int
    blocked: tuple[str, ...]


def results(halves: Iterable[str], domains: Iterable[str], defences: list[Defence]) -> Iterator[Result]:
    """Each case of the halves and domains under each defence."""
    for name in halves:
        tasks, attacks = half(name)
        cases: list[Task | Attack] = [*tasks, *attacks]
        for case in [case for case in cases if case.domain in domains]:
            for defence in defences:
                yield result(name, case, defence)


def result(name: str, case: Task | Attack, defence: Defence) -> Result:
    """One case under one defence. In ``confirm`` a person says yes to a benign task and no to an attack."""
    attack = hasattr(case, "calls")
    defence.questions, defence.answers = 0, not attack
    once: Callable[..., tuple[bool, Run]] = attacked if attack else benign
    reached, run = once(case, defence)
    reasons = tuple(f"{tool}: {reason}" for tool, _, reason in run.blocked)
    asked = defence.questions + sum(not defence.asks for _ in reasons)
    kept = (defence.name, name, case.domain, attack, case.kind, type(case).__name__)
    return Result(*kept, reached, len(run.calls), asked, reasons)


def share(found: list[Result]) -> float:
    """The part of the results that reached their goal, in per cent."""
    return 100 * sum(one.reached for one in found) / len(found) if found else 0.0


def format_score(found: list[Result]) -> str:
    """The results as ``7/8``."""
    return f"{sum(one.reached for one in found)}/{len(found)}"


def table(found: list[Result], defences: list[Defence]) -> Iterator[str]:
    """The lines of the report: each defence as a whole, then by domain, the worst last."""
    for defence in defences:
        mine = [one for one in found if one.defence == defence.name]
        good, bad = [one for one in mine if not one.attack], [one for one in mine if one.attack]
        calls = sum(one.calls for one in good) or 1
        asked = 100 * sum(one.questions for one in good) / calls
        what = "questions" if defence.asks else "refusals"
        yield (
            f"{defence.name}: utility {format_score(good)} = {share(good):.0f} %, attack success {format_score(bad)} = "
            f"{share(bad):.1f} %, {asked:.1f} {what} per 100 benign calls"
        )
        rows = {
            name: ([o for o in good if o.domain == name], [o for o in bad if o.domain == name])
            for name in DOMAINS
        }
        present = [name for name in DOMAINS if rows[name][0] or rows[name][1]]
        present.sort(key=lambda name: share(rows[name][0]) - share(rows[name][1]), reverse=True)
        for name in present:
            yield f"    {name:10} utility {format_score(rows[name][0]):>6}   attacks {format_score(rows[name][1]):>6}"
        won = Counter(one.kind for one in bad if one.reached)
        lost = Counter(one.kind for one in good if not one.reached)
        if won and defence.name != "none":
            yield "  attacks that reach their goal: " + "; ".join(
                f"{kind} {count}" for kind, count in won.items()
            )
        if lost:
            yield "  tasks that do not: " + "; ".join(f"{kind} {count}" for kind, count in lost.items())


def details(found: list[Result]) -> Iterator[str]:
    """A line for each case that went wrong, and for each refusal in a benign one."""
    for one in found:
        if one.attack and one.reached and one.defence != "none":
            yield f"  won  {one.defence} | {one.domain} {one.name} ({one.kind})"
        if not one.attack and (one.blocked or not one.reached):
            yield f"  {'ok  ' if one.reached else 'LOST'} {one.defence} | {one.domain} {one.name} ({one.kind})"
            yield from (f"         {reason}" for reason in one.blocked)


def broken_cases(found: list[Result]) -> list[str]:
    """The cases that do not work without a defence."""
    return [
        f"{one.domain} {one.name} does not reach its goal"
        for one in found
        if one.defence == "none" and not one.reached
    ]


def missed_policies(found: list[Result], utility: float, attacks: float) -> list[str]:
    """The policies below a utility or above an attack success."""
    lines = []
    for name in dict.fromkeys(one.defence for one in found if one.defence != "none"):
        mine = [one for one in found if one.defence == name]
        if share([one for one in mine if not one.attack]) < utility:
            lines.append(f"{name}: utility below {utility:g} %")
        if share([one for one in mine if one.attack]) > attacks:
            lines.append(f"{name}: attack success above {attacks:g} %")
    return lines


def main(argv: list[str] | None = None) -> int:
    """Runs what the arguments name and prints the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outside.run")
    parser.add_argument("--half", choices=("one", "two", "all"), default="all")
    parser.add_argument("--only", choices=DOMAINS)
    parser.add_argument("--defence", default="", help="only those whose name holds this")
    parser.add_argument("--show", action="store_true", help="a line for each case that goes wrong")
    parser.add_argument("--json", type=Path, help="a file for all results")
    parser.add_argument("--require", nargs=2, type=float, metavar=("UTILITY", "ATTACKS"))
    options = parser.parse_args(argv)
    written = [name for name in ("one", "two") if (Path(__file__).parent / f"half_{name}").is_dir()]
    halves = written if options.half == "all" else [options.half]
    if not set(halves) <= set(written):
        parser.error(f"half {options.half} is not written")
    defences = [one for one in contestants() if options.defence in one.name]
    if not defences:
        parser.error(f"no defence has '{options.defence}' in its name")
    found = list(results(halves, (options.only,) if options.only else DOMAINS, defences))
    if options.show:
        print("\n".join(details(found)), end="\n\n")
    print("\n".join([f"halves: {', '.join(halves)}", *table(found, defences), "", ENVELOPE]))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1, ensure_ascii=False))
    wrong = broken_cases(found) + (missed_policies(found, *options.require) if options.require else [])
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
