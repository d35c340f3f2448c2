"""More traffic, and a larger organism, than an eye can follow."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from agentserver.testing import listener, organism_of
from tests.gateways.live.hostile import Carry, Say, mouth, porter
from tests.gateways.live.running import Running

SHOWN = 200


@pytest.fixture(scope="module")
def running():
    names = [f"team{number // 50}.member{number}" for number in range(300)]
    members = [
        listener(name, porter, Carry, peers=[names[(number * 7 + step) % 300] for step in (1, 90, 151)])
        for number, name in enumerate(names)
    ]
    with Running(
        organism_of(listener("mouth", mouth, Say, peers=["team0.member0"]), *members, name="large")
    ) as running:
        yield running


def told(page, hops, counted=()):
    """Let the page hear of hops, as the stream tells them."""
    hop = {"at": 1, "conversation": "c", "root": "Carry", "code": "", "why": ""}
    news = {
        "queues": {},
        "waiting": 0,
        "missed": 0,
        "counted": list(counted),
        "hops": [{**hop, **one} for one in hops],
    }
    page.evaluate("(text) => window.feeds.at(-1).onmessage({ data: text })", json.dumps(news))


@pytest.fixture
def page(running, visit):
    page = visit(running)
    page.context.add_init_script(
        "window.feeds = []; const Real = EventSource;"
        "window.EventSource = class extends Real { constructor(...about) { super(...about); feeds.push(this); } };"
        "window.EventSource.CLOSED = Real.CLOSED;"
    )
    page.reload()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    return page


def test_listeners_are_grouped_beyond_the_budget(page):
    expect(page.get_by_text("301 listeners as 7 boxes")).to_be_visible()
    expect(page.locator(".organism .box")).to_have_count(7)
    page.get_by_role("button", name="team3, idle").click()
    expect(page.locator(".chosen")).to_contain_text("and 30 more")
    expect(page.get_by_role("table", name="Listeners").get_by_role("row")).to_have_count(302)


def test_so_many_dots_move_and_the_others_are_counted(page):
    sent = {"event": "sent", "sender": "mouth", "to": "team0.member0"}
    told(page, [sent] * (SHOWN + 75))
    assert page.locator(".organism .dot").count() <= SHOWN
    expect(page.locator(".organism .counted").first).to_have_text("×75")
    told(page, [], [["mouth", "team0.member0", "sent", 1000]])
    expect(page.locator(".organism .counted").first).to_have_text("×1075")
    expect(page.locator(".organism .dot")).to_have_count(0)
    expect(page.locator(".organism .counted")).to_have_count(0)


def test_refusals_are_counted_too_when_there_are_many(page):
    refused = {"event": "refused", "sender": "team1.member50", "to": "nobody that is known"}
    told(page, [refused] * 20)
    expect(page.locator(".organism .mark.bad")).to_have_count(3)
    expect(page.locator(".organism .counted").first).to_have_text("×17")


def test_hops_are_shown_at_a_steady_rate(page):
    """A hundred events a second for a second, in ten pieces: the page keeps up."""
    rate = page.evaluate(
        """async () => {
            let frames = 0, on = true;
            const count = () => { frames++; if (on) requestAnimationFrame(count); };
            requestAnimationFrame(count);
            const hop = { at: 1, conversation: "c", root: "Carry", code: "", why: "", event: "sent",
                          sender: "mouth", to: "team0.member0" };
            const data = JSON.stringify({ queues: {}, waiting: 0, missed: 0, counted: [], hops: Array(10).fill(hop) });
            for (let piece = 0; piece < 10; piece++) {
                window.feeds.at(-1).onmessage({ data });
                await new Promise((go) => setTimeout(go, 100));
            }
            on = false;
            return frames;
        }"""
    )
    assert rate >= 10  # a loaded machine draws few frames; one that is not draws sixty a second
