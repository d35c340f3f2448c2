"""Words of tools: whatever a server says can be carried."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentserver.payload.fields.lexical import carried
from agentserver.payload.foreign.results import legible, legible_value


@given(st.lists(st.text(st.characters(codec=None))))
def test_every_text_can_be_carried_and_keeps_its_length(texts: list[str]) -> None:
    shown = legible(texts)
    assert all(map(carried, shown))
    assert [*map(len, shown)] == [*map(len, texts)]
    assert [b for a, b in zip(texts, shown, strict=True) if carried(a)] == [a for a in texts if carried(a)]


def test_texts_inside_a_value_are_found_wherever_they_are() -> None:
    given = {"a": ["x\x00", 1, None, {"b": "\ud800"}], "c": True}
    assert legible_value(given) == {"a": ["x\ufffd", 1, None, {"b": "\ufffd"}], "c": True}
