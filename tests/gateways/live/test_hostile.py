"""Texts of strangers' on every page: each is shown as a text, none is a script, and the policy is never broken."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from agentserver.engines.memory import MemoryEngine
from tests.gateways.live.hostile import CORPUS, HoldingGuard, RecordingGuard, Say, organism
from tests.gateways.live.running import RunningServer

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


@pytest.fixture(scope="module")
def live_server():
    engine = MemoryEngine(recorded=True)
    with RunningServer(
        organism(), engine=engine, guards={"quoting": RecordingGuard()}, approver=HoldingGuard()
    ) as running:
        yield running


def assert_unharmed(page):
    """Assert that a text became no element, script or request."""
    assert page.evaluate("window.violations") == []
    assert page.evaluate("window.pwned") is None
    assert (
        page.evaluate(
            "document.querySelectorAll('img, iframe, object, embed, base, form:not([role=search])').length"
        )
        == 0
    )
    assert page.evaluate("document.scripts.length") == 1
    foreign = (
        "[...document.querySelectorAll('*')].flatMap((node) => [...node.attributes])"
        ".filter((one) => one.name.startsWith('on') || /^\\s*javascript:/i.test(one.value)).length"
    )
    assert page.evaluate(foreign) == 0


def unfold(page, address):
    """Open a conversation, and all that can be opened in it."""
    page.goto(address)
    expect(page.get_by_role("heading", level=1)).to_contain_text(address.rpartition("/")[2])
    expect(page.locator(".hop").filter(has_text="refused").first).to_be_visible()
    for details in page.locator("details").all():
        if details.get_attribute("open") is None:
            details.locator("> summary").click()
    more = page.get_by_role("button", name="show all of it")
    for left in range(more.count(), 0, -1):
        expect(more).to_have_count(left)
        more.first.click()
    expect(more).to_have_count(0)


@pytest.mark.parametrize(
    "names", [[name for name in CORPUS if name != "long"], ["long"]], ids=["short", "long"]
)
def test_texts_of_strangers_go_through_every_page_as_texts(live_server, visit, names):
    asked = []
    page = visit(live_server)
    page.context.add_init_script(WATCH)
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.get_by_role("button", name="mouth").click()
    handles = [live_server.open("ann") for _ in names]
    for handle, name in zip(handles, names, strict=True):
        live_server.say(handle, Say(CORPUS[name]), "mouth")
    expect(page.locator(".recent li").filter(has_text="refused").first).to_be_visible()
    expect(page.locator("#waiting")).to_have_text(f"{len(names)} wait")
    assert_unharmed(page)

    for handle in handles:
        unfold(page, f"{live_server.address}/#/conversations/{handle.id}")
        assert_unharmed(page)

    page.goto(f"{live_server.address}/#/approvals")
    for left in range(len(names), 0, -1):
        expect(page.locator(".card")).to_have_count(left)
        page.get_by_role("link", name="Read and decide: mouth to till").first.click()
        said = page.get_by_role("group", name="What it says")
        expect(said).to_be_visible()
        assert_unharmed(page)
        if names == ["long"]:
            assert said.inner_text().count("A") == 1_000_000  # whole, however long
        page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("heading", level=1, name="Approvals")).to_be_visible()
    assert_unharmed(page)

    for path, tells in (("conversations", "Conversations"), ("dead", "Dead letters"), ("usage", "By model")):
        page.goto(f"{live_server.address}/#/{path}")
        expect(page.get_by_role("table", name=tells)).to_be_visible()
        assert_unharmed(page)
    page.goto(f"{live_server.address}/#/dead")
    for place in range(len(names)):
        page.get_by_role("table").get_by_role("link").nth(place).click()
        expect(page.get_by_role("group", name="What it says")).to_be_visible()
        assert_unharmed(page)
        page.get_by_role("link", name="All dead letters").click()
    for handle in handles:
        live_server.do(handle.close())
    assert [url for url in asked if not url.startswith(live_server.address)] == []


def test_hidden_and_turned_characters_are_seen(live_server, visit):
    page = visit(live_server)
    handle = live_server.open("ann")
    live_server.say(handle, Say(CORPUS["bidi"]), "mouth")
    page.goto(f"{live_server.address}/#/approvals")
    page.get_by_role("link", name="Read and decide: mouth to till").first.click()
    said = page.get_by_role("group", name="What it says")
    for escaped in (r"\u202e", r"\u2066", r"\u200b", r"\u0440\u0430\u0443"):
        expect(said).to_contain_text(escaped)
    shown = page.locator("body").inner_text()
    assert not set(shown) & set("\u202e\u202c\u2066\u2069\u200b\u200d\ufeff")
    live_server.do(handle.close())


ADDRESSES = ["%00", "..%2f..", "%3Cimg%20src=x%20onerror=alert(1)%3E", "%E0%A4%A", "__proto__"]


def test_an_unknown_address_shows_no_content(live_server, visit):
    page = visit(live_server)
    for kind in ("conversations", "approvals", "dead", ""):
        for path in ADDRESSES:
            page.goto(f"{live_server.address}/#/{kind}/{path}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate("document.querySelectorAll('img').length") == 0
