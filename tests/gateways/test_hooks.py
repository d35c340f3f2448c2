"""Events of other services over a real socket: signatures, mapping, and that each is taken once."""

from __future__ import annotations

import hashlib
import hmac
import json
import time

import pytest

from agentserver.gateways.hooks import find_id, part, verify
from agentserver.gateways.http import TokenKeeper
from agentserver.gateways.http.parts import ProblemAnswer
from agentserver.ports.hooks import Hook, map_fields
from tests.gateways.http.desk import Greet, NoPace, Pay, People, desk
from tests.pump.desk import wait_until

HELLO = b"Hello, World!"
GITHUB = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
"""The example of GitHub's documentation, for the secret "It's a Secret to Everybody"."""

STANDARD = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,bad v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
"""The example of the specification of Standard Webhooks."""


def hook(signature="github", secret="It's a Secret to Everybody", **more):
    return Hook("one", "greeter", Greet.__xml_name__, signature, secret, **more)


def heads(**values):
    found = {name.replace("_", "-").encode(): value for name, value in values.items()}
    return lambda name: found.get(name, "")


def check(one, given, body, now=0.0):
    found = {name.encode(): value for name, value in given.items()}
    verify(one, lambda name: found.get(name, ""), body, now)


def stripe(secret, at, body):
    right = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {"stripe-signature": f"t={at},v1={'0' * 64},v1={right},v0=old"}


def slack(secret, at, body):
    right = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    return {"x-slack-request-timestamp": str(at), "x-slack-signature": f"v0={right}"}


def test_the_published_examples_are_taken():
    check(hook(), {"x-hub-signature-256": GITHUB}, HELLO)
    one = hook("standard", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    check(one, STANDARD, b'{"test": 2432232314}', 1614265330.0)


@pytest.mark.parametrize("sign", [stripe, slack])
@pytest.mark.parametrize(("now", "fresh"), [(1000, True), (1300, True), (1301, False), (699, False)])
def test_a_signed_time_is_near_the_servers(sign, now, fresh):
    one = hook(sign.__name__, "secret")
    given = sign("secret", 1000, b"{}")
    if fresh:
        check(one, given, b"{}", now)
    else:
        with pytest.raises(ProblemAnswer):
            check(one, given, b"{}", now)


@pytest.mark.parametrize(
    ("signature", "given"),
    [
        ("github", {"x-hub-signature-256": GITHUB[:-1] + "0"}),
        ("github", {}),
        ("github", {"x-hub-signature-256": ""}),
        ("standard", {}),
        ("standard", STANDARD),
        ("stripe", {"stripe-signature": "t=0,v1="}),
        ("stripe", {"stripe-signature": "v1"}),
        ("slack", {"x-slack-request-timestamp": "0", "x-slack-signature": "v0="}),
        ("slack", {"x-slack-request-timestamp": "²", "x-slack-signature": "v0="}),
    ],
)
def test_anything_else_is_refused(signature, given):
    with pytest.raises(ProblemAnswer) as refused:
        check(hook(signature), given, HELLO)
    assert refused.value.status == 401


def test_an_event_is_known_by_the_senders_id_or_by_its_content():
    assert find_id(hook(), heads(x_github_delivery="a-1"), {}, b"") == "a-1"
    assert find_id(hook("stripe"), heads(), {"id": "evt_1"}, b"") == "evt_1"
    content = hashlib.sha256(b"x").hexdigest()
    for odd in ({}, {"id": 7}, {"id": ""}, {"id": 'a"b'}, {"id": "a b"}, {"id": "x" * 1000}, []):
        assert find_id(hook("stripe"), heads(), odd, b"x") == content


def test_fields_are_taken_from_paths():
    one = hook(fields={"title": "issue.title", "all": "$", "none": "a.b"})
    value = {"issue": {"title": "t"}, "number": 3, "a": "text", "other": 1}
    assert map_fields(one.fields, value, ["title", "number", "all", "none"]) == {
        "title": "t",
        "number": 3,
        "all": value,
    }


def sign_headers(body, secret="secret", event="1", **more):
    right = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "x-hub-signature-256": f"sha256={right}",
        "x-github-delivery": event,
        "content-type": "application/json",
        **more,
    }


@pytest.fixture
def hooks():
    some = (
        hook(secret="secret", fields={"name": "issue.author"}, only={"x-github-event": "issues"}),
        Hook("till", "cashier", Pay.__xml_name__, "github", "secret"),
    )
    return [part(some, TokenKeeper(People(), NoPace()))]


@pytest.mark.anyio
async def test_an_event_becomes_a_message_of_a_stranger(hooks):
    async with desk(parts=hooks) as d, d.client("") as client:
        body = json.dumps({"issue": {"author": "Ada"}}).encode()
        headers = sign_headers(body, **{"x-github-event": "issues"})
        answer = await client.post("/hooks/one", content=body, headers=headers)
        assert answer.status_code == 202
        key = answer.json()["conversation"]
        other = await client.post("/hooks/one", content=body, headers={**headers, "x-github-event": "ping"})
        assert other.status_code == 204
        await wait_until(lambda: d.server.conversation(key) is None or d.server.conversation(key).closed)


@pytest.mark.anyio
async def test_a_repeated_event_is_taken_once(hooks):
    async with desk(parts=hooks) as d, d.client("") as client:
        body = b'{"amount": 3}'
        first = await client.post("/hooks/till", content=body, headers=sign_headers(body))
        await wait_until(lambda: d.books.paid == 1)
        again = await client.post("/hooks/till", content=body, headers=sign_headers(body))
        assert (first.status_code, again.status_code) == (202, 202)
        assert first.json()["conversation"] == again.json()["conversation"]
        changed = b'{"amount": 4}'
        other = await client.post("/hooks/till", content=changed, headers=sign_headers(changed, event="2"))
        assert other.status_code == 202
        await wait_until(lambda: d.books.paid == 2)
        assert d.books.paid == 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/hooks/till", b"{}", {"x-hub-signature-256": "sha256=0"}, 401),
        ("/hooks/till", b"{}", {}, 401),
        ("/hooks/none", b"{}", sign_headers(b"{}"), 404),
        ("/hooks/till", b"{}", sign_headers(b"{}"), 422),
        ("/hooks/till", b"{", sign_headers(b"{"), 422),
        (
            "/hooks/till",
            b"a=1",
            {**sign_headers(b"a=1"), "content-type": "application/x-www-form-urlencoded"},
            415,
        ),
    ],
)
async def test_an_invalid_event_is_refused(hooks, path, body, headers, status):
    async with desk(parts=hooks) as d, d.client("") as client:
        answer = await client.post(path, content=body, headers=headers)
        assert answer.status_code == status
        assert d.books.paid == 0


@pytest.mark.anyio
async def test_an_event_of_another_sender_is_no_challenge(hooks):
    async with desk(parts=hooks) as d, d.client("") as client:
        body = b'{"type": "url_verification", "amount": 3}'
        answer = await client.post("/hooks/till", content=body, headers=sign_headers(body))
        assert answer.status_code == 202


@pytest.mark.anyio
async def test_slack_is_answered_its_challenge():
    some = [
        part([Hook("s", "greeter", Greet.__xml_name__, "slack", "secret")], TokenKeeper(People(), NoPace()))
    ]
    body = b'{"type": "url_verification", "challenge": "3eZbrw1a"}'
    async with desk(parts=some) as d, d.client("") as client:
        headers = {**slack("secret", int(time.time()), body), "content-type": "application/json"}
        answer = await client.post("/hooks/s", content=body, headers=headers)
        assert answer.json() == {"challenge": "3eZbrw1a"}


@pytest.mark.anyio
async def test_an_event_that_came_while_the_queue_was_full_is_taken_when_it_comes_again(hooks):
    async with desk(parts=hooks) as d, d.client("") as client:
        accounts = d.server._pump._accounts
        admits = accounts.admits
        accounts.admits = lambda *_: False
        body = b'{"amount": 3}'
        assert (await client.post("/hooks/till", content=body, headers=sign_headers(body))).status_code == 429
        accounts.admits = admits
        answers = [
            await client.post("/hooks/till", content=body, headers=sign_headers(body)) for _ in range(2)
        ]
        assert [each.status_code for each in answers] == [202, 202]
        await wait_until(lambda: d.books.paid)
        assert d.books.paid == 1
