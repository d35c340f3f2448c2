"""``agentserver compare``: two conversations step by step, and the pure comparison under it."""

from __future__ import annotations

import json

import pytest

from agentserver.core.records.audit import AuditRecord, Event
from agentserver.trace.comparison import compare_records, pair_steps
from tests.cli.journals import verb


def key():
    return json.loads(verb("conversations", "--json").splitlines()[0])["id"]


def records(*amounts, code=""):
    pay = '<message xmlns="urn:agentserver:envelope:v1"><pay xmlns="urn:p"><to><iban>AT1</iban><sum>{}</sum></to></pay></message>'
    said = [pay.format(amount) for amount in amounts]
    return tuple(
        AuditRecord(
            Event.SENT,
            float(at),
            "c",
            "t",
            sender="clerk",
            to="bank",
            root="pay",
            code=code,
            message=text.encode(),
        )
        for at, text in enumerate(said)
    )


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ("abc", "abc", ["aa", "bb", "cc"]),
        ("abc", "ac", ["aa", "b-", "cc"]),
        ("", "a", ["-a"]),
        ("ab", "xb", ["a-", "-x", "bb"]),
    ],
)
def test_steps_are_paired_in_order(left, right, pairs):
    found = pair_steps(left, right, lambda one: one)
    assert ["".join(each or "-" for each in pair) for pair in found] == pairs


def test_a_conversation_is_the_same_as_itself(shop):
    output = verb("compare", key(), key())
    assert " 0 have other values, 0 are in one of them" in output
    assert output.count("\n") == 1
    assert "= sent clerk -> till" in verb("compare", key(), key()[:8], "--all")


def test_a_step_of_one_alone_is_no_change_of_values():
    pairs = compare_records(records("1"), records("1", "2"))
    assert [(one.left is None, one.fields) for one in pairs] == [(False, ()), (True, ())]


def test_fields_with_other_values_are_named_with_those_around_them():
    (first, second) = compare_records(records("1", "2"), records("1", "3"))
    assert first.fields == ()
    assert second.fields == (("to.sum", "2", "3"),)


def test_unknown_conversations_are_refused(shop):
    assert "no conversations begin with" in verb("compare", key(), "zz", status=2)
