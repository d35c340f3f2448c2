"""Names as words of subjects."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.broker.permissions import configuration, user_of
from agentserver.broker.words import Subjects, word
from agentserver.config.keys.fields import NAME_PATTERN

names = st.from_regex(re.compile(NAME_PATTERN.removesuffix("$") + r"\Z", re.ASCII))
TOKEN = re.compile(r"[A-Za-z0-9_-]+")


def matches(subject: str, pattern: str) -> bool:
    """Whether a pattern of the broker's takes a subject."""
    tokens, wanted = subject.split("."), pattern.split(".")
    if wanted[-1] == ">":
        return len(tokens) >= len(wanted) and tokens[: len(wanted) - 1] == wanted[:-1]
    return tokens == wanted


@given(names, names)
def test_no_two_names_share_a_word(one, other):
    assert (word(one) == word(other)) == (one == other)
    assert TOKEN.fullmatch(word(one))


@given(names, names, names)
def test_no_listener_may_speak_pull_acknowledge_or_hear_as_another(organism, one, other):
    subjects = Subjects(organism)
    both = one == other
    assert matches(subjects.done(other, "s", "c"), subjects.said(one)) == both
    assert matches(f"{subjects.inbox(other)}.x", f"{subjects.inbox(one)}.>") == both
    assert matches(subjects.ticket(other, "s", "c"), subjects.of_listener(one)) == both
    assert (subjects.pull(other) == subjects.pull(one)) == both
    assert (subjects.acks(other) == subjects.acks(one)) == both
    assert not matches(subjects.done(other, "s", "c"), subjects.tickets)


@given(names, names, names)
def test_no_organism_hears_another(one, other, listener):
    assert matches(Subjects(other).done(listener, "s", "c"), Subjects(one).said(listener)) == (one == other)
    assert (Subjects(one).stream == Subjects(other).stream) == (one == other)


def test_a_dotted_name_is_one_word():
    assert word("calculator.add") == "calculator_-add"
    assert Subjects("hello").said("calculator.add") == "as.hello.done.calculator_-add.>"


@pytest.mark.parametrize("name", ["", "a b", "a*", ">", "a\n", "ä"])
def test_what_is_no_name_has_no_word(name):
    with pytest.raises(ValueError, match="is no name"):
        word(name)


def test_the_configuration_of_an_organism():
    passwords = {user_of("hello", name): f"${name}" for name in (None, "calculator", "calculator.add")}
    assert (
        configuration("hello", ["calculator.add", "calculator"], passwords)
        == """\
accounts {
  "hello": {
    jetstream: enabled
    users: [{user: "hello", password: "$None"}]
    exports: [
      {service: "$JS.API.CONSUMER.MSG.NEXT.AS_WORK_hello.calculator", response_type: stream, accounts: ["hello/calculator"]}
      {service: "$JS.ACK.AS_WORK_hello.calculator.>", accounts: ["hello/calculator"]}
      {service: "as.hello.done.calculator.>", accounts: ["hello/calculator"]}
      {service: "$JS.API.CONSUMER.MSG.NEXT.AS_WORK_hello.calculator_-add", response_type: stream, accounts: ["hello/calculator_-add"]}
      {service: "$JS.ACK.AS_WORK_hello.calculator_-add.>", accounts: ["hello/calculator_-add"]}
      {service: "as.hello.done.calculator_-add.>", accounts: ["hello/calculator_-add"]}
    ]
  }
  "hello/calculator": {
    users: [
      {user: "hello/calculator", password: "$calculator", permissions: {
        publish: {allow: ["as.hello.done.calculator.>", "$JS.API.CONSUMER.MSG.NEXT.AS_WORK_hello.calculator", "$JS.ACK.AS_WORK_hello.calculator.>"]}
        subscribe: {allow: ["as.hello.inbox.calculator.>"]}
      }}
    ]
    imports: [
      {service: {account: "hello", subject: "as.hello.done.calculator.>"}}
      {service: {account: "hello", subject: "$JS.API.CONSUMER.MSG.NEXT.AS_WORK_hello.calculator"}}
      {service: {account: "hello", subject: "$JS.ACK.AS_WORK_hello.calculator.>"}}
    ]
  }
  "hello/calculator_-add": {
    users: [
      {user: "hello/calculator.add", password: "$calculator.add", permissions: {
        publish: {allow: ["as.hello.done.calculator_-add.>", "$JS.API.CONSUMER.MSG.NEXT.AS_WORK_hello.calculator_-add", "$JS.ACK.AS_WORK_hello.calculator_-add.>"]}
        subscribe: {allow: ["as.hello.inbox.calculator_-add.>"]}
      }}
    ]
    imports: [
      {service: {account: "hello", subject: "as.hello.done.calculator_-add.>"}}
      {service: {account: "hello", subject: "$JS.API.CONSUMER.MSG.NEXT.AS_WORK_hello.calculator_-add"}}
      {service: {account: "hello", subject: "$JS.ACK.AS_WORK_hello.calculator_-add.>"}}
    ]
  }
}
"""
    )
