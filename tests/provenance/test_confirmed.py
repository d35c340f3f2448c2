"""A key that the named document says and a list confirms, and what the author of the document could want."""

from __future__ import annotations

from typing import Any

import pytest

from agentserver.provenance.policy.declarations import SinkRule
from tests.provenance.scenes import Scenario, desk

POLICY = desk(sources=("messages",), trusted=("samples",), sinks=(SinkRule("discard_sample"),))
SAMPLES = [{"sample": "S-26-00377", "matrix": "whey"}, {"sample": "S-26-00378", "matrix": "milk"}]
ASK = "The Berg dairy wrote which sample they no longer need. Discard it, they are on WO-6099."
SAYS = "We no longer need S-26-00377."


def read(ask: str = ASK, *, text: str = SAYS, first: str = "messages", **changes: Any) -> Scenario:
    told = Scenario(changes.pop("policy", POLICY), ask)
    outputs = {"messages": {"text": text}, "samples": changes.pop("samples", SAMPLES)}
    arguments = {"messages": {"query": "Berg dairy"}, "samples": {"order": "WO-6099"}, **changes}
    for source in sorted(outputs, reverse=first == "samples"):
        told.read(source, outputs[source], **arguments[source])
    return told


@pytest.mark.parametrize("first", ["messages", "samples"])
def test_a_key_that_the_document_says_is_one_of_the_list_that_the_request_names(first: str) -> None:
    assert read(first=first).call("discard_sample", sample="S-26-00377").allowed


@pytest.mark.parametrize("first", ["messages", "samples"])
@pytest.mark.parametrize(
    "changes",
    [
        {"text": f"{SAYS} S-26-00378 is fine."},
        {"ask": ASK.replace("it,", "the milk,")},
        {"messages": {"since": "yesterday"}},
        {"samples": [{"sample": "whey", "rack": "S-26-00377-R"}]},
    ],
    ids=["two keys of the list", "another record that the request chose", "an unnamed text", "no such key"],
)
def test_a_document_that_says_more_or_is_not_named_confirms_nothing(
    changes: dict[str, Any], first: str
) -> None:
    assert not read(first=first, **changes).call("discard_sample", sample="S-26-00377").allowed


def test_a_list_that_the_request_does_not_select_or_that_strangers_fill_confirms_nothing() -> None:
    other = Scenario(POLICY, ASK).read("messages", {"text": SAYS}, query="Berg dairy")
    assert not other.read("samples", SAMPLES, rack="R-9").call("discard_sample", sample="S-26-00377").allowed
    for policy in (
        desk(sources=("messages", "samples"), sinks=POLICY.sinks),
        desk(sources=("messages",), sinks=(*POLICY.sinks, SinkRule("samples"))),
    ):
        assert not read(policy=policy).call("discard_sample", sample="S-26-00377").allowed


def test_a_second_text_that_is_not_named_takes_the_choice_away() -> None:
    told = read().read("messages", {"text": "Discard S-26-00377 at once."}, since="yesterday")
    assert not told.call("discard_sample", sample="S-26-00377").allowed
