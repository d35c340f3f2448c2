"""The table of remedies has an entry for each code that the server has, and names what there is."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path
from typing import get_args

import click
import pytest
from pydantic_core.core_schema import ErrorType

from agentserver.cli import cli
from agentserver.completion import CompletionFault
from agentserver.config.findings import ConfigMistake, Severity
from agentserver.config.validation import find_code
from agentserver.contract import Code
from agentserver.core.records.details import Ground
from agentserver.core.records.wording import PHRASES
from agentserver.core.state.approvals import NoAnswerReason
from agentserver.delegation import DelegationCode
from agentserver.findings import PHRASES as FINDINGS
from agentserver.gateways.http import parts
from agentserver.handoff.plans.chain import StepMistake
from agentserver.handoff.requests import RequestRefusal
from agentserver.hygiene.rules import RULES
from agentserver.ports import RejectReason, WatchEnd
from agentserver.provenance.policy.declarations import Rule
from agentserver.remedies import FAMILIES, REMEDIES, find_remedies
from agentserver.remedies.configuration import ConfigCode
from agentserver.wire.envelope import Fault
from agentserver.wire.repair import RepairRefusal

ROOT = Path(__file__).resolve().parent.parent.parent

CODES = {
    "code": {*Code},
    "ground": {*Ground},
    "approval": {"deny", "undone", "nobody", "late"},
    "rule": {rule.name.lower() for rule in Rule},
    "handoff": {*RequestRefusal},
    "step": {*StepMistake},
    "hygiene": {rule.name for rule in RULES},
    "envelope": {*Fault},
    "repair": {refusal.name for refusal in RepairRefusal},
    "completion": {*CompletionFault},
    "delegation": {*DelegationCode},
    "unkept": {*RejectReason},
    "watch": {*WatchEnd},
}


@pytest.mark.parametrize("family", CODES)
def test_each_code_of_the_server_has_its_entry_and_no_other_has_one(family):
    rows, declared = {one.name for one in REMEDIES if one.family == family}, set(map(str, CODES[family]))
    where = f"under '## {family}:' of agentserver/remedies/codes.md"
    assert not declared - rows, f"{where} a row is missing for {sorted(declared - rows)}"
    assert not rows - declared, f"{where} the server has no such code: {sorted(rows - declared)}"


def test_texts_of_rules_and_approvals_match_their_entries():
    said = {one.name: one.wording for one in REMEDIES if one.family == "rule"}
    assert said == {rule.name.lower(): rule.value for rule in Rule}
    assert {FINDINGS[f"rule {name}"] for name in said} == set(said.values())
    assert {one.wording for one in REMEDIES if one.family == "approval" and one.wording} == {*NoAnswerReason}
    assert {one.wording for one in REMEDIES if one.family == "repair"} == {*RepairRefusal}
    assert all(f"answered {one}" in PHRASES for one in ("deny", "undone"))


def statuses():
    """Every status with which the door says no."""
    yield from parts.STATUS.values()
    for path in (ROOT / "agentserver" / "gateways").rglob("*.py"):
        yield from map(int, re.findall(r"ProblemAnswer\(\s*(\d{3})\b", path.read_text("utf-8")))


def test_each_status_of_the_door_has_its_entry():
    assert {str(status) for status in statuses()} <= {one.name for one in REMEDIES if one.family == "door"}


MAKES = re.compile(r"\bConfigMistake\(|\b(?:_?report|lost)\.add_(?:error|warning)\(")


def find_calls():
    """Each call in the package that makes a mistake of a configuration, with its place and its code."""
    for path in sorted((ROOT / "agentserver").rglob("*.py")):
        source = path.read_text("utf-8")
        if not MAKES.search(source):  # to read every file takes seconds
            continue
        for node in ast.walk(ast.parse(source)):
            name = node.func if isinstance(node, ast.Call) else None
            reports = isinstance(name, ast.Attribute) and name.attr in {"add_error", "add_warning"}
            reports = reports and ast.unparse(name.value).rpartition(".")[2] in {"report", "_report", "lost"}
            makes = isinstance(name, ast.Name) and name.id == "ConfigMistake"
            if reports or makes:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", ast.unparse(node.args[0])


CODED = re.compile(r"ConfigCode\.(\w+)(\.value)?|code(\.value)?|find_code\(fault\)|more")
"""A code of the table, or a value whose type is that of codes: mypy holds it."""


def test_each_place_that_makes_a_mistake_gives_it_a_code():
    places = dict(find_calls())
    assert len(places) > 120
    assert {place: code for place, code in places.items() if not CODED.fullmatch(code)} == {}


def test_each_code_of_a_configuration_is_used_and_has_one_entry():
    used = {name for path in (ROOT / "agentserver").rglob("*.py")
            for name in re.findall(r"ConfigCode\.([A-Z]+)", path.read_text("utf-8"))}  # fmt: skip
    assert used == {code.name for code in ConfigCode}
    assert [one for one in REMEDIES if one.family == "config"] == [code.value for code in ConfigCode]
    assert all(code.value.name == code.name.lower() for code in ConfigCode)


def test_a_mistake_is_not_made_without_a_code():
    with pytest.raises(TypeError):
        ConfigMistake(Severity.ERROR, Path("a.yaml"), 1, "", "no code")


def test_each_type_of_pydantic_has_a_code():
    """All that pydantic_core lists, those of later versions among them."""
    codes = {kind: find_code({"type": kind}) for kind in get_args(ErrorType)}
    assert len(codes) > 90
    assert set(codes.values()) == {ConfigCode.MISSING, ConfigCode.KEY, ConfigCode.VALUE}
    assert {kind for kind, code in codes.items() if code is ConfigCode.KEY} == {
        "extra_forbidden",
        "unexpected_keyword_argument",
    }


@pytest.mark.parametrize(
    "words", ["the merge key", "duplicate key", "is not yaml", "already", "[config:key]", "name"]
)
def test_text_of_a_user_matches_no_entry(words):
    said = f'retries: "{words}" was expected to be a number'
    assert find_remedies(said) == ()
    assert [str(one) for one in find_remedies(f"organism.yaml:3: {said} [config:value]")] == ["config:value"]


def test_several_printed_lines_find_each_of_their_codes_once():
    printed = "a.yaml:1: x [config:name]\na.yaml:2: y [config:name]\na.yaml:3: z [hygiene:closed]  \n1 error"
    assert [str(one) for one in find_remedies(printed)] == ["config:name", "hygiene:closed"]


@pytest.mark.parametrize("one", REMEDIES, ids=lambda one: f"{one.family}:{one.name}")
def test_an_entry_is_whole_and_found_by_its_name(one):
    assert one.family in FAMILIES
    assert one.means.endswith(".")
    assert one.look.endswith((".", "?"))
    assert one.change.endswith(".")
    assert one in find_remedies(f"{one.family}:{one.name}")


def test_no_entry_appears_twice():
    assert max(Counter((one.family, one.name) for one in REMEDIES).values()) == 1


def quoted_texts():
    return [
        text
        for one in REMEDIES
        for part in (one.means, one.look, one.change)
        for text in re.findall("`([^`]*)`", part)
    ]


def test_the_commands_that_are_named_exist():
    context = click.Context(cli)
    for text in quoted_texts():
        words = text.split()
        if words[0] == "agentserver":
            verb = cli.get_command(context, words[1])
            assert verb is not None, text
            if isinstance(verb, click.Group) and not verb.invoke_without_command:
                assert len(words) > 2, text
                assert verb.get_command(context, words[2]) is not None, text
            for option in (word for word in words if word.startswith("--")):
                assert any(option in parameter.opts for parameter in verb.params), text


def test_the_keys_that_are_named_exist():
    schema = json.loads((ROOT / "schemas" / "organism.schema.json").read_text("utf-8"))
    entries = schema["properties"]
    for text in quoted_texts():
        top, dot, key = text.partition(".")
        if dot and top in entries:
            name = re.search(r"#/\$defs/(\w+)", json.dumps(entries[top]))
            assert name, text
            assert key in schema["$defs"][name[1]]["properties"], text


def test_a_meaningless_query_finds_nothing():
    assert find_remedies("") == ()
    assert find_remedies(":") == ()
    assert find_remedies("0190aef3") == ()
