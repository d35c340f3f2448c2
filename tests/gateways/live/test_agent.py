"""An agent and its model over HTTP, from the prompt to the answer, on the page of its conversation."""

from __future__ import annotations

import sys

import httpx
import pytest
from playwright.sync_api import expect

from agentserver import config
from tests.gateways.live.running import TOKENS, RunningServer
from tests.llm.agent.conftest import CODE, YAML
from tests.llm.providers import serve_providers
from tests.machine import HANGS, PLAIN

MARKUP = "<img src=x onerror=alert(1)>"
OURS = {"x-agentserver": "live"}
SECRET = "canary-key-7781"


def agent(folder, providers):
    (folder / "desk_code.py").write_text(CODE)
    (folder / "prompt.md").write_text("You work at a desk.\n")
    backend = f'provider: openai, model: ok, key: "${{KEY}}", base_url: "{providers.url}/openai"'
    text = YAML.format(agent="", more="  prompts: {record: full}")
    (folder / "organism.yaml").write_text(text.replace("provider: scripted, script: script.yaml", backend))
    return config.load(folder / "organism.yaml", environ={"KEY": SECRET})


@pytest.fixture(scope="module")
def live_server(tmp_path_factory):
    with serve_providers() as providers:
        organism = agent(tmp_path_factory.mktemp("agent"), providers)
        with RunningServer(organism, durable=True) as running:
            providers.replies += [[("calc_add", {"a": 3, "b": 5})], [("Done", {"text": f"It is 8 {MARKUP}"})]]
            wish = sys.modules["desk_code"].Wish(f"Add 3 and 5 {MARKUP} {SECRET}")
            handle = running.open("ann")
            ((_, root, _),) = running.ask(handle, wish, "agent")
            assert root == "Done"
            running.key = handle.id
            yield running
        config.forget(organism)


def test_the_prompt_the_calls_and_the_answer_of_an_agent_are_on_its_page(live_server, visit):
    page = visit(live_server)
    page.goto(f"{live_server.address}/#/conversations/{live_server.key}")
    asked = page.locator(".hop.completion")
    expect(asked).to_have_count(2)
    expect(asked.first).to_contain_text("11 tokens in, 3 out")
    asked.first.locator("summary").first.click()
    expect(asked.first).to_contain_text("You work at a desk.")
    expect(asked.first).to_contain_text(f"Add 3 and 5 {MARKUP}")
    expect(asked.first.get_by_role("heading", name="answer calls")).to_be_visible()
    expect(asked.first).to_contain_text('calc_add {"a":3,"b":5}')
    asked.last.locator("summary").first.click()
    expect(asked.last).to_contain_text(f"It is 8 {MARKUP}")
    expect(page.get_by_text("agent → calc.add").first).to_be_visible()
    assert page.locator("main img").count() == 0
    assert SECRET not in page.locator("main").inner_text()


@pytest.mark.parametrize("roles", [{"operator"}, {"operator", "viewer"}], ids=["operators", "both"])
def test_a_role_that_may_not_read_prompts_learns_only_that_a_model_was_asked(live_server, roles, monkeypatch):
    monkeypatch.setattr(live_server, "prompt_roles", frozenset(roles))
    with httpx.Client(base_url=live_server.address, timeout=HANGS, verify=PLAIN) as client:
        found = client.post("/live/session", json={"token": TOKENS["viewer"]}, headers=OURS)
        headers = {"cookie": found.headers["set-cookie"].partition(";")[0]}
        path = f"/live/conversations/{live_server.key}"
        rows = client.get(path, headers=headers).json()["rows"]
        asked = [row for row in rows if row["event"] == "completed"]
        parts = client.get(f"{path}/completions/{asked[0]['delivery']}.1", headers=headers)
        assert len(asked) == 2
    if "viewer" in roles:
        assert "You work" not in parts.text
        assert "sha256" in parts.text
    else:
        assert parts.status_code == 403
        assert {"model", "summary", "key", "took"}.isdisjoint(asked[0])
