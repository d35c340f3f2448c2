"""More traffic, and a larger organism, than an eye can follow. The pages' clock is stopped until a test moves it."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from agentserver.testing import listener, organism_of
from tests.gateways.live.hostile import Carry, Say, mouth, porter
from tests.gateways.live.running import RunningServer

SHOWN = 200
LASTS, COUNTED, STAYS = 900, 2500, 7000
"""Milliseconds that a message is on its way, and that a count and a refusal are seen, after traffic.js."""
FRAME = 16
"""Milliseconds between two frames of a page whose time is moved by hand."""
SENT = {"event": "sent", "sender": "mouth", "to": "team0.member0"}
REFUSED = {"event": "refused", "sender": "team1.member50", "to": "nobody that is known"}


@pytest.fixture(scope="module")
def live_server():
    names = [f"team{number // 50}.member{number}" for number in range(300)]
    members = [
        listener(name, porter, Carry, peers=[names[(number * 7 + step) % 300] for step in (1, 90, 151)])
        for number, name in enumerate(names)
    ]
    with RunningServer(
        organism_of(listener("mouth", mouth, Say, peers=["team0.member0"]), *members, name="large")
    ) as running:
        yield running


def send_hops(page, hops, counted=(), missed=0):
    """Let the page hear of hops, as the stream tells them."""
    hop = {"at": 1, "conversation": "c", "root": "Carry", "code": "", "why": ""}
    news = {
        "queues": {},
        "waiting": 0,
        "missed": missed,
        "counted": list(counted),
        "hops": [{**hop, **one} for one in hops],
    }
    page.evaluate("(text) => window.feeds.at(-1).onmessage({ data: text })", json.dumps(news))


@pytest.fixture
def listening_page(live_server, visit):
    """A page that a test can tell news, while or after its picture is made."""
    page = visit(live_server, still=True)
    page.context.add_init_script(
        "window.feeds = []; const Real = EventSource;"
        "window.EventSource = class extends Real { constructor(...about) { super(...about); feeds.push(this); } };"
        "window.EventSource.CLOSED = Real.CLOSED;"
    )
    return page


@pytest.fixture
def page(listening_page):
    listening_page.reload()
    expect(listening_page.get_by_text("live", exact=True)).to_be_visible()
    expect(listening_page.get_by_role("group", name="Who may talk to whom")).to_be_visible()
    return listening_page


@pytest.fixture
def unmade_page(listening_page):
    """Hold the server's answer about the organism from a page; return the page and the release."""
    held, free = [], []

    def go():
        free.append(True)
        for route in held:
            route.continue_()

    listening_page.route("**/live/organism", lambda route: route.continue_() if free else held.append(route))
    listening_page.reload()
    expect(listening_page.get_by_text("live", exact=True)).to_be_visible()
    return listening_page, go


def test_listeners_are_grouped_beyond_the_budget(page):
    expect(page.get_by_text("301 listeners as 7 boxes")).to_be_visible()
    expect(page.locator(".organism .box")).to_have_count(7)
    page.get_by_role("button", name="team3, idle").click()
    expect(page.locator(".chosen")).to_contain_text("and 30 more")
    expect(page.get_by_role("table", name="Listeners").get_by_role("row")).to_have_count(302)


def test_so_many_dots_move_and_the_others_are_counted(page):
    send_hops(page, [SENT] * (SHOWN + 75))
    assert page.locator(".organism .dot").count() == SHOWN
    expect(page.locator(".organism .counted")).to_have_text("×75")
    send_hops(page, [], [["mouth", "team0.member0", "sent", 1000]])
    expect(page.locator(".organism .counted")).to_have_text("×1075")
    page.clock.run_for(LASTS + FRAME)
    assert page.locator(".organism .dot").count() == 0
    assert page.locator(".organism .counted").count() == 1
    page.clock.run_for(COUNTED - LASTS)
    assert page.locator(".organism .counted").count() == 0


def test_refusals_are_counted_too_when_there_are_many(page):
    send_hops(page, [REFUSED] * 20)
    expect(page.locator(".organism .mark.bad")).to_have_count(3)
    expect(page.locator(".organism .counted")).to_have_text("×17")


def test_a_refusal_is_seen_for_a_while(page):
    send_hops(page, [REFUSED])
    page.clock.run_for(STAYS - 1)
    assert page.locator(".organism .mark.bad").count() == 1
    assert page.locator(".organism .box.objected").count() == 1
    page.clock.run_for(1)
    assert page.locator(".organism .mark.bad").count() == 0
    assert page.locator(".organism .box.objected").count() == 0


def test_events_during_page_creation_are_shown_afterwards(unmade_page):
    """Found in CI: the page was live before its picture existed, and lost its first events."""
    page, go = unmade_page
    send_hops(page, [REFUSED] * 20)
    send_hops(page, [SENT], [["mouth", "team0.member0", "sent", 8]])
    go()
    expect(page.locator(".organism .mark.bad")).to_have_count(3)
    expect(page.locator(".organism .dot")).to_have_count(1)
    expect(page.locator(".organism .counted")).to_have_text(["×17", "×8"])
    expect(page.locator(".recent li")).to_have_count(21)
    row = page.get_by_role("table", name="Listeners").get_by_role("row").filter(has_text="mouth")
    expect(row.first.get_by_role("cell").nth(2)).to_have_text("9")


def test_so_much_is_kept_for_a_page_and_the_others_are_missed(unmade_page):
    page, go = unmade_page
    for _ in range(12):
        send_hops(page, [SENT] * SHOWN, [["mouth", "team0.member0", "sent", 5]])
    send_hops(page, [], missed=7)
    go()
    row = page.get_by_role("table", name="Listeners").get_by_role("row").filter(has_text="mouth")
    whole = 9  # pieces, with a count of five each; then there is room for some messages of the tenth
    kept = whole * (SHOWN + 5) + 2000 - whole * (SHOWN + 1)
    expect(row.first.get_by_role("cell").nth(2)).to_have_text(f"{kept:,}")
    missed = 12 * (SHOWN + 5) - kept + 7
    expect(page.get_by_role("status")).to_have_text(f"{missed} steps or messages were too many to show")


def test_events_during_creation_of_another_page_belong_to_that_page(unmade_page):
    page, go = unmade_page
    send_hops(page, [SENT])
    page.get_by_role("link", name="Usage").click()
    expect(page.get_by_role("heading", level=1, name="Usage")).to_be_visible()
    go()
    page.get_by_role("link", name="Organism").click()
    expect(page.get_by_text("Nothing yet, since this page was opened.")).to_be_visible()
    send_hops(page, [REFUSED])
    expect(page.locator(".organism .mark.bad")).to_have_count(1)


def test_a_hop_costs_the_page_the_same_however_many_there_were(page):
    """Changes of the document by a hundred hops, and its size when they have gone, do not grow with the hops before."""
    page.evaluate(
        "window.changes = 0; new MutationObserver((found) => { window.changes += found.length; })"
        ".observe(document.body, { attributes: true, childList: true, subtree: true })"
    )

    def hundred():
        before = page.evaluate("window.changes")
        for _ in range(10):
            send_hops(page, [SENT] * 10)
            page.clock.run_for(100)
        page.clock.run_for(LASTS + COUNTED)
        return page.evaluate("[window.changes, document.querySelectorAll('*').length]"), before

    costs = []
    for _ in range(4):
        (after, nodes), before = hundred()
        costs.append((after - before, nodes))
    assert len({nodes for _, nodes in costs}) == 1
    assert max(changes for changes, _ in costs) <= 1.05 * costs[0][0]
