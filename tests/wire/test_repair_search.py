"""A damaged document is repaired only if brute force finds no other document that it can be."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from lxml import etree

from agentserver.payload.codec import GeneratedCodec
from agentserver.payload.xmlify import describe
from agentserver.wire import repair, repair_search
from agentserver.wire.envelope import Bounds
from agentserver.wire.repair import RepairedText, RepairRefusal, Unreadable
from agentserver.wire.repair_search import Repair
from tests.fuzzing import examples


@dataclass(frozen=True)
class Item:
    name: str
    note: str | None = None


@dataclass(frozen=True)
class Outer:
    items: list[Item] = field(default_factory=list)
    note: str | None = None


@dataclass(frozen=True)
class Leaf:
    name: str
    n: int = 0


@dataclass(frozen=True)
class Tree:
    name: str
    Tree: Leaf | None = None
    n: int = 0


@dataclass(frozen=True)
class Bag:
    item: list[str] = field(default_factory=list)
    Bag: Leaf | None = None


KNOWN = tuple(GeneratedCodec(describe(cls)) for cls in (Outer, Tree, Bag))
BY_NAME = {codec.name: codec for codec in KNOWN}
TEXTS_OF = {"name", "note", "n", "item"}
"""Elements that hold text; every other holds elements."""

_TOKEN = re.compile(r"<(/?)([A-Za-z]+)[^<>]*?(/?)>|</([A-Za-z]*)\Z|(.)", re.DOTALL)


def read(text):
    return repair.repair_payloads(text.encode(), KNOWN, Bounds(), 1000)


def encode_text(*values):
    return "".join(next(c for c in KNOWN if c.payload is type(value)).encode(value) for value in values)


def decode_markup(markup):
    """The values of well-formed markup; None when a schema refuses it."""
    whole = etree.fromstring(f"<w>{markup}</w>")
    if not len(whole) or any(
        part.strip() for part in [whole.text or "", *(each.tail or "" for each in whole)]
    ):
        return None
    codecs = [BY_NAME.get(each.tag) for each in whole]
    if not all(codec is not None and codec.valid(each) for codec, each in zip(codecs, whole, strict=True)):
        return None
    return tuple(codec.decode(each) for codec, each in zip(codecs, whole, strict=True))


def oracle(text):  # noqa: C901 - one case for each kind of token
    """All that the text can be when end tags are put in, at any character, as often as they are missing."""
    tokens = list(_TOKEN.finditer(text))
    assert "".join(token[0] for token in tokens) == text
    last = max((at for at, token in enumerate(tokens) if token[2]), default=0)
    starts = sum(1 for t in tokens if t[2] and not t[1] and not t[3])
    missing = starts - sum(1 for t in tokens if t[1] or t[4] is not None)
    found = set()

    def go(at, stack, left, out):  # noqa: C901
        if stack and left:
            go(at, stack[:-1], left - 1, f"{out}</{stack[-1]}>")
        if at == len(tokens):
            if not stack and (values := decode_markup(out)) is not None:
                found.add(repr(values))
            return
        token = tokens[at]
        if token[4] is not None:  # an end tag that was cut off
            if stack and stack[-1].startswith(token[4]):
                go(at + 1, stack[:-1], left, f"{out}</{stack[-1]}>")
        elif not stack and at > last:  # prose behind the payloads
            go(at + 1, stack, left, out)
        elif token[5]:
            if token[5].strip() and not (stack and stack[-1] in TEXTS_OF):
                return
            go(at + 1, stack, left, out + escape(token[5]))
        elif token[1]:
            if stack and stack[-1] == token[2]:
                go(at + 1, stack[:-1], left, out + token[0])
        elif not (stack and stack[-1] in TEXTS_OF):
            tag = token[0]
            if not stack and "xmlns" not in tag:  # a root may get the namespace that it lacks
                tag = tag.replace(token[2], f'{token[2]} xmlns="urn:agentserver:payload:{token[2]}:v1"', 1)
            go(at + 1, stack if token[3] else [*stack, token[2]], left, out + tag)

    if missing >= 0:
        go(0, [], missing, "")
    return found


MANY = settings(
    max_examples=examples(100) if settings().max_examples <= 100 else settings().max_examples // 5
)
"""Brute force takes its time: a fifth of what fuzzing asks for."""

REPAIRS = {Repair.ESCAPED, Repair.UNCLOSED, Repair.CUT}
WORDS = st.sampled_from(["", "a", "b", "ab", " ", "a ", " b", "a b"])
MAYBE = st.none() | WORDS
LEAVES = st.builds(Leaf, WORDS, st.integers(0, 9))
VALUES = st.one_of(
    st.builds(Outer, st.lists(st.builds(Item, WORDS, MAYBE), max_size=3), MAYBE),
    st.builds(Tree, WORDS, st.none() | LEAVES, st.integers(0, 9)),
    st.builds(Bag, st.lists(WORDS, max_size=3), st.none() | LEAVES),
)


@st.composite
def damage_markup(draw):
    """Valid markup with end tags dropped, tags dropped, doubled or moved, or its tail cut off."""
    text = encode_text(*draw(st.lists(VALUES, min_size=1, max_size=2)))
    tokens = re.findall(r"<[^>]*>|[^<]+", text)
    for _ in range(draw(st.integers(1, 3))):
        ends = [i for i, token in enumerate(tokens) if token.startswith("</")] or [0]
        tags = [i for i, token in enumerate(tokens) if token.startswith("<")] or [0]
        match draw(st.sampled_from(["end", "end", "end", "tag", "double", "cut", "move"])):
            case "end":
                del tokens[draw(st.sampled_from(ends)) :][:1], tokens[draw(st.sampled_from(ends))]
            case "tag":
                del tokens[draw(st.sampled_from(tags))]
            case "double":
                at = draw(st.integers(0, len(tokens) - 1))
                tokens.insert(at, tokens[at])
            case "move":
                token = tokens.pop(draw(st.sampled_from(tags)))
                tokens.insert(draw(st.integers(0, len(tokens))), token)
            case "cut":
                kept = "".join(tokens)
                kept = kept[: draw(st.integers(0, len(kept)))]
                tokens = re.findall(r"<[^>]*>|[^<]+|<[^>]*\Z", kept)
        assume(tokens)
    return "".join(tokens)


def texts(markup):
    return "".join(etree.fromstring(f"<w>{markup}</w>").itertext())


def subsequence(short, long):
    rest = iter(long)
    return all(character in rest for character in short)


@MANY
@given(damage_markup())
@example(encode_text(Outer([Item("a", "whose?")])).replace("</items>", ""))
@example(encode_text(Outer([Item("a"), Item("b")], "c")).replace("</items>", ""))
@example(encode_text(Tree("a", Leaf("b"))).replace("</Tree>", ""))
@example(encode_text(Tree("a", Leaf("b"), 1)).replace("</Tree>", "", 1))
@example(encode_text(Bag(["a", "b"])).replace("</item>", "", 1))
@example(encode_text(Bag(["a "])).replace("</item>", ""))
def test_a_repair_is_unambiguous(text):
    answer = read(text)
    if isinstance(answer, Unreadable) or not {note.kind for note in answer.notes} & REPAIRS:
        return  # what is well-formed means what it says
    assert oracle(text) == {repr(decode_markup("".join(answer.payloads)))}
    for payload in answer.payloads:
        held = texts(payload)
        assert subsequence(held, re.sub(r"<[^<>]*(>|\Z)", "", text))
        assert not re.search(r"<[/A-Za-z]", held)


@MANY
@given(st.lists(VALUES, min_size=1, max_size=2), st.data())
def test_missing_end_tags_are_put_in_where_there_is_one_place_for_them(values, data):
    """Without a cut and white space, only ambiguous text is refused."""
    text = encode_text(*values)
    ends = [found.span() for found in re.finditer(r"</[^>]*>", text)]
    assume(ends)
    for start, end in sorted(data.draw(st.sets(st.sampled_from(ends), max_size=2)), reverse=True):
        text = text[:start] + text[end:]
    assume(not re.search(r"[\s](<|\Z)", text) and not re.search(r"[^<>]\Z", text))
    found = oracle(text)
    answer = read(text)
    if isinstance(answer, RepairedText):
        assert len(found) == 1
    elif answer.reason is not RepairRefusal.CUT:  # the text ends where a value begins
        assert answer.reason is RepairRefusal.AMBIGUOUS
        assert len(found) > 1


@pytest.mark.parametrize(
    "text",
    [
        "<Outer><items><name>a</name><note>whose?</note></Outer>",
        "<Outer><items><name>a</name><note>whose?</note>",
        "<Tree><name>a</name><Tree><name>b</name></Tree>",
        "<Tree><name>a</name><Tree><name>b</name><n>1</n></Tree>",
        "<Outer><items><name>x & y</name><note>z</note></Outer>",
    ],
)
def test_two_places_are_a_refusal(text):
    assert read(text) == Unreadable(RepairRefusal.AMBIGUOUS)


def test_a_document_with_all_its_end_tags_has_one_reading():
    text = "<Outer><items><name>a & b</name><note>c</note></items></Outer>"
    assert decode_markup("".join(read(text).payloads)) == (Outer([Item("a & b", "c")]),)
    # Where something is raw, a tag may have been meant as text, and here that would be valid, too.
    assert read(text.replace("</name>", "</name></items><items><name>d</name>", 1)) == Unreadable(
        RepairRefusal.AMBIGUOUS
    )


def test_the_work_for_many_equal_places_is_bounded(monkeypatch):
    text = "<Outer>" + "<items><name>a</name><note>b</note>" * 3000 + "</Outer>"
    spent = []

    class CountedSearch(repair_search.Search):
        def iter_candidates(self, start):
            for count, candidate in enumerate(super().iter_candidates(start), 1):
                spent.append(count)
                yield candidate

    monkeypatch.setattr(repair, "Search", CountedSearch)
    assert read(text) == Unreadable(RepairRefusal.WORK)
    assert len(spent) <= repair.CANDIDATES + 1
