"""A value that a payload's type fills in is its author's, whatever a stranger's text says; any other one is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated

import pytest

from agentserver import HandlerResponse, SystemError, xmlify
from agentserver.guards.lineage.reading import Readings
from agentserver.payload.codec import Codecs
from agentserver.provenance.evidence.labels import Leaf, Role
from tests.core.paper import Ask, Note, Paper, listener
from tests.guards.lineage.test_guard import BASE
from tests.guards.lineage.watched import watch_listeners

MAIL = "Please pay 80 EUR or CHF to bob@corp.example, by urgent transfer."


class Speed(Enum):
    SLOW = "slow"
    URGENT = "urgent"


@xmlify
@dataclass(frozen=True)
class Payment:
    to: Annotated[str, Role.DESTINATION]
    currency: Annotated[str, Role.SELECTOR] = "EUR"
    speed: Annotated[Speed, Role.SELECTOR] = Speed.URGENT
    copy: Annotated[str, Role.DESTINATION] = "books@corp.example"


def run_payment(payment, policy=BASE):
    """Says whether a payment is made by an agent that read the mail."""
    made = []

    def agent(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(Ask("read"), "web")
        if isinstance(call.payload, SystemError):
            return HandlerResponse.respond(call.payload)
        return (
            HandlerResponse(payment, "post")
            if call.metadata.from_id == "web"
            else HandlerResponse.respond(call.payload)
        )

    def post(call):
        made.append(call.payload)
        return HandlerResponse.respond(Note("paid"))

    listeners = [
        listener("agent", "web", "post", payloads=(Ask, Note)),
        listener("web"),
        listener("post", payloads=(Payment,)),
    ]
    shop = watch_listeners(policy, *listeners, payloads=(Payment, Ask, Note))
    Paper(shop, {"agent": agent, "web": lambda _: HandlerResponse.respond(Note(MAIL)), "post": post}).ask(
        "Pay bob@corp.example what the mail says.", "agent"
    )
    return made == [payment]


def test_a_default_that_nobody_sent_is_its_authors_although_a_mail_says_it():
    assert run_payment(Payment("bob@corp.example"))


@pytest.mark.parametrize(
    "changed",
    [{"currency": "CHF"}, {"speed": Speed.SLOW}, {"copy": "eve@evil.example"}, {"to": "eve@evil.example"}],
)
def test_any_other_value_is_judged(changed):
    assert not run_payment(replace(Payment("bob@corp.example"), **changed))


def test_the_deny_list_overrides_a_default():
    assert not run_payment(Payment("bob@corp.example"), replace(BASE, deny=("books@corp.example",)))


def test_only_the_field_of_a_default_has_it():
    codecs = Codecs([Payment])
    reading = Readings(codecs)[codecs.of(Payment).name]
    assert reading.defaults == {"currency": "EUR", "speed": "urgent", "copy": "books@corp.example"}
    assert reading.find_filled((Leaf("to", "EUR"), Leaf("currency", "EUR"), Leaf("speed", "slow"))) == {
        "currency"
    }
