from __future__ import annotations

import pytest

from agentserver.cli import main


def test_help_names_every_verb_and_exit_code(command):
    shown = command("--help").output
    makers = ("init", "graph", "schemas", "codegen", "completion")
    for verb in ("run", "call", "check", *makers, "plan", "audit", "orchestrate"):
        assert f"\n  {verb} " in shown
    for code in ("0  ", "1  ", "2  ", "3  ", "130"):
        assert f"\n    {code}" in shown


def test_the_version_is_told(command):
    assert command("--version").output.startswith("agentserver, version ")


@pytest.mark.parametrize(
    "args", [["nothing"], ["--log-level", "loud", "check"], ["check", "--no-such"], ["call"]]
)
def test_a_command_that_is_not_understood_exits_2(command, args):
    assert command(*args).exit_code == 2


def test_the_entry_point_exits():
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0


def test_ctrl_c_exits_130_without_a_traceback(command, monkeypatch, here):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("agentserver.config.inspect", interrupted)
    result = command("check")
    assert result.exit_code == 130
    assert "Traceback" not in result.output


def test_without_an_organism_the_way_to_one_is_named(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = command("graph")
    assert result.exit_code == 2
    assert "no config/organism.yaml or organism.yaml here" in result.output


def test_the_version_without_an_installation(monkeypatch):
    from importlib.metadata import PackageNotFoundError

    from agentserver import cli

    def missing(_):
        raise PackageNotFoundError

    monkeypatch.setattr(cli, "version", missing)
    assert cli._version() == "from a checkout"
