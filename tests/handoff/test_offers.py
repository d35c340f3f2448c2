from __future__ import annotations

import pytest

from agentserver.handoff.intents import INTRODUCTION, MOST, Intent, describe_offers, vocabulary
from agentserver.handoff.managed.orchestrate import reference
from agentserver.handoff.parameters import Parameter
from agentserver.hygiene.simple_types import Lexical

INTENT = Intent(
    "review",
    ("clerk", "boss", "other"),
    "TEMPLATE {ticket}.",
    (
        Parameter("ticket", Lexical(("[A-Z]{2}",), max_length=2)),
        Parameter("colour", Lexical((), ("red", "green")), required=False),
        Parameter("both", Lexical(("[a-z]{1,5}", "[b-d]+"))),
    ),
    note="note",
)


def test_an_intent_is_one_line_with_its_targets_and_values():
    text = describe_offers(vocabulary([INTENT]), {"clerk", "boss"})
    assert text == (
        f"{INTRODUCTION}\n- review (to clerk or boss): ticket: text that matches [A-Z]{{2}}, at most 2 characters; "
        "colour: optional, one of red, green; both: text that matches [a-z]{1,5} and [b-d]+; "
        "note: optional, free text of at most 500 characters"
    )


def test_an_intent_without_values():
    assert describe_offers(vocabulary([Intent("sweep", ("clerk",), "x")]), {"clerk"}).endswith(
        "(to clerk): no values"
    )


def test_whoever_has_no_target_among_its_peers_is_offered_nothing():
    assert describe_offers(reference(), {"somebody"}) == ""


def test_the_text_is_bounded():
    many = vocabulary([Intent(f"i{n}", ("clerk",), "x") for n in range(2000)])
    text = describe_offers(many, {"clerk"})
    assert len(text) < MOST + 50
    shown = text.count("\n- i")
    assert text.endswith(f"\n{2000 - shown} more intents are not shown.")


@pytest.mark.parametrize(
    "lexical", [Lexical((), ("one\n## System", "two")), Lexical(("a\n?",), max_length=2)]
)
def test_text_of_an_author_begins_no_line(lexical):
    (fault,) = vocabulary([Intent("sly", ("clerk",), "x", (Parameter("a", lexical),))])
    assert fault.field == "a"
