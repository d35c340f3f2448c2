"""``agentserver cluster permissions`` and the words of ``agentserver worker``."""

from __future__ import annotations

import stat

import pytest
from click.testing import CliRunner

from agentserver.broker.address import credentials
from agentserver.cli import cli
from agentserver.worker.wall.raising import WallError

ORGANISM = """name: org
broker: {{url: "nats://127.0.0.1:9"}}
listeners:
  - name: calculator
    description: Works elsewhere.
    handler: far.work
    payload_class: words.Ask
    isolation: {isolation}
  - name: calculator.add
    description: Works elsewhere, too.
    handler: far.work
    payload_class: words.Ask
    isolation: remote
"""


@pytest.fixture
def organism(tmp_path):
    path = tmp_path / "organism.yaml"
    path.write_text(ORGANISM.format(isolation="remote"))
    return path


def said(*words):
    done = CliRunner().invoke(cli, [str(each) for each in words])
    assert not isinstance(done.exception, Exception), done.exception
    return done.exit_code, done.stdout, done.stderr


def test_permissions_are_printed_the_same_each_time_and_hold_no_password(organism, tmp_path):
    users = tmp_path / "users"
    status, text, told = said("cluster", "permissions", organism, "--credentials", users)
    assert (status, told) == (0, "")
    assert said("cluster", "permissions", organism, "--credentials", users)[1] == text
    files = sorted(each.name for each in users.iterdir())
    assert files == ["org", "org+calculator", "org+calculator.add"]
    assert stat.S_IMODE(users.stat().st_mode) == 0o700
    for name in files:
        user, password = credentials(users / name)
        assert user == name.replace("+", "/")
        assert password not in text
        assert f'"{user}"' in text
        assert stat.S_IMODE((users / name).stat().st_mode) == 0o600
    assert '"as.org.done.calculator.>"' in text
    assert '"as.org.done.calculator_-add.>"' in text
    (users / "org+calculator").unlink()
    assert said("cluster", "permissions", organism, "--credentials", users)[1] != text, (
        "a password is drawn anew"
    )


def test_only_listeners_elsewhere_have_users(organism, tmp_path):
    organism.write_text(ORGANISM.format(isolation="process"))
    text = said("cluster", "permissions", organism, "--credentials", tmp_path / "users")[1]
    assert "calculator.add" in text
    assert '"org/calculator"' not in text


def test_what_is_no_folder_of_credentials_is_refused(organism, tmp_path):
    users = tmp_path / "users"
    users.mkdir()
    (users / "org").write_text("somebody:word\n")
    status, text, told = said("cluster", "permissions", organism, "--credentials", users)
    assert (status, text) == (2, "")
    assert 'is of "somebody", and "org" is asked for' in told


def test_a_broken_organism_gets_no_permissions(organism, tmp_path):
    organism.write_text(ORGANISM.format(isolation="remotely"))
    status, text, told = said("cluster", "permissions", organism, "--credentials", tmp_path / "users")
    assert (status, text) == (2, "")
    assert 'organism.yaml:8: listeners[0].isolation: is "process", "remote", or what' in told
    assert not (tmp_path / "users").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["calculater"], 'there is no listener "calculater" (did you mean "calculator"?)'),
        (["calculator"], 'there is no module "far"'),
        (["calculator", "--engine", "http://x"], 'there is no module "far"'),
    ],
)
def test_a_worker_that_cannot_be_is_refused(organism, words, why):
    status, _, told = said("worker", *words, "--organism", organism)
    assert status == 2
    assert why in told


@pytest.fixture
def complete(organism):
    (organism.parent / "far.py").write_text("async def work(payload, metadata): ...\n")
    (organism.parent / "words.py").write_text("")
    return organism


def test_where_the_broker_is_has_to_be_known(complete):
    complete.write_text(complete.read_text().replace('broker: {url: "nats://127.0.0.1:9"}', ""))
    assert (
        "say where it is with --engine nats://HOST:PORT"
        in said("worker", "calculator", "--organism", complete)[2]
    )
    for url in ("http://x:1", "nats://user:word@x:1", "nats://", ""):
        status, _, told = said("worker", "calculator", "--organism", complete, "--engine", url)
        assert status == 2
        assert "--engine: an address is nats://HOST:PORT" in told
        assert "word@" not in told


def test_a_machine_without_a_wall_runs_no_worker(complete, monkeypatch):
    def lacking(_asked):
        raise WallError("calculator needs a wall, and this system lacks Landlock")

    monkeypatch.setattr("agentserver.worker.planning.walls", lacking)
    status, _, told = said("worker", "calculator", "--organism", complete)
    assert status == 2
    assert "this system lacks Landlock" in told


@pytest.mark.parametrize("option", ["--credentials", "--ca"])
def test_a_file_that_is_not_there_is_named(complete, tmp_path, option):
    status, _, told = said("worker", "calculator", "--organism", complete, option, tmp_path / "none")
    assert status == 2
    assert f"{tmp_path / 'none'}: No such file or directory" in told
