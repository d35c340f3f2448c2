"""A policy remembers its entries about a listener; names that an agent makes up do not make it grow."""

from __future__ import annotations

from dataclasses import replace

from agentserver.provenance.evidence.labels import Leaf, Standing
from agentserver.provenance.policy.declarations import FieldRule, Policy, SinkRule

POLICY = Policy(
    sources=("read_*",), sinks=(SinkRule("send"),), fields=(FieldRule("read_*", "id", Standing.DIRECTORY),)
)


def test_a_repeated_declaration_of_a_listener_is_the_same_object() -> None:
    asked = [(POLICY.classify(name), POLICY.sink_rule(name)) for name in ("read_mail", "send_mail", "else")]
    assert asked == [
        (POLICY.classify(name), POLICY.sink_rule(name)) for name in ("read_mail", "send_mail", "else")
    ]
    leaf = Leaf("id", "kim@example.com")
    assert POLICY.field_rule("read_mail", leaf) == POLICY.field_rule("read_mail", leaf) == POLICY.fields[0]
    assert POLICY.field_rule("send_mail", leaf) is None


def test_a_policy_derived_from_another_has_no_memory_of_it() -> None:
    assert POLICY.classify("send").sink
    assert POLICY.sink_rule("send") is not None
    other = replace(POLICY, sinks=(), sources=("send",))
    assert other.sink_rule("send") is None
    assert not other.classify("send").sink
    assert other.classify("send").source


def test_names_that_an_agent_makes_up_do_not_grow_a_policy() -> None:
    policy = replace(POLICY)
    for number in range(10_000):
        assert policy.sink_rule(f"send_{number}") is policy.sinks[0]
        assert policy.classify(f"made up {number}").known is False
    assert len(policy._sinks) == len(policy._classes) == 4_096


def test_equal_policies_stay_equal_whatever_was_asked() -> None:
    asked = replace(POLICY)
    asked.classify("read_mail")
    assert asked == replace(POLICY)
    assert repr(asked) == repr(replace(POLICY))
