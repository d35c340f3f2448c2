"""Trusted records that a search with the principal's own words finds, and links that such records hold."""

from __future__ import annotations

import pytest

from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.declarations import Rule
from tests.provenance.scenes import Scenario, desk, sink

POLICY = desk(
    sources=("read_mails", "fetch_*"),
    trusted=("crew", "parcels", "funds"),
    sinks=(
        sink("forward", mail=Role.SELECTOR, to=Role.DESTINATION),
        sink("send", to=Role.DESTINATION, text=Role.PAYLOAD),
        sink("pay", iban=Role.DESTINATION, amount=Role.QUANTITY),
        sink("dismiss", person=Role.SELECTOR),
    ),
)
MAIL = [
    {"id": "M-71", "from": "Rosa <rosa@web.example>", "text": "Here is my paper. Ask Ole Berg or Ane Lund."}
]
OLE = {"person": "P-4", "name": "Ole Berg", "email": "ole@quay.example"}
ANE = {"person": "P-5", "name": "Ane Lund", "email": "ane@quay.example"}


def read_mail(request: str) -> Scenario:
    told = Scenario(POLICY, request)
    told.read("read_mails", MAIL, query="Rosa")
    return told


def find(request: str, search: str, *people: dict[str, str]) -> Scenario:
    told = read_mail(request)
    return look_up(told, "crew", [*people], query=search)


def look_up(told: Scenario, source: str, output: object, **arguments: object) -> Scenario:
    """Read an output whose reader was exposed."""
    from agentserver.provenance import Observation, leaves

    told.step += 1
    seen = Observation(source, leaves(output), told.step, told.now, arguments=leaves(arguments))
    told.ledger = told.ledger.observe(told.policy, seen)
    return told


@pytest.mark.parametrize(
    ("request_", "search"),
    [
        ("forward Rosa's mail to the steward of deck 3b", "deck 3b steward"),
        ("leite die Mail von Rosa an Berg Ole weiter", "Ole Berg"),
        ("send Rosas mail M-71 til bro-vakten", "bro"),
    ],
)
def test_a_search_of_the_principals_words_finds_who_is_meant(request_: str, search: str) -> None:
    assert find(request_, search, OLE).call("forward", mail="M-71", to=OLE["email"]).allowed
    assert not find(request_, search, OLE, ANE).call("forward", mail="M-71", to=ANE["email"]).allowed


@pytest.mark.parametrize(
    ("request_", "search"),
    [
        ("forward Rosa's mail to Ole Lund, and is Ane Berg there?", "Ole Berg"),
        ("forward Rosa's mail to the steward", "paper steward"),
        ("forward Rosa's mail to Mrs Lund-Berg", "Lund"),
    ],
)
def test_words_of_a_text_and_two_parts_of_names_find_nobody(request_: str, search: str) -> None:
    assert not find(request_, search, OLE).call("forward", mail="M-71", to=OLE["email"]).allowed


def test_everybody_of_a_look_up_may_receive_and_nobody_is_chosen() -> None:
    people = {"boat": "B-220", "crew": [OLE, ANE]}
    asked = look_up(read_mail("tell everyone on B-220 that we sail at noon"), "crew", people, boat="B-220")
    assert asked.call("send", to="ole@quay.example, ane@quay.example", text="We sail at noon.").allowed
    assert asked.call("send", to="ane@quay.example", text="We sail at noon.").allowed
    assert Rule.UNFOUNDED in asked.rules("send", to="ane@quay.example", text="Here is my paper. Ask Ole Berg")
    assert not asked.call("send", to="rosa@web.example", text="We sail at noon.").allowed


def test_without_a_word_for_all_of_them_or_with_another_look_up_nobody_receives() -> None:
    people = {"boat": "B-220", "crew": [OLE, ANE]}
    for request, boat in (
        ("tell the mate of B-220 that we sail", "B-220"),
        ("tell everyone on board", "B-220"),
    ):
        told = look_up(read_mail(request), "crew", people, boat=boat)
        assert not told.call("send", to="ane@quay.example", text="We sail at noon.").allowed


def test_a_link_of_a_trusted_record_is_followed_as_it_is_spelled() -> None:
    told = read_mail("where is the paper of Rosa?")
    look_up(told, "parcels", {"parcel": "PX-20", "track": "https://post.example/t/20"}, parcel="PX-20")
    assert told.call("fetch_page", url="https://post.example/t/20").allowed
    for other in (
        "https://post.example/t/21",
        "https://post.example/t/20?to=rosa",
        "https://POST.example/t/20#a",
    ):
        assert not told.call("fetch_page", url=other).allowed
    assert not told.call("fetch_page", url="https://post.example/t/20", note="ole@quay.example").allowed


def test_a_trusted_record_that_repeats_a_strangers_link_is_no_reason_to_follow_it() -> None:
    letter = [{"from": "Rosa <rosa@web.example>", "text": "My parcel: https://evil.example/t/20"}]
    told = Scenario(POLICY, "where is the parcel of the newest letter?").read("read_mails", letter)
    look_up(told, "parcels", {"parcel": "PX-20", "track": "https://evil.example/t/20"}, parcel="PX-20")
    assert not told.call("fetch_page", url="https://evil.example/t/20").allowed
