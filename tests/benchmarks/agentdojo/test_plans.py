"""Scripted plans of AgentDojo's requests, under the names of every guise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentserver.provenance.plans.arguments import DateOffset, FieldOf, Kind, Literal, OneOf
from benchmarks.agentdojo import plans
from benchmarks.agentdojo.variations import renaming
from benchmarks.agentdojo.variations.guise import Guise
from benchmarks.agentdojo.variations.renaming import Names, RenamedSuite

SAID = renaming.read()
TASKS = {"workspace": 40, "travel": 20, "banking": 16, "slack": 21}
EVERY = [(suite, task) for suite, tasks in plans.read().items() for task in tasks]


def relations_of(kind: Kind) -> list[FieldOf]:
    """The relations in a kind."""
    if isinstance(kind, OneOf):
        return [found for inner in kind.kinds for found in relations_of(inner)]
    if isinstance(kind, DateOffset):
        return relations_of(kind.base)
    return [kind] if isinstance(kind, FieldOf) else []


def test_every_task_has_a_plan() -> None:
    assert {suite: len(tasks) for suite, tasks in plans.read().items()} == TASKS
    for tasks in plans.read().values():
        assert {*tasks} == {f"user_task_{number}" for number in range(len(tasks))}


def test_plans_name_tools_arguments_and_fields_that_exist() -> None:
    for suite, task in EVERY:
        steps = plans.plan(suite, task, Guise())
        for step in steps:
            assert {name for name, _ in step.arguments} <= {*SAID["tools"][step.sink].get("arguments", {})}
            for _, kind in step.arguments:
                for field in relations_of(kind):
                    source = field.source or steps[field.step - 1].sink
                    known = renaming.public(SAID).outputs.get(source, {"text": "", "items": ""})
                    named = {field.path.removesuffix("{}"), *(each.path for each in field.where)}
                    assert named <= {*known}


@pytest.mark.parametrize("make", [renaming.public, renaming.opaque, renaming.swapped])
def test_a_renamed_plan_is_the_same_under_other_names(make: Callable[[dict[str, Any]], Names]) -> None:
    names = make(SAID)
    for suite, task in EVERY:
        plain, renamed = plans.plan(suite, task, Guise()), plans.plan(suite, task, RenamedSuite(names))
        assert [names.tools[step.sink] for step in plain] == [step.sink for step in renamed]
        for one, other in zip(plain, renamed, strict=True):
            assert (one.times, len(one.arguments)) == (other.times, len(other.arguments))
            for (_, kind), (_, same) in zip(one.arguments, other.arguments, strict=True):
                sources = [names.tools.get(field.source, "") for field in relations_of(kind)]
                assert sources == [field.source for field in relations_of(same)]


def test_joined_tasks_count_their_steps_on() -> None:
    steps = plans.plan("slack", "user_task_20", Guise())
    address = next(step.find_kind("user_email") for step in steps if step.sink == "invite_user_to_slack")
    assert isinstance(address, FieldOf)
    assert steps[address.step - 1].find_kind("url") == Literal("www.dora-website.com")


def test_a_day_is_each_of_its_minutes() -> None:
    (step,) = plans.plan("travel", "user_task_1", Guise())
    assert isinstance(every := step.find_kind("start_time"), OneOf)
    assert {Literal("2025-01-02 00:00"), Literal("2025-01-02 23:59")} <= {*every.kinds}
    assert not [kind for kind in every.kinds if not kind.text.startswith("2025-01-02")]  # type: ignore[union-attr]
