"""The page of a conversation: fields with the origins of their values, the tree, the waterfall and the plumbing."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from agentserver.gateways.live.fields import find_quotation
from agentserver.trace.comparison import list_fields
from tests.gateways.live.conftest import desk
from tests.wire.test_envelope import message


def test_fields_of_a_payload_are_listed_by_place():
    payload = (
        '<Buy xmlns="urn:a" kind="fast"><item><name>pen</name></item><item>two <b n="1">x</b></item></Buy>'
    )
    assert [tuple(each) for each in list_fields(message(payload))] == [
        (0, "kind", "@kind", "fast"),
        (0, "item", "item[0]", None),
        (1, "item.name", "name", "pen"),
        (0, "item", "item[1]", None),
        (1, "item", "text", "two"),
        (1, "item.b", "b", None),
        (2, "item.b", "text", "x"),
        (2, "item.b.n", "@n", "1"),
    ]
    assert list_fields(b"no XML") is None


def test_a_quotation_is_found_regardless_of_case_and_spaces():
    found = find_quotation("Main  St 5", ["", "a" * 200 + "MAIN st\n5, then " + "b" * 200])
    assert (found["match"], len(found["before"]), found["after"][:6]) == ("MAIN st\n5", 121, ", then")
    assert find_quotation("x", ["none"]) is None
    assert find_quotation("  ", ["none"]) is None


@pytest.fixture(scope="module")
def live_server(tmp_path_factory):
    with desk(tmp_path_factory.mktemp("fields"), "audit") as running:
        handle = running.open("ann")
        running.ask(handle, running.wish("Pay the invoice in mail 13 and tell Kim."), "clerk")
        running.key = handle.id
        yield running


def opened_page(running, visit, **how):
    page = visit(running, **how)
    page.goto(f"{running.address}/#/conversations/{running.key}")
    expect(page.get_by_role("heading", level=2)).to_have_count(1)
    return page


def pay(page):
    hop = page.locator(".hop").filter(has=page.locator(".root", has_text=re.compile("^Pay$"))).first
    hop.locator("summary").first.click()
    return hop


def test_a_value_is_marked_with_its_origin_and_leads_to_the_text_that_it_came_from(live_server, visit):
    page = opened_page(live_server, visit)
    mark = pay(page).get_by_role("button", name="source").first
    expect(mark).to_be_visible()
    words = page.get_by_text("a stranger wrote it: inbox()").first
    expect(words).to_be_hidden()
    mark.focus()
    page.keyboard.press("Enter")
    expect(words).to_be_visible()
    expect(page.locator("mark").first).to_have_text("XX99MALLORY")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("A note that was left in our shop").first).to_be_visible()
    assert "inbox" in page.evaluate("document.activeElement.textContent")


def test_the_text_appears_while_the_mark_has_the_pointer(live_server, visit):
    page = opened_page(live_server, visit)
    mark = pay(page).get_by_role("button", name="source").first
    words = page.get_by_text("a stranger wrote it: inbox()").first
    mark.hover()
    expect(words).to_be_visible()
    page.mouse.move(0, 0)
    expect(words).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 390])
def test_plumbing_is_folded_until_it_is_requested(live_server, visit, width):
    page = opened_page(live_server, visit, viewport={"width": width, "height": 844})
    closed = page.locator(".hop.plumbing")
    expect(closed.first).to_be_hidden()
    expect(page.locator(".hop:visible .waterfall").first).to_be_visible()
    button = page.get_by_role("button", name=re.compile("^Plumbing "))
    button.focus()
    page.keyboard.press("Space")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(closed.first).to_be_visible()
    for summary in page.locator("summary").all():
        summary.click()
    expect(page.get_by_role("button", name="source").first).to_be_visible()
    for mark in page.locator("button.origin").all():
        mark.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_offsets_count_from_the_beginning_of_the_request(live_server, visit):
    page = opened_page(live_server, visit)
    page.get_by_role("button", name=re.compile("^Plumbing ")).click()
    shown = [float(each.removeprefix("+").split()[0]) for each in page.locator(".elapsed").all_inner_texts()]
    assert shown == sorted(shown)
    assert shown[0] == 0


def test_a_viewer_reads_no_value_and_no_origin(live_server, visit):
    page = opened_page(live_server, visit, role="viewer")
    hop = pay(page)
    expect(hop.get_by_text("[redacted: ")).to_be_visible()
    expect(page.locator("button.origin")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
def test_two_conversations_are_compared_field_by_field(live_server, visit, width):
    other = live_server.open("ann")
    live_server.ask(other, live_server.wish("Pay the invoice in mail 12 and tell Kim."), "clerk")
    page = opened_page(live_server, visit, viewport={"width": width, "height": 844})
    page.get_by_label("Compare with the conversation").fill(other.id)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Two conversations")).to_be_visible()
    wish = page.locator(".pairs li").filter(has_text="Wish").first
    wish.locator("summary").click()
    expect(wish.get_by_text("differs")).to_be_visible()
    expect(wish.locator("mark")).to_have_text(
        [f"Pay the invoice in mail {n} and tell Kim." for n in (13, 12)]
    )
    expect(page.get_by_text("only left").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
