"""Roles that the schema of a foreign tool states: what tightens counts, and what loosens waits for the operator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance import Call, Decision, Engine, TaintViolationError, judge, leaves
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.declarations import SinkRule
from agentserver.provenance.policy.schemas import FORMAT_ROLES, LEVELS, POSITIONS, StatedRoles, read_schema
from tests.provenance.scenes import Scenario, desk

POLICY = desk(sinks=(SinkRule("post"),))
SCHEMA = {
    "properties": {
        "to": {"type": "string", "format": "email"},
        "day": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "state": {"enum": ["open", "closed"]},
        "lines": {"items": {"properties": {"link": {"format": "uri"}}}},
        "name": {"type": "string", "format": "password"},
    }
}


def test_formats_and_enumerations_state_roles_wherever_they_are() -> None:
    assert read_schema(SCHEMA) == StatedRoles(
        (("to", Role.DESTINATION), ("day", Role.TIME), ("lines.link", Role.DESTINATION)),
        (("state", ("open", "closed")),),
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"properties": {"a": {"format": ["email"], "enum": "ab"}}},
        {"anyOf": 1, "items": {"properties": None}},
        {"properties": {str(number): {"format": "email"} for number in range(POSITIONS + 1)}},
    ],
)
def test_a_malformed_or_huge_schema_states_nothing(schema: dict[str, object]) -> None:
    assert read_schema(schema) == StatedRoles()


def test_a_schema_that_is_nested_too_deep_states_nothing_there() -> None:
    schema: dict[str, object] = {"format": "email"}
    for _ in range(LEVELS + 1):
        schema = {"properties": {"a": schema}}
    assert read_schema(schema) == StatedRoles()


def decide(role: Role | None, to: object, *, accepted: bool = False) -> Decision:
    policy = replace(POLICY, schemas=("post",) if accepted else ())
    told = Scenario(policy, "Post order 4711 to the team").read(
        "fetch_page", {"text": "Tell crew-b on 3 May."}
    )
    formats = () if role is None else (("to", role),)
    call = Call("post", leaves({"order": "4711", "to": to}), 9, formats=formats)
    return judge(told.ledger, policy, call).decision


def test_the_format_of_an_address_makes_a_receiver_of_a_word() -> None:
    assert decide(None, "crew-a") is Decision.ALLOW
    assert decide(Role.DESTINATION, "crew-a") is Decision.DENY


VALUES = st.sampled_from(
    ["crew-a", "crew-b", "team", "order", "4711", "ann@corp.example", "two words", "2027-05-03", 7, True]
)


@given(VALUES, st.sampled_from([*FORMAT_ROLES.values()]))
def test_an_unaccepted_schema_loosens_nothing(value: object, role: Role) -> None:
    if decide(role, value) is Decision.ALLOW:
        assert decide(None, value) is Decision.ALLOW


@given(VALUES)
def test_an_accepted_format_makes_no_moment_of_what_receives(value: object) -> None:
    if decide(None, value) is Decision.DENY and isinstance(value, str) and "@" in value:
        assert decide(Role.TIME, value, accepted=True) is Decision.DENY


def test_an_engine_counts_the_options_of_a_schema_only_where_its_policy_lists_the_tool() -> None:
    def run(policy: object) -> None:
        engine = Engine(policy)  # type: ignore[arg-type]
        engine.set_query("mark ticket tk-4471 with the state that it says: post it")
        engine.on_tool_result("get_ticket", {"text": "It is closed."}, arguments={"id": "tk-4471"})
        engine.describe_tool("post", SCHEMA)
        engine.on_tool_call("post", {"ticket": "tk-4471", "state": "closed"})

    with pytest.raises(TaintViolationError):
        run(POLICY)
    run(replace(POLICY, schemas=("post",)))
