from __future__ import annotations

import hashlib
import json
from xml.sax.saxutils import escape

import pytest
from lxml import etree

from agentserver.config.yaml.secrets import Secrets
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import Failure, Ground, GuardAsks, GuardQuestions
from agentserver.core.records.wording import PHRASES, WORDING
from agentserver.trace import text as trace_text
from agentserver.trace.redact import MARK, Redaction, redact_records
from agentserver.wire import envelope
from tests.core.samples import FOUND

PAYLOAD = (
    '<Mail xmlns="urn:x" id="m-1" ref="topsecret"><to>ann@example.org</to>'
    "<body>Meet at the <b>old harbour</b> at noon</body><note>brief</note></Mail>"
)
MAIL = envelope.write("mailbox", "agent", "t1", PAYLOAD)


def sent_record(message=MAIL, **more):
    return AuditRecord(Event.SENT, 1.0, "c", "t1", "mailbox", "agent", "Mail", message=message, **more)


def refused_record(detail):
    return AuditRecord(Event.REFUSED, 2.0, "c", "t1", "agent", "bank", code="denied", detail=Failure(detail))


def said(record):
    return record.message.decode()


def test_redaction_without_fields_changes_nothing():
    records = (sent_record(), refused_record("quotes Meet at the old harbour"))
    assert redact_records(records, Redaction()) == records


def test_a_field_is_redacted_with_its_content_and_nothing_else():
    (one,) = redact_records([sent_record()], Redaction(("body",)))
    assert said(one) == said(sent_record()).replace("Meet at the <b>old harbour</b> at noon", MARK)


def test_an_attribute_goes_by_its_name():
    (one,) = redact_records([sent_record()], Redaction(("ref",)))
    assert said(one) == said(sent_record()).replace("topsecret", MARK)


@pytest.mark.parametrize(("pattern", "gone"), [("b*", {"brief": False, "harbour": True}), ("n?te", {"brief": True}),
                                               ("[nb]o*", {"brief": True, "harbour": True}), ("BODY", {"harbour": False})])  # fmt: skip
def test_patterns_choose_fields(pattern, gone):
    (one,) = redact_records([sent_record()], Redaction((pattern,)))
    assert {word: word not in said(one) for word in gone} == gone


def test_the_envelope_is_no_field():
    (one,) = redact_records([sent_record()], Redaction(("from", "thread", "message")))
    assert one == sent_record()


def test_a_name_of_the_envelope_may_be_a_field_of_the_payload():
    (one,) = redact_records([sent_record()], Redaction(("to",)))
    assert "ann@example.org" not in said(one)
    assert envelope.read_envelope(one.message).to == "agent"


def test_the_text_behind_a_field_stays():
    mixed = envelope.write("a", "b", "t", '<M xmlns="urn:x">before<s>inside</s>behind</M>')
    (one,) = redact_records([sent_record(mixed)], Redaction(("s",)))
    assert f"before<s>{MARK}</s>behind" in said(one)


def test_everything_leaves_the_length_and_the_hash():
    (one,) = redact_records([sent_record()], Redaction(("*",)))
    assert said(one) == f"[redacted: {len(MAIL)} bytes, sha256 {hashlib.sha256(MAIL).hexdigest()}]"
    assert (one.sender, one.to, one.root, one.at) == ("mailbox", "agent", "Mail", 1.0)


@pytest.mark.parametrize("broken", [b"<message", b"\xff\xfe", b"no markup at all"])
def test_an_unreadable_payload_is_redacted_whole(broken):
    (one,) = redact_records([sent_record(broken)], Redaction(("body",)))
    assert said(one).startswith("[redacted: ")
    assert broken not in one.message


def test_a_record_without_a_message_has_none_afterwards():
    assert redact_records([sent_record(b"")], Redaction(("*",))) == (sent_record(b""),)


def test_a_detail_that_quotes_a_field_loses_the_quotation():
    detail = 'the words "MEET AT THE old" came from a stranger'
    _, one = redact_records([sent_record(), refused_record(detail)], Redaction(("body",)))
    assert WORDING.join_lines(one.detail) == f'the words "{MARK}old" came from a stranger'
    assert (one.code, one.to) == ("denied", "bank")


def test_a_detail_that_quotes_another_field_stays():
    _, one = redact_records(
        [sent_record(), refused_record("ann@example.org is not allowed")], Redaction(("body",))
    )
    assert WORDING.join_lines(one.detail) == "ann@example.org is not allowed"


def test_a_short_value_is_known_as_a_whole():
    _, one, other = redact_records(
        [sent_record(), refused_record("said brief!"), refused_record("said brie")], Redaction(("note",))
    )
    assert WORDING.join_lines(one.detail) == f"said {MARK}!"
    assert WORDING.join_lines(other.detail) == "said brie"


def test_letters_that_grow_when_they_are_made_small_do_not_move_the_rest():
    message = envelope.write("a", "b", "t", '<M xmlns="urn:x"><s>\u0130stanbul straits</s></M>')
    _, one = redact_records(
        [sent_record(message), refused_record("\u0130\u0130 STRAITS \u0130")], Redaction(("*",))
    )
    assert WORDING.join_lines(one.detail) == f"\u0130\u0130{MARK} \u0130"


def test_without_a_refusal_says_so_as_before():
    _, one = redact_records([sent_record(), refused_record("bank is no peer of agent")], Redaction(("*",)))
    assert WORDING.join_lines(one.detail) == "bank is no peer of agent"


@pytest.mark.parametrize("field", ["body", "*"])
def test_a_message_that_holds_a_part_of_a_secret_does_not_uncover_the_rest(field):
    secrets = Secrets.of(["https://old harbour/T1-hunter2"])
    detail = refused_record("no answer from https://old harbour/T1-hunter2")
    (_, shown) = redact_records((sent_record(), detail), Redaction((field,), secrets.redact))
    assert WORDING.join_lines(shown.detail) == f"no answer from {MARK}"


def test_secrets_go_whatever_else_is_asked_for():
    secrets = Secrets.of(["hunter2&co"])
    message = envelope.write("a", "b", "t", '<M xmlns="urn:x">the key is hunter2&amp;co</M>')
    one, other = redact_records(
        [sent_record(message), refused_record("RuntimeError: hunter2&co")._replace(to="hunter2&co")],
        Redaction((), secrets.redact),
    )
    assert f"the key is {MARK}</M>" in said(one)
    assert (WORDING.join_lines(other.detail), other.to) == (f"RuntimeError: {MARK}", MARK)
    for text in (trace_text.render_page("t", [one, other]), trace_text.format_tree_text([one, other], payloads=True),
                 *trace_text.iter_json_lines([one, other])):  # fmt: skip
        assert "hunter2" not in text


HOSTILE = [
    "<script>alert(1)</script>",
    "</div></details></body><script src=//evil></script>",
    "</title></style><img src=x onerror=alert(1)>",
    "]]><!--", "--><svg/onload=alert(1)>", "&lt;script&gt;", "\x1b[31m\x00\x9b\u202e\ud800", '" onclick="x',
    "<!DOCTYPE html><html>", "javascript:alert(1)",
]  # fmt: skip

ALLOWED = {"html", "head", "meta", "title", "style", "body", "h1", "div", "details", "summary"}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_is_a_tree_of_texts_whatever_the_records_say(text):
    data = text.encode("utf-8", "surrogatepass")
    record = sent_record(data)._replace(sender=text, to=text, root=text, code=text, detail=Failure(text))
    for each in (record, *redact_records([record], Redaction(("*",)))):
        page = trace_text.render_page(text, [each])
        page.encode()
        tree = etree.fromstring(page, etree.HTMLParser())
        assert {element.tag for element in tree.iter()} <= ALLOWED
        assert {name for element in tree.iter() for name in element.attrib} <= {
            "lang", "charset", "http-equiv", "content", "class"
        }  # fmt: skip
        assert not list(tree.iter(etree.Comment, etree.PI))
        shown = "".join(tree.itertext())
        if text.isprintable():
            assert text in shown
        assert not any(ord(character) < 32 and character != "\n" for character in shown)


@pytest.mark.parametrize("text", HOSTILE)
def test_lines_are_lines_whatever_the_records_say(text):
    record = sent_record(text.encode("utf-8", "surrogatepass"))._replace(to=text, detail=Failure(text))
    assert json.loads(next(trace_text.iter_json_lines([record])))["to"] == text
    assert len(trace_text.format_tree_text([record], payloads=True).splitlines()) == 2


def test_the_tree_shows_messages_below_them():
    first, second = trace_text.format_tree_text([sent_record()], payloads=True).splitlines()
    assert first == "   +0.000s  mailbox -> agent  Mail"
    assert second.strip() == f"| {PAYLOAD}"


def test_a_line_break_in_a_message_cannot_begin_a_line_of_the_trace():
    forged = sent_record(b"<note>one\n   +0.001s  answered</note>")
    _, first, second = trace_text.format_tree_text([forged], payloads=True).splitlines()
    assert (first.strip(), second.strip()) == ("| <note>one", "|    +0.001s  answered</note>")


def test_a_finding_about_a_field_that_goes_loses_its_words_and_keeps_its_facts():
    _, one = redact_records([sent_record(), refused_record("")._replace(detail=FOUND)], Redaction(("to",)))
    to, plan = one.detail.findings
    assert (to.value, to.trail.excerpt, to.trail.quoted) == (MARK, MARK, MARK)
    assert (to.rule, to.effect, to.argument, to.trail.source, to.trail.step) == (
        "destination", "block", "to", "fetcher", 8
    )  # fmt: skip
    assert plan == FOUND.findings[1]


def test_a_finding_loses_words_that_came_in_a_field_that_goes():
    (one,) = redact_records([refused_record("")._replace(detail=FOUND)], Redaction(("te?t",)))
    assert "eve" not in WORDING.join_lines(one.detail).lower()


def test_the_question_of_a_guard_loses_them_too():
    asked = GuardQuestions((GuardAsks("lineage", FOUND),))
    (one,) = redact_records([refused_record("")._replace(detail=asked)], Redaction(("to",)))
    assert "eve" not in WORDING.join_lines(one.detail).lower()


def test_no_pattern_touches_a_token_or_our_own_words():
    """A field may say what our own phrases say: they are no quotation of it."""
    words = " ".join((*PHRASES, *WORDING.describe_lines(FOUND), *FOUND[2:4]))
    message = envelope.write("a", "b", "t", f'<M xmlns="urn:x"><s>{escape(words)}</s></M>')
    _, one = redact_records(
        [sent_record(message), refused_record("")._replace(detail=Ground.SPENT.of())], Redaction(("s",))
    )
    assert one.detail == Ground.SPENT.of()
    _, one = redact_records(
        [sent_record(message), refused_record("")._replace(detail=FOUND)], Redaction(("s",))
    )
    assert (one.detail.mode, one.detail.decision) == ("enforce", "deny")
    assert one.detail.findings[1] == FOUND.findings[1]
