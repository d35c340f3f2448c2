from __future__ import annotations

import shutil

import click
import pytest

from agentserver.cli import call
from agentserver.cli.project import complete_listener_names
from tests.cli.conftest import organism


@pytest.mark.parametrize(
    ("shell", "word"),
    [("bash", "complete -o"), ("zsh", "#compdef agentserver"), ("fish", "complete --no-files")],
)
def test_each_shell_gets_its_script(command, shell, word):
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("there is no bash")
    result = command("completion", shell)
    assert result.exit_code == 0
    assert word in result.output
    assert "_AGENTSERVER_COMPLETE=" in result.output


def complete_line(shell, cwd, words):
    answer = shell(
        cwd=cwd,
        _AGENTSERVER_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split(" ")) - 1),
    )
    return [line.partition(",")[2] for line in answer.stdout.split()]


def test_listeners_are_completed_without_running_their_code(shell, tmp_path):
    organism(
        tmp_path,
        "name: x\nlisteners:\n  - {name: greeter, handler: no.such}\n  - {name: group}\n  - 7\ninclude: [more.yaml]\n",
    )
    (tmp_path / "more.yaml").write_text("listeners:\n  - {name: grown}\n")
    assert complete_line(shell, tmp_path, "agentserver call gr") == ["greeter", "group", "grown"]
    assert complete_line(shell, tmp_path / "..", "agentserver call gr") == []
    assert complete_line(shell, tmp_path, "agentserver ch") == ["check"]


def test_names_come_from_the_file_that_is_named(tmp_path, monkeypatch):
    path = organism(tmp_path, "name: x\nlisteners:\n  - {name: greeter}\n  - {name: other}\n")
    context = click.Context(call.command)
    context.params = {"organism": path}
    assert complete_listener_names(context, call.command.params[0], "g") == ["greeter"]
    monkeypatch.chdir(tmp_path / "..")
    context.params = {}
    assert complete_listener_names(context, call.command.params[0], "g") == []
