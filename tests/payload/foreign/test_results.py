"""Words of tools: whatever a server says can be carried."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentserver.payload.fields.lexical import is_xml_text
from agentserver.payload.foreign.results import legible, legible_value


@given(st.lists(st.text(st.characters(codec=None))))
def test_every_text_can_be_carried_and_keeps_its_length(texts: list[str]) -> None:
    shown = legible(texts)
    assert all(map(is_xml_text, shown))
    assert [*map(len, shown)] == [*map(len, texts)]
    assert [b for a, b in zip(texts, shown, strict=True) if is_xml_text(a)] == [
        a for a in texts if is_xml_text(a)
    ]


def test_texts_inside_a_value_are_found_wherever_they_are() -> None:
    given = {"a": ["x\x00", 1, None, {"b": "\ud800"}], "c": True}
    assert legible_value(given) == {"a": ["x\ufffd", 1, None, {"b": "\ufffd"}], "c": True}
