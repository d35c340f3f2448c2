from __future__ import annotations

from datetime import UTC, datetime

import pytest
from lxml import etree

from agentserver import Handoff, Task
from agentserver.core.handoffs import TASK, Param, Words
from agentserver.handoff.judgement import NAMESPACE
from agentserver.hygiene.objections import SchemaLanguage
from agentserver.hygiene.rules import inspect, read_schema
from agentserver.payload.codec import Codecs

CODECS = Codecs([Handoff, Task])
FULL = [
    Handoff("review", "clerk", (Param("a", "1"), Param("b", " \n")), "note", "event"),
    Handoff("", event="older"),
    Task(
        "review", "Do it.", (Param("a", "1"),), (Words("a", datetime(2026, 1, 2, tzinfo=UTC), "</data> &<"),)
    ),
]


@pytest.mark.parametrize("value", FULL)
def test_both_survive_their_markup(value):
    codec = CODECS.of(type(value))
    element = etree.fromstring(codec.encode(value))
    assert codec.valid(element)
    assert codec.decode(element) == value


def test_they_stand_in_the_servers_own_namespace():
    assert TASK == CODECS.of(Task).name == f"{{{NAMESPACE}}}Task"


def test_values_by_name():
    assert Handoff.of("review", {"a": "1"}, note="x") == Handoff("review", None, (Param("a", "1"),), "x")


@pytest.mark.parametrize("kind", [Handoff, Task])
def test_their_schemas_keep_the_rules_of_hygiene(kind):
    assert inspect(read_schema(SchemaLanguage.XSD, CODECS.of(kind).xsd(documented=True).encode())) == ()
