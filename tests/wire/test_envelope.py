"""Envelope: hostile documents, bounds, round trips, canonical form.

Run as a script, this file reads every generated document in a process of little memory: see `_confined`.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from agentserver.wire import envelope
from agentserver.wire.envelope import (
    Bounds,
    Envelope,
    Fault,
    Malformed,
    canonical,
    read_envelope,
    read_payload,
    write,
)
from tests.fuzzing import examples
from tests.machine import HANGS

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "corpus" / "hostile"
FILES = sorted(
    file for file in CORPUS.rglob("*.xml") if file.parent.name != "values"
)  # those are bare payloads
MIB = 1 << 20
LAWFUL = settings(max_examples=examples(200))

ORDER = '<order xmlns="urn:example:order:v1"><note>hello</note></order>'


def message(payload: str | bytes, prolog: bytes = b"") -> bytes:
    markup = payload if isinstance(payload, bytes) else payload.encode()
    return prolog + b'<message xmlns="urn:agentserver:envelope:v1"><from>a</from>' + markup + b"</message>"


def message_within(content: bytes, attributes: bytes = b"") -> bytes:
    return message(b'<o xmlns="urn:a"' + attributes + b">" + content + b"</o>")


def number_items(form: bytes, count: int, joint: bytes = b"") -> bytes:
    return joint.join(form % i for i in range(count))


GENERATED: dict[str, tuple[Fault | None, bytes]] = {
    "oversize text": (Fault.SIZE, message_within(b"x" * MIB)),
    "oversize by one": (Fault.SIZE, message_within(b"x" * (MIB - len(message_within(b"")) + 1))),
    "as large as may be": (None, message_within(b"x" * (MIB - len(message_within(b""))))),
    "a hundred MB": (Fault.SIZE, b"<" * (100 * MIB)),
    "quadratic blow-up": (
        Fault.DOCTYPE,
        message(
            b'<o xmlns="urn:a">' + b"&b;" * 100_000 + b"</o>",
            b'<!DOCTYPE m [<!ENTITY b "' + b"x" * 100_000 + b'">]>',
        ),
    ),
    "a DOCTYPE of 1 MB": (
        Fault.DOCTYPE,
        message(ORDER, b"<!DOCTYPE m [" + number_items(b'<!ENTITY e%d "x">', 30_000) + b"]>"),
    ),
    "a DOCTYPE behind 19,000 comments": (
        Fault.DOCTYPE,
        message(ORDER, b"<!---->" * 19_000 + b"<?a?>\n" * 19_000 + b"<!DOCTYPE m>"),
    ),
    "a DOCTYPE behind 1 MB of blanks": (
        Fault.DOCTYPE,
        b" \n\r\t" * 260_000 + message(ORDER, b"<!DOCTYPE m>"),
    ),
    "39,000 instructions in the prolog": (None, message(ORDER, b"<?a?>" * 39_000)),
    "250,000 siblings": (Fault.ELEMENTS, message_within(b"<a/>" * 250_000)),
    "39,000 siblings": (Fault.ELEMENTS, message_within(b"<a/>" * 39_000)),
    "as many siblings as may be": (None, message_within(b"<a/>" * 19_997)),
    "one sibling too many": (Fault.ELEMENTS, message_within(b"<a/>" * 19_998)),
    "1 MB of less-than": (Fault.ELEMENTS, b"<" * MIB),
    "39,000 CDATA sections": (None, message_within(b"<![CDATA[x]]>" * 39_000)),
    "19,000 levels": (Fault.DEPTH, message_within(b"<a>" * 19_000 + b"</a>" * 19_000)),
    "20,000 levels, unclosed": (Fault.DEPTH, message_within(b"<a>" * 20_000)),
    "257 levels": (Fault.DEPTH, message_within(b"<a>" * 255 + b"</a>" * 255)),
    "90,000 attributes": (
        Fault.ATTRIBUTES,
        message_within(b"", b" " + number_items(b'a%d=""', 90_000, b" ")),
    ),
    "55,000 prefixes": (
        Fault.ATTRIBUTES,
        message_within(b"", b" " + number_items(b'xmlns:a%d="u:u"', 45_000, b" ")),
    ),
    "20,000 prefixed attributes": (
        Fault.ATTRIBUTES,
        message_within(
            b"",
            b"".join(b' xmlns:a%d="u:%d" a%d:x=""' % (i, i, i) for i in range(20_000)),
        ),
    ),
    "150 prefixes on each of 40 levels": (
        Fault.ATTRIBUTES,
        message_within(
            b"".join(b"<a " + number_items(b'xmlns:n%d="u:u"', 150, b" ") + b">" for _ in range(40))
            + b"<b/>" * 10_000
            + b"</a>" * 40
        ),
    ),
    "39,000 unbound prefixes": (Fault.SYNTAX, message_within(b"<a:b/>" * 39_000)),
    "70,000 unbound attributes": (
        Fault.SYNTAX,
        message_within(b"", b" " + number_items(b'a%d:x=""', 70_000, b" ")),
    ),
    "a name of 900 kB": (Fault.SYNTAX, message(b"<" + b"n" * 900_000 + b' xmlns="urn:a"/>')),
    "a name of 40 kB": (Fault.NAME, message(b"<" + b"n" * 40_000 + b' xmlns="urn:a"/>')),
    "an attribute name of 40 kB": (Fault.NAME, message_within(b"", b" " + b"n" * 40_000 + b'="1"')),
    "an attribute that ends like a declaration": (
        Fault.NAME,
        message_within(b"", b" " + b"n" * 300 + b'xmlns="1"'),
    ),
    "200,000 character references": (None, message_within(b"&#65;" * 200_000)),
    "a comment of 1 MB": (None, message_within(b"<!--" + b"x" * 1_000_000 + b"-->")),
    "an instruction of 1 MB": (None, message_within(b"<?x " + b"x" * 1_000_000 + b"?>")),
    "an attribute of 1 MB": (None, message_within(b"", b' a="' + b"x" * 1_000_000 + b'"')),
    "an encoding of 1 MB": (
        Fault.ENCODING,
        b'<?xml version="1.0" encoding="' + b"x" * 900_000 + b'"?>' + message(ORDER),
    ),
    "9,000 targets": (Fault.SHAPE, message(b"<to>b</to>" * 9_000)),
    "1 MB of xmlns": (None, message_within(b"xmlns" * 200_000)),
    "1 MB that almost declares": (None, message_within(b"xmlns:a='urn:a" * 70_000)),
}


def kind(answer: object) -> Fault | None:
    return answer.kind if isinstance(answer, Malformed) else None


def accept_answer(data: bytes, bounds: Bounds | None = None) -> Envelope:
    answer = read_envelope(data, bounds or Bounds())
    assert isinstance(answer, Envelope), answer
    return answer


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_hostile_document_is_refused_for_its_fault(file: Path) -> None:
    answer = read_envelope(file.read_bytes())
    if file.parent.name == "delivered":
        assert isinstance(answer, Envelope), answer
        assert answer.to in {None, "calculator"}
        assert "".join(answer.payload.itertext())
        assert canonical(answer.payload)
    else:
        assert isinstance(answer, Malformed)
        assert answer.kind == file.parent.name
        assert len(answer.detail) <= 200
        assert "hello" not in answer.detail
        assert answer.detail.isprintable()
        if answer.kind is Fault.DOCTYPE:
            assert envelope._check_bytes(file.read_bytes(), Bounds()) == answer, "refused before it is parsed"


def test_the_corpus_is_all_there() -> None:
    assert len(FILES) >= 140
    assert {file.parent.name for file in FILES} >= set(Fault) - {Fault.SIZE, Fault.ELEMENTS, Fault.TEXT}


@pytest.mark.parametrize("name", ["comment", "instruction", "cdata"])
def test_split_text_stays_whole(name: str) -> None:
    payload = accept_answer((CORPUS / "delivered" / f"{name}-splits-text.xml").read_bytes()).payload
    assert payload[0].text == "hello"


def test_markup_declarations_in_text_are_text() -> None:
    payload = accept_answer((CORPUS / "delivered" / "doctype-in-cdata.xml").read_bytes()).payload
    assert payload[0].text == "<!DOCTYPE html [<!ENTITY a 'b'>]>&a;"


@pytest.mark.parametrize("name", GENERATED)
def test_a_flood_is_refused_for_its_fault(name: str) -> None:
    expected, data = GENERATED[name]
    answer = read_envelope(data)
    assert kind(answer) == expected
    if isinstance(answer, Malformed):
        assert len(answer.detail) <= 200


def test_floods_fit_into_little_memory_and_time() -> None:
    """128 MiB over what the process has after importing, 20 s of processor for all of them."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.wire.test_envelope"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "all answered\n"), done.stderr


def _confine_memory() -> None:
    documents = list(GENERATED.values())
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 128 * MIB,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    answers = [kind(read_envelope(data)) == expected for expected, data in documents]
    sys.stdout.write("all answered\n" if all(answers) else str(answers))


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("250,000 siblings", False),
        ("a hundred MB", False),
        ("quadratic blow-up", False),
        ("39,000 siblings", True),
    ],
)
def test_the_worst_is_refused_before_anything_is_built(name: str, parsed: bool, monkeypatch) -> None:
    built = []
    whole = envelope.etree.fromstring
    monkeypatch.setattr(
        envelope.etree, "fromstring", lambda data, parser: built.append(data) or whole(data, parser)
    )
    assert isinstance(read_envelope(GENERATED[name][1]), Malformed)
    assert bool(built) is parsed


EXTERNAL = {
    "general entity": ('<!DOCTYPE m [<!ENTITY x SYSTEM "{0}">]>', "&x;"),
    "parameter entity": ('<!DOCTYPE m [<!ENTITY % x SYSTEM "{0}"> %x;]>', "&leak;"),
    "external subset": ('<!DOCTYPE m SYSTEM "{0}">', "&leak;"),
    "public subset": ('<!DOCTYPE m PUBLIC "-//a//b" "{0}">', "&leak;"),
    "entity without a document type": ("", "&leak;"),
    "inclusion": ("", '<x:include xmlns:x="http://www.w3.org/2001/XInclude" href="{0}" parse="text"/>'),
    "stylesheet": ('<?xml-stylesheet href="{0}"?>', ""),
}


@pytest.mark.parametrize("name", EXTERNAL)
def test_no_file_is_brought_in(name: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.dtd"
    file.write_text('<!ENTITY leak "the secret">')
    prolog, content = (part.format(file.as_uri()) for part in EXTERNAL[name])
    answer = read_envelope(message(f'<o xmlns="urn:a">{content}</o>', prolog.encode()))
    if isinstance(answer, Envelope):
        assert b"secret>" not in canonical(answer.payload)
        assert "".join(answer.payload.itertext()) == ""
    else:
        assert kind(answer) == (Fault.DOCTYPE if prolog else Fault.SYNTAX)
        assert "secret" not in answer.detail


def test_a_schema_that_the_document_names_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "lenient.xsd"
    file.write_text(envelope.SCHEMA.replace('name="from" type="name"', 'name="from"'))
    space = "http://www.w3.org/2001/XMLSchema-instance"
    hint = f' xmlns:i="{space}" i:schemaLocation="{envelope.NAMESPACE} {file.as_uri()}"'
    good = message(ORDER)
    assert accept_answer(good.replace(b" xmlns=", hint.encode() + b" xmlns=", 1)).sender == "a"
    bad = good.replace(b"<from>a</from>", b"<from><b/></from>")
    assert kind(read_envelope(bad.replace(b" xmlns=", hint.encode() + b" xmlns=", 1))) == Fault.SHAPE


def test_a_document_cut_short_anywhere_is_refused() -> None:
    whole = write("console", "calculator", "t-1", ORDER)
    assert {kind(read_envelope(whole[:end])) for end in range(len(whole))} == {Fault.SYNTAX}
    assert kind(read_envelope(whole)) is None


BOUND = [
    (Bounds(bytes=len(message_within(b"xx"))), message_within(b"xx"), message_within(b"xxx"), Fault.SIZE),
    (Bounds(depth=3), message_within(b"<a/>" * 4), message_within(b"<a><b/></a>" * 4), Fault.DEPTH),
    (Bounds(elements=5), message_within(b"<a/><a/>"), message_within(b"<a/><a/><a/>"), Fault.ELEMENTS),
    (Bounds(elements=5), message_within(b"<a/><a/>"), message_within(b"<a></a>" * 4), Fault.ELEMENTS),
    (
        Bounds(attributes=2),
        message_within(b"", b' a="" b=""'),
        message_within(b"", b' a="" b="" c=""'),
        Fault.ATTRIBUTES,
    ),
    (
        Bounds(attributes=3),
        message_within(b"", b' xmlns:p="u:u"'),
        message_within(b'<a xmlns="u:v"/>', b' xmlns:p="u:u"'),
        Fault.ATTRIBUTES,
    ),
    (
        Bounds(attributes=3),
        message_within(b'<a xmlns="u:v"/>' * 9),
        message_within(b'<a xmlns="u:v"><b xmlns="u:w"/></a>'),
        Fault.ATTRIBUTES,
    ),
    (Bounds(text=3), message_within(b"abc<a/>abc"), message_within(b"abcd<a/>"), Fault.TEXT),
    (Bounds(text=3), message_within("äöü".encode()), message_within(b"ab<!-- -->cd"), Fault.TEXT),
    (Bounds(text=3), message_within(b"", b' a="abc"'), message_within(b"", b' a="abcd"'), Fault.TEXT),
    (Bounds(name=8), message_within(b"<abcdefgh/>"), message_within(b"<abcdefghi/>"), Fault.NAME),
    (
        Bounds(name=40),
        message_within(b"<%b/>" % (b"a" * 40)),
        message_within(b"<%b/>" % (b"a" * 41)),
        Fault.NAME,
    ),
    (Bounds(name=8), message_within(b"", b' abcdefgh=""'), message_within(b"", b' abcdefghi=""'), Fault.NAME),
    (
        Bounds(name=8),
        message_within(b"", b' p:bcdefg="" xmlns:p="u:u"'),
        message_within(b"", b' p:bcdefgh="" xmlns:p="u:u"'),
        Fault.NAME,
    ),
]


@pytest.mark.parametrize(("bounds", "inside", "outside", "fault"), BOUND)
def test_each_bound_holds_to_the_unit(bounds: Bounds, inside: bytes, outside: bytes, fault: Fault) -> None:
    assert accept_answer(inside, bounds)
    assert kind(read_envelope(outside, bounds)) == fault


def test_names_are_taken_as_they_stand() -> None:
    answer = accept_answer(message(ORDER).replace(b"<from>a</from>", b"<from> a </from><thread>.</thread>"))
    assert (answer.sender, answer.to, answer.thread) == (" a ", None, ".")


def test_a_document_type_that_the_bytes_did_not_show_is_refused() -> None:
    """The second look, which the first leaves nothing to do."""
    data = b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"
    tree = etree.fromstring(data, etree.XMLParser(resolve_entities=False))
    assert kind(envelope._check_tree(tree, data, Bounds())) == Fault.DOCTYPE


def test_a_text_on_which_libxml2_raises_does_not_fit() -> None:
    tree = etree.fromstring(
        b"<!DOCTYPE a [<!ENTITY b 'c'>]>" + message(b'<o xmlns="urn:a"/>').replace(b">a<", b">&b;<"),
        etree.XMLParser(resolve_entities=False),
    )
    assert envelope._fits(tree) is False


def test_an_error_without_a_log_is_a_syntax_error() -> None:
    assert envelope._describe_syntax_fault(
        SimpleNamespace(error_log=SimpleNamespace(last_error=None))
    ) == Malformed(Fault.SYNTAX, "ERR_UNKNOWN")


def test_the_schema_file_is_the_modules_schema() -> None:
    assert (ROOT / "schemas" / "envelope.xsd").read_text() == envelope.SCHEMA


def test_threads_share_the_parser() -> None:
    documents = [write(f"s{i}", None, None, ORDER.replace("hello", "x" * i)) for i in range(200)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(accept_answer, documents))
    assert [answer.sender for answer in answers] == [f"s{i}" for i in range(200)]
    assert [len(answer.payload[0].text or "") for answer in answers] == list(range(200))


def test_a_bare_payload_is_read_alike() -> None:
    payload = read_payload(ORDER.encode())
    assert isinstance(payload, etree._Element)
    assert payload.tag == "{urn:example:order:v1}order"


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"<order/>", Fault.SHAPE),
        (b'<to xmlns="urn:agentserver:envelope:v1"/>', Fault.SHAPE),
        (message(ORDER), Fault.SHAPE),
        (b"<!DOCTYPE a>" + ORDER.encode(), Fault.DOCTYPE),
        (ORDER.encode() * 2, Fault.SYNTAX),
        (b"<o xmlns='urn:a'>" + b"<a>" * 64 + b"</a>" * 64 + b"</o>", Fault.DEPTH),
    ],
)
def test_a_bare_payload_is_bounded_alike(data: bytes, fault: Fault) -> None:
    assert kind(read_payload(data)) == fault


LEGAL = st.text(
    st.characters(codec="utf-8", exclude_characters="\ufffe\uffff", exclude_categories=["Cc", "Cs"])
)
TEXT = st.text(st.one_of(LEGAL.filter(bool).map(lambda text: text[0]), st.sampled_from("\t\n &<>\"']")))
NAMES = LEGAL.filter(lambda text: 1 <= len(text) <= 256)


def element(text: str, attribute: str = "") -> str:
    node = etree.Element("{urn:example:order:v1}o", nsmap={None: "urn:example:order:v1"})
    node.text, node.attrib["a"] = text, attribute
    return etree.tostring(node, encoding="unicode")


@LAWFUL
@given(sender=NAMES, to=st.none() | NAMES, thread=st.none() | NAMES, text=TEXT)
def test_reading_undoes_writing(sender: str, to: str | None, thread: str | None, text: str) -> None:
    answer = accept_answer(write(sender, to, thread, element(text, text)))
    assert (answer.sender, answer.to, answer.thread) == (sender, to, thread)
    assert (answer.payload.text or "", answer.payload.get("a")) == (text, text)
    again = write(sender, to, thread, etree.tostring(answer.payload, encoding="unicode", with_tail=False))
    assert canonical(accept_answer(again).payload) == canonical(answer.payload)


@pytest.mark.parametrize(
    "name", ["", "a\nb", "a\tb", "\r", "x" * 257, "\x00", "\x7f", "\x85", "\ud800", "\ufffe", "\uffff"]
)
def test_a_name_that_cannot_be_read_back_is_not_written(name: str) -> None:
    for names in (
        *((name, None, None), ("a", name, None), ("a", None, name)),
        *((name, "b", "c"), ("a", name, "c"), ("a", "b", f"c\n{name}"), ("a", "b", "c\n")),
    ):
        with pytest.raises(ValueError, match="256 characters"):
            write(*names, ORDER)


@LAWFUL
@given(data=st.binary(max_size=200))
def test_no_bytes_make_reading_raise(data: bytes) -> None:
    assert isinstance(read_envelope(data), Malformed)
    assert isinstance(read_envelope(message(data)), (Malformed, Envelope))
    assert isinstance(read_payload(data), (Malformed, etree._Element))


@settings(LAWFUL, max_examples=examples(500))
@given(data=st.data())
def test_no_damage_makes_reading_raise(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([file.read_bytes() for file in FILES])) or b"<"
    at = data.draw(st.integers(0, len(whole)))
    to = data.draw(st.integers(at, min(len(whole), at + 9)))
    patch = data.draw(
        st.binary(max_size=3) | st.sampled_from([b"<", b">", b"&", b'"', b"xmlns=''", b"<![CDATA["])
    )
    answer = read_envelope(whole[:at] + patch + whole[to:])
    if isinstance(answer, Envelope):
        assert canonical(answer.payload)
        assert isinstance(answer.sender, str)


SAME = [
    '<o xmlns="urn:a" a="1" b="2"><c>x</c><d/></o>',
    "<o b='2'   a='1' xmlns='urn:a' ><c >x</c ><d></d></o>",
    '<o xmlns="urn:a" xmlns:unused="urn:u" a="&#49;" b="2"><c>&#x78;</c><d/></o>',
    '<o xmlns="urn:a" a="1" b="2"><c><![CDATA[x]]><!-- y --></c><d/></o>',
    '<o xmlns="urn:a" a="1" b="2"><c xmlns="urn:a">x</c><d/></o>',
]


def test_the_canonical_form_is_one_however_it_was_written() -> None:
    forms = {canonical(accept_answer(message(markup)).payload) for markup in SAME}
    bare = read_payload(SAME[0].encode())
    assert isinstance(bare, etree._Element)
    assert forms == {canonical(bare)} == {b'<o xmlns="urn:a" a="1" b="2"><c>x</c><d></d></o>'}


@pytest.mark.parametrize(
    "around",
    [
        '<w xmlns="urn:w">{}tail</w>',
        '<w:w xmlns:w="urn:w" xmlns:a="urn:a">{}</w:w>',
        '<w xmlns="urn:a" a="9">{} <o/></w>',
        '<w xmlns="urn:w" xml:lang="de" xml:base="x:y">{}</w>',
    ],
)
def test_the_canonical_form_is_the_same_in_any_place(around: str) -> None:
    tree = read_payload(around.format(SAME[0]).encode())
    assert isinstance(tree, etree._Element)
    assert canonical(tree[0]) == b'<o xmlns="urn:a" a="1" b="2"><c>x</c><d></d></o>'


@LAWFUL
@given(text=TEXT, other=TEXT)
def test_the_canonical_form_tells_texts_apart(text: str, other: str) -> None:
    forms = {canonical(accept_answer(message(element(value))).payload) for value in (text, other)}
    assert len(forms) == len({text, other})


if __name__ == "__main__":
    _confine_memory()
