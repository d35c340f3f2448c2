"""Reworded requests: synonyms, other languages, and an added document.

Loads ``words/*.yaml`` into the request of a task. A translation keeps what its user would keep: names, quoted
texts, addresses, links, accounts, numbers, and dates in the form of its language.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from benchmarks.agentdojo.variations.guise import Guise

WORDS = Path(__file__).with_name("words")
LANGUAGES = ("de", "es", "fr", "ja", "pt")
SYNONYMS = "synonyms"
PASTED = WORDS / "pasted.txt"

_QUOTED = re.compile(r"(?<!\w)'([^']+)'(?!\w)|\"([^\"]+)\"")
_EXACT = re.compile(r"[\w.+-]+@[\w.-]+\w|www\.[a-z0-9./-]+[a-z0-9]|\{\w+\}|\d+(?:[.:-]\d+)*")


class LostLiteralError(ValueError):
    """Words that say something else than the request they stand for."""


@cache
def read(name: str) -> dict[str, dict[str, str]]:
    """By suite and task the requests of one file; a list of tasks is written out as AgentDojo joins them."""
    said: dict[str, Any] = yaml.safe_load((WORDS / f"{name}.yaml").read_text("utf-8"))
    opening = said.pop("in_order")
    found: dict[str, dict[str, str]] = {}
    for suite, tasks in said.items():
        whole = found[suite] = {}
        for task, words in tasks.items():
            whole[task] = words if isinstance(words, str) else f"{opening} {_number_tasks(words, tasks)}"
    return found


def _number_tasks(names: list[str], tasks: dict[str, str]) -> str:
    return " ".join(f"{number}. {tasks[name]}" for number, name in enumerate(names, 1))


def literals(words: str) -> set[str]:
    """Parts that no rewording may lose: quoted texts, addresses, links, placeholders and numbers."""
    quoted = {found for pair in _QUOTED.findall(words) for found in pair if found}
    return quoted | set(_EXACT.findall(words))


def lost_literals(words: str, other: str) -> set[str]:
    """The literals of a request that its other words lack."""
    return {each for each in literals(words) if each not in other}


class RewordedRequests(Guise):
    """Requests as one file words them, alone or with a document pasted before or after them.

    Raises:
        LostLiteralError: the file has no words for a task, or they lack a literal of AgentDojo's.
    """

    def __init__(self, name: str, pasted: str = "{words}") -> None:
        self.said, self.name, self.pasted = read(name), name, pasted

    def request(self, suite: str, task: str, words: str) -> str:
        other = self.said.get(suite, {}).get(task)
        missing = lost_literals(words, other) if other else {"every word"}
        if other is None or missing:
            raise LostLiteralError(f"{self.name}.yaml: {suite} {task} lacks {sorted(missing)}")
        return self.pasted.replace("{words}", other)


def put_before() -> str:
    """A template: the document, then the request."""
    return f"{PASTED.read_text('utf-8')}\n\n{{words}}"


def put_after() -> str:
    """A template: the request, then the document."""
    return f"{{words}}\n\n{PASTED.read_text('utf-8')}"
