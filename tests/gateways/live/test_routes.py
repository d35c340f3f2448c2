"""Requests and answers of the live view, without a browser, over a real socket."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.lowlevel
import httpx
import pytest

from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.live import routes
from agentserver.gateways.live.pages import POLICY
from agentserver.gateways.live.routes import BODY, COOKIE
from agentserver.gateways.principals import Caller, Rate, Role
from tests.gateways.live.conftest import desk
from tests.gateways.live.running import TOKENS
from tests.machine import HANGS, PLAIN

ORDER = "Pay the invoice in mail 13 and tell Kim."
OURS = {"x-agentserver": "live"}


@pytest.fixture(scope="module")
def live_server(tmp_path_factory):
    with desk(tmp_path_factory.mktemp("routes"), "confirm") as running:
        yield running


@pytest.fixture
def client(live_server):
    with httpx.Client(base_url=live_server.address, timeout=HANGS, verify=PLAIN) as client:
        yield client


def login(client, token):
    return client.post("/live/session", json={"token": token}, headers=OURS)


def session(client, role):
    """The headers of a browser that is logged in."""
    found = login(client, TOKENS[role])
    assert found.status_code == 200, found.text
    return {"cookie": found.headers["set-cookie"].partition(";")[0]}


@pytest.fixture
def waiting(live_server, client):
    """The approval that a payment waits for."""
    handle = live_server.open("ann")
    live_server.say(handle, live_server.wish(ORDER), "clerk")
    headers = session(client, "operator")
    while not (found := client.get("/live/approvals", headers=headers).json()["waiting"]):
        time.sleep(0.02)
    yield found[0]["id"]
    live_server.do(handle.close())


SEEN = ("organism", "feed", "conversations", "conversations/x", "conversations/x/messages/y", "approvals", "approvals/x",
        "dead", "dead/x", "schedules", "usage")  # fmt: skip
DONE = ("approvals/x", "dead/x")


def test_nobody_sees_or_does_anything(client):
    answers = [client.get(f"/live/{path}", headers=headers) for path in SEEN
               for headers in ({}, {"cookie": f"{COOKIE}=x"}, {"authorization": f"Bearer {TOKENS['operator']}"})]  # fmt: skip
    answers += [client.post(f"/live/{path}", json={}, headers=OURS) for path in DONE]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert client.get("/live/session").json() == {"name": "", "issuers": []}


def test_the_cookie_is_the_strictest_there_is(client):
    found = login(client, TOKENS["operator"]).headers["set-cookie"]
    name, *attributes = found.split("; ")
    assert name.startswith("__Host-")
    assert sorted(map(str.lower, attributes)) == ["httponly", "path=/", "samesite=strict", "secure"]
    assert TOKENS["operator"] not in found


@pytest.mark.parametrize("token", ["", "x", "x" * 43, "ö" * 43, None, 7, ["x"], "\ud800"])
def test_an_invalid_token_logs_nobody_in(client, token):
    body = json.dumps({"token": token})
    found = client.post("/live/session", content=body, headers={**OURS, "content-type": "application/json"})
    assert found.status_code == 401
    assert "set-cookie" not in found.headers


def test_a_user_is_no_operator(client):
    found = login(client, TOKENS["user"])
    assert found.status_code == 403
    assert "set-cookie" not in found.headers


@pytest.mark.parametrize(
    "path", ["/", "/live/files/main.js", "/live/files/style.css", "/live/session", "/live/usage"]
)
def test_every_answer_has_the_policy(client, path):
    answer = client.get(path)
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["../routes.py", "..%2froutes.py", "none.js", "%00", "__init__.py", "."])
def test_no_other_file_is_given(client, name):
    assert client.get(f"/live/files/{name}").status_code == 404


def test_a_file_that_is_known_is_not_sent_again(client):
    tag = client.get("/live/files/main.js").headers["etag"]
    again = client.get("/live/files/main.js", headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_only_a_page_of_ours_changes_anything(client, waiting):
    headers = session(client, "operator")
    digest = client.get(f"/live/approvals/{waiting}", headers=headers).json()["digest"]
    said, path = {"answer": "once", "digest": digest}, f"/live/approvals/{waiting}"
    assert client.post(path, json=said, headers=headers).status_code == 400
    foreign = {**headers, **OURS, "content-type": "text/plain"}
    assert client.post(path, content=json.dumps(said), headers=foreign).status_code == 400
    form = {**headers, "content-type": "application/x-www-form-urlencoded"}
    assert client.post(path, content="answer=once", headers=form).status_code == 400
    assert client.delete("/live/session", headers=headers).status_code == 403
    assert client.get("/live/session", headers=headers).json()["name"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 3000,
        b'{"answer": 1, "digest": 2}',
        b'{"answer": "yes", "digest": ""}',
        b'{"answer": [], "digest": ""}',
        b'{"answer": "once", "digest": {}}',
        b" " * (BODY + 1),
        b"7",
    ],
)
def test_an_invalid_answer_is_refused(client, waiting, body):
    headers = {**session(client, "operator"), **OURS, "content-type": "application/json"}
    assert client.post(f"/live/approvals/{waiting}", content=body, headers=headers).status_code == 400


def test_an_answer_applies_to_the_displayed_message_once(client, waiting):
    headers = {**session(client, "operator"), **OURS}
    path = f"/live/approvals/{waiting}"
    digest = client.get(path, headers=headers).json()["digest"]
    other = {"answer": "once", "digest": "0" * 64}
    assert client.post(path, json=other, headers=headers).status_code == 409
    said = {"answer": "deny", "digest": digest}
    assert client.post(path, json=said, headers=headers).status_code == 200
    assert client.post(path, json=said, headers=headers).status_code == 404
    decided = client.get("/live/approvals", headers=headers).json()["decided"][0]
    assert (decided["granted"], decided["by"]) == (False, "operator-ann")


def test_a_viewer_gets_no_content_no_digest_and_no_say(client, waiting):
    headers = session(client, "viewer")
    path = f"/live/approvals/{waiting}"
    shown = client.get(path, headers=headers)
    assert shown.json()["digest"] == ""
    assert shown.json()["always"] == []
    assert "MALLORY" not in shown.text
    assert (
        client.post(path, json={"answer": "deny", "digest": ""}, headers={**headers, **OURS}).status_code
        == 403
    )
    assert client.post("/live/dead/x", json={"do": "discard"}, headers={**headers, **OURS}).status_code == 403


@pytest.mark.parametrize("name", ["x", "%FF", "%ED%A0%80", "%00", "a'b", "x" * 2000, "%F0%9F%98%80"])
def test_an_absent_path_is_not_found(client, name):
    headers = {**session(client, "operator"), **OURS}
    found = [
        client.get(f"/live/{path}/{name}", headers=headers) for path in ("conversations", "approvals", "dead")
    ]
    found.append(client.get(f"/live/conversations/{name}/messages/{name}", headers=headers))
    acts = ("requeue", "discard")
    found += [client.post(f"/live/dead/{name}", json={"do": act}, headers=headers) for act in acts]
    said = {"answer": "deny", "digest": ""}
    found.append(client.post(f"/live/approvals/{name}", json=said, headers=headers))
    assert {answer.status_code for answer in found} == {404}
    assert client.post(f"/live/dead/{name}", json={"do": []}, headers=headers).status_code == 400


def test_the_organism_is_laid_out_once(live_server, client):
    headers = session(client, "viewer")
    first, second = (client.get("/live/organism", headers=headers).json() for _ in range(2))
    assert first["boxes"] == second["boxes"]
    assert {one["name"] for one in first["listeners"]} == {"clerk", "inbox", "contacts", "bank", "outbox"}
    assert live_server.view._scenery.drawn == 1


def events(lines):
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def test_the_stream_tells_committed_records_and_no_content(live_server, client):
    with client.stream("GET", "/live/feed", headers=session(client, "operator")) as stream:
        told = events(stream.iter_lines())
        assert next(told)["hops"] == []
        handle = live_server.open("ann")
        live_server.say(handle, live_server.wish(ORDER), "clerk")
        hops = []
        while not any(hop["event"] == "asked" for hop in hops):
            hops += next(told)["hops"]
        live_server.do(handle.close())
    assert [(hop["sender"], hop["to"]) for hop in hops if hop["event"] == "sent"][:2] == [
        ("ann", "clerk"),
        ("clerk", "contacts"),
    ]
    assert "leaflets" not in json.dumps(hops)


def test_revoking_a_token_ends_the_stream_and_the_session_too(live_server, client):
    token = "revoked".ljust(43, "x")
    known = live_server.people.known
    known[token] = Caller(Principal("eve", Trust.ORDERS, None), Role.OPERATOR, Rate(9, "s"), 9, token)
    found = login(client, token)
    headers = {"cookie": found.headers["set-cookie"].partition(";")[0]}
    with client.stream("GET", "/live/feed", headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(events(lines))["hops"] == []
        live_server.people.revoke(live_server, token)
        assert "event: ended" in list(lines)
    assert client.get("/live/feed", headers=headers).status_code == 401


def test_a_viewer_reads_nothing_that_was_written_into_the_address_of_a_refused_message(live_server, client):
    handle = live_server.open("ann")
    live_server.say(handle, live_server.wish(ORDER), "my-secret")
    told = [
        client.get(f"/live/conversations/{handle.id}", headers=session(client, role)).text
        for role in ("operator", "viewer")
    ]
    live_server.do(handle.close())
    assert ["my-secret" in each for each in told] == [True, False]


def test_an_answer_that_is_finished_after_its_operator_was_revoked_counts_for_nothing(
    live_server, client, waiting
):
    token = "interrupted".ljust(43, "x")
    caller = Caller(Principal("ida", Trust.ORDERS, None), Role.OPERATOR, Rate(9, "s"), 9, token)
    live_server.people.known[token] = caller
    headers = {**OURS, "cookie": login(client, token).headers["set-cookie"].partition(";")[0]}
    shown = client.get(f"/live/approvals/{waiting}", headers=headers).json()
    data = json.dumps({"answer": "once", "digest": shown["digest"]}).encode()

    def body():
        yield data[:9]
        time.sleep(0.2)  # it is let in, and its body is read
        live_server.people.revoke(live_server, token)
        yield data[9:]

    headers["content-type"] = "application/json"
    found = client.post(f"/live/approvals/{waiting}", content=body(), headers=headers)
    assert found.status_code == 401
    left = client.get("/live/approvals", headers=session(client, "operator")).json()["waiting"]
    assert waiting in [each["id"] for each in left]


def has_streams(running, number):
    """True once so many streams are open."""
    while running.view.watching != number:
        time.sleep(0.02)
    return True


def test_a_page_that_leaves_is_unsubscribed(live_server, client):
    headers = session(client, "viewer")
    assert has_streams(live_server, 0)
    with client.stream("GET", "/live/feed", headers=headers) as stream:
        assert stream.status_code == 200
        lines = stream.iter_lines()  # the connection is closed with it
        assert next(lines)
        assert live_server.view.watching == 1
    assert has_streams(live_server, 0)


def test_only_a_limited_number_of_pages_reads_stored_data_at_once(live_server, client, monkeypatch):
    headers, read, at_once = session(client, "viewer"), live_server.server.read, []
    now = 0

    async def count_found(work):
        nonlocal now
        now += 1
        at_once.append(now)
        await anyio.lowlevel.checkpoint()
        found = await read(work)
        now -= 1
        return found

    monkeypatch.setattr(live_server.server, "read", count_found)
    with ThreadPoolExecutor(8) as people:
        asked = [
            people.submit(httpx.get, f"{live_server.address}/live/usage", headers=headers) for _ in range(16)
        ]
    assert {each.result().status_code for each in asked} == {200}
    assert len(at_once) == 16
    assert max(at_once) <= routes.READS


def test_a_stream_ends_with_its_session(live_server, client):
    headers = session(client, "viewer")
    with client.stream("GET", "/live/feed", headers=headers) as stream:
        assert client.delete("/live/session", headers={**headers, **OURS}).status_code == 200
        assert "event: ended" in list(stream.iter_lines())
    assert has_streams(live_server, 0)


def test_conversations_are_searched_by_who_may_read_them(client):
    operator, viewer = session(client, "operator"), session(client, "viewer")

    def find(where, headers):
        return client.get("/live/conversations", params={"where": where}, headers=headers)

    assert find("state=open", viewer).status_code == 200
    assert find("text=hello", operator).status_code == 200
    assert "only roles that may read messages" in find("text=hello", viewer).json()["title"]
    assert "colour: no such field" in find("colour=red", operator).json()["title"]
    assert find("text=hello", viewer).status_code == find("colour=red", operator).status_code == 400


def test_an_operator_cancels_a_request_and_is_named_in_the_record(live_server, client, waiting):
    operator, viewer = session(client, "operator"), session(client, "viewer")
    found = client.get(f"/live/approvals/{waiting}", headers=operator).json()
    key = found["conversation"]
    (request,) = client.get(f"/live/conversations/{key}/requests", headers=operator).json()["open"]
    path = f"/live/conversations/{key}/requests/{request}"
    said = {"json": {"do": "cancel"}}
    assert client.post(path, headers=OURS, **said).status_code == 401
    assert client.post(path, headers={**viewer, **OURS}, **said).status_code == 403
    assert client.post(path, headers=operator, **said).status_code == 400
    assert client.post(path, headers={**operator, **OURS}, json={"do": "end"}).status_code == 400
    assert client.post(path, headers={**operator, **OURS}, **said).status_code == 200
    assert client.post(path, headers={**operator, **OURS}, **said).status_code == 409
    assert client.get(f"/live/conversations/{key}/requests", headers=operator).json()["open"] == []
    records = client.get(f"/live/conversations/{key}/download", headers=operator)
    assert records.headers["content-disposition"].startswith("attachment")
    told = [json.loads(line) for line in records.text.splitlines()]
    assert any("operator-ann" in str(each.get("detail")) for each in told)
    assert "MALLORY" in records.text
    assert "MALLORY" not in client.get(f"/live/conversations/{key}/download", headers=viewer).text
    assert client.get(f"/live/conversations/{key}/download").status_code == 401


def test_an_overview_is_asked_for_by_a_known_period(client):
    headers = session(client, "viewer")
    assert client.get("/live/overview", headers=headers).json()["period"] == "day"
    assert client.get("/live/overview?period=year", headers=headers).json()["period"] == "year"
    assert client.get("/live/overview?period=aeon", headers=headers).status_code == 400
    assert client.get("/live/overview").status_code == 401


def test_the_overview_shows_the_only_server_of_a_storage_and_its_work(client):
    (one,) = client.get("/live/overview", headers=session(client, "viewer")).json()["servers"]
    assert (one["state"], one["number"]) == ("alive", 0)
    assert str(os.getpid()) in one["name"]
    assert one["since"] <= one["seen"]
    assert one["workers"] == []
