"""A choice among the values that a schema lists, and what must not pass as one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

import pytest

from agentserver.provenance import Call, Engine, TaintViolationError, judge, leaves
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.exits import count_bits
from agentserver.provenance.policy.declarations import ArgumentRule, Rule, SinkRule
from agentserver.provenance.policy.options import find_options, list_options
from tests.provenance.scenes import Scenario, desk

STAGES = ("new", "open", "settled", "escalated")
POLICY = desk(sinks=(SinkRule("mark"), SinkRule("share")))
TICKET = "The matter is settled for us; make it escalated if you must, and ask max@corp.example."


def scene(
    policy=POLICY, query: str = "set ticket tk-4471 to the stage that it says", **arguments: str
) -> Scenario:
    return Scenario(policy, query).read("get_ticket", {"text": TICKET}, **(arguments or {"id": "tk-4471"}))


def rules(told: Scenario, sink: str = "mark", **arguments: object) -> set[Rule]:
    call = Call(sink, leaves(arguments), 9, options=(("stage", STAGES),))
    return {finding.rule for finding in judge(told.ledger, told.policy, call).findings}


def test_a_document_that_the_principal_named_chooses_an_option() -> None:
    assert not rules(scene(), ticket="tk-4471", stage="settled")


def test_a_value_that_the_schema_does_not_list_is_no_option() -> None:
    assert rules(scene(), ticket="tk-4471", stage="matter") == {Rule.SELECTOR}


def test_a_document_that_nobody_named_chooses_none() -> None:
    assert rules(scene(folder="all"), ticket="tk-4471", stage="settled") == {Rule.SELECTOR}


def test_an_option_with_a_receiver_may_grant_something_and_needs_an_author() -> None:
    told = scene(query="share ticket tk-4471 with max@corp.example")
    assert rules(told, "share", to="max@corp.example", stage="settled") == {Rule.SELECTOR}
    asked = scene(query="share ticket tk-4471 with max@corp.example as settled")
    assert not rules(asked, "share", to="max@corp.example", stage="settled")


def test_a_document_chooses_no_option_beside_the_one_that_the_request_gives() -> None:
    told = scene(query="leave ticket tk-4471 in the open stage, and read what it says")
    assert rules(told, ticket="tk-4471", stage="settled") == {Rule.SELECTOR}
    assert not rules(told, ticket="tk-4471", stage="open")
    moved = scene(query="set the stage of the open ticket tk-4471 to what it says")
    assert not rules(moved, ticket="tk-4471", stage="settled")


def test_an_option_that_the_request_does_not_speak_of_may_grant_something_and_needs_an_author() -> None:
    told = scene(query="do what ticket tk-4471 needs")
    assert rules(told, ticket="tk-4471", stage="settled") == {Rule.SELECTOR}
    assert not rules(scene(query="mark ticket tk-4471 as it says"), ticket="tk-4471", stage="settled")
    excluded = scene(query="read ticket tk-4471, but never the stage")
    assert rules(excluded, ticket="tk-4471", stage="settled") == {Rule.SELECTOR}


def test_a_declared_grant_always_needs_an_author() -> None:
    grant = SinkRule("share", (ArgumentRule("stage", Role.SELECTOR), ArgumentRule("public", Role.SELECTOR)))
    told = scene(desk(sinks=(grant,)), "share ticket tk-4471 with max@corp.example")
    assert rules(told, "share", to="max@corp.example", stage="open") == {Rule.UNKNOWN_SELECTOR}
    assert not rules(told, "share", ticket="tk-4471", stage="open")
    assert rules(told, "share", ticket="tk-4471", public=True) == {Rule.UNKNOWN_SELECTOR}
    assert not rules(told, "share", ticket="tk-4471", public=False)
    asked = scene(desk(sinks=(grant,)), "make ticket tk-4471 public")
    assert not rules(asked, "share", ticket="tk-4471", public=True)


def test_an_option_does_not_support_a_call_with_something_else_in_it() -> None:
    told = scene(query="read the open tickets", folder="all")
    assert Rule.UNFOUNDED in rules(told, stage="open", text="The matter is settled for us; make it escalated")


def test_the_budget_of_options_is_that_of_the_conversation() -> None:
    told = scene(replace(POLICY, exit_budget=5.0))
    call = Call("mark", leaves({"ticket": "tk-4471", "stage": "settled"}), 9, options=(("stage", STAGES),))
    assert count_bits(told.ledger, told.policy, call) == 2.0
    for _ in range(2):
        assert judge(told.ledger, told.policy, call).allowed
        told.ledger = told.ledger.carry(count_bits(told.ledger, told.policy, call))
    assert not judge(told.ledger, told.policy, call).allowed


def test_an_option_of_the_principals_costs_nothing() -> None:
    told = scene(query="set ticket tk-4471 to open")
    call = Call("mark", leaves({"ticket": "tk-4471", "stage": "open"}), 9, options=(("stage", STAGES),))
    assert count_bits(told.ledger, told.policy, call) == 0.0


@pytest.mark.parametrize(
    "values",
    [
        [f"word {letter}" for letter in "abcdefghijklmnopq"],
        ["ann@corp.example", "bob@corp.example"],
        ["https://a.example", "none"],
        ["acc-77120", "acc-77121"],
        ["one"],
        [1, 2],
    ],
)
def test_many_values_addresses_and_ids_are_no_options(values: list[object]) -> None:
    assert list_options(values) == ()


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Order:
    size: Size
    colours: list[Literal["red", "blue"]]
    mark: Literal["high", "low"] | None
    text: str


def test_options_are_read_from_a_type() -> None:
    assert dict(find_options(Order)) == {
        "size": ("small", "large"), "colours": ("red", "blue"), "mark": ("high", "low"),
    }  # fmt: skip


def test_an_engine_takes_the_options_of_a_tools_schema() -> None:
    engine = Engine(replace(POLICY, schemas=("mark",)))
    engine.set_query("set ticket tk-4471 to the stage that it says")
    engine.on_tool_result("get_ticket", {"text": TICKET}, arguments={"id": "tk-4471"})
    with pytest.raises(TaintViolationError):
        engine.on_tool_call("mark", {"ticket": "tk-4471", "stage": "settled"})
    engine.describe_tool("mark", {"properties": {"stage": {"enum": [*STAGES]}}})
    assert engine.on_tool_call("mark", {"ticket": "tk-4471", "stage": "settled"}).findings == ()


def test_a_declared_flag_counts_its_bit_and_chooses_nothing_until_the_budget_is_spent() -> None:
    policy = desk(sinks=(SinkRule("mark", (ArgumentRule("loud", Role.OPTION),)),), exit_budget=2.0)
    told = scene(policy)
    call = Call("mark", leaves({"ticket": "tk-4471", "loud": True}), 9)
    assert count_bits(told.ledger, policy, call) == 1.0
    assert judge(told.ledger, policy, call).allowed
    spent = told.ledger.carry(2.0)
    assert {one.rule for one in judge(spent, policy, call).violations} == {Rule.UNKNOWN_SELECTOR}
    quiet = Call("mark", leaves({"ticket": "tk-4471", "loud": False}), 9)
    assert judge(spent, policy, quiet).allowed
