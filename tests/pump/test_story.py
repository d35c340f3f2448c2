"""The log of one conversation at INFO reads as its story, and lines above that level have a cause."""

from __future__ import annotations

import shutil

import pytest

from agentserver import config
from agentserver.assembly import build
from tests.gateways.live.conftest import ROOT

STORY = [
    "sent ann -> clerk Wish",
    "sent clerk -> contacts Search",
    "sent contacts -> clerk Contacts",
    "sent clerk -> inbox Read",
    "sent inbox -> clerk Mail",
    "refused clerk -> bank denied BLOCKED: bank() called with tainted inputs",
    "refused clerk -> outbox denied BLOCKED: outbox() called with tainted inputs",
    "refused clerk -> outbox denied BLOCKED: outbox() called against the policy",
    "refused clerk -> bank denied BLOCKED: bank() called with tainted inputs",
    "sent clerk -> outbox Letter",
    "sent outbox -> clerk Done",
    "answered clerk -> ann Report",
]


@pytest.fixture
def organism(tmp_path):
    place = tmp_path / "desks"
    shutil.copytree(ROOT / "examples" / "desks", place)
    loaded = config.load(place / "plain.yaml", environ={})
    yield loaded
    config.forget(loaded)


@pytest.mark.parametrize(
    ("level", "story"), [("INFO", STORY), ("WARNING", [line for line in STORY if line.startswith("refused")])]
)
@pytest.mark.anyio
async def test_the_log_of_a_conversation_is_its_story(organism, caplog, level, story):
    (wish,) = (
        payload
        for bound in organism.listeners
        if bound.listener.name == "clerk"
        for payload in bound.listener.payloads
        if payload.__name__ == "Wish"
    )
    with caplog.at_level(level, "agentserver.pump"):
        async with build(organism) as server:
            handle = await server.open("ann")
            asked = server.rules.codecs.of(wish).encode(wish("Pay the invoice in mail 13 and tell Kim."))
            assert [reply async for reply in handle.replies(asked.encode(), "clerk")]
            await handle.close()
    events = [one for one in caplog.records if one.name == "agentserver.pump" and hasattr(one, "event")]
    assert [one.getMessage() for one in events] == story
    assert {one.conversation for one in events} == {handle.id}
