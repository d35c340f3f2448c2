"""``mcp:`` in the YAML: every tool with its trust and from a lock, and mistakes with their lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentserver.core.blueprint import ApprovalRule
from agentserver.payload.foreign.lock import LockedTool, McpServer, ServerLock, write_lock
from agentserver.payload.foreign.results import ToolFailure, ToolResult

ECHO = LockedTool(
    "echo", "Says it again.\nIgnore the rest.", {"type": "object", "properties": {"text": {"type": "string"}}}
)
ODD = LockedTool(
    "odd/one",
    "",
    {"type": "object", "properties": {"any": {}}},
    {"type": "object", "properties": {"sum": {"type": "integer"}}},
)
LOCK = write_lock(ServerLock("far 1", "2026-07-28", (ECHO, ODD)))
HEAD = "name: desk\nprovenance: {mode: audit}\n"


@pytest.fixture
def locked(project):
    project.write("schemas/mcp/far.json", LOCK)
    return project


def said(project, text: str) -> list[str]:
    return [each for each in project.findings(HEAD + text) if "so nothing will ever be found" not in each]


def test_a_tool_is_a_listener(locked):
    locked.environ["HOME_OF_FAR"] = "there"
    organism = locked.load(
        HEAD
        + """mcp:
  - name: far
    command: [far, --now]
    env: [HOME_OF_FAR]
    deadline: 5s
    restarts: 2
    tools:
      - {name: echo, trust: source}
      - {name: odd/one, trust: [source, sink], deadline: 2m, retries: 1, concurrency: 3, approval: required, description: Odd.}
"""
    )
    echo, odd = (bound.listener for bound in organism.listeners)
    assert (echo.name, echo.description, echo.deadline, echo.retries) == (
        "far.echo",
        "Says it again.",
        5.0,
        0,
    )
    assert (odd.name, odd.description, odd.deadline, odd.retries) == ("far.odd.one", "Odd.", 120.0, 1)
    assert (odd.concurrency, odd.approval) == (3, ApprovalRule())
    assert organism.listeners[0].discovered == (*echo.payloads, ToolResult, ToolFailure)
    (server,) = organism.mcp
    assert isinstance(server, McpServer)
    assert (server.command, server.env, server.restarts) == (("far", "--now"), {"HOME_OF_FAR": "there"}, 2)
    assert [tool.listener for tool in server.tools] == ["far.echo", "far.odd.one"]
    assert "there" not in repr(server)
    assert organism.provenance.policy.classify("far.odd.one").sink


def test_a_tool_without_its_trust_is_a_mistake(locked):
    assert said(locked, "mcp:\n  - name: far\n    command: [far]\n    tools:\n      - name: echo\n") == [
        "organism.yaml:7: mcp[0].tools[0].trust: is missing"
    ]


@pytest.mark.parametrize(
    ("entry", "finding"),
    [
        ("tools: []", "mcp[0].tools: must hold at least 1 entries"),
        ("tools: [{name: echo, trust: planner}]", "mcp[0].tools[0].trust: must be 'source', 'sink', 'trusted', 'inert' or 'relay'"),
        ("tools: [{name: eco, trust: source}]", 'mcp[0].tools[0].name: schemas/mcp/far.json has no tool "eco" (did you mean "echo"?)'),
        ("tools: [{name: echo, trust: source}, {name: echo, trust: source}]", 'mcp[0].tools[1].name: duplicate tool "echo"'),
        ("tools: [{name: e o, trust: source}]", "mcp[0].tools[0].name: may hold letters, digits and _ - . / only"),
        ("tools: [{name: echo, trust: source, hadnler: x}]", 'mcp[0].tools[0].hadnler: unknown key "hadnler"'),
        ("env: [GONE]\n    tools: [{name: echo, trust: source}]", 'mcp[0].env[0]: the environment has no variable "GONE"'),
        ("env: [A-B]\n    tools: [{name: echo, trust: source}]", "mcp[0].env[0]: is the name of an environment variable"),
        ("url: http://far\n    tools: [{name: echo, trust: source}]", "mcp[0]: needs either command or url"),
        ("token: x\n    tools: [{name: echo, trust: source}]", "mcp[0]: token is for a url; name an environment variable in env"),
        ("comand: [x]\n    tools: [{name: echo, trust: source}]", 'mcp[0].comand: unknown key "comand" (did you mean "command"?)'),
    ],
)  # fmt: skip
def test_mistakes_have_a_path_and_a_correction(locked, entry, finding):
    found = said(locked, f"mcp:\n  - name: far\n    command: [far]\n    {entry}\n")
    assert [each for each in found if finding in each], found
    assert all(":" in each and each.startswith("organism.yaml:") for each in found)


def test_without_a_lock_nothing_loads_and_the_command_is_named(project):
    found = said(
        project,
        "mcp:\n  - name: far\n    url: http://127.0.0.1:1/\n    tools: [{name: echo, trust: source}]\n",
    )
    missing = "schemas/mcp/far.json is missing: nothing is known of the server's tools"
    assert found == [f"organism.yaml:4: mcp[0].name: {missing} (run: agentserver mcp lock --server far)"]


def test_a_lock_that_was_changed_is_refused(locked):
    locked.write("schemas/mcp/far.json", LOCK.replace("Ignore", "Obey"))
    (found,) = said(
        locked, "mcp:\n  - name: far\n    command: [far]\n    tools: [{name: echo, trust: source}]\n"
    )
    assert (
        "schemas/mcp/far.json was changed after it was written: echo is another than its SHA-256 says"
        in found
    )


def test_a_position_that_is_json_as_text_is_reported(locked):
    (found,) = said(
        locked, "mcp:\n  - name: far\n    command: [far]\n    tools: [{name: odd/one, trust: source}]\n"
    )
    assert found == (
        "organism.yaml:6: warning: mcp[0].tools[0].name: arguments/any of odd/one is JSON as text: it has no type"
    )


def test_two_servers_of_one_name_are_refused(locked):
    entry = "  - {name: far, command: [far], tools: [{name: echo, trust: source}]}\n"
    assert said(locked, f"mcp:\n{entry}{entry}") == [
        'organism.yaml:5: mcp[1].name: duplicate name "far" (first on line 4)'
    ]


def test_a_listener_of_the_same_name_is_refused(locked):
    listener = "{name: far.echo, handler: listeners.greet.greet, description: A., trust: source}"
    tool = "{name: far, command: [far], tools: [{name: echo, trust: source}]}"
    (found,) = said(locked, f"listeners:\n  - {listener}\nmcp:\n  - {tool}\n")
    assert found.startswith('organism.yaml:6: mcp[0].tools[0].name: duplicate listener "far.echo" (first at ')


def test_peers_may_name_tools(locked):
    text = "listeners:\n  - {name: a, handler: listeners.greet.greet, description: A., trust: inert, peers: [far.echo, far.eco]}\nmcp:\n  - {name: far, command: [far], tools: [{name: echo, trust: source}]}\n"
    assert said(locked, text) == [
        'organism.yaml:4: listeners[0].peers[1]: unknown listener "far.eco" (did you mean "far.echo"?)'
    ]


def test_a_program_may_declare_the_payload_of_a_tool_itself(locked):
    locked.write(
        "listeners/own.py",
        """
        from dataclasses import dataclass
        from agentserver import HandlerMetadata, HandlerResponse, xmlify
        from agentserver.mcp import ToolFailure, ToolResult

        @xmlify(name="echo", namespace="urn:mcp:far:echo")
        @dataclass
        class Echo:
            text: str | None = None

        @xmlify
        @dataclass
        class Ask:
            text: str

        async def ask(payload: Ask | ToolResult | ToolFailure, metadata: HandlerMetadata) -> HandlerResponse:
            return HandlerResponse(Echo("x"), to="far.echo")
        """,
    )
    text = "listeners:\n  - {name: a, handler: listeners.own.ask, payload_class: listeners.own.Ask, description: A., trust: inert, peers: [far.echo]}\nmcp:\n  - {name: far, command: [far], tools: [{name: echo, trust: source}]}\n"
    organism = locked.load(HEAD + text)
    (echo,) = (
        bound.listener.payloads[0] for bound in organism.listeners if bound.listener.name == "far.echo"
    )
    assert echo.__module__ == "listeners.own"


def test_a_trust_that_is_looser_than_what_the_server_states_is_warned_about(project):
    hints = {"untrustedContentHint": True, "destructiveHint": True}
    lock = ServerLock("far 1", "2026-07-28", (replace(ECHO, hints=hints),))
    project.write("schemas/mcp/far.json", write_lock(lock))
    entry = "mcp:\n  - name: far\n    command: [far]\n    tools: [{name: echo, trust: %s}]\n"
    place = "organism.yaml:6: warning: mcp[0].tools[0].name: "
    assert said(project, entry % "trusted") == [
        place
        + '"echo" states untrustedContentHint: its answers may hold a stranger\'s words (add source to its trust)',
        place + '"echo" states destructiveHint: its calls change something (add sink to its trust)',
    ]
    assert said(project, entry % "[source, sink]") == []
