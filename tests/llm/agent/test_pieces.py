"""The text of an answer, read from pieces of its JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import pytest
from annotated_types import MaxLen
from hypothesis import given
from hypothesis import strategies as st

from agentserver import xmlify
from agentserver.llm.agent.pieces import AnswerPieces, TextReader, find_free_text
from agentserver.llm.completer import decode_value
from agentserver.payload.codec import Codecs
from agentserver.payload.json.schema import json_schema
from agentserver.payload.json.values import JsonRefusal


@xmlify
@dataclass(frozen=True)
class Said:
    text: str


@xmlify
@dataclass(frozen=True)
class Bounded:
    text: Annotated[str, MaxLen(5)]


@xmlify
@dataclass(frozen=True)
class Two:
    text: str
    more: str = ""


@xmlify
@dataclass(frozen=True)
class Count:
    count: int


CODEC = Codecs([Said]).of(Said)


def cut(text, places):
    """The text in pieces that end at these places."""
    ends = sorted({min(place, len(text)) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def read(pieces):
    reader = TextReader("text")
    return "".join(map(reader.feed, pieces)), reader.broken


@given(st.text(), st.booleans(), st.lists(st.integers(0, 200)))
def test_the_pieces_are_the_text_of_a_valid_answer_and_a_beginning_of_no_other(text, ascii_only, places):
    written = json.dumps({"text": text}, ensure_ascii=ascii_only)
    found, broken = read(cut(written, places))
    value = decode_value(CODEC, written)
    if isinstance(value, JsonRefusal):
        assert broken
    else:
        assert (found, broken) == (value.text, False)


@given(st.text(alphabet='{}":\\ud8300ne,t x', max_size=40), st.lists(st.integers(0, 60)))
def test_any_text_in_place_of_json_is_read_as_the_decoder_reads_it_or_stops(more, places):
    written = '{"text": "' + more
    found, broken = read(cut(written, places))
    value = decode_value(CODEC, written)
    if not isinstance(value, JsonRefusal):
        assert (found, broken) == (value.text, False)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (' {"text" : "a\\u00e4\\ud83d\\ude00\\n\\"" } ', 'aä😀\n"'),
        ('{"text": ""}', ""),
    ],
)
def test_escapes_may_be_cut_anywhere(written, text):
    assert read(list(written)) == (text, False)


@pytest.mark.parametrize(
    "written",
    ['{"more": "a"}', '["text"]', '{"text": 1}', '{"text": "\\x"}', '{"text": "\\ud83d"}', '{"text": "\\u0000"}',
     '{"text": "a", "text": "b"}', '{"text": "a\nb"}', " " * 500],
)  # fmt: skip
def test_anything_else_stops_the_reader(written):
    reader = TextReader("text")
    assert "".join(map(reader.feed, written)) in {"", "a"}
    assert reader.feed(' more"}') + reader.feed('{"text": "again"}') == ""


@pytest.mark.parametrize(("kind", "name"), [(Said, "text"), (Bounded, None), (Two, None), (Count, None)])
def test_only_a_class_whose_every_text_is_valid_is_free_text(kind, name):
    assert find_free_text(json_schema(Codecs([kind]).of(kind))) == name


class Writer:
    def __init__(self):
        self.said = []

    def write(self, text):
        self.said += [text] * bool(text)

    def reset(self, why):
        self.said.append(None)


def test_only_the_first_answer_of_a_completion_without_calls_is_written():
    writer = Writer()
    pieces = AnswerPieces("answer", "text", writer)
    pieces.add_call(0, "ans", "")
    pieces.add_call(0, "wer", '{"text": "a')
    pieces.add_call(1, "tool", "{}")
    pieces.add_call(0, "", 'b"}')
    assert writer.said == ["a"]
    pieces.restart("again")
    pieces.add_call(0, "tool", "{}")
    pieces.add_call(1, "answer", '{"text": "c"}')
    assert writer.said == ["a", None]
