"""A policy is tried on recorded conversations, and one is saved as a test: over HTTP and in a browser."""

from __future__ import annotations

import logging
import re
import zipfile
from io import BytesIO

import httpx
import pytest
from playwright.sync_api import expect

from agentserver.gateways.live import trials
from agentserver.testing import check_replay
from tests.gateways.live.conftest import desk
from tests.gateways.live.test_routes import OURS, session
from tests.machine import HANGS, PLAIN

ORDER = "Pay the invoice in mail 13 and tell Kim."
CALM = "mode: enforce\nallow: ['*']\n"


@pytest.fixture(scope="module")
def live_server(tmp_path_factory):
    with desk(tmp_path_factory.mktemp("trial"), "enforce") as running:
        handle = running.open("ann")
        running.ask(handle, running.wish(ORDER), "clerk")
        running.key = handle.id
        yield running


@pytest.fixture
def client(live_server):
    with httpx.Client(base_url=live_server.address, timeout=HANGS, verify=PLAIN) as client:
        yield client


def attempt(client, role="operator", **body):
    headers = {**session(client, role), **OURS}
    return client.post("/live/trials", json={"policy": CALM, **body}, headers=headers)


def test_a_trial_begins_with_the_policy_in_force(client, live_server):
    found = client.get("/live/trials", headers=session(client, "operator")).json()
    answer = attempt(client, policy=found["policy"], conversation=live_server.key)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["judged"], told["asked"], told["limit"], told["compared"]) == (1, 1, "", True)
    (all_calls,) = (each for each in told["tables"] if each["title"] == "All calls")
    assert all(row[1] == row[2] for row in all_calls["rows"]), "the policy in force differs from itself"
    assert {one["to"] for one in told["stops"]} >= {"bank"}


def test_another_policy_lets_calls_pass(client, live_server, caplog):
    with caplog.at_level(logging.INFO, "agentserver.gateways.live.routes"):
        told = attempt(client, last=10).json()
    fates = [(one["to"], one["fate"], one["current"]) for one in told["stops"]]
    assert fates == [
        ("bank", "refused", "refused"),
        *2 * [("outbox", "allowed", "refused")],
        ("bank", "allowed", "refused"),
    ]
    assert all(one["conversation"] == live_server.key for one in told["stops"])
    assert told["stops"][0]["causes"] == ["selector at amount"]
    assert "is tried on 1 conversations by operator-ann (operator)" in caplog.text


def test_a_filter_chooses_the_conversations(client):
    assert attempt(client, last=10, where="principal=bob").json()["judged"] == 0


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"policy": " "}, "the policy is empty"),
        ({"policy": "mode: loud"}, "policy:1: mode"),
        ({"policy": "sinks: {bnak: }"}, "bnak"),
        ({"policy": "a: [", "last": 1}, "policy"),
        ({"mode": "audit"}, "mode is confirm or enforce"),
        ({"last": 0}, "last is from 1"),
        ({"last": True}, "last as a number"),
        ({"where": "nothing=1", "last": 1}, "nothing"),
    ],
)
def test_a_mistake_is_named(client, body, why):
    answer = attempt(client, **body)
    assert answer.status_code == 400
    assert why in answer.json()["title"]


def test_a_viewer_tries_and_saves_nothing(client, live_server):
    viewer = session(client, "viewer")
    assert attempt(client, "viewer").status_code == 403
    assert client.get("/live/trials", headers=viewer).status_code == 403
    assert client.get(f"/live/conversations/{live_server.key}/test", headers=viewer).status_code == 403
    without = client.post("/live/trials", json={"policy": CALM}, headers=session(client, "operator"))
    assert without.status_code == 400, "a page of another origin may try a policy"


def test_a_trial_ends_at_its_bounds(client, live_server, monkeypatch):
    monkeypatch.setattr(trials, "STEPS", 1)
    told = attempt(client, conversation=live_server.key).json()
    assert (told["judged"], told["limit"]) == (0, "a trial judges at most 1 steps")
    monkeypatch.undo()
    monkeypatch.setattr(trials, "SECONDS", -1.0)
    assert attempt(client, conversation=live_server.key).json()["limit"].startswith("it ended after")


def test_one_trial_runs_at_a_time(client, live_server):
    live_server.view._trying.acquire_on_behalf_of_nowait(live_server)
    try:
        assert attempt(client).status_code == 429
    finally:
        live_server.view._trying.release_on_behalf_of(live_server)


def test_a_conversation_is_saved_as_a_test_that_passes(client, live_server, tmp_path, caplog):
    with caplog.at_level(logging.INFO, "agentserver.gateways.live.routes"):
        answer = client.get(
            f"/live/conversations/{live_server.key}/test", headers=session(client, "operator")
        )
    assert answer.status_code == 200, answer.text
    assert f"conversation {live_server.key} was saved as a test by operator-ann" in caplog.text
    with zipfile.ZipFile(BytesIO(answer.content)) as saved:
        saved.extractall(tmp_path)
        names = saved.namelist()
    assert [name.partition("/")[0] for name in names] == ["tests", "tests"]
    (test,) = tmp_path.glob("tests/test_*.py")
    assert re.search(
        r"check_replay\(HERE / 'conversation_\w+\.json', HERE / '\.\./plain\.yaml'\)", test.read_text()
    )
    (kept,) = tmp_path.glob("tests/*.json")
    check_replay(kept, live_server.organism.project / "plain.yaml")


def test_a_policy_is_tried_in_the_browser(live_server, visit):
    page = visit(live_server)
    page.goto(f"{live_server.address}/#/conversations/{live_server.key}")
    page.get_by_role("link", name="Try a policy on it").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Try a policy")
    field = page.get_by_label("Policy, which begins as the one in force")
    expect(field).to_have_value(re.compile("mode: enforce"))
    field.fill(CALM)
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("1 of 1 conversations judged")).to_be_visible()
    row = (
        page.get_by_role("table", name="Stopped or changed calls")
        .get_by_role("row")
        .filter(has_text="outbox")
    )
    expect(row.first).to_contain_text("allowed")
    expect(row.first).to_contain_text("refused")
    for title in ("All calls", "By listener"):
        expect(page.get_by_role("table", name=title)).to_be_visible()
    field.fill("sinks: {bnak: }")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_role("alert")).to_contain_text("bnak")


def test_a_trial_is_wide_enough_for_a_phone_and_saves_from_the_page(live_server, visit):
    page = visit(live_server, viewport={"width": 390, "height": 844})
    page.goto(f"{live_server.address}/#/conversations/try/*")
    expect(page.get_by_label("The last conversations, at most 500")).to_be_visible()
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("conversations judged")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.goto(f"{live_server.address}/#/conversations/{live_server.key}")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as a regression test").click()
    assert saved.value.suggested_filename == f"test-{live_server.key[:8]}.zip"
