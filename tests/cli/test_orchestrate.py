"""``orchestrate``: the bridge as a program, against a local server and the real SDK."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from agentserver.assembly import Principal, Server, Trust
from agentserver.cli import project
from agentserver.handoff.managed import agents
from tests.handoff.edge.service import Connection, serve_fake
from tests.machine import HANGS

VARIABLES = ("SOURCE_SESSION_ID", "AGENT_IDS", "SOURCE_AGENT", "ENVIRONMENT_ID")
REQUEST = {
    "type": "handoff_request",
    "target_agent": "launch-radar",
    "payload": {"intent": "launch_review", "params": {"ticket_id": "LEGAL-12"}},
}


@pytest.fixture
def orchestrate(command, tmp_path, monkeypatch):
    """Run the verb in an empty directory with nothing but these variables of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, **environ):
        return command("orchestrate", *arguments, env={**dict.fromkeys(VARIABLES), **environ})

    return run


def client(*headers, credentials=None, closed=None):
    closed = [] if closed is None else closed
    return SimpleNamespace(
        default_headers=dict.fromkeys(headers, "x"), credentials=credentials, close=lambda: closed.append(1)
    )


def test_the_source_session_is_required(orchestrate):
    result = orchestrate()
    assert result.exit_code == 2
    assert "SOURCE_SESSION_ID" in result.stderr


def test_bad_agent_ids_are_named(orchestrate):
    result = orchestrate(SOURCE_SESSION_ID="s", AGENT_IDS="{")
    assert result.exit_code == 2
    assert "AGENT_IDS" in result.stderr


def test_without_the_sdk_the_extra_is_named(orchestrate, monkeypatch):
    monkeypatch.setitem(sys.modules, "anthropic", None)
    result = orchestrate(SOURCE_SESSION_ID="s")
    assert result.exit_code == 2
    assert "a managed agent needs the extra managed: in a checkout, pip install '.[managed]'" in result.stderr


def test_an_sdk_that_is_broken_is_not_called_missing(orchestrate, monkeypatch):
    def raise_import():
        raise ModuleNotFoundError("no such module", name="pydantic_core")

    monkeypatch.setattr(agents, "connect", raise_import)
    assert isinstance(orchestrate(SOURCE_SESSION_ID="s").exception, ModuleNotFoundError)


def test_without_a_key_its_variable_is_named(orchestrate, monkeypatch):
    monkeypatch.setattr(agents, "connect", lambda: client("user-agent"))
    result = orchestrate(SOURCE_SESSION_ID="s")
    assert result.exit_code == 2
    assert "ANTHROPIC_API_KEY is not set" in result.stderr


@pytest.mark.parametrize(
    "known", [client("X-Api-Key"), client("Authorization"), client(credentials=object())]
)
def test_every_way_to_authenticate_counts(orchestrate, monkeypatch, known):
    ran = []
    monkeypatch.setattr(agents, "connect", lambda: known)
    monkeypatch.setattr(
        "agentserver.handoff.managed.orchestrate.run", lambda *_, client, **__: ran.append(client)
    )
    assert orchestrate(SOURCE_SESSION_ID="s").exit_code == 0
    assert ran == [known]


def test_a_key_is_not_logged_and_the_client_is_closed(orchestrate, monkeypatch):
    closed = []

    def leak_client():
        logging.getLogger("x").warning("the key is %s", "sk-very-secret")
        return client("X-Api-Key", closed=closed)

    monkeypatch.setattr(agents, "connect", leak_client)
    monkeypatch.setattr("agentserver.handoff.managed.orchestrate.run", lambda *_, **__: None)
    said = orchestrate(SOURCE_SESSION_ID="s", ANTHROPIC_API_KEY="sk-very-secret").stderr
    assert "the key is [redacted]" in said
    assert closed


def test_a_key_is_not_logged_once_an_organism_is_loaded_either(orchestrate, monkeypatch, desk):
    def leak_client():
        logging.getLogger("x").warning("the key is %s", "sk-very-secret")
        return client("X-Api-Key")

    monkeypatch.setattr(agents, "connect", leak_client)
    monkeypatch.setattr("agentserver.handoff.managed.orchestrate.run", lambda *_, **__: None)
    said = orchestrate("--organism", desk, SOURCE_SESSION_ID="s", ANTHROPIC_API_KEY="sk-very-secret").stderr
    assert "the key is [redacted]" in said


@pytest.fixture
def service():
    pytest.importorskip("anthropic")
    with serve_fake() as (fake, sdk):
        yield fake, {"ANTHROPIC_BASE_URL": str(sdk.base_url), "ANTHROPIC_API_KEY": "key"}


def test_a_request_is_handed_over_and_recorded(orchestrate, service, tmp_path):
    fake, environ = service
    fake.script = [Connection([fake.message(json.dumps(REQUEST)), fake.idle(), fake.over()])]
    result = orchestrate(
        SOURCE_SESSION_ID="sesn_src", AGENT_IDS='{"launch-radar":"sesn_t"}', SOURCE_AGENT="triage", **environ
    )
    assert (result.exit_code, result.output) == (0, "")
    assert [session for session, _ in fake.sent] == ["sesn_t"]
    (record,) = map(json.loads, (tmp_path / "out" / "handoff-audit.jsonl").read_text().splitlines())
    assert (record["source"], record["result"]) == ("triage", "approve")


def test_a_session_that_is_lost_exits_1(orchestrate, service):
    fake, environ = service
    fake.script = [Connection([], ends="status", status=404)]
    result = orchestrate(SOURCE_SESSION_ID="sesn_src", **environ)
    assert result.exit_code == 1
    assert "session sesn_src: the service answers 404" in result.stderr


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        ('{"launch-rader": "s"}', "did you mean 'launch-radar'?"),
        ('{"mailer": "s"}', "which is no target of the vocabulary; there are: diligence-grid"),
        ('{"launch-radar": ""}', "AGENT_IDS is no JSON object of texts"),
    ],
)
def test_an_id_of_no_target_is_refused(orchestrate, agents, said):
    result = orchestrate(SOURCE_SESSION_ID="s", AGENT_IDS=agents)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("name", ["system", "SYSTEM", "sys\u200btem"])
@pytest.mark.parametrize("way", ["plain", "organism"])
def test_a_source_that_nobody_can_be_is_refused(orchestrate, service, desk, name, way):
    more = ["--organism", str(desk)] if way == "organism" else []
    result = orchestrate(*more, SOURCE_SESSION_ID="s", SOURCE_AGENT=name, **service[1])
    assert result.exit_code == 2
    assert f"SOURCE_AGENT {name!r} " in result.stderr


def test_a_rehearsal_sends_and_stores_nothing_and_prints_its_observations(orchestrate, service, tmp_path):
    fake, environ = service
    call = {**REQUEST["payload"], "target_agent": "launch-radar"}
    fake.script = [Connection([fake.message(json.dumps(REQUEST)), fake.call(call), fake.over()])]
    result = orchestrate("--dry-run", SOURCE_SESSION_ID="sesn_src", SOURCE_AGENT="triage", **environ)
    assert result.exit_code == 0
    assert fake.sent == []
    assert not (tmp_path / "out").exists()
    assert result.stdout.splitlines() == [
        "listening to session sesn_src, whose agent is triage; nothing is handed over",
        *["handoff of launch_review to launch-radar: approved"] * 2,
    ]


def test_the_vocabulary_is_an_organisms_with_its_targets(orchestrate, service, desk, tmp_path):
    fake, environ = service
    fake.script = [Connection([fake.message(json.dumps(REQUEST)), fake.over()])]
    result = orchestrate(
        "--vocabulary", str(desk), SOURCE_SESSION_ID="s", AGENT_IDS='{"launch-radar":"sesn_t"}', **environ
    )
    assert (result.exit_code, [to for to, _ in fake.sent]) == (0, ["sesn_t"])
    assert "no target" in orchestrate(
        "--vocabulary", str(desk), SOURCE_SESSION_ID="s", AGENT_IDS='{"docket-watcher":"x"}', **environ
    ).stderr  # fmt: skip


def test_the_tool_is_printed_for_registering(orchestrate):
    tool = json.loads(orchestrate("--tool").stdout)
    assert tool["name"] == "handoff_request"
    jsonschema.Draft202012Validator.check_schema(tool["input_schema"])
    judge = jsonschema.Draft202012Validator(tool["input_schema"])
    asked = {"target_agent": "launch-radar", **REQUEST["payload"]}
    assert judge.is_valid(asked)
    assert judge.is_valid({**asked, "event": "why"})
    assert not judge.is_valid({**asked, "params": {"ticket_id": "x y"}})
    assert not judge.is_valid({**asked, "target_agent": "mailer"})


def test_an_interrupt_ends_a_bridge_into_an_organism(service, desk, tmp_path):
    fake, environ = service
    fake.script = [Connection([], ends="open")]
    variables = {**os.environ, **environ, "SOURCE_SESSION_ID": "s", "SOURCE_AGENT": "triage"}
    argv = [sys.executable, "-m", "agentserver", "orchestrate", "--organism", str(desk)]
    with subprocess.Popen(argv, cwd=tmp_path, env=variables, stderr=subprocess.DEVNULL) as bridge:
        while not fake.opened:
            assert bridge.poll() is None
            time.sleep(0.05)
        bridge.send_signal(signal.SIGINT)
        assert bridge.wait(HANGS) == 0


DESK = Path(__file__).parents[2] / "examples/handoff"


@pytest.fixture
def desk(tmp_path):
    for name in ("organism.yaml", "desk.py"):
        (tmp_path / name).write_bytes((DESK / name).read_bytes())
    yield tmp_path / "organism.yaml"
    sys.modules.pop("desk", None)


def test_requests_go_to_the_listeners_of_an_organism(orchestrate, service, desk, tmp_path):
    fake, environ = service
    call = {"target_agent": "launch-radar", "intent": "pay", "params": {}}
    fake.script = [
        Connection(
            [fake.message(json.dumps(REQUEST)), fake.call(call), fake.idle(), fake.over()], ends="open"
        )
    ]
    result = orchestrate("--organism", str(desk), SOURCE_SESSION_ID="s", SOURCE_AGENT="triage", **environ)
    assert (result.exit_code, result.stdout) == (0, "")
    lines = map(json.loads, (tmp_path / "out" / "handoff-audit.jsonl").read_text().splitlines())
    assert [(line["source"], line["reason"]) for line in lines] == [
        ("triage", None),
        ("triage", "unknown_intent"),
    ]
    assert [events[0]["is_error"] for _, events in fake.sent] == [True]


def test_a_managed_agents_words_are_no_order_to_provenance(orchestrate, service, desk, monkeypatch):
    fake, environ = service
    fake.script = [Connection([fake.over()], ends="open")]
    desk.write_text(desk.read_text() + "\nprovenance: {sinks: {outbox: {}}, sources: [reader]}\n")
    made = []
    server = project.build_server
    monkeypatch.setattr(
        project, "build_server", lambda *args, **more: made.append(server(*args, **more)) or made[0]
    )
    opened, opens = [], Server.open
    monkeypatch.setattr(Server, "open", lambda self, who: opened.append(who) or opens(self, who))
    orchestrate("--organism", str(desk), SOURCE_SESSION_ID="s", SOURCE_AGENT="triage", **environ)
    assert opened == [Principal("triage", Trust.STRANGER)]
    assert "reader" in made[0].organism.addressed


def test_an_organism_without_intents_is_refused(orchestrate):
    adding = Path(__file__).parents[2] / "examples/contract/adding.yaml"
    result = orchestrate("--organism", str(adding), SOURCE_SESSION_ID="s")
    assert result.exit_code == 2
    assert "has no intents" in result.stderr


def test_a_listeners_name_is_not_lent_to_another_agent(orchestrate, service, desk):
    result = orchestrate("--organism", str(desk), SOURCE_SESSION_ID="s", SOURCE_AGENT="reader", **service[1])
    assert result.exit_code == 2
    assert "SOURCE_AGENT 'reader' is the name of a listener" in result.stderr
