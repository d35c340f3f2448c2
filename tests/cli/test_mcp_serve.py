"""``agentserver mcp serve`` up to where it serves; how they do is in tests/mcp/serving."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentserver.cli import cli

DESK = Path(__file__).parents[1] / "fixtures" / "mcp_desk"


@pytest.fixture
def home(tmp_path):
    shutil.copytree(DESK, tmp_path / "desk", ignore=shutil.ignore_patterns("__pycache__"))
    yield tmp_path / "desk"
    sys.modules.pop("mcp_desk_handlers", None)


def test_an_organism_without_the_key_serves_nobody(home):
    path = home / "organism.yaml"
    path.write_text(path.read_text().partition("mcp_server:")[0])
    command = [
        sys.executable,
        "-m",
        "agentserver",
        "mcp",
        "serve",
        path,
    ]  # it takes standard output for itself
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert "has no mcp_server:, which lists the exposed listeners" in result.stderr


def test_check_names_listeners_that_cannot_be_tools(home):
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
