"""The table of remedies has an entry for each code that the server has, and names what there is."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path

import click
import pytest

from agentserver.cli import cli
from agentserver.completion import CompletionFault
from agentserver.contract import Code
from agentserver.core.records.details import Ground
from agentserver.core.records.wording import PHRASES
from agentserver.core.state.approvals import Unasked
from agentserver.findings import PHRASES as FINDINGS
from agentserver.gateways.http import problems
from agentserver.handoff.plans.chain import StepMistake
from agentserver.handoff.requests import RequestRefusal
from agentserver.hygiene.rules import RULES
from agentserver.ports import Unkept, WatchEnd
from agentserver.provenance.policy.declarations import Rule
from agentserver.remedies import FAMILIES, REMEDIES, found
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
    "unkept": {*Unkept},
    "watch": {*WatchEnd, "moved"},
}


@pytest.mark.parametrize("family", CODES)
def test_each_code_of_the_server_has_its_entry_and_no_other_has_one(family):
    assert {one.name for one in REMEDIES if one.family == family} == set(map(str, CODES[family]))


def test_the_words_of_rules_and_approvals_find_their_entries():
    said = {one.name: one.said for one in REMEDIES if one.family == "rule"}
    assert said == {rule.name.lower(): rule.value for rule in Rule}
    assert {FINDINGS[f"rule {name}"] for name in said} == set(said.values())
    assert {one.said for one in REMEDIES if one.family == "approval" and one.said} == {*Unasked}
    assert {one.said for one in REMEDIES if one.family == "repair"} == {*RepairRefusal}
    assert all(f"answered {one}" in PHRASES for one in ("deny", "undone"))


def statuses():
    """Every status with which the door says no."""
    yield from problems.STATUS.values()
    for path in (ROOT / "agentserver" / "gateways").rglob("*.py"):
        yield from map(int, re.findall(r"ProblemAnswer\(\s*(\d{3})\b", path.read_text("utf-8")))


def test_each_status_of_the_door_has_its_entry():
    assert {str(status) for status in statuses()} <= {one.name for one in REMEDIES if one.family == "door"}


def text_of(node):
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "~" for part in node.values)
    return ""


def messages():
    """What the checks of a configuration say, where the words stand in the call."""
    for path in sorted((ROOT / "agentserver" / "config").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if named and node.func.attr in {"error", "warning", "_error", "refuse"} and len(node.args) > 1:
                text = text_of(node.args[1])
                if re.search(r"[a-z]{2,} [a-z]{2,}", text):
                    yield text


def test_each_mistake_of_a_configuration_finds_an_entry():
    told = set(messages())
    assert len(told) > 30
    assert sorted(text for text in told if not found(text)) == []


def test_the_longest_part_of_a_text_decides():
    assert [
        one.name for one in found('x.yaml:3: handler: "a.b" is no handler: an async function is needed')
    ] == ["handler"]


@pytest.mark.parametrize("one", REMEDIES, ids=lambda one: f"{one.family}:{one.name}")
def test_an_entry_is_whole_and_found_by_its_name(one):
    assert one.family in FAMILIES
    assert one.means.endswith(".")
    assert one.look.endswith((".", "?"))
    assert one.change.endswith(".")
    assert one in found(f"{one.family}:{one.name}")
    assert all(part == part.lower() for part in one.fragments)


def test_no_entry_stands_twice():
    assert max(Counter((one.family, one.name) for one in REMEDIES).values()) == 1


def quoted():
    return [
        text
        for one in REMEDIES
        for part in (one.means, one.look, one.change)
        for text in re.findall("`([^`]*)`", part)
    ]


def test_the_commands_that_are_named_exist():
    context = click.Context(cli)
    for text in quoted():
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
    for text in quoted():
        top, dot, key = text.partition(".")
        if dot and top in entries:
            name = re.search(r"#/\$defs/(\w+)", json.dumps(entries[top]))
            assert name, text
            assert key in schema["$defs"][name[1]]["properties"], text


def test_what_means_nothing_finds_nothing():
    assert found("") == ()
    assert found(":") == ()
    assert found("0190aef3") == ()
