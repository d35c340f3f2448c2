"""Each mistake in a written plan is refused with its line and the correction."""

from __future__ import annotations

import pytest

from agentserver.provenance.policy.plan import PlanError, read_plan

STEPS = [
    ("a: b", "a plan is a list of steps: begin each with '- sink: NAME'"),
    ("- x", "a step is a mapping with 'sink'"),
    ("- {arguments: {}}", "a step has a 'sink', the name of a listener"),
    ("- {sink: s, arguments: [a]}", "'arguments' is a mapping of names to values"),
    ("- {sink: s, sinks: t}", "unknown key 'sinks'; did you mean 'sink'?"),
    ("- {sink: s, times: often}", "'times' is a positive whole number, not 'often'"),
]
ARGUMENTS = [
    ("", "nothing stands here; an argument is a value, a list, any, said"),
    ("{fields: x, of: y}", "unknown key 'fields'; did you mean 'field'?"),
    ("{is: ''}", "'is' is a text"),
    ("{is: b, of: c}", "unknown key 'of'; known are is"),
    ("{after: soon, from: said}", "'soon' is no duration; write '2 days' or 'PT90M'"),
    ("{after: 2 days}", "'after' needs 'from', the date that it counts from"),
    ("{field: x}", "'field' needs 'of', a listener or the number of a step"),
    ("{field: x, of: 2}", "there is no step 2; the plan has steps 1 to 1"),
    ("{field: x, of: y, where: [z]}", "'where' is a mapping of fields to values"),
    ("{field: x, of: y, where: {z: {has: any}}}", "'has' is a text, or a list of texts"),
    ("[[[[[[[[[b]]]]]]]]]", "more than 8 kinds inside one another"),
]


@pytest.mark.parametrize(
    ("text", "told"),
    [*STEPS, *((f"- {{sink: s, arguments: {{a: {argument}}}}}", told) for argument, told in ARGUMENTS)],
)
def test_a_mistake_is_named_with_its_line(text: str, told: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_plan(text, "p")
    assert str(caught.value).startswith("p:1: ")
    assert told in str(caught.value)


def test_invalid_yaml_is_no_plan() -> None:
    with pytest.raises(PlanError, match="p:1: a bracket is opened here and not closed"):
        read_plan("- [", "p")
