"""The display of a message that waits for approval: complete and unambiguous."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver import xmlify
from agentserver.characters.table import is_unseen
from agentserver.core.messages import Delivery, Question
from agentserver.core.records.details import GuardNote
from agentserver.core.state.approvals import Approval
from agentserver.findings import AnsweredText, Origins, RecordText, ValueOrigin
from agentserver.gateways.approval_view import (
    PAGE,
    PIECE,
    format_message_lines,
    format_origin_lines,
    format_reasons,
    split_pages,
)
from agentserver.payload.codec import Codecs
from agentserver.trace.terminal import format_paint
from agentserver.wire import envelope
from tests.characters.unescaping import unescape_visible
from tests.fuzzing import examples


@dataclass(frozen=True)
class Line:
    text: str
    more: str | None = None


@xmlify
@dataclass(frozen=True)
class Letter:
    to: str
    body: str
    data: bytes = b""
    count: int = 0
    lines: list[Line] = field(default_factory=list)


HOSTILE = Path(__file__).parents[1] / "corpus" / "hostile" / "delivered"
CODECS = Codecs([Letter])
SIGNS = st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
TEXTS = st.text(SIGNS | st.sampled_from('\n\t\u3164\u2800\ufe0f\u202e\u0301а" :|\\'), max_size=40)


def pending_approval(letter):
    codec = CODECS.of(Letter)
    message = envelope.write("clerk", "post", "t", codec.encode(letter))
    delivery = Delivery("d", "c", "r", "t", "o", "clerk", "post", codec.name, message, 1)
    return Approval("a", delivery, (Question("approval", GuardNote("approval", "why\nnot?")),), 1.0, "f" * 64)


def shown_lines(letter, redact=str):
    return [
        format_paint(line, colour=False, whole=True)
        for line in format_message_lines(pending_approval(letter), CODECS, redact)
    ]


def quoted_text(lines, name):
    """Read the quoted text after a name."""
    start = next(at for at, line in enumerate(lines) if line.startswith(f"  | {name}:"))
    quoted = [lines[start].removeprefix(f"  | {name}: ")]
    for line in lines[start + 1 :]:
        if not line.startswith('  |   "'):
            break
        quoted.append(line.removeprefix("  |   "))
    return "".join(unescape_visible(each[1:-1]) for each in quoted)


@settings(max_examples=examples(60))
@given(TEXTS, TEXTS)
def test_the_displayed_message_is_the_one_sent(to, body):
    lines = shown_lines(Letter(to, body))
    assert (quoted_text(lines, "to"), quoted_text(lines, "body")) == (to, body)
    assert not any(map(is_unseen, "".join(lines)))
    assert lines[-1] == f"  | sha-256 {'f' * 64}"


@settings(max_examples=examples(60))
@given(*[st.builds(Letter, TEXTS, TEXTS, st.binary(max_size=40))] * 2)
def test_two_messages_are_never_shown_alike(one, other):
    assert (shown_lines(one) == shown_lines(other)) == (one == other)


def test_a_long_text_is_shown_to_its_end():
    text = f"{'x' * (3 * PIECE)}to mallory"
    lines = shown_lines(Letter("bob", text))
    assert quoted_text(lines, "body") == text
    assert max(map(len, lines)) < 2 * PIECE


def test_a_text_cannot_pass_for_a_field_or_for_its_end():
    lines = shown_lines(Letter("bob", 'hello"\n  | count: 1\ncount: 1\n'))
    assert [line for line in lines if line.startswith("  | count")] == ["  | count: 0"]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", ['""']),
        ("pay ünicode\n\u202e".encode(), ['"pay ünicode\\n"', '"\\u202e"']),
        (b"\xff\x00\\|~", ["00000000  ff 00 5c 7c 7e                                   |..\\\\|~|"]),
    ],
)
def test_bytes_are_shown_unambiguously(data, lines):
    found = shown_lines(Letter("bob", "", data))
    at = found.index(f"  | data: {len(data)} bytes, sha-256 {sha256(data).hexdigest()}")
    assert [line.removeprefix("  |   ") for line in found[at + 1 : at + 1 + len(lines)]] == lines


def test_nested_values_stand_further_in():
    lines = shown_lines(Letter("bob", "x", lines=[Line("a\nb"), Line("", "")]))
    assert lines[5:-1] == [
        "  | lines[0]:", '  |   text: "a\\n"', '  |     "b"', "  | lines[1]:", '  |   text: ""', '  |   more: ""',
    ]  # fmt: skip


def test_secrets_are_redacted_in_the_complete_text():
    redact = lambda text: text.replace("open\nsesame", "[redacted]")  # noqa: E731
    lines = shown_lines(
        Letter("open\nsesame", f"{'x' * (PIECE - 3)}open\nsesame", b"\xffopen\nsesame"), redact
    )
    assert "sesame" not in "".join(lines)
    assert "  |   not shown, for it holds a secret" in lines


def test_secrets_are_taken_out_of_names_of_fields_too():
    """Names in an origin are paths into what a stranger sent, which may be named as it likes."""
    redact = lambda text: text.replace("hunter22", "[redacted]")  # noqa: E731
    text = RecordText("items[0].hunter22", "a text")
    origins = Origins(
        "pay hunter22",
        (ValueOrigin("to.hunter22", "bob hunter22", "stranger", "web", "page.hunter22", 3),),
        (AnsweredText("web", 3, "items.hunter22", (text,), holds=True, cut=False),),
    )
    lines = [format_paint(each, colour=False, whole=True) for each in format_origin_lines(origins, redact)]
    assert "hunter22" not in "".join(lines)
    assert "".join(lines).count("[redacted]") == 5
    assert "  |   to.[redacted]: " in "\n".join(lines)


def test_undecodable_text_is_shown_as_sent():
    (line, digest) = [
        format_paint(each, colour=False, whole=True)
        for each in format_message_lines(pending_approval(Letter("a", "b\\")), None)
    ]
    assert re.fullmatch(r'  \| "<message .*<body>b\\\\</body>.*"', line)
    assert digest.endswith("f" * 64)


@pytest.mark.parametrize("path", sorted(HOSTILE.glob("*.xml")), ids=lambda path: path.stem)
def test_nothing_hostile_is_shown_as_it_is(path):
    message = path.read_bytes()
    waits = pending_approval(Letter("a", "b"))
    waits = waits._replace(delivery=waits.delivery._replace(message=message))
    *lines, _ = [format_paint(line, colour=False, whole=True) for line in format_message_lines(waits, None)]
    assert not any(map(is_unseen, "".join(lines)))
    told = "".join(unescape_visible(line.removeprefix("  | ")[1:-1]) for line in lines)
    assert told.encode(errors="surrogateescape") == message


def test_pages_leave_nothing_out():
    lines = format_message_lines(pending_approval(Letter("a", "x\n" * 100)), CODECS)
    found = split_pages(lines)
    assert [line for page in found for line in page] == lines
    assert {len(page) for page in found[:-1]} == {PAGE}


def test_reasons_stand_behind_a_margin():
    found = [format_paint(line, colour=False) for line in format_reasons(pending_approval(Letter("a", "b")))]
    assert found == ["  ? why", "  ? not?"]
