"""A check reads what an organism says, and imports no SDK for it: those take seconds, and need not be installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from agentserver.payload.foreign.lock import ServerLock, tool, write_lock
from tests.machine import HANGS

ROOT = Path(__file__).parents[2]
HEAVY = ("pydantic_ai", "openai", "anthropic", "mcp", "mcp_types")
SCRIPT = """
import json, os, sys
import agentserver.assembly, agentserver.cli.check, agentserver.config.lineage, agentserver.config.loading
import agentserver.guards.lineage.trust, agentserver.llm.agent
from agentserver.cli import cli
for path in sys.argv[1:]:
    sys.stdout.flush()
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, path
        continue
    try:
        os.chdir(os.path.dirname(path))
        try:
            cli(["check", path], standalone_mode=False)
        except SystemExit as end:
            assert not end.code, end.code
        print(json.dumps({path: sorted(sys.modules)}), flush=True)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)
"""
"""Checks each organism in a fork of one process that has imported only the modules that most checks need."""
CODE = """
from dataclasses import dataclass
from agentserver import xmlify

@xmlify
@dataclass(frozen=True)
class Wish:
    \"\"\"What is asked.\"\"\"
    text: str

@xmlify
@dataclass(frozen=True)
class Done:
    \"\"\"The end of it.\"\"\"
    text: str
"""
YAML = """
name: desk
listeners:
  - name: agent
    description: Does it.
    model: m
    prompt: prompt.md
    answer: light_desk.Done
    payload_class: light_desk.Wish
    peers: [far.echo]
llm:
  backends:
    - {name: one, provider: openai, model: gpt-5-mini, base_url: "http://127.0.0.1:9/v1"}
    - {name: two, provider: anthropic, model: claude-sonnet-4-5}
  models:
    - {name: m, backends: [one, two]}
mcp:
  - name: far
    command: [python, -m, nothing]
    tools: [{name: echo, trust: source}]
"""
EXAMPLES = sorted(
    path
    for path in (*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("config/*.yaml"))
    if any(line.startswith(("llm:", "mcp:")) for line in path.read_text("utf-8").splitlines())
)


def imported_modules(*paths):
    """The modules that the check of each organism has imported."""
    command = [sys.executable, "-c", SCRIPT, *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith('{"/'):
            found |= json.loads(line)
    assert found.keys() == {str(path) for path in paths}
    return found


def test_an_agent_with_models_and_foreign_tools_is_checked_without_their_sdks(tmp_path):
    (tmp_path / "light_desk.py").write_text(CODE, "utf-8")
    (tmp_path / "prompt.md").write_text("You work at a desk.\n", "utf-8")
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    lock = tmp_path / "schemas" / "mcp" / "far.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(
        write_lock(ServerLock("far 1", "2026-07-28", (tool("echo", "Echoes.", schema),))), "utf-8"
    )
    (tmp_path / "organism.yaml").write_text(YAML, "utf-8")
    (found,) = imported_modules(tmp_path / "organism.yaml").values()
    assert set(found).isdisjoint(HEAVY)


def test_the_examples_are_checked_without_the_sdks():
    found = {path: set(names).intersection(HEAVY) for path, names in imported_modules(*EXAMPLES).items()}
    assert {path: names for path, names in found.items() if names} == {}
