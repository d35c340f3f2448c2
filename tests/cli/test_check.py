from __future__ import annotations

import pytest

from agentserver.core.payload.xmlify import PayloadError
from tests.cli.conftest import organism


def test_a_sound_organism_is_summed_up(command, here):
    result = command("check")
    assert result.exit_code == 0, result.output
    *findings, provenance, ambiguous, ping, last = result.output.splitlines()
    assert provenance == "provenance: none declared, so nobody asks where a value comes from"
    assert (
        last
        == "config/organism.yaml: 6 listeners (1 agent), 1 peer, 4 payloads, 2 ambiguous roots, 2 warnings"
    )
    assert (ambiguous, ping) == (
        "ambiguous root Greet: greeter, both",
        "ambiguous root Ping: twice, silent, crash",
    )
    assert len(findings) == 2


def test_strict_lets_warnings_fail(command, here):
    assert command("check", "--strict").exit_code == 1


def test_mistakes_are_named_with_file_line_and_path(command, tmp_path):
    path = organism(
        tmp_path, "name: x\nlisteners:\n  - {name: a, description: A., handler: cli_nowhere.a, peer: []}\n"
    )
    result = command("check", str(path))
    assert result.exit_code == 1
    assert f"{path}:3: listeners[0].peer: " in result.output
    assert "Traceback" not in result.output
    assert result.output.splitlines()[-1].startswith(f"{path}: ")
    assert "error" in result.output.splitlines()[-1]


def test_a_listener_may_be_called_console(command, here, tmp_path):
    text = (here / "config" / "organism.yaml").read_text().replace("name: both", "name: console")
    (here / "renamed.yaml").write_text(text)
    assert command("check", "renamed.yaml").exit_code == 0


@pytest.mark.parametrize("verb", [["run"], ["call", "greeter"], ["graph"], ["schemas"]])
def test_other_verbs_print_the_findings_and_exit_2(command, tmp_path, verb):
    path = organism(tmp_path, "name: x\nlisteners: []\n")
    option = ["--organism"] if verb[0] == "call" else []
    result = command(*verb, *option, str(path))
    assert result.exit_code == 2
    assert "at least one listener is needed" in result.output
    assert "Traceback" not in result.output


def test_a_missing_file_is_a_finding(command, tmp_path):
    result = command("check", str(tmp_path / "none.yaml"))
    assert result.exit_code == 1
    assert "none.yaml:1: " in result.output


def test_payloads_that_cannot_live_together_are_no_traceback(command, here, monkeypatch):
    def refuse(*_, **__):
        raise PayloadError("two classes, one name")

    monkeypatch.setattr("agentserver.assembly.build", refuse)
    result = command("schemas")
    assert (result.exit_code, result.output) == (2, "two classes, one name\n")
