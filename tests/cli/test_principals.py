"""``agentserver principals``: stored values and output."""

from __future__ import annotations

import json
import stat
import time

import anyio
import pytest
from click.testing import CliRunner

from agentserver.cli import cli
from agentserver.gateways.principals import Tokens
from agentserver.gateways.principals.document import PrincipalFile

YAML = """\
name: desk
%s
listeners:
  - {name: greeter, payload_class: handlers.Greet, handler: handlers.greet, description: greets}
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "organism.yaml").write_text(YAML % "", "utf-8")
    return tmp_path


def run(*args):
    return CliRunner().invoke(cli, ["principals", *args])


def authenticate_token(path, token):
    async def main():
        tokens = Tokens(PrincipalFile(path))
        async with tokens.watch():
            return tokens.authenticate(token)

    return anyio.run(main)


def list_principals(*args):
    return [json.loads(line) for line in run("list", "--json", *args).stdout.splitlines()]


def test_a_token_is_printed_alone_and_its_file_is_next_to_the_journal(home):
    result = run("add", "ada")
    assert result.exit_code == 0, result.output
    token = result.stdout.rstrip("\n")
    path = home / "out" / "journal.sqlite.principals"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert authenticate_token(path, token).name == "ada"
    assert token not in result.stderr + path.read_text("utf-8")


def test_an_empty_list_suggests_the_command_that_adds_a_principal(home):
    for words in (["list"], ["list", "--json"]):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == (
            f"no principal is in {home}/out/journal.sqlite.principals: "
            "agentserver principals add NAME --may LISTENER adds one\n"
        )


def test_by_default_a_principal_is_a_stranger_and_may_address_nobody(home):
    assert "may address no listener" in run("add", "ada").stderr
    (one,) = list_principals()
    del one["added"]
    assert one == {
        "name": "ada", "role": "user", "trust": "stranger", "may": [], "rate": "10/s", "open": 20, "revoked": None,
        "former_until": None, "listener": None,
    }  # fmt: skip


def test_options_are_stored(home):
    more = [
        "--may",
        "greeter, mail.send",
        "--trust",
        "orders",
        "--role",
        "operator",
        "--rate",
        "5/m",
        "--open",
        "3",
    ]
    assert run("add", "ada", *more).exit_code == 0
    (one,) = list_principals()
    assert (one["may"], one["trust"], one["role"], one["rate"], one["open"]) == (
        ["greeter", "mail.send"], "orders", "operator", "5/m", 3,
    )  # fmt: skip
    assert "ada\toperator\torders\tgreeter, mail.send\t5/m\t3\t" in run("list").stdout


def test_a_worker_is_bound_to_one_listener(home):
    told = run("add", "gpu1", "--role", "worker", "--listener", "greeter")
    assert (told.exit_code, "may address no listener" in told.stderr) == (0, False)
    (one,) = list_principals()
    assert (one["role"], one["listener"], one["may"], one["rate"]) == ("worker", "greeter", [], "1000/s")
    assert "gpu1\tworker\tstranger\tgreeter\t1000/s\t" in run("list").stdout
    known = authenticate_token(home / "out" / "journal.sqlite.principals", told.stdout.strip())
    assert (known.role, known.listener) == ("worker", "greeter")


def test_one_who_is_revoked_is_listed_as_such_and_can_be_added_again(home):
    old = run("add", "ada").stdout.strip()
    assert run("add", "ada").exit_code == 2
    assert "ada is revoked" in run("revoke", "ada").stdout
    assert run("list").stdout.split("\t")[-2] != "-"
    assert run("revoke", "ada").exit_code == 2
    new = run("add", "ada").stdout.strip()
    path = home / "out" / "journal.sqlite.principals"
    assert (authenticate_token(path, old), authenticate_token(path, new).name) == (None, "ada")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["greeter"], "is the name of a listener"),
        (["system"], "is the name of the system"),
        (["ada", "--may", "greter"], "did you mean greeter?"),
        (["ada", "--rate", "fast"], "is no rate"),
        (["ada", "--rate", "0/s"], "is no rate: one is a number from 1 to 999999"),
        (["ada", "--open", "-1"], "--open"),
        (["ada", "--role", "root"], "--role"),
        (["ada", "--role", "worker"], "a worker needs a listener: --listener NAME"),
        (["ada", "--listener", "greeter"], "--listener is for a worker: --role worker"),
        (["ada", "--role", "worker", "--listener", "greter"], "did you mean greeter?"),
        (
            ["ada", "--role", "worker", "--listener", "greeter", "--may", "greeter"],
            "a worker addresses no listener",
        ),
        (["ada", "--trust", "all"], "--trust"),
        ([" "], "white space"),
    ],
    ids=str,
)
def test_invalid_options_add_nobody(home, words, told):
    result = run("add", *words)
    assert result.exit_code in {1, 2}
    assert told in result.stderr
    assert result.stdout == ""
    assert list_principals() == []


def test_without_a_journal_principals_are_next_to_the_organism(home):
    (home / "organism.yaml").write_text(YAML % "journal: none", "utf-8")
    token = run("add", "ada").stdout.strip()
    assert authenticate_token(home / "organism.yaml.principals", token).name == "ada"


def test_a_journal_can_be_named(home):
    token = run("add", "ada", "--journal", "elsewhere.sqlite").stdout.strip()
    assert authenticate_token(home / "elsewhere.sqlite.principals", token).name == "ada"
    assert list_principals("--journal", "elsewhere.sqlite")[0]["name"] == "ada"


def test_a_file_that_cannot_be_used_is_named(home):
    run("add", "ada")
    path = home / "out" / "journal.sqlite.principals"
    path.chmod(0o644)
    for words in (["list"], ["add", "eve"], ["revoke", "ada"], ["rotate", "ada"]):
        result = run(*words)
        assert result.exit_code == 2
        assert str(path) in result.stderr
        assert "chmod 600" in result.stderr


def test_without_an_organism_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("add", "ada").exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_token_is_rotated_and_the_former_one_counts_for_the_grace_that_is_said(home):
    former = run("add", "ada").stdout.strip()
    result = run("rotate", "ada", "--grace", "7d")
    token, path = result.stdout.strip(), home / "out" / "journal.sqlite.principals"
    assert result.exit_code == 0, result.output
    assert token not in result.stderr + path.read_text("utf-8")
    assert (authenticate_token(path, former).name, authenticate_token(path, token).name) == ("ada", "ada")
    (one,) = list_principals()
    assert 6.9 < (one["former_until"] - time.time()) / 86400 < 7.1
    assert run("list").stdout.split("\t")[-1] != "-\n"
    assert run("rotate", "ada", "--grace", "0s").exit_code == 0
    assert authenticate_token(path, token) is None


@pytest.mark.parametrize(("words", "told"), [
    (["rotate", "eve"], "no principal 'eve' has a token; agentserver principals list"),
    (["rotate", "ada", "--grace", "soon"], "'soon' is not a duration: write 30s, 15m, 24h or 7d"),
])  # fmt: skip
def test_an_impossible_rotation_is_explained(home, words, told):
    run("add", "ada")
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_a_principal_may_address_all_listeners_also_later_ones(home):
    done = run("add", "ada", "--may", "all")
    assert (done.exit_code, "may address no listener" in done.stderr) == (0, False)
    (one,) = list_principals()
    assert one["may"] is None
    assert "\tall\t" in run("list").stdout


def test_all_is_one_listener_where_one_is_called_so(home):
    (home / "organism.yaml").write_text((YAML % "").replace("name: greeter", "name: all"), "utf-8")
    run("add", "ada", "--may", "all")
    (one,) = list_principals()
    assert one["may"] == ["all"]
