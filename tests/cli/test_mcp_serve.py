"""``agentserver mcp serve`` and ``mcp token`` up to where they serve; how they do is in tests/mcp/serving."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentserver import bearer
from agentserver.cli import cli
from agentserver.mcp.serving import tokens

DESK = Path(__file__).parents[1] / "fixtures" / "mcp_desk"


@pytest.fixture
def home(tmp_path):
    shutil.copytree(DESK, tmp_path / "desk", ignore=shutil.ignore_patterns("__pycache__"))
    yield tmp_path / "desk"
    sys.modules.pop("mcp_desk_handlers", None)


def run(*args):
    return CliRunner().invoke(cli, ["mcp", *map(str, args)])


def test_a_token_is_shown_once_and_its_digest_goes_into_the_file():
    result = run("token", "Ada Lovelace")
    token = result.stderr.removeprefix("its token: ").strip()
    assert bearer.holder(token, tokens.read(result.stdout)) == "Ada Lovelace"
    assert token not in result.stdout


def test_nobody_is_called_like_the_system():
    result = run("token", "system")
    assert result.exit_code == 1
    assert "no principal can bear it" in result.stderr


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "No such file or directory"),
        (b"\xff", "is no text"),
        (b"ada\n", "mcp-tokens:1: a name and the SHA-256 of a token in hexadecimal digits are expected"),
        (b"# nobody yet\n", "holds no token; agentserver mcp token NAME makes one"),
    ],
)
def test_a_file_of_tokens_that_says_nothing_serves_nobody(home, text, fault):
    if text is not None:
        (home / "config").mkdir(exist_ok=True)
        (home / "config" / "mcp-tokens").write_bytes(text)
    result = run("serve", "--http", home / "organism.yaml")
    assert result.exit_code == 2
    assert fault in result.stderr


def test_an_organism_without_the_key_serves_nobody(home):
    path = home / "organism.yaml"
    path.write_text(path.read_text().partition("mcp_server:")[0])
    result = run("serve", "--http", path)
    assert result.exit_code == 2
    assert "has no mcp_server:, which says what is exposed" in result.stderr


def test_by_http_nobody_is_served_without_tokens(home):
    path = home / "organism.yaml"
    path.write_text(path.read_text().replace("  tokens: config/mcp-tokens\n", ""))
    result = run("serve", "--http", path)
    assert result.exit_code == 2
    assert "has no tokens:" in result.stderr


def test_check_names_what_cannot_be_a_tool(home):
    (home / "open.xsd").write_text(
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:agentserver:payload:Open:v1" '
        'elementFormDefault="qualified"><xs:element name="Open"><xs:complexType><xs:sequence>'
        '<xs:element name="door" type="xs:int"/></xs:sequence></xs:complexType></xs:element></xs:schema>'
    )
    path = home / "organism.yaml"
    handler = "    handler: mcp_desk_handlers.vault\n"
    path.write_text(path.read_text().replace(handler, f"{handler}    schema: open.xsd\n"))
    code = home / "mcp_desk_handlers.py"
    meta = 'class Open:\n    class Meta:\n        namespace = "urn:agentserver:payload:Open:v1"\n'
    typed = 'door: int = field(metadata={"type": "Element", "namespace": "urn:agentserver:payload:Open:v1"})'
    written = code.read_text().replace("class Open:\n", meta).replace("door: int", typed)
    code.write_text(written.replace("import dataclass", "import dataclass, field"))
    result = CliRunner().invoke(cli, ["check", str(path)])
    assert (
        "vault cannot be exposed: Open is bound to a hand-written XSD and has no JSON form" in result.output
    )
    assert result.exit_code == 1
