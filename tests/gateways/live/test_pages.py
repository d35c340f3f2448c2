"""The pages in a browser: an attack is blocked before one's eyes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.gateways.live.conftest import desk
from tests.machine import HANGS

ORDER = "Pay the invoice in mail 13 and tell Kim."


@pytest.fixture(scope="module")
def live_server(tmp_path_factory):
    with desk(tmp_path_factory.mktemp("pages"), "enforce") as running:
        yield running


def attack_clerk(running, page):
    """Let the clerk read the mail that a stranger wrote, while a page watches."""
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    handle = running.open("ann")
    (answer,) = running.ask(handle, running.wish(ORDER), "clerk")
    assert "denied" in answer[2]
    return handle.id


def let_rest(page):
    """Move the page's time until no hop moves: one may be reported after the time was moved."""
    for _ in range(HANGS * 10):
        page.clock.run_for(2000)
        if page.locator(".organism .dot").count() == 0:
            return
        page.wait_for_timeout(100)
    raise AssertionError("a hop does not come to rest")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_attack_is_blocked_before_ones_eyes(live_server, visit, scheme):
    page = visit(live_server, still=True, color_scheme=scheme)
    attack_clerk(live_server, page)
    marks = page.locator(".organism .mark .bad, .organism .mark.bad")
    expect(marks).to_have_count(4)
    expect(page.locator(".organism .box.objected")).to_have_count(1)
    happened = page.get_by_role("listitem").filter(has_text="refused clerk → bank")
    expect(happened.first).to_contain_text("BLOCKED: bank() called with tainted inputs")
    row = page.get_by_role("table", name="Listeners").get_by_role("row").filter(has_text="clerk")
    expect(row.first.get_by_role("cell").nth(3)).to_have_text("4")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_path_of_the_value_is_drawn_from_source_to_sink(live_server, visit, scheme):
    page = visit(live_server, color_scheme=scheme)
    key = attack_clerk(live_server, page)
    page.get_by_role("link", name="Conversations").click()
    page.get_by_role("table").get_by_role("link", name=key[:13]).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(key)
    way = page.get_by_role("figure").filter(has_text="XX99MALLORY").first
    stops = way.get_by_role("listitem")
    expect(stops).to_have_count(2)
    expect(stops.first).to_contain_text("source, untrusted")
    expect(stops.first).to_contain_text("inbox.text")
    expect(stops.last).to_contain_text("bank.iban")
    expect(stops.last).to_contain_text("blocked before it")
    assert stops.first.bounding_box()["x"] < stops.last.bounding_box()["x"]
    page.locator("summary").filter(has_text="inbox → clerk").click()
    expect(page.get_by_text("A note that was left in our shop").first).to_be_visible()
    way.scroll_into_view_if_needed()


def test_a_running_conversation_is_updated(live_server, visit):
    page = visit(live_server)
    handle = live_server.open("bob")
    live_server.ask(handle, live_server.wish("Pay the invoice in mail 12 and tell Kim."), "clerk")
    page.goto(f"{live_server.address}/#/conversations/{handle.id}")
    expect(page.locator(".tree .hop").filter(has_text="answered")).to_have_count(1)
    summary = page.locator("summary").filter(has_text="inbox → clerk")
    summary.click()
    live_server.ask(handle, live_server.wish("Pay the invoice in mail 12 and tell Kim."), "clerk")
    expect(page.locator(".tree .hop").filter(has_text="answered")).to_have_count(2)
    expect(page.get_by_text("Thank you for your order").first).to_be_visible()  # what was open stays open


def test_a_viewer_sees_who_talked_and_no_content(live_server, visit):
    page = visit(live_server, role="viewer", still=True)
    key = attack_clerk(live_server, page)
    expect(page.locator(".organism .mark")).to_have_count(4)
    page.goto(f"{live_server.address}/#/conversations/{key}")
    expect(page.locator(".tree .hop.bad")).to_have_count(4)
    for summary in page.locator("summary").all():
        summary.click()
    shown = re.sub(
        r"sha256 [0-9a-f]+", "", page.locator("main").inner_text()
    )  # any digits may be in a digest
    assert "[redacted: " in shown
    for secret in ("MALLORY", "mallory", "9000", "posters", "kim@"):
        assert secret not in shown


def test_a_listener_is_chosen_with_the_keyboard(live_server, visit):
    page = visit(live_server)
    box = page.get_by_role("button", name=re.compile("^bank, "))
    box.focus()
    expect(page.locator(".edge.near")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="bank")).to_be_visible()
    expect(page.get_by_text("Transfers money.")).to_be_visible()


def test_a_table_accompanies_the_picture(live_server, visit):
    page = visit(live_server)
    picture = page.get_by_role("group", name="Who may talk to whom").bounding_box()
    table = page.get_by_role("table", name="Listeners").bounding_box()
    assert table["x"] >= picture["x"] + picture["width"]
    names = page.get_by_role("table", name="Listeners").get_by_role("rowheader")
    expect(names).to_have_count(5)


def test_the_overview_shows_earlier_work(live_server, visit):
    page = visit(live_server, path="/")
    attack_clerk(live_server, page)
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
    row = page.get_by_role("table", name="By listener").get_by_role("row").filter(has_text="clerk")
    expect(row).to_have_count(1)
    chart = page.get_by_role("img", name=re.compile("^Conversations: at most"))
    expect(chart.locator("rect.all")).not_to_have_count(0)
    expect(chart.locator("rect.refused")).not_to_have_count(0)
    page.get_by_text("As a table").first.click()
    behind = page.get_by_role("table", name="Conversations", exact=True)
    expect(behind.get_by_role("row")).not_to_have_count(0)
    refused = page.get_by_role("listitem").filter(has_text="with a refusal").get_by_role("link")
    assert "opened%3E%3D" in refused.get_attribute("href"), "a figure of a period lists its conversations"
    row.get_by_role("link", name="clerk").click()
    expect(page.get_by_role("heading", level=1, name="Conversations")).to_be_visible()
    expect(page.get_by_role("searchbox")).to_have_value(re.compile('^listener="clerk" opened>=2'))
    expect(page.get_by_role("table").get_by_role("row")).not_to_have_count(0)


PATHS = {
    "overview": "Overview",
    "organism": "Organism",
    "conversations": "Conversations",
    "approvals": "Approvals",
    "dead": "Dead letters",
    "usage": "Usage",
}


def test_a_phone_is_wide_enough(live_server, visit):
    page = visit(live_server, viewport={"width": 390, "height": 844})
    for path, title in PATHS.items():
        page.goto(f"{live_server.address}/#/{path}")
        expect(page.get_by_role("heading", level=1, name=title)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_who_wants_less_motion_sees_none(live_server, visit):
    page = visit(live_server, still=True, reduced_motion="reduce")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    expect(page.locator(".traffic")).to_be_attached()
    page.evaluate(
        "window.moved = 0; new MutationObserver((found) => { window.moved += found.filter((each) => "
        "each.target.classList.contains('dot')).length }).observe(document.querySelector('.traffic'), "
        "{ attributes: true, subtree: true })"
    )
    attack_clerk(live_server, page)
    expect(page.locator(".organism .mark")).to_have_count(4)
    let_rest(page)
    assert page.evaluate("window.moved") == 0


def test_every_page_is_reached_with_the_keyboard_alone(live_server, visit):
    page = visit(live_server)
    # A page takes the focus once it is shown: a key pressed before that would go astray.
    expect(page.get_by_role("heading", level=1, name="Organism")).to_be_visible()
    for title in ("Overview", "Conversations", "Approvals", "Dead letters", "Usage", "Organism"):
        page.get_by_role("link", name="Skip to the page").focus()
        for _ in range(12):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == title:
                break
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1, name=title)).to_be_visible()
        assert page.evaluate("document.activeElement.id") == "main"
