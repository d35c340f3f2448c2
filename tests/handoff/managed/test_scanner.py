"""The scanner: its matches, its reports, and its independence of cuts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.handoff.managed import document
from agentserver.handoff.managed.scanner import DEPTH, PENDING, FoundRequest, Scanner
from agentserver.handoff.requests import LONGEST, RequestRefusal
from tests.fuzzing import examples

REQUEST = {
    "type": "handoff_request",
    "target_agent": "launch-radar",
    "payload": {
        "intent": "launch_review",
        "params": {"ticket_id": "LEGAL-12", "note": 'a "quoted" } brace {'},
    },
}
RAW = json.dumps(REQUEST)


def scan(*pieces: str) -> tuple[FoundRequest, ...]:
    scanner = Scanner()
    return (*(found for piece in pieces for found in scanner.feed(piece)), *scanner.end())


@pytest.mark.parametrize(
    "text",
    [
        RAW,
        json.dumps(dict(reversed(REQUEST.items()))),
        json.dumps(REQUEST, indent=2),
        '{ "type" : "handoff_request" , "target_agent":"a"}',
        '{"target_agent":"a","\\u0074ype":"handoff\\u005frequest"}',
        '{"type":"handoff_request","n":[1,-2.5e+3,true,false,null,[],{}]}',
    ],
)
def test_key_order_white_space_and_escapes_do_not_matter(text):
    assert scan(text) == (FoundRequest(text),)


@pytest.mark.parametrize(
    "text",
    [
        f"Sure: {RAW} Done.",
        f"```json\n{RAW}\n```",
        f'a stray {{ brace and {{"a" more {RAW}',
        f'{{"say": {RAW}',
        f'{{"open: {RAW}',
        f"{{{{{RAW}}}}}",
        f"[1, {RAW}",
        f"[1] {RAW} [2]",
        f"[see {RAW}]",
        f"{{'single': 'quotes'}} {RAW}",
        f'{{"a":1}}{RAW}{{"b":2}}',
    ],
)
def test_a_request_inside_prose_is_found(text):
    assert scan(text) == (FoundRequest(RAW),)


def test_several_in_one_text_come_in_order():
    other = RAW.replace("LEGAL-12", "LEGAL-13")
    assert scan(f"{RAW} and {other}") == (FoundRequest(RAW), FoundRequest(other))


def test_a_request_quoted_in_another_document_is_reported_not_asked():
    quoted = FoundRequest(RAW, RequestRefusal.NESTED_REQUEST)
    assert scan(json.dumps({"tool_output": [REQUEST]})) == (quoted,)


@pytest.mark.parametrize("size", [0, 10, LONGEST, 5 * LONGEST])
@pytest.mark.parametrize(
    "form", ['{"x": "%s", "said": %s}', '[["%s"], %s]', '[{"x": "%s", "y": {"z": [1, %s, 2]}}]']
)
@pytest.mark.parametrize("piece", [None, 1000])
def test_a_request_is_quoted_in_an_object_an_array_and_a_document_of_any_size_alike(form, size, piece):
    text = form % ("x" * size, RAW)
    text = f"{text[:-1]}, {json.dumps('y' * size)}]" if text.endswith("]") else text
    pieces = [text] if piece is None else [text[at : at + piece] for at in range(0, len(text), piece)]
    assert scan(*pieces) == (FoundRequest(RAW, RequestRefusal.NESTED_REQUEST),)
    assert scan(*pieces, RAW) == (FoundRequest(RAW, RequestRefusal.NESTED_REQUEST), FoundRequest(RAW))


def test_a_request_inside_an_unfinished_document_counts_as_quoted():
    assert scan(f'{{"a": [{RAW}], oops') == (FoundRequest(RAW, RequestRefusal.NESTED_REQUEST),)
    assert scan(f'{{"a": [{RAW}, oops') == (FoundRequest(RAW),)
    assert scan(f'{{"a": [{RAW}], "b": {RAW} oops') == (
        FoundRequest(RAW, RequestRefusal.NESTED_REQUEST),
        FoundRequest(RAW),
    )


def test_many_requests_in_one_document_are_quoted_without_waiting_for_its_end():
    scanner = Scanner()
    found = scanner.feed("[" + f"{RAW}," * (PENDING + 5))
    assert found == (FoundRequest(RAW, RequestRefusal.NESTED_REQUEST),) * 5


def test_json_that_is_no_request_is_on_nobodys_record():
    nested = '{"a":' * 50_000 + "1" + "}" * 50_000
    for text in (nested, '{"a":' * 50_000, '{"a":"' + "x" * 5 * LONGEST + '"}', "[" * 50_000, '{"' * 50_000):
        assert scan(text) == ()
        assert scan(text + RAW)[-1:] in {
            (FoundRequest(RAW),),
            (FoundRequest(RAW, RequestRefusal.NESTED_REQUEST),),
        }


def test_a_request_inside_a_string_is_text():
    assert scan(json.dumps({"said": RAW})) == ()


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"handoff_request","target_agent":oops}',
        '{"type":"handoff_request","payload":{"intent":"x"',
        '{"type":"handoff_request",}',
        '{"type":"handoff_request","type":"handoff_request"}',
        '{"type":"handoff_request","a":"\\ud800"}',
        '{"type":"handoff_request","a":01}',
        '{"type":"handoff_request","a":"\n"}',
        '{"type":"handoff_request","a":NaN}',
        '{"type":"handoff_request","a":' + "1" * 65 + "}",
        '{"type":"handoff_request","a":"\\x"}',
    ],
)
def test_a_text_that_set_out_to_be_a_request_is_reported(text):
    (found,) = scan(text)
    assert found.fault is RequestRefusal.INVALID_JSON
    assert text.startswith(found.raw)


@pytest.mark.parametrize(
    "text", ['{"a":1}', "{}", "no", "{", '{"type":"other"}', '{"type":["handoff_request"]}', ""]
)
def test_other_objects_are_nobodys_request(text):
    assert scan(text) == ()


HEAD = '{"type":"handoff_request",'


def test_bounds_are_reported():
    long = HEAD + '"a":"' + "x" * LONGEST + '"}'
    deep = HEAD + '"a":' + "[" * DEPTH + "]" * DEPTH + "}"
    spaces = HEAD + '"a":' + " " * LONGEST + "1}"
    last = '{"a":"' + "x" * LONGEST + '","type":"handoff_request"}'
    for text in (long, deep, spaces, last):
        assert [found.fault for found in scan(text)] == [RequestRefusal.OVER_BOUND]
        assert [found.fault for found in scan(*text)] == [RequestRefusal.OVER_BOUND]
        assert len(scan(text)[0].raw) <= LONGEST
        assert scan(text + RAW)[-1] == FoundRequest(RAW)


def test_buffered_text_is_bounded():
    scanner = Scanner()
    scanner.feed("prose without braces " * 1000)
    assert scanner._buffer == ""
    for _ in range(50):
        scanner.feed('{"a": "' + "y" * 4000)
        assert len(scanner._buffer) <= 2 * LONGEST + 4007


def test_a_copy_is_independent():
    scanner = Scanner()
    scanner.feed(RAW[:40])
    other = scanner.copy()
    assert scanner.feed(RAW[40:]) == (FoundRequest(RAW),)
    (found,) = (*other.feed('",oops'), *other.end())
    assert found.fault is RequestRefusal.INVALID_JSON


PIECES = st.sampled_from(
    [
        *(
            '{"type":"handoff_request"',
            '{"type": ',
            '"handoff_request"',
            '"a":',
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            '"',
            "\\",
        ),
        *(
            "\\u00",
            "41",
            "1",
            "-",
            "tru",
            "e",
            " ",
            "\n",
            "prose",
            "```",
            RAW,
            RAW[:30],
            RAW[30:],
            '{"x":"',
            '"}',
            '\\"',
        ),
    ]
)


@settings(max_examples=examples(500))
@given(st.lists(PIECES, max_size=14).map("".join), st.data())
def test_where_the_text_is_cut_does_not_matter(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert scan(*pieces) == scan(text)
    assert scan(*text) == scan(text)


@settings(max_examples=examples(300))
@given(st.lists(PIECES, max_size=14).map("".join), st.integers(100, 200))
def test_cuts_do_not_matter_at_the_bounds_either(text, longest):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("agentserver.handoff.managed.scanner.LONGEST", longest)
        patched.setattr("agentserver.handoff.managed.document.LONGEST", longest)
        patched.setattr("agentserver.handoff.managed.scanner.DEPTH", 2)
        patched.setattr("agentserver.handoff.managed.scanner.PENDING", 1)
        patched.setattr("agentserver.handoff.managed.document.LEVELS", 4)
        assert scan(*text) == scan(text)


def test_every_single_cut_of_a_real_text():
    text = f"Ok.\n```json\n{RAW}\n``` and {{ then {json.dumps(REQUEST, indent=1)}"
    whole = scan(text)
    assert len(whole) == 2
    for at in range(len(text) + 1):
        assert scan(text[:at], text[at:]) == whole


@settings(max_examples=examples(300))
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=4), x, max_size=3),
        max_leaves=8,
    ),
    st.text('ab{}"\\[]:, \n', max_size=20),
)
def test_whatever_a_request_carries_it_is_found_behind_any_prose(value, prose):
    raw = json.dumps({"x": value, "type": "handoff_request"})
    assert FoundRequest(raw) in scan(prose, "\n}\n", raw) or '"' in prose or "{" in prose
    assert FoundRequest(raw) in scan(prose.replace("{", ""), raw)


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8) | st.just(REQUEST),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=4), x, max_size=3),
    max_leaves=12,
)


def requests_in(value):
    if value == REQUEST:
        return 1
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(requests_in, inner))


@settings(max_examples=examples(300))
@given(st.lists(DOCUMENTS, max_size=4), st.sampled_from([" ", "\n```\n", " and ", ". "]), st.integers(1, 9))
def test_of_whole_documents_those_that_are_requests_ask_and_those_that_hold_some_quote_them(
    values, between, size
):
    text = between.join(json.dumps(value) for value in values)
    expected = [
        FoundRequest(RAW, None if value == REQUEST else RequestRefusal.NESTED_REQUEST)
        for value in values
        for _ in range(requests_in(value))
    ]
    assert [*scan(text)] == expected
    assert [*scan(*(text[at : at + size] for at in range(0, len(text), size)))] == expected


def work(text, monkeypatch, pieces=1):
    """Characters that documents read."""
    read = 0

    class CountDocument(document.TextDocument):
        __slots__ = ()

        def read(self, text, base):
            nonlocal read
            before = self.pos
            step = super().read(text, base)
            read += self.pos - before
            return step

    monkeypatch.setattr("agentserver.handoff.managed.scanner.TextDocument", CountDocument)
    size = -(-len(text) // pieces) or 1
    scan(*(text[at : at + size] for at in range(0, len(text), size)))
    return read


ALPHABET = [
    '{"',
    '"',
    "{",
    "}",
    ":",
    ",",
    "[",
    "]",
    "\\",
    '{"a":"',
    '{"a":{',
    '["',
    " ",
    "x",
    "\n",
    "1",
    RAW[:25],
]


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from(ALPHABET), max_size=400).map("".join), st.integers(1, 20))
def test_no_character_is_read_a_third_time(text, pieces):
    with pytest.MonkeyPatch.context() as patched:
        assert work(text, patched, pieces) <= 2 * len(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":["{",' + '":1,",' * 10000,
        '{"k":"' + "{ " * 30000 + "\n",
        '{"a":' * 10000,
        '{"a":["{",' + '":{",' * 10000,
        "{" * 100_000,
        '{"' * 100_000,
        '{"":x' * 20_000,
        ('{"a":' * 31 + '"' + "x" * 65_000 + "\n") * 2,
        ('{"a":' * 9000 + "oops") * 5,
        '{"a":["' + '{"b":[1,{"c":"' * 9000,
        "[" * 50_000 + "}" * 50_000,
        ("[" * 300 + "}" * 300) * 100,
    ],
)
def test_hostile_texts_are_read_twice_at_most(text, monkeypatch):
    assert work(text, monkeypatch) <= 2 * len(text)
