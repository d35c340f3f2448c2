"""Dead letters in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from agentserver.engines.memory import MemoryEngine
from tests.gateways.live.running import RunningServer
from tests.pump.test_letters import Crane, Lift


@pytest.fixture(scope="module")
def live_server():
    crane = Crane(0)
    with RunningServer(crane.organism(), engine=MemoryEngine(recorded=True)) as running:
        running.crane = crane
        yield running


@pytest.fixture
def letter(live_server):
    """A conversation in which a letter died."""
    handle = live_server.open("ann")
    live_server.crane.breaks = 1
    assert live_server.ask(handle, Lift("the secret beam"), "site") == []
    yield handle
    for one in live_server.do(live_server.server.read(lambda reader: list(reader.dead()))):
        live_server.do(live_server.server.discard(one.delivery.id, "ops"))
    live_server.do(handle.close())


def expect_reason(page, running):
    page.goto(f"{running.address}/#/dead")
    page.get_by_role("table", name="Dead letters").get_by_role("link").first.click()
    expect(page.get_by_role("group", name="Why")).to_contain_text("the rope")


def test_one_is_shown_and_queued_again(live_server, visit, letter):
    page = visit(live_server)
    expect_reason(page, live_server)
    fields = page.get_by_role("group", name="What it says")
    expect(fields.get_by_role("term")).to_have_text("text")
    expect(fields.get_by_role("definition")).to_have_text("the secret beam")
    page.get_by_role("button", name="Requeue").click()
    expect(page.get_by_role("status")).to_contain_text(f"Requeued in conversation {letter.id}")


def test_one_is_discarded_when_that_was_said_twice(live_server, visit, letter):
    page = visit(live_server)
    expect_reason(page, live_server)
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("button", name="Discard for good").click()
    expect(page.get_by_text("Nothing was given up.")).to_be_visible()
    row = page.get_by_role("table", name="Discarded").get_by_role("row").filter(has_text="operator-ann")
    row.last.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Conversation")).to_be_visible()
    dismissed = page.locator(".hop").filter(has_text="dismissed")
    expect(dismissed).to_contain_text("by operator-ann")
    expect(dismissed.locator(".waterfall")).to_have_count(0)


def test_a_viewer_sees_that_there_is_one(live_server, visit, letter):
    page = visit(live_server, role="viewer")
    page.goto(f"{live_server.address}/#/dead")
    page.get_by_role("table", name="Dead letters").get_by_role("link").first.click()
    expect(page.get_by_role("group", name="What it says")).to_contain_text("[redacted: ")
    expect(page.get_by_role("button", name="Requeue")).to_have_count(0)
    assert "beam" not in page.locator("main").inner_text()
