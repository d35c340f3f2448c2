"""Scripted plans: one for each of the 97 requests, from the request and the tools' documentation alone.

Owns the way from ``plans.yaml`` to steps of the engine, under the names of a guise. Independent of AgentDojo and the
calls that solve a task.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from agentserver.provenance.policy.plan import read_plan

if TYPE_CHECKING:
    from agentserver.provenance.plans.arguments import AllowedStep
    from benchmarks.agentdojo.variations.guise import Guise

PLANS = Path(__file__).with_name("plans.yaml")
YEARS = (2023, 2024, 2025, 2026)
"""The years that a day without one may be in."""

Step = dict[str, Any]


class _Texts(yaml.SafeLoader):
    """Every scalar as it is written: a date or a number is a text, as in a plan file."""


_Texts.yaml_implicit_resolvers = {
    letter: [pair for pair in pairs if pair[0] == "tag:yaml.org,2002:merge"]
    for letter, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@cache
def read() -> dict[str, dict[str, list[Step]]]:
    """By suite and task the steps as a plan file has them, tasks that join others and short forms written out."""
    said = yaml.load(PLANS.read_text("utf-8"), _Texts)
    return {
        suite: {
            task: [_written_out(step) for step in _join_steps(entry, tasks)] for task, entry in tasks.items()
        }
        for suite, tasks in said.items()
    }


def plan(suite: str, task: str, guise: Guise) -> tuple[AllowedStep, ...]:
    """The steps for the request of a task. Raises LookupError for a task without a plan."""
    return _steps(json.dumps(guise.plan(read()[suite][task]), ensure_ascii=False), f"{suite} {task}")


@cache
def _steps(text: str, name: str) -> tuple[AllowedStep, ...]:
    """The steps of a plan file, each text read once: guises that change nothing in it share them."""
    return read_plan(text, name)


def _join_steps(entry: list[Any], tasks: dict[str, list[Any]]) -> list[Step]:
    """The steps of an entry; where it names tasks, theirs, with the numbers of steps counted on."""
    found: list[Step] = []
    for item in entry:
        found += (
            _shift_counts(_join_steps(tasks[item], tasks), len(found)) if isinstance(item, str) else [item]
        )
    return found


def _shift_counts(value: Any, by: int) -> Any:
    if isinstance(value, list):
        return [_shift_counts(item, by) for item in value]
    if isinstance(value, dict):
        return {
            key: str(int(item) + by) if key == "of" and str(item).isdigit() else _shift_counts(item, by)
            for key, item in value.items()
        }
    return value


def _written_out(value: Any) -> Any:
    """A step, or a part of one, with its short forms written out."""
    if isinstance(value, list):
        return [_written_out(item) for item in value]
    if not isinstance(value, dict):
        return value
    if {*value} == {"on"}:
        return _minutes(value["on"])
    if isinstance(value.get("of"), list):
        return [_written_out({**value, "of": listener}) for listener in value["of"]]
    return {key: _written_out(item) for key, item in value.items()}


def _minutes(day: str) -> list[str]:
    """Every minute of a day, and the day itself."""
    days = [day] if day.count("-") > 1 else [f"{year}-{day}" for year in YEARS]
    return [f"{each}{clock}" for each in days for clock in ("", *_CLOCKS)]


_CLOCKS = tuple(f" {hour:02}:{minute:02}" for hour in range(24) for minute in range(60))
