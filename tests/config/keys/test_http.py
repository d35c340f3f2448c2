"""Keys of the HTTP gateway: their meaning, and errors with place and likely correction."""

from __future__ import annotations

import pytest

from agentserver.config import ConfigError, forget, load
from agentserver.config.keys.endpoints import TlsEntry

BASE = """\
name: desk
listeners:
  - {name: greeter, description: Greets., payload_class: door_desk.Greet, handler: door_desk.greet}
journal: none
"""

CODE = """\
from dataclasses import dataclass

from agentserver import HandlerMetadata, HandlerResponse, xmlify


@xmlify
@dataclass(frozen=True)
class Greet:
    name: str


async def greet(payload: Greet, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(payload)
"""


@pytest.fixture
def loaded_door(tmp_path):
    def load_with(http):
        (tmp_path / "door_desk.py").write_text(CODE)
        (tmp_path / "organism.yaml").write_text(BASE + http)
        organism = load(tmp_path / "organism.yaml", environ={})
        forget(organism)
        return organism.door

    return load_with


def test_without_the_key_there_is_no_door(loaded_door):
    assert loaded_door("") is None


def test_an_empty_mapping_is_a_door_for_this_machine(loaded_door):
    door = loaded_door("http: {}\n")
    assert (door.host, door.port, door.public_url, door.tls, door.body) == (
        "127.0.0.1",
        8420,
        None,
        None,
        1_000_000,
    )


def test_a_door_for_others(loaded_door):
    door = loaded_door(
        "http:\n  bind: '[::]:443'\n  public_url: https://desk.example\n"
        "  tls: {certificate: c.pem, key: k.pem}\n  body: 2MB\n"
    )
    assert (door.host, door.port, door.tls, door.body) == (
        "::",
        443,
        TlsEntry(certificate="c.pem", key="k.pem"),
        2_000_000,
    )


def test_localhost_is_this_machine(loaded_door):
    assert loaded_door("http: {bind: 'localhost:0'}\n").host == "127.0.0.1"


@pytest.mark.parametrize(
    ("http", "line", "told"),
    [
        ("http:\n", 5, "must not be empty"),
        ("http: {bnd: x}\n", 5, 'did you mean "bind"?'),
        ("http:\n  bind: 0.0.0.0:8420\n", 6, "tokens would be sent unencrypted"),
        ("http:\n  bind: 0.0.0.0:8420\n  behind_proxy: true\n", 6, "public_url is missing"),
        ("http:\n  behind_proxy: true\n", 6, "public_url is missing"),
        ("http:\n  public_url: https://desk.example\n", 6, "TLS is not configured"),
        ("http:\n  behind_proxy: true\n  public_url: http://desk.example\n", 7, "https://desk.example"),
        ("http:\n  public_url: http://desk.example/path\n", 6, "without a path"),
        ("http:\n  public_url: http://a@desk.example\n", 6, "without a path"),
        ("http:\n  public_url: http://desk.example:0\n", 6, "a port that is not from 1 to 65535"),
        ("http:\n  tls: {certificate: c.pem}\n", 6, "is missing"),
        ("http:\n  body: 1\n", 6, "at least 1000"),
        *(
            (f"http:\n  bind: '{bind}'\n", 6, "is not an address and a port from 0 to 65535")
            for bind in (
                "8420",
                "127.0.0.1",
                "127.0.0.1:x",
                "127.0.0.1:99999",
                "::1:80",
                "[127.0.0.1]:80",
                "desk:1",
                "",
            )
        ),
    ],
)
def test_an_impossible_value_is_an_error_with_its_line(loaded_door, http, line, told):
    with pytest.raises(ConfigError) as refused:
        loaded_door(http)
    assert any(each.line == line and told in str(each) for each in refused.value.findings), (
        refused.value.findings
    )
