from __future__ import annotations

import json
import sys

import pytest

from agentserver.payload.xmlify import PayloadError
from tests.cli.conftest import organism


def test_a_sound_organism_is_summed_up(command, here):
    result = command("check")
    assert result.exit_code == 0, result.output
    *findings, provenance, ambiguous, ping, last = result.output.splitlines()
    assert provenance == "provenance: none declared, so the origin of values is not checked"
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


DESK = """
name: desk
listeners:
  - {name: asker, handler: desk.ask, payload_class: desk.Ask, description: Asks., peers: [clerk]}
  - {name: clerk, handler: desk.work, payload_class: agentserver.Task, description: Works.}
  - {name: other, handler: desk.ask, payload_class: desk.Other, description: Takes no part.}
intents:
  - {name: sweep, target: clerk, template: Sweep.}
"""
DESK_CODE = '''
from dataclasses import dataclass, field
from agentserver import Task, xmlify
from agentserver.payload.xsd_codec import bind

@xmlify
@dataclass
class Ask:
    text: str = ""

@dataclass
class Other:
    class Meta:
        namespace = "urn:other:v1"

    text: str | None = field(default=None, metadata={"type": "Element"})

bind(Other, """OTHER""")

async def ask(payload, metadata):
    return None

async def work(payload: Task, metadata):
    return None
'''
OTHER = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:other:v1"
           targetNamespace="urn:other:v1" elementFormDefault="qualified">
  <xs:element name="Other"><xs:complexType><xs:sequence>
    <xs:element name="text" type="xs:string" minOccurs="0"/>
  </xs:sequence></xs:complexType></xs:element>
</xs:schema>
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "desk.py").write_text(DESK_CODE.replace("OTHER", OTHER))
    yield lambda text: organism(tmp_path, text)
    sys.modules.pop("desk", None)


def test_a_schema_that_hygiene_refuses_fails_where_work_is_handed_over(command, desk):
    path = desk(DESK)
    result = command("check", str(path))
    assert result.exit_code == 1, result.output
    first, *_, last = result.output.splitlines()
    assert first.startswith(f"{path}:4: the schema of Ask, which asker takes: required: ")
    assert last.endswith(", 1 error, 0 warnings")


def test_elsewhere_it_is_a_warning_and_only_for_schemas_that_somebody_wrote(command, desk, tmp_path):
    (tmp_path / "other.xsd").write_text(OTHER)
    code = tmp_path / "desk.py"
    code.write_text(code.read_text().replace('text: str = ""', "text: str"))
    result = command("check", str(desk(DESK)))
    assert (result.exit_code, result.output.splitlines()[-1][-12:]) == (0, ", 0 warnings")
    written = DESK.replace("desk.Other, desc", "desk.Other, schema: other.xsd, desc")
    result = command("check", str(desk(written)))
    assert result.exit_code == 0, result.output
    assert ":6: warning: the schema of Other, which other takes: required: " in result.output
    assert command("check", "--strict", str(desk(written))).exit_code == 1


def test_a_payload_that_means_an_intent_is_looked_at_too(command, desk):
    path = desk(DESK.replace("template: Sweep.", "template: Sweep., payload_class: desk.Loose"))
    code = path.parents[1] / "desk.py" if path.parent.name == "config" else path.parent / "desk.py"
    loose = "@xmlify\n@dataclass\nclass Loose:\n    text: Literal['a'] = 'a'\n"
    sound = code.read_text().replace('text: str = ""', "text: str")
    code.write_text(f"from typing import Literal\n{sound}{loose}")
    result = command("check", str(path))
    assert result.exit_code == 1, result.output
    assert ":8: the schema of Loose, of an intent: required: " in result.output


def test_findings_as_json_carry_the_code_that_is_printed(command, tmp_path):
    path = organism(
        tmp_path, "name: x\nlisteners:\n  - {name: a, description: A., handler: cli_nowhere.a, peer: []}\n"
    )
    printed = [line for line in command("check", str(path)).output.splitlines() if line.endswith("]")]
    result = command("check", "--json", str(path))
    told = [json.loads(line) for line in result.output.splitlines()]
    assert result.exit_code == 1
    assert {each["code"] for each in told} == {"config:import", "config:key"}
    assert [line.rpartition("[")[2] for line in printed] == [f"{each['code']}]" for each in told]
    assert set(told[0]) == {"code", "severity", "file", "line", "path", "message", "suggestion"}


def test_a_flow_that_may_differ_is_warned_about_at_its_line(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cli_hidden.py").write_text(
        "import time\nfrom datetime import timedelta\nfrom agentserver.flow import sleep\n\n"
        "async def wait(days: int) -> float:\n    await sleep(timedelta(days=days))\n    return time.time()\n"
    )
    text = "name: x\nlisteners:\n  - {name: a, description: A., handler: cli_hidden.wait}\n"
    result = command("check", str(organism(tmp_path, text)))
    sys.modules.pop("cli_hidden", None)
    expected = "cli_hidden.py:7: warning: a: time.time() may differ when the flow is run again"
    assert (result.exit_code, result.output.startswith(expected)) == (0, True), result.output
