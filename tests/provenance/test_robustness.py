"""Whatever is read and whatever is called: a verdict, never an exception, and the same one each time."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.guards.lineage.guard import digest_call
from agentserver.provenance import Ledger, Mode, Policy, PolicyError, explain, read_policy
from agentserver.provenance.verdict import export_findings
from tests.fuzzing import examples
from tests.provenance.scenes import Scenario

WILD = st.text(st.characters(exclude_categories=()), max_size=60)
TRICKY = st.sampled_from(
    [
        "https://[::1", "a@b@c", "@", "<>", "http://\ud800.example", "xn--", "a\u200b@b.c", "..", "=?utf-8?q?x?=", "%zz",
        "\\u12", "&#x110000;", "AAAA====", "1e999", "2025-99-99", "0" * 30, "mailto:", "://", "*.x", "-", "\x00", "GB00 ",
    ]
)  # fmt: skip
TEXT = WILD | TRICKY
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
NAME = st.sampled_from(
    ["to", "url", "id", "body", "subject", "password", "query", "recipient", "x", "amount"]
)
ARGS = st.dictionaries(NAME, VALUE, max_size=5)


@settings(max_examples=examples(300))
@given(
    TEXT,
    st.lists(VALUE, max_size=4),
    st.sampled_from(["send_email", "delete_file", "fetch_url", "create_x"]),
    ARGS,
)
def test_any_reading_and_any_call_get_a_verdict(
    query: str, read: list[Any], sink: str, args: dict[str, Any]
) -> None:
    policy = Policy(mode=Mode.CONFIRM, deny=("eve@*", "*.evil"), allow=("*@corp.com", "https://*.x/*"))
    scene = Scenario(policy, query)
    for value in read:
        scene.read("search_mail", value)
    verdict = scene.call(sink, **args)
    scene.step -= 1
    assert scene.call(sink, **args) == verdict
    assert explain(verdict)
    assert digest_call(verdict.call)
    assert export_findings(verdict).sink == sink


@given(st.lists(VALUE, max_size=3))
def test_any_ledger_is_plain_data(read: list[Any]) -> None:
    scene = Scenario(query="x")
    for value in read:
        scene.read("search_mail", value)
    assert Ledger.load(json.loads(json.dumps(scene.ledger.dump()))).dump() == scene.ledger.dump()


@given(st.text(max_size=80))
def test_any_text_as_a_policy_reads_or_is_refused(text: str) -> None:
    with suppress(PolicyError):
        read_policy(text)
