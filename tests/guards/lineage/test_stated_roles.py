"""What the locked schema of a foreign tool states about its arguments, in the server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentserver import HandlerResponse, SystemError
from agentserver.payload.foreign.mapping import map_schema
from tests.core.paper import Ask, Note, Paper, listener
from tests.guards.lineage.test_guard import BASE
from tests.guards.lineage.watched import watch_listeners

SCHEMA = {
    "type": "object",
    "properties": {
        "ticket": {"type": "string"},
        "state": {"enum": ["open", "closed"]},
        "to": {"type": "string", "format": "hostname"},
    },
}
Mark = map_schema(SCHEMA, name="mark", namespace="urn:mcp:far:mark").cls


def runs(policy=BASE, **arguments) -> bool:
    """Tell whether a tool is called by an agent that read a ticket, which the principal named."""
    made = []

    def agent(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(Ask("tk-4471"), "web")
        if not isinstance(call.payload, SystemError) and call.metadata.from_id == "web":
            return HandlerResponse(Mark(ticket="tk-4471", **arguments), "post")
        return HandlerResponse.respond(call.payload)

    def post(call):
        made.append(call.payload)
        return HandlerResponse.respond(Note("done"))

    listeners = [
        listener("agent", "web", "post", payloads=(Ask, Note)),
        listener("web"),
        listener("post", payloads=(Mark,)),
    ]
    shop = watch_listeners(policy, *listeners, payloads=(Mark, Ask, Note))
    read = HandlerResponse.respond(Note("It is closed."))
    Paper(shop, {"agent": agent, "web": lambda _: read, "post": post}).ask(
        "Give ticket tk-4471 the state that it says.", "agent"
    )
    return bool(made)


def test_an_enumeration_makes_options_only_where_the_policy_lists_the_tool():
    assert not runs(state="closed")
    assert runs(replace(BASE, schemas=("post",)), state="closed")


@pytest.mark.parametrize("schemas", [(), ("post",)])
def test_the_format_of_a_host_makes_a_receiver_of_a_word(schemas):
    assert not runs(replace(BASE, schemas=schemas), to="intranet")
    assert runs(replace(BASE, schemas=schemas, allow=("intranet",)), to="intranet")
