"""Compares the journal with the answers that clients got, in counts."""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentserver import config
from agentserver.assembly import build, describe_postgres_options
from agentserver.core.records.audit import Event
from agentserver.history.replay import replay
from tests.crash.books import check_answers, check_steps, check_tree, collect_keys
from tests.crash.cluster.organism import MODULE

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.engines.journal.reader import Reader
    from tests.crash.cluster.clients import Promises


@dataclass
class Verdict:
    """The counts of a run. Everything in ``bad`` has to be 0."""

    bad: Counter = field(default_factory=Counter)
    good: Counter = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)

    def blame(self, name: str, *details: str) -> None:
        """Count what must not be."""
        self.bad[name] += len(details)
        self.details.extend(f"{name}: {one}" for one in details)

    @property
    def passed(self) -> bool:
        return not any(self.bad.values())


NAMES = (
    "accepted messages lost",
    "conversations lost",
    "steps twice",
    "messages done twice",
    "callers left waiting",
    "replay deviates",
    "seal broken",
    "approvals answered twice",
    "not at rest",
    "other faults",
)


def rules_of(home: Path, **environ: str) -> tuple[Any, Any]:
    """The rules of the organism, and its organism."""
    sys.modules.pop(MODULE, None)
    organism = config.load(home / "organism.yaml", environ={**os.environ, **environ})
    return build(organism).rules, organism


def judge(home: Path, promises: Promises, url: str) -> Verdict:
    """Read everything, and count."""
    from agentserver.engines.postgres.operations import reading

    rules, organism = rules_of(home, DATABASE_URL=url)
    verdict = Verdict(Counter(dict.fromkeys(NAMES, 0)))
    with reading(describe_postgres_options(organism.engine), rules.guards) as reader:
        _compare(reader, rules, promises, verdict)
    verdict.blame("messages done twice", *find_repeated(home / "calls.log"))
    return verdict


def find_repeated(log: Path) -> list[str]:
    """Find texts that came to a listener in more than one delivery: each was sent as one message."""
    found: dict[tuple[str, str], set[str]] = {}
    for line in log.read_text("utf-8").splitlines():
        _, listener, delivery, text = line.split()
        found.setdefault((listener, text), set()).add(delivery)
    return [f"{text} at {listener}: {ids}" for (listener, text), ids in found.items() if len(ids) > 1]


def _compare(reader: Reader, rules: Any, promises: Promises, verdict: Verdict) -> None:
    requests: set[str] = set()
    ended: set[str] = set()
    answered: set[str] = set()
    handled: Counter = Counter()
    keys: dict[str, str] = {}
    opened = set()
    for summary in reader.conversations():
        opened.add(summary.id)
        _look(reader, rules, summary, verdict, (requests, ended, answered, handled, keys))
    lost = set(promises.accepted) - requests
    verdict.blame("conversations lost", *(promises.opened - opened))
    verdict.blame("accepted messages lost", *(f"{one} of {promises.accepted[one]}" for one in lost))
    verdict.blame("steps twice", *(str(key) for key, count in handled.items() if count > 1))
    verdict.blame("callers left waiting", *promises.waiting)
    verdict.blame("not at rest", *(requests - ended))
    verdict.blame("other faults", *promises.faults)
    verdict.good.update(
        accepted=len(promises.accepted), under_an_id=len(promises.keyed), requests=len(requests),
        approvals=len(answered), handled=sum(handled.values()),
    )  # fmt: skip
    again = [one for one, count in promises.decided.items() if count > 1]
    verdict.blame("approvals answered twice", *again)


def _look(reader: Reader, rules: Any, summary: Any, verdict: Verdict, found: Any) -> None:
    requests, ended, answered, handled, keys = found
    story = reader.recorded_conversation(summary.id)
    verdict.good["conversations"] += 1
    verdict.good["steps"] += len(story.steps)
    if reader.find_altered(story) is not None:
        verdict.blame("seal broken", summary.id)
    deviation = replay(story, rules)
    if deviation is not None:
        verdict.blame("replay deviates", f"{summary.id}: {deviation}")
    handled.update(one.delivery for one in story.records() if one.event is Event.HANDLED)
    try:
        check_steps(story, summary, requests, ended, Counter(), set())
        check_answers(story, answered)
        collect_keys(story, keys, rules)
        check_tree(reader, summary, at_rest=True)
    except AssertionError as error:
        verdict.blame("other faults", f"{summary.id}: {error}")
