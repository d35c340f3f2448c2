from __future__ import annotations

import pytest
from click.testing import CliRunner

from agentserver.cli import cli, main
from tests.cli.journals import shop

HOSTILE = "\x1b]0;pwn\x07\nforged\x9b1m\u202e"


def test_help_names_every_verb_and_exit_code(command):
    shown = command("--help").output
    makers = ("init", "graph", "schemas", "codegen", "completion")
    for verb in ("run", "call", "check", *makers, "plan", "audit", "orchestrate"):
        assert f"\n  {verb} " in shown
    for code in ("0  ", "1  ", "2  ", "3  ", "130"):
        assert f"\n    {code}" in shown


def test_the_version_is_printed(command):
    assert command("--version").output.startswith("agentserver, version ")


@pytest.mark.parametrize(
    "args", [["nothing"], ["--log-level", "loud", "check"], ["check", "--no-such"], ["call"]]
)
def test_a_command_that_is_not_understood_exits_2(command, args):
    assert command(*args).exit_code == 2


@pytest.mark.parametrize(
    "args",
    [
        ["{}"],
        ["--{}"],
        ["check", "{}.yaml"],
        ["check", "--{}"],
        ["call", "{}"],
        ["call", "greeter", "--{}", "1"],
        ["call", "greeter", "--set", "{}"],
        ["call", "greeter", "--set", "{}=1"],
        ["call", "greeter", "--organism", "{}.yaml"],
        ["graph", "{}.yaml"],
        ["init", "{tmp}/{}"],
        ["init", "{tmp}/{}/below"],
        ["approve", "{}", "--journal", "{}"],
        ["trace", "{}"],
        ["journal", "restore", "{}"],
        ["journal", "stats", "--journal", "{}"],
        ["dead", "show", "{}", "--journal", "{}"],
        ["replay", "{}"],
        ["audit", "verify", "{}"],
        ["plan", "audit", "{tmp}/{}"],
        ["codegen", "{}"],
        ["completion", "{}"],
    ],
)
def test_input_is_echoed_without_control_characters(command, here, tmp_path, args):
    (tmp_path / HOSTILE).mkdir()
    said = command(*(arg.format(HOSTILE, tmp=tmp_path) for arg in args), color=True)
    assert said.output
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said.output)
    assert not any(line.startswith("forged") for line in said.output.splitlines())


def test_the_entry_point_exits():
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0


def test_ctrl_c_exits_130_without_a_traceback(command, monkeypatch, here):
    def raise_interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("agentserver.config.loading.inspect", raise_interrupt)
    result = command("check")
    assert result.exit_code == 130
    assert "Traceback" not in result.output


def test_without_an_organism_the_way_to_one_is_named(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = command("graph")
    assert result.exit_code == 2
    assert "no config/organism.yaml or organism.yaml here" in result.output


def test_the_version_without_an_installation(monkeypatch, command):
    from importlib.metadata import PackageNotFoundError

    def raise_missing(_):
        raise PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.version", raise_missing)
    assert "from a checkout" in command("--version").output


def test_a_misspelt_verb_gets_the_nearest_one(command):
    result = command("chek")
    assert result.exit_code == 2
    assert "No such command 'chek'. Did you mean check?" in result.output


def test_every_verb_has_its_name_in_the_table():
    from agentserver import cli

    assert [cli.cli.get_command(None, name).name for name in cli.VERBS] == list(cli.VERBS)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["journal", "verfy"], "No such command 'verfy'. Did you mean verify?"),
        (["principals", "x"], "No such command 'x'. There are: add, list, revoke, rotate."),
        (["mcp", "x"], "There are: "),
        (["journal", "suspended", "x"], "There are: "),
    ],
)
def test_an_unknown_verb_of_a_group_gets_the_list_of_verbs(words, told):
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert told in result.output


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        (["conversations", "--principal", "nobody"], "there are no such conversations\n"),
        (["approvals"], "no message waits for an approval\n"),
        (["dead"], "there are no dead letters\n"),
    ],
)
def test_an_empty_list_is_reported_on_standard_error(tmp_path, monkeypatch, verb, told):
    """The hint goes to standard error, so that a pipe stays empty."""
    monkeypatch.chdir(shop(tmp_path))
    assert CliRunner().invoke(cli, ["dead", "discard", "a603fbec"]).exit_code == 0
    result = CliRunner().invoke(cli, verb)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", told)
