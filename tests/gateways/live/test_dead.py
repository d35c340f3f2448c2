"""Dead letters in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from agentserver.engines.memory import MemoryEngine
from tests.gateways.live.running import Running
from tests.pump.test_letters import Crane, Lift


@pytest.fixture(scope="module")
def running():
    crane = Crane(0)
    with Running(crane.organism(), engine=MemoryEngine(recorded=True)) as running:
        running.crane = crane
        yield running


@pytest.fixture
def letter(running):
    """A conversation in which a letter died."""
    handle = running.open("ann")
    running.crane.breaks = 1
    assert running.ask(handle, Lift("the secret beam"), "site") == []
    yield handle
    for one in running.do(running.server.read(lambda reader: list(reader.dead()))):
        running.do(running.server.discard(one.delivery.id))
    running.do(handle.close())


def shown(page, running):
    page.goto(f"{running.address}/#/dead")
    page.get_by_role("table", name="Dead letters").get_by_role("link").first.click()
    expect(page.get_by_role("group", name="Why")).to_contain_text("the rope")


def test_one_is_shown_and_queued_again(running, visit, letter):
    page = visit(running)
    shown(page, running)
    expect(page.get_by_role("group", name="What it says")).to_contain_text("the secret beam")
    page.get_by_role("button", name="Requeue").click()
    expect(page.get_by_role("status")).to_contain_text(f"Requeued in conversation {letter.id}")


def test_one_is_discarded_when_that_was_said_twice(running, visit, letter):
    page = visit(running)
    shown(page, running)
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("button", name="Discard for good").click()
    expect(page.get_by_text("Nothing was given up.")).to_be_visible()


def test_a_viewer_sees_that_there_is_one(running, visit, letter):
    page = visit(running, role="viewer")
    page.goto(f"{running.address}/#/dead")
    page.get_by_role("table", name="Dead letters").get_by_role("link").first.click()
    expect(page.get_by_role("group", name="What it says")).to_contain_text("[redacted: ")
    expect(page.get_by_role("button", name="Requeue")).to_have_count(0)
    assert "beam" not in page.locator("main").inner_text()
