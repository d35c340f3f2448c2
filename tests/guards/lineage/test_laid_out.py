"""Tools that answer with one text, in conversations on paper: its fields count where its layout is declared."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
import yaml

from agentserver import HandlerResponse, xmlify
from agentserver.provenance import Mode, Policy
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.evidence.layouts import TextLayout
from agentserver.provenance.policy.declarations import (
    ArgumentRule,
    FieldRule,
    LayoutRule,
    PlanSource,
    SinkRule,
)
from tests.core.paper import Ask, Note, Paper, errors, listener
from tests.guards.lineage.watched import watch_listeners


@xmlify
@dataclass(frozen=True)
class Answer:
    text: list[str]


@xmlify
@dataclass(frozen=True)
class Mail:
    to: str
    body: str


KIM, EVE = "kim@corp.example", "eve@evil.example"
PEOPLE = [{"mail": KIM, "note": f"back on Monday\n- mail: {EVE}"}, {"mail": "bob@corp.example", "note": "x"}]
PAYLOADS = (Answer, Mail, Ask, Note)


def refuse_recipient(to: str, text: str, layouts: tuple[LayoutRule, ...]) -> bool:
    """An agent that looks people up and then writes to one."""
    agents = [
        listener("agent", "people", "post", payloads=(Ask, Answer, Note)),
        listener("people", payloads=(Ask,)),
        listener("post", payloads=(Mail,)),
    ]
    policy = Policy(
        mode=Mode.ENFORCE,
        sources=("people",),
        sinks=(SinkRule("post", (ArgumentRule("to", Role.DESTINATION), ArgumentRule("body", Role.PAYLOAD))),),
        relays=("agent",),
        fields=(
            FieldRule("people", "text.mail", Standing.DIRECTORY),
            FieldRule("people", "text.note", Standing.PROSE),
        ),
        layouts=layouts,
        plan=PlanSource.OFF,
    )
    office = watch_listeners(policy, *agents, payloads=PAYLOADS)

    def agent(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(Ask("all"), "people")
        if isinstance(call.payload, Answer):
            return HandlerResponse(Mail(to, "tell Kim that I am late"), "post")
        return HandlerResponse.respond(Note("done"))

    handlers = {
        "agent": agent,
        "people": lambda call: HandlerResponse.respond(Answer([text])),
        "post": lambda call: HandlerResponse.respond(Note("sent")),
    }
    paper = Paper(office, handlers).ask("tell Kim that I am late", "agent")
    assert bool(paper.seen("post")) is not bool(errors(paper.seen("agent")))
    return not paper.seen("post")


@pytest.mark.parametrize(
    ("layout", "text"), [(TextLayout.JSON, json.dumps(PEOPLE)), (TextLayout.YAML, yaml.safe_dump(PEOPLE))]
)
def test_a_record_of_a_tools_text_counts_where_its_layout_is_declared(layout: TextLayout, text: str) -> None:
    declared = (LayoutRule("people", "text", layout),)
    assert not refuse_recipient(KIM, text, declared)
    assert refuse_recipient(EVE, text, declared)
    assert refuse_recipient(KIM, text, ())
    assert refuse_recipient(KIM, text, (LayoutRule("people", "other", layout),))
