"""The principal's own word in another spelling: the same place by its parts, never by its looks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance.evidence.authority import find_tokens
from agentserver.provenance.evidence.destinations import (
    PlaceForm,
    find_recipients,
    fold_handle,
    fold_mailbox,
    parse_destination,
    strip_mark,
)
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.policy.declarations import ArgumentRule, FieldRule, Rule, SinkRule
from agentserver.provenance.request.trusted_words import TrustedWords
from tests.provenance.scenes import Scenario, desk


def names(request: str, place: str) -> bool:
    return TrustedWords().add(request).names(parse_destination(place))


@pytest.mark.parametrize(
    ("request_", "place"),
    [
        ("see www.x.example", "http://www.x.example"),
        ("see www.x.example/a", "https://www.X.example/a/"),
        ("see http://x.example/a", "https://x.example/a/"),
        ("read [the page](https://x.example/a) now", "https://x.example/a"),
        ("mail Bob<bob@x.example>", "Bob@x.example"),
        ("请把摘要发给bob@corp.com。", "bob@corp.com"),
        ("bob@corp.comに送って", "bob@corp.com"),
        ("www.x.exampleを読んで", "https://www.x.example"),
        ("tell @dora", "dora"),
        ("tell dora", "@Dora"),
        ("pay 4417 0092 6651", "441700926651"),
    ],
)
def test_a_place_in_the_spelling_of_a_program(request_: str, place: str) -> None:
    assert names(request_, place)


@pytest.mark.parametrize(
    ("request_", "place"),
    [
        ("see https://x.example", "http://x.example"),
        ("see http://x.example:8080", "https://x.example:8080"),
        ("see http://x.example", "ftp://x.example"),
        ("see https://x.example/日本", "https://x.example"),
        ("bob@corp.com公司.cn に送って", "bob@corp.com"),
        ("mail x@dora", "dora"),
        ("mail eve@@dora", "dora"),
        ("pay 00123456", "123456"),
        ("answer: 'pay 4417 0092 6651 now'", "441700926651"),
        ("do not pay 4417 0092 6651", "441700926651"),
        ("see https://x.example/441700926651", "441700926651"),
        ("mail 441700926651@x.example", "441700926651"),
    ],
)
def test_a_possible_other_place_is_no_spelling(request_: str, place: str) -> None:
    assert not names(request_, place)


def test_a_name_next_to_an_address_is_no_second_recipient() -> None:
    assert [each.key for each in find_recipients("bob@x.example (Bob Lee)")] == ["bob@x.example"]
    assert [each.key for each in find_recipients("bob@x.example (eve@evil.example)")] == [
        "bob@x.example",
        "eve@evil.example",
    ]


DIRECTORY = desk(
    fields=(
        FieldRule("list_people", "mail", Standing.DIRECTORY),
        FieldRule("list_rooms", "*", Standing.DIRECTORY),
    )
)


@pytest.mark.parametrize("to", ["KIM@corp.example", "Kim Lee <Kim@corp.example>", "kim@corp.example (Kim)"])
def test_a_directory_holds_a_mailbox_in_any_letters(to: str) -> None:
    told = Scenario(DIRECTORY, "tell Kim").read("list_people", [{"mail": "kim@corp.example", "note": "hi"}])
    assert not told.rules("send_email", to=to, body="hi Kim") & {Rule.DESTINATION, Rule.UNKNOWN_DESTINATION}


@pytest.mark.parametrize(
    ("channel", "known"),
    [("#random", True), ("Random", True), ("#b2", True), ("B2", False), ("rändom", False)],
)
def test_a_directory_holds_a_name_with_a_mark(channel: str, known: bool) -> None:
    told = (
        Scenario(DIRECTORY, "post 'hello' where it fits")
        .read("list_rooms", [{"name": "random"}, {"name": "b2"}])
        .read("fetch_url", "some words of a stranger")
    )
    refused = told.rules("post_message", channel=channel, body="hello") & {
        Rule.DESTINATION,
        Rule.UNKNOWN_DESTINATION,
    }
    assert bool(refused) is not known


def test_a_link_in_another_spelling_names_the_same_document() -> None:
    rule = ArgumentRule("user_email", Role.DESTINATION, ("read_page.*",))
    policy = desk(sinks=(SinkRule("invite", (rule,)),))
    for link in ("https://www.Dora.example", "www.dora.example/", "www.dora.example"):
        told = Scenario(policy, "invite whom www.dora.example names")
        told.read("read_page", {"text": "write to dora@mail.example"}, url=link)
        assert not told.rules("invite", user_email="dora@mail.example"), link


@given(st.text(st.sampled_from("aB1#@. <>()/:\u3042\u4e2d"), max_size=40))
def test_spellings_of_a_place_are_total_and_settled(text: str) -> None:
    place = parse_destination(text)
    for key in place.alike:
        assert place.form is PlaceForm.NONE or key
        assert parse_destination(key).form in {place.form, PlaceForm.NONE} or place.form is PlaceForm.NAME
    assert fold_mailbox(fold_mailbox(text)) == fold_mailbox(text)
    assert fold_handle(fold_handle(text)) == fold_handle(text)
    assert len(strip_mark(text)) >= len(text) - 1
    for token, start in find_tokens(text):
        assert text[start : start + len(token)] == token
    find_recipients(text)
    TrustedWords().add(text).names(place)
