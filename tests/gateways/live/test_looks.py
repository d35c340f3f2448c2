"""Every page in both schemes, as wide as a desk and as a phone: nothing scrolls sideways, and axe-core finds nothing."""

from __future__ import annotations

import base64
import json
import os
from importlib.resources import files
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from tests.gateways.live.conftest import PATIENCE, ROOT
from tests.gateways.live.showroom import ADDRESS, ANSWERS, BLOCKED, FINE, NOON, PAGES, Showroom

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
SHAPES = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]
HEIGHTS = {1280: 900, 390: 844}
PICTURES = ROOT / "docs" / "pictures"
PICTURED = ("overview", "organism", "conversations", "conversation", "approval")


def keep(name, body):
    """Write a picture of the documents when AGENTSERVER_PICTURES is set; otherwise only see that one can be taken."""
    assert body[8:12] == b"WEBP"
    if os.environ.get("AGENTSERVER_PICTURES"):
        (PICTURES / name).write_bytes(body)


@pytest.fixture
def show(chromium):
    """Opens the page of a showroom, in a context of its own."""
    contexts, faults = [], []

    def show_page(width=1280, scheme="light", *, path="overview", still=False, **how):
        context = chromium.new_context(
            viewport={"width": width, "height": HEIGHTS[width]}, color_scheme=scheme,
            locale="en-GB", timezone_id="UTC", reduced_motion="reduce",
        )  # fmt: skip
        contexts.append(context)
        Showroom(**how).install(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.clock.install(time=NOON)
        if still:
            page.clock.pause_at(NOON + 1)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{ADDRESS}/#/{path}")
        return page

    yield show_page
    for context in contexts:
        context.close()
    assert faults == []


def go(page, name):
    path, title = PAGES[name]
    address = f"{ADDRESS}/#/{path}"
    if page.url != address:
        page.evaluate("document.querySelector('h1')?.remove()")  # that of the page before
        page.goto(address)
    expect(page.get_by_role("heading", level=1)).to_contain_text(title)
    return page


def unfold(page):
    """Open folded parts, with the content that they load when opened, and the marks of origins."""
    page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
    if page.locator(".hop > details, .pairs details").count():
        expect(page.locator("dl.fields, .completion section").first).to_be_visible()
    if page.get_by_role("button", name="Try it").count():
        page.get_by_role("button", name="Try it").click()
        expect(page.get_by_role("table", name="Stopped or changed calls")).to_be_visible()
    page.evaluate("document.querySelectorAll('button.origin').forEach((each) => each.click())")


def overflows(page):
    """Elements of the page that reach beyond its window, and the page itself."""
    return page.evaluate(
        """() => {
          const wide = document.documentElement.clientWidth;
          const inside = (node) => node.closest('.picture, .unseen, .skip') || node.closest('thead');
          const found = [...document.querySelectorAll('main *, header *')].filter((node) =>
            node.getClientRects().length && node.getBoundingClientRect().right > wide + 0.5 && !inside(node));
          const clipped = [...document.querySelectorAll('main .table, td, th')].filter((node) =>
            !inside(node) && node.scrollWidth > node.clientWidth + 1);
          const scrolls = document.documentElement.scrollWidth > wide ? ['the page'] : [];
          return [...scrolls, ...[...found, ...clipped].map((node) => `${node.localName}.${node.className}: ${node.textContent.slice(0, 40)}`)];
        }"""
    )


def faults(page):
    """Return what axe-core finds."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(AXE)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]


@pytest.mark.parametrize(("width", "scheme"), SHAPES)
def test_no_page_scrolls_sideways_and_axe_finds_nothing(show, width, scheme):
    page = show(width, scheme)
    wrong = {}
    for name in PAGES:
        unfold(go(page, name))
        wrong[name] = overflows(page) + faults(page)
    assert {name: found for name, found in wrong.items() if found} == {}


def test_the_conversations_of_yesterday_are_a_saved_view_in_the_readers_time(show):
    page = go(show(still=True), "conversations")
    address = page.get_by_role("link", name="Yesterday").get_attribute("href")
    assert unquote(address).endswith("opened>=2023-11-13T00:00:00.000Z opened<2023-11-14T00:00:00.000Z")


def test_a_row_leads_to_its_conversation_by_what_was_asked(show):
    page = go(show(), "conversations")
    one = ANSWERS["conversations"]["conversations"][0]
    page.get_by_role("link", name=f"{one['addressee']} {one['preview']}").first.click()
    assert page.url.endswith(f"/conversations/{one['id']}")


def test_a_name_next_to_a_long_reason_is_in_one_line(show):
    page = go(show(), "dead")
    broken = "cells => cells.filter(one => one.firstElementChild ? one.firstElementChild.getClientRects().length > 1"
    broken += " : one.getClientRects()[0].height > 60).map(one => one.textContent)"
    assert page.locator("tbody .short").evaluate_all(broken) == []


@pytest.mark.parametrize("width", [320, 600, 650, 820, 1060])
def test_nothing_is_clipped_at_the_widths_between(show, width):
    page = show(390)
    page.set_viewport_size({"width": width, "height": 800})
    wrong = {
        name: overflows(go(page, name)) for name in ("overview", "organism", "conversations", "usage", "dead")
    }
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize(("width", "scheme"), SHAPES)
def test_the_pages_of_a_server_that_has_done_nothing_say_so(show, width, scheme):
    page = show(width, scheme, empty=True)
    wrong = {}
    for name in ("overview", "conversations", "approvals", "dead", "usage"):
        go(page, name)
        expect(page.locator(".empty").first).to_be_visible()
        wrong[name] = overflows(page) + faults(page)
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize(("width", "scheme"), SHAPES)
def test_the_page_before_a_session_fits_and_axe_finds_nothing(show, width, scheme):
    page = show(width, scheme, signed_in=False)
    expect(page.get_by_role("button", name="Sign in at login.example.org")).to_be_visible()
    assert overflows(page) + faults(page) == []


def test_a_narrow_table_has_the_head_of_each_column_at_its_cell_and_stays_a_table(show):
    page = go(show(390), "conversations")
    row = page.get_by_role("table").get_by_role("row").nth(1)
    expect(row.get_by_role("rowheader")).to_contain_text("Pay the invoice in mail 13")
    expect(row.get_by_role("cell")).to_have_count(7)
    heads = page.get_by_role("columnheader").all_inner_texts()
    labels = row.get_by_role("cell").evaluate_all("(all) => all.map((each) => each.dataset.label)")
    assert labels == heads[1:]
    assert row.bounding_box()["height"] > row.get_by_role("cell").first.bounding_box()["height"] * 2


def test_two_conversations_are_compared_with_the_keyboard_alone(show):
    page = go(show(), "conversation")
    page.get_by_label("Compare with the conversation").focus()
    page.keyboard.type(FINE)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Two conversations")
    page.locator(".pairs summary").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".sides mark").first).to_have_text("Pay the invoice in mail 13 and tell Kim.")


@pytest.mark.parametrize(("width", "scheme"), SHAPES)
def test_each_page_is_pictured_for_the_documents(show, width, scheme):
    """``./run pictures`` keeps them; the answers, the time and the place are the same at each run."""
    page = show(width, scheme, still=True)
    session = page.context.new_cdp_session(page)
    for name in PICTURED:
        go(page, name)
        if name == "organism":
            page.evaluate("(text) => window.feeds.at(-1).onmessage({ data: text })", json.dumps(news()))
            expect(page.locator(".organism .mark.bad")).to_have_count(4)
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        data = session.send("Page.captureScreenshot", {"format": "webp", "quality": 80})["data"]
        keep(f"live-{name}-{width}-{scheme}.webp", base64.b64decode(data))


def test_the_documents_have_each_picture_and_they_are_small():
    names = {f"live-{name}-{width}-{scheme}.webp" for name in PICTURED for width, scheme in SHAPES}
    kept = {path.name: path.stat().st_size for path in PICTURES.glob("live-*")}
    assert kept.keys() == names
    assert sum(kept.values()) < 2_000_000
    text = (ROOT / "docs" / "live.md").read_text("utf-8")
    assert {name for name in names if f"pictures/{name}" not in text} == set()


def test_news_add_to_the_organisms_page_and_build_nothing_again(show):
    page = go(show(), "organism")
    tell = "(text) => window.feeds.at(-1).onmessage({ data: text })"
    page.evaluate(tell, json.dumps(news()))
    expect(page.locator(".recent li").first).to_contain_text("answered")
    page.evaluate(
        """() => {
          window.before = [...document.querySelectorAll('main tr, main td, .recent li, .organism .box')];
          window.added = 0;
          new MutationObserver((found) => found.forEach((each) => { window.added += each.addedNodes.length; }))
            .observe(document.querySelector('.recent'), { childList: true });
        }"""
    )
    page.evaluate(tell, json.dumps({**news(), "hops": news()["hops"][:10]}))
    page.wait_for_function("window.added > 0")
    assert page.evaluate("window.added") == 10
    assert page.evaluate("window.before.filter((each) => !each.isConnected).length") <= 10  # beyond the bound


def news():
    """The hops of a conversation as the stream has them."""
    rows = [row for row in ANSWERS[f"conversations/{BLOCKED}"]["rows"] if row["event"] != "completed"]
    keys = ("event", "conversation", "sender", "to", "root", "at", "code", "why")
    hops = [{key: row[key] for key in keys} for row in rows if not row["plumbing"]]
    return {"queues": ANSWERS["organism"]["queues"], "waiting": 2, "missed": 0, "counted": [], "hops": hops}
