"""Listeners whose processes are on other machines: their broker, and what their machines read."""

from __future__ import annotations

import pytest

from agentserver.config import load
from agentserver.config.code.remote import names, part
from agentserver.config.findings import ConfigError

ONE = """name: {name}
{broker}
listeners:
  - name: calculator
    description: Works elsewhere.
    handler: far.work
    payload_class: words.Ask
    isolation: {isolation}
  - name: other
    description: Works here.
    handler: near.work
    settings_class: near.Settings
    settings: {{key: "${{SECRET}}"}}
"""
BROKER = 'broker: {url: "nats://127.0.0.1:4222"}'
WORDS = """from dataclasses import dataclass
from agentserver import xmlify

@xmlify
@dataclass(frozen=True)
class Ask:
    text: str
"""


@pytest.fixture
def made(tmp_path):
    (tmp_path / "words.py").write_text(WORDS)
    (tmp_path / "far.py").write_text("async def work(payload, metadata): ...\nraise SystemExit('imported')\n")
    (tmp_path / "near.py").write_text("raise SystemExit('imported')\n")

    def make(isolation="remote", broker=BROKER, name="org"):
        path = tmp_path / "organism.yaml"
        path.write_text(ONE.format(isolation=isolation, broker=broker, name=name))
        return path

    return make


def told(path):
    with pytest.raises(ConfigError) as error:
        load(path, environ={"SECRET": "x"}, afresh=True)
    return [f"{each.line}: {each.path}: {each.message}" for each in error.value.findings]


def test_without_a_broker_it_is_refused_with_file_and_line(made):
    lacks = (
        "8: listeners[0].isolation: its workers are on other machines, and there is no broker to meet them"
    )
    assert lacks in told(made(broker=""))
    assert lacks in told(made("{remote: true, memory: 200MB}", broker=""))


@pytest.mark.parametrize(
    ("broker", "why"),
    [
        ("broker:", "must not be empty"),
        ("broker: {}", "2: broker.url: is missing"),
        ("broker: {url: http://x:1}", "nats:// or tls:// with a host"),
        ("broker: {url: 'nats://user:word@x:1'}", "stand in the file of credentials"),
        ("broker: {url: 'nats://x:1', replicas: 9}", "must be at most 5"),
        ("broker: {url: 'nats://x:1', user: a}", 'unknown key "user"'),
    ],
)
def test_mistakes_of_the_broker(made, broker, why):
    found = told(made(broker=broker))
    assert any(why in each for each in found), found
    assert not any("no broker to meet" in each for each in found)


def test_the_broker_that_is_the_engine_is_the_workers_too(made):
    engine = 'engine: {nats: {url: "nats://x:1", credentials: users/org}}'
    organism, _ = part(made(broker=engine), {}, "calculator")
    assert (organism.broker.url, organism.broker.replicas) == ("nats://x:1", 3)
    assert organism.broker.credentials == organism.project / "users" / "org"
    organism, _ = part(made(broker=f"{engine}\n{BROKER}"), {}, "calculator")
    assert organism.broker.url == "nats://127.0.0.1:4222", "one of their own is taken before it"
    assert not any("no broker to meet" in each for each in told(made(broker="engine: {nats: {}}")))


def test_a_name_that_no_stream_can_bear_is_refused(made):
    assert any("is too long for a broker" in each for each in told(made(name="a" + 120 * ".")))


def test_a_worker_reads_its_listener_and_neither_imports_nor_needs_the_rest(made):
    organism, mistakes = part(
        made("{remote: true, memory: 200MB, env: {A: '${HERE}'}}"), {"HERE": "b"}, "calculator"
    )
    assert mistakes == ()
    (bound,) = organism.listeners
    assert (bound.listener.name, bound.isolation.memory, bound.isolation.remote) == (
        "calculator",
        200_000_000,
        True,
    )
    assert bound.isolation.environment == {"A": "b"}
    assert (organism.name, organism.broker.url) == ("org", "nats://127.0.0.1:4222")


@pytest.mark.parametrize(
    ("listener", "isolation", "why"),
    [
        (
            "calculater",
            "remote",
            '3: listeners: there is no listener "calculater" (did you mean "calculator"?)',
        ),
        ("calculator", "process", '8: listeners[0].isolation: "calculator" has no isolation: remote'),
        ("other", "remote", '"other" has no isolation: remote'),
        ("calculator", "{remote: true, read: [nothing]}", "is nothing inside the project directory"),
        ("calculator", "{remote: true, env: {A: '${THERE}'}}", "the environment variable THERE is not set"),
        ("calculator", "{remote: maybe}", "listeners[0].isolation.remote"),
        ("calculator", "[]", "listeners[0].isolation"),
    ],
)
def test_what_is_wrong_with_its_part_is_told(made, listener, isolation, why):
    organism, mistakes = part(made(isolation), {}, listener)
    assert organism is None
    assert any(why in str(each) for each in mistakes), list(map(str, mistakes))


def test_no_file_is_no_organism(tmp_path):
    organism, mistakes = part(tmp_path / "none.yaml", {}, "x")
    assert organism is None
    assert mistakes


def test_the_names_are_told_without_what_the_rest_needs(made):
    assert names(made(broker="broker: {url: '${URL}'}"), {}) == ("org", ("calculator",), ())
    assert names(made("process"), {})[1] == ()


@pytest.mark.parametrize("isolation", ["5", "remotely", "{remote: 1}"])
def test_where_it_cannot_be_told_who_is_elsewhere_nothing_is_named(made, isolation):
    assert names(made(isolation), {})[2]
