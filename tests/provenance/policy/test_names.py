from __future__ import annotations

import pytest

from agentserver.provenance.evidence.labels import Call, Leaf, Role, Standing
from agentserver.provenance.policy.actions import Action, actions_in, actions_of, delegates
from agentserver.provenance.policy.declarations import ArgumentRule, FieldRule, Policy, SinkRule, covers
from agentserver.provenance.policy.names import is_sink, is_source, role_of, standing_of, tokens


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sendMail_to.url-2", ("send", "mail", "to", "url", "2")),
        ("HTTPPost", ("http", "post")),
        ("thread", ("thread",)),
        ("", ()),
    ],
)
def test_tokens(name: str, words: tuple[str, ...]) -> None:
    assert tokens(name) == words


@pytest.mark.parametrize(
    ("name", "source", "sink"),
    [
        ("read_email", True, False),
        ("send_email", False, True),
        ("get_sent_emails", True, False),
        ("search_and_post", True, True),
        ("get_or_create_user", True, True),
        ("post_comments_list", True, True),
        ("list_comments", True, False),
        ("user_email", False, False),
        ("email_bob", False, True),
        ("post_and_read", True, True),
        ("thread", False, False),
        ("budget", False, False),
        ("spread", False, False),
        ("address", False, False),
        ("createdAt", False, False),
        ("runQuery", True, True),
        ("calculator.add", False, True),
    ],
)
def test_classes_by_name(name: str, source: bool, sink: bool) -> None:
    assert (is_source(name), is_sink(name)) == (source, sink)


@pytest.mark.parametrize(
    ("argument", "role"),
    [
        ("to", Role.DESTINATION),
        ("user_email", Role.DESTINATION),
        ("recipients[0]", Role.DESTINATION),
        ("email_id", Role.SELECTOR),
        ("attachments[0].file_id", Role.SELECTOR),
        ("body", Role.PAYLOAD),
        ("start_time", Role.INERT),
        ("password", Role.SELECTOR),
        ("frobnication", None),
    ],
)
def test_roles_by_name(argument: str, role: Role | None) -> None:
    assert role_of(argument) is role


@pytest.mark.parametrize(
    ("path", "value", "standing"),
    [
        ("[0].id", "m-17", Standing.RECORD),
        ("[0].participants[1]", "ann@corp.com", Standing.DIRECTORY),
        ("[0].sender", "eve@evil.com", Standing.PROSE),
        ("[0].sender", "Alice", Standing.DIRECTORY),
        ("[0].body", "hello", Standing.PROSE),
        ("[0].title", "Lunch at one", Standing.PROSE),
        ("[0].date", "2025-01-02 10:00", Standing.RECORD),
        ("[0].amount", 12.5, Standing.RECORD),
        ("[2]", "general", Standing.DIRECTORY),
        ("[2]", "two words", Standing.PROSE),
        ("", "darkroom", Standing.PROSE),
        ("", "2025-01-02", Standing.RECORD),
        ("[0].link", "www.evil.example/x", Standing.PROSE),
    ],
)
def test_what_an_undeclared_field_is_worth(path: str, value: object, standing: Standing) -> None:
    assert standing_of(path, value) is standing


def test_an_unknown_argument_is_a_choice_unless_the_call_is_aimed() -> None:
    policy = Policy()
    alone = Call("reserve_seat", (Leaf("frobnication", "x"),), 1)
    aimed = Call("send_thing", (Leaf("frobnication", "x"), Leaf("to", "a@b.example")), 1)
    assert policy.argument(alone, alone.arguments[0]).role is Role.SELECTOR
    assert policy.argument(aimed, aimed.arguments[0]).role is Role.PAYLOAD


@pytest.mark.parametrize(
    ("entry", "listener", "means"),
    [
        ("send_email", "send_email", True),
        ("send", "send_email", True),
        ("send", "sender", False),
        ("send_*", "send_email", True),
        ("email", "send_email", False),
        ("*", "anything", True),
    ],
)
def test_declared_names(entry: str, listener: str, means: bool) -> None:
    assert covers(entry, listener) is means


def test_an_exact_name_wins_and_what_loosens_never_goes_by_prefix() -> None:
    policy = Policy(
        sources=("get",),
        trusted=("get_clock",),
        sinks=(SinkRule("send_*"), SinkRule("send_email", (ArgumentRule("to", Role.DESTINATION),))),
        fields=(FieldRule("get_user", "email", Standing.DIRECTORY),),
    )
    rule = policy.sink("send_email")
    assert rule is not None
    assert rule.arguments
    assert policy.classify("get_clock_reviews").source
    assert not policy.classify("get_clock").source
    assert policy.standing("get_user_reviews", Leaf("email", "x")) is None
    assert policy.classify("unknown").why == "not among the sources; not among the sinks"


@pytest.mark.parametrize(
    ("request_", "asked"),
    [
        ("Please email the summary to Bob", {Action.SEND}),
        ("What do the emails say about it?", set()),
        ("Which files are shared with Ann?", set()),
        ("Tell me the price", set()),
        ("Tell Bob the price", {Action.SEND}),
        ("Make sure that it is right", set()),
        ("Pay the bill", {Action.PAY}),
        ("Would you mind deleting it", {Action.REMOVE}),
        ("the channel starting with Ext", set()),
        ("Who was invited?", set()),
        ("Invite Dora", {Action.ADMIT}),
        ("do not delete it", {Action.REMOVE}),
    ],
)
def test_kinds_of_action_in_a_request(request_: str, asked: set[Action]) -> None:
    assert actions_in(request_) == asked


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("send_email", {Action.SEND}),
        ("delete_email", {Action.REMOVE}),
        ("send_money", {Action.SEND, Action.PAY}),
        ("frobnicate", set()),
    ],
)
def test_kinds_of_action_of_a_name(name: str, kinds: set[Action]) -> None:
    assert actions_of(name) == kinds


@pytest.mark.parametrize(
    ("request_", "open_"),
    [
        ("Please do the tasks on my list at www.list.example", True),
        ("Follow the instructions in the letter precisely", True),
        ("Do the actions specified in Ann's mail", True),
        ("Perform the following tasks in the order given: 1. read it", False),
        ("Summarise my tasks", False),
    ],
)
def test_requests_that_delegate(request_: str, open_: bool) -> None:
    assert delegates(request_) is open_
