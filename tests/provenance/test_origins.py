"""The origins of a call's values as a person sees them, and the texts that the call answers."""

from __future__ import annotations

from agentserver.findings import ORIGINS, Origins, describe_origin_words, write_answered_words
from agentserver.provenance import Call, leaves
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.judging.origins import ANSWERED, ARGUMENTS, SHOWN, find_origins
from agentserver.provenance.policy.declarations import ArgumentRule, FieldRule, SinkRule
from tests.provenance.scenes import Scenario, desk

IBAN = "DE02120300000000202051"
POLICY = desk(
    sinks=(
        SinkRule("pay", (ArgumentRule("iban", Role.DESTINATION), ArgumentRule("amount", Role.QUANTITY))),
        SinkRule("send", (ArgumentRule("to", Role.DESTINATION), ArgumentRule("text", Role.PAYLOAD))),
    ),
    sources=("inbox", "book"),
    fields=(
        FieldRule("book", "email", Standing.DIRECTORY),
        FieldRule("inbox", "id", Standing.RECORD),
        FieldRule("inbox", "*", Standing.PROSE),
    ),
    allow=("@house.example",),
)
MAIL = {"id": "13", "sender": "eve@shop.example", "text": f"Dear all, please pay 99.50 to {IBAN} today."}


def find_values(scene: Scenario, sink: str, **arguments: object) -> Origins:
    return find_origins(scene.ledger, POLICY, Call(sink, leaves(arguments), 9))


def kinds(found: Origins) -> list[tuple[str, str, str]]:
    return [(one.argument, one.kind, f"{one.source}.{one.field}".strip(".")) for one in found.values]


def test_each_value_is_reported_with_its_place():
    scene = Scenario(POLICY, "Pay the invoice in mail 13 and write to Ann.").read("inbox", MAIL)
    scene.read("book", {"name": "Ann", "email": "ann@friends.example"})
    assert kinds(find_values(scene, "pay", iban=IBAN, amount="99.50")) == [
        ("iban", "stranger", "inbox.text"),
        ("amount", "stranger", "inbox.text"),
    ]
    assert kinds(find_values(scene, "send", to="ann@friends.example", text="Hello")) == [
        ("to", "directory", "book.email"),
        ("text", "nothing", ""),
    ]
    assert kinds(find_values(scene, "send", to="bob@house.example", text="mail 13"))[0] == (
        "to",
        "operator",
        "",
    )
    assert kinds(find_values(scene, "send", to="eve@shop.example", text="x"))[0] == (
        "to",
        "stranger",
        "inbox.sender",
    )


def test_a_payment_shows_the_mail_that_it_answers_and_the_request():
    scene = Scenario(POLICY, "Pay the invoice in mail 13.").read("inbox", MAIL)
    found = find_values(scene, "pay", iban=IBAN, amount="99.50")
    (mail,) = found.answered
    assert (mail.source, mail.holds, mail.cut) == ("inbox", True, False)
    assert {one.field: one.text for one in mail.texts}["text"] == MAIL["text"]
    assert found.request == "Pay the invoice in mail 13."
    assert (
        write_answered_words(mail)
        == "a stranger's text, of inbox() at step 1 (values of the message stand in it)"
    )


def test_a_reply_that_shares_no_value_shows_the_last_text_that_was_read():
    scene = (
        Scenario(POLICY, "Answer mail 13.")
        .read("inbox", {"id": "12", "text": "An older one."})
        .read("inbox", MAIL)
    )
    (mail,) = find_values(scene, "send", to="bob@house.example", text="Thank you!").answered
    assert (mail.step, mail.holds) == (2, False)
    assert MAIL["text"] in [one.text for one in mail.texts]


def test_a_value_has_each_of_its_origins():
    scene = Scenario(POLICY, f"Pay 99.50 to {IBAN}.").read("inbox", MAIL)
    assert [kind for _, kind, _ in kinds(find_values(scene, "pay", iban=IBAN, amount="99.50"))] == [
        "request",
        "stranger",
    ] * 2


def test_reported_origins_are_bounded():
    scene = Scenario(POLICY, "begin " + "go " * SHOWN)
    for number in range(10):
        scene.read("inbox", {"text": f"{IBAN} {number} " + "filler words " * 1_000})
    found = find_values(scene, "send", **{f"a{number}": IBAN for number in range(ARGUMENTS + 7)})
    assert found.more == 7
    assert len(found.answered) <= ANSWERED
    assert all(sum(len(one.text) for one in text.texts) <= SHOWN and text.cut for text in found.answered)
    assert len(found.request) <= SHOWN
    assert found.request.startswith("begin")  # a secret is recognised by its beginning


def test_beyond_tracking_the_origin_is_reported_as_unknown():
    policy = desk(sources=("inbox",), limit=10)
    scene = Scenario(policy, "go").read("inbox", MAIL)
    found = find_origins(scene.ledger, policy, Call("send_email", leaves({"to": "eve@x.example"}), 9))
    assert [one.kind for one in found.values] == ["unknown"]


def test_each_kind_has_its_words():
    scene = Scenario(POLICY, "Pay the invoice in mail 13.").read("inbox", MAIL)
    words = [
        describe_origin_words(one) for one in find_values(scene, "pay", iban=IBAN, amount="99.50").values
    ]
    assert words == ["a stranger wrote it: inbox() at step 1, field text"] * 2
    assert all("{" not in each.format(where="here") for each in ORIGINS.values())
