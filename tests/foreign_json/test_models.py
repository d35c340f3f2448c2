"""Models of foreign values: the first fault alone, at a cost that does not grow with the number of faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from pydantic import BaseModel, ConfigDict

from agentserver.foreign_json.models import ForeignModel
from agentserver.foreign_json.reading import JsonLimits, RefusedJson

LIMITS = JsonLimits()


@dataclass(frozen=True)
class Leaf:
    name: str


class Tree(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    leaves: list[Leaf]
    pair: tuple[int, str] = (0, "")
    more: dict[str, list[Leaf]] = {}
    rest: Any = None


def test_a_text_that_fits_becomes_an_instance_of_the_same_class():
    found = ForeignModel(Tree).read(b'{"leaves":[{"name":"a"}],"pair":[1,"b"],"rest":{"c":[1]}}', LIMITS)
    assert found == Tree(leaves=[Leaf("a")], pair=(1, "b"), rest={"c": [1]})
    assert isinstance(found, Tree)


@pytest.mark.parametrize(
    ("text", "pointer", "rule"),
    [
        (b'{"leaves":[{"name":"a"},{"name":1},{}]}', "/leaves/1/name", "string_type"),
        (b'{"leaves":[],"pair":["x","y"]}', "/pair/0", "int_type"),
        (b'{"leaves":[],"more":{"a":[{},{}]}}', "/more/a/0/name", "missing"),
        (b'{"leaves":[],"leaves":[]}', "", "must name each member of an object once"),
        (b"[]", "", "model_type"),
        (b"[", "", "must be JSON text in UTF-8"),
    ],
)
def test_a_text_that_does_not_fit_is_refused_with_its_first_fault(text, pointer, rule):
    assert ForeignModel(Tree).read(text, LIMITS) == RefusedJson(rule, pointer)


@pytest.mark.parametrize("many", [100, 10_000])
def test_a_long_list_of_bad_items_is_one_error(many):
    """Without stopping, pydantic keeps an error for each item, and for each branch of a union."""
    form = ForeignModel(RunAgentInput)
    calls = {"id": "1", "role": "assistant", "toolCalls": [{}] * many}
    whole = {"threadId": "t", "runId": "r", "tools": [], "context": [], "state": {}, "messages": [calls]}
    for value in (whole, {**whole, "messages": [{}] * many}):
        with pytest.raises(ValueError, match="RunAgentInput") as caught:
            form._validator.validate_python(value)
        assert caught.value.error_count() < 10
        assert isinstance(form.fit(value), RefusedJson)


def test_the_names_of_a_foreign_object_write_no_line_and_no_other_path():
    found = ForeignModel(dict[str, int]).read(b'{"a\\nERROR \\u001b[2J\\u202e/b~": "x"}', LIMITS)
    assert found == RefusedJson("int_parsing", r"/a\nERROR \x1b[2J\u202e~1b~0")


def test_a_refusal_shows_a_bounded_part_of_a_path():
    found = ForeignModel(Tree).read(b'{"leaves":[],"more":{"%s":[1]}}' % (b"x" * 10_000), LIMITS)
    assert isinstance(found, RefusedJson)
    assert len(found.pointer) < 200
