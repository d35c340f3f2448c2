"""A server that is killed right after it has acknowledged an opening: the next one knows the conversation."""

from __future__ import annotations

import pytest

from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.principals import Caller, Rate, Role, document, tokens
from tests.cli.served import ServedProcess, write
from tests.machine import HANGS

pytestmark = pytest.mark.parametrize(
    "headers", [{}, {"idempotency-key": "mine"}], ids=["without a key", "under a key"]
)


@pytest.fixture
def home(tmp_path):
    write(tmp_path, "http: {bind: '127.0.0.1:0'}")
    return tmp_path


@pytest.fixture
def token(home):
    caller = Caller(Principal("ada", Trust.STRANGER, ("greeter",)), Role.USER, Rate(1000, "s"), 2)
    return tokens.add(document.locate_principal_file(home / "out" / "journal.sqlite"), caller)


def kill(served):
    served.process.kill()
    served.process.wait(HANGS)


def test_a_conversation_whose_opening_was_acknowledged_outlives_a_kill(home, token, headers):
    with ServedProcess(home, token) as served:
        opened = served.client.post("/v1/conversations", headers=headers)
        assert opened.status_code == 201
        kill(served)
    path = opened.headers["location"]
    with ServedProcess(home, token) as served:
        assert served.client.get(f"{path}/events?wait=0").status_code == 200
        answer = served.client.post(f"{path}/messages?to=greeter", json={"name": "Ada"})
        assert (answer.status_code, answer.json().get("value")) == (200, {"text": "Hello, Ada"})
        assert served.client.delete(path).status_code == 204


def test_a_conversation_that_was_opened_before_a_kill_counts_towards_the_quota(home, token, headers):
    with ServedProcess(home, token) as served:
        assert served.client.post("/v1/conversations", headers=headers).status_code == 201
        kill(served)
    with ServedProcess(home, token) as served:
        statuses = [served.client.post("/v1/conversations").status_code for _ in range(2)]
    assert statuses == [201, 429]
