from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from lxml import etree

from agentserver.contract import Attribute
from agentserver.payload.codec import GeneratedCodec
from agentserver.payload.xmlify import describe
from agentserver.wire import repair, repair_search
from agentserver.wire.envelope import NAMESPACE, Bounds, canonical, read_payload
from agentserver.wire.repair import RepairedText, RepairRefusal, Unreadable
from agentserver.wire.repair_search import Repair
from tests.fuzzing import examples

LAWFUL = settings(max_examples=examples(200))


@dataclass(frozen=True)
class Note:
    t: str


@dataclass(frozen=True)
class Pay:
    note: str
    amount: int


@dataclass(frozen=True)
class Line:
    sku: str
    count: int


@dataclass(frozen=True)
class Order:
    line: list[Line] = field(default_factory=list)
    remark: str = ""
    kind: Annotated[str, Attribute()] = ""
    code: Annotated[str, Attribute()] = ""


@dataclass(frozen=True)
class Mail:
    to: str
    subject: str
    body: str
    words: str | None = None


@dataclass(frozen=True)
class Ping:
    pass


@dataclass(frozen=True)
class Leaf:
    name: str
    more: str = ""


@dataclass(frozen=True)
class Tree:
    name: str
    Tree: Leaf | None = None


@dataclass(frozen=True)
class message:
    t: str


KNOWN = tuple(GeneratedCodec(describe(cls)) for cls in (Note, Pay, Order, Mail, Ping, Tree, message))
NAMES = {
    f"{{{codec.described.namespace}}}{name}"
    for codec in KNOWN
    for name in (
        codec.described.root,
        *(each.xml for record in codec.described.records for each in record.fields),
    )
}


def codec_of(cls: type) -> GeneratedCodec:
    return next(codec for codec in KNOWN if codec.payload is cls)


def read(text: str | bytes, known=KNOWN, bounds=None, most=1000) -> RepairedText | Unreadable:
    return repair.repair_payloads(
        text.encode() if isinstance(text, str) else text, known, bounds or Bounds(), most
    )


def write_canonical(value: object) -> str:
    """The canonical markup of a value, made without repair."""
    element = read_payload(codec_of(type(value)).encode(value).encode())
    assert isinstance(element, etree._Element)
    return canonical(element).decode()


def with_namespaces(markup: str) -> str:
    """With the namespaces of its roots written out."""
    for codec in KNOWN:
        described = codec.described
        markup = re.sub(
            rf"<{described.root}(?=[ />])", f'<{described.root} xmlns="{described.namespace}"', markup
        )
    return markup


def values_of(answer: RepairedText) -> list[object]:
    elements = [read_payload(markup.encode()) for markup in answer.payloads]
    return [next(codec for codec in KNOWN if codec.name == each.tag).decode(each) for each in elements]


READ = {
    "ampersands": ("<Note><t>Tom & Jerry AT&T</t></Note>", [Note("Tom & Jerry AT&T")], {Repair.ESCAPED}),
    "comparisons": ("<Note><t>if a < b and c > d</t></Note>", [Note("if a < b and c > d")], {Repair.ESCAPED}),
    "a type in angle brackets": (
        "<Note><t>use List<int> here</t></Note>",
        [Note("use List<int> here")],
        {Repair.ESCAPED},
    ),
    "the end of CDATA in the text": ("<Note><t>a]]> b</t></Note>", [Note("a]]> b")], {Repair.ESCAPED}),
    "pay AT&T 100 if a < b": (
        "<Pay><note>pay AT&T 100 if a < b</note><amount>3</amount></Pay>",
        [Pay("pay AT&T 100 if a < b", 3)],
        {Repair.ESCAPED},
    ),
    "a raw attribute": ("<Order kind='a < b & c' />", [Order(kind="a < b & c")], {Repair.ESCAPED}),
    "quotes in the other quotes": (
        """<Order kind='say "a & b"'/>""",
        [Order(kind='say "a & b"')],
        {Repair.ESCAPED},
    ),
    "prose before and behind": (
        "Sure, a < b & so on:\n<Note><t>x</t></Note>\nI hope that helps & more.",
        [Note("x")],
        {Repair.PROSE},
    ),
    "a fence": ("```xml\n<Note><t>x</t></Note>\n```\n", [Note("x")], {Repair.FENCE}),
    "a fence with prose": (
        "Here:\n\n```\n<Note><t>x</t></Note>\n```\nDone.",
        [Note("x")],
        {Repair.FENCE, Repair.PROSE},
    ),
    "a fence and a raw text": (
        "```xml\n<Note><t>x & y</t></Note>\n```",
        [Note("x & y")],
        {Repair.FENCE, Repair.ESCAPED},
    ),
    "a fence and a declaration": (
        '```xml\n<?xml version="1.0" encoding="UTF-8"?>\n<Note><t>x</t></Note>\n```',
        [Note("x")],
        {Repair.FENCE, Repair.DECLARATION},
    ),
    "a fence in the text": (
        "Look:<Note><t>```\ncode\n```</t></Note>",
        [Note("```\ncode\n```")],
        {Repair.PROSE},
    ),
    "two fences": (
        "```xml\n<Note><t>x</t></Note>\n```\n```xml\n<Ping/>\n```",
        [Note("x"), Ping()],
        {Repair.FENCE},
    ),
    "windows line ends": (
        "```xml\r\n<Note><t>x\r\ny & z</t></Note>\r\n```",
        [Note("x\ny & z")],
        {Repair.FENCE, Repair.ESCAPED},
    ),
    "two kinds of payload": (
        "<Note><t>x</t></Note><Pay><note>a & b</note><amount>1</amount></Pay>",
        [Note("x"), Pay("a & b", 1)],
        {Repair.ESCAPED},
    ),
    "the last end tag missing": ("<Note><t>x</t>", [Note("x")], {Repair.CUT}),
    "the last end tag cut": ("<Note><t>x</t></No", [Note("x")], {Repair.CUT}),
    "a value's end tag cut": ("<Note><t>x & y</t", [Note("x & y")], {Repair.CUT, Repair.ESCAPED}),
    "escaped and cut": ("<Note><t>a &amp; b</t>", [Note("a & b")], {Repair.CUT}),
    "cut in a fence": ("```xml\n<Note><t>x</t>\n```", [Note("x")], {Repair.CUT, Repair.FENCE}),
    "an end tag missing": (
        "<Pay><note>x</note><amount>3</Pay>",
        [Pay("x", 3)],
        {Repair.UNCLOSED},
    ),
    "a record's end tag missing": (
        "<Order><line><sku>a</sku><count>1</count></Order>",
        [Order([Line("a", 1)])],
        {Repair.UNCLOSED},
    ),
    "a start tag that shows a missing end tag": (
        "<Mail><to>a</to><subject>b</subject><body>c<words>d</words></Mail>",
        [Mail("a", "b", "c", "d")],
        {Repair.UNCLOSED},
    ),
    "a number's end tag missing before a line end": (
        "<Order><line>\n<sku>a</sku>\n<count>1\n</line></Order>",
        [Order([Line("a", 1)])],
        {Repair.UNCLOSED},
    ),
    "a space in an end tag": ("<Note><t>x & y</t ></Note\n>", [Note("x & y")], {Repair.ESCAPED}),
    "attributes": (
        "<Order kind='a' code=\"b\"><remark>x & y</remark></Order>",
        [Order(remark="x & y", kind="a", code="b")],
        {Repair.ESCAPED},
    ),
    "its own namespace on a child": (
        f"<Note><t xmlns='{codec_of(Note).described.namespace}'>x & y</t></Note>",
        [Note("x & y")],
        {Repair.ESCAPED},
    ),
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("namespace", [True, False])
def test_text_with_one_valid_reading_is_read(name: str, namespace: bool) -> None:
    text, values, repairs = READ[name]
    answer = read(with_namespaces(text) if namespace else text)
    assert isinstance(answer, RepairedText), answer
    assert values_of(answer) == values
    assert {note.kind for note in answer.notes} == (repairs if namespace else repairs | {Repair.NAMESPACE})
    assert all(0 <= note.place <= len(text) + 99 for note in answer.notes)
    assert list(answer.notes) == sorted(answer.notes, key=lambda note: note.place)


REFUSED = {
    "nothing": ("", RepairRefusal.UNKNOWN_ROOT),
    "prose alone": ("I could not do that.", RepairRefusal.UNKNOWN_ROOT),
    "an unknown root": ("<Nope xmlns='urn:a'/>", RepairRefusal.UNKNOWN_ROOT),
    "a root in another case": ("<note><t>x</t></note>", RepairRefusal.UNKNOWN_ROOT),
    "another namespace": ("<Note xmlns='urn:a'><t>x</t></Note>", RepairRefusal.UNKNOWN_ROOT),
    "another namespace and a raw text": ("<Note xmlns='urn:a'><t>x & y</t></Note>", RepairRefusal.INVALID),
    "an element in another case": ("<Note><T>x & y</T></Note>", RepairRefusal.INVALID),
    "an unknown element": ("<Note><t>x</t><cc>evil & co</cc></Note>", RepairRefusal.INVALID),
    "words between elements": ("<Pay><note>x & y</note>and<amount>3</amount></Pay>", RepairRefusal.INVALID),
    "an unknown attribute": ("<Note to='x'><t>x & y</t></Note>", RepairRefusal.INVALID),
    "an attribute of another element": (
        "<Order><line kind='x'><sku>&</sku></line></Order>",
        RepairRefusal.INVALID,
    ),
    "an attribute without quotes": ("<Order kind=x><remark>&</remark></Order>", RepairRefusal.INVALID),
    "a value that no schema takes": (
        "<Pay><note>a & b</note><amount>many</amount></Pay>",
        RepairRefusal.INVALID,
    ),
    "a missing element": ("<Pay><note>a & b</note></Pay>", RepairRefusal.INVALID),
    "a comment between elements": (
        "<Pay><note>a & b</note><!-- x --><amount>3</amount></Pay>",
        RepairRefusal.INVALID,
    ),
    "a control character": ("<Note><t>a & \x08</t></Note>", RepairRefusal.INVALID),
    "an empty attribute start": ("<Order kind='a & b", RepairRefusal.INVALID),
    "a start tag that never ends": ("<Note", RepairRefusal.UNKNOWN_ROOT),
    "a closed end tag that is none": ("<Note><t>a & b</t/></Note>", RepairRefusal.INVALID),
    "an unclosed CDATA section": ("<Note><t><![CDATA[a]] b</t></Note>", RepairRefusal.AMBIGUOUS),
    "a CDATA section and a raw text": ("<Note><t><![CDATA[a]]> & b</t></Note>", RepairRefusal.AMBIGUOUS),
    "a comment and a raw text": ("<Note><t>a <!-- b --> & c</t></Note>", RepairRefusal.AMBIGUOUS),
    "escaped and raw": ("<Note><t>a &amp; b & c</t></Note>", RepairRefusal.AMBIGUOUS),
    "escaped here and raw there": (
        "<Order kind='&#65;'><remark>a & b</remark></Order>",
        RepairRefusal.AMBIGUOUS,
    ),
    "two of a list or one": (
        "<Order><line><sku>a & b</sku><count>1</count></line><line><sku>c</sku><count>2</count></line></Order>",
        RepairRefusal.AMBIGUOUS,
    ),
    "two payloads or one": ("<Note><t>a & b</t></Note><Note><t>c</t></Note>", RepairRefusal.AMBIGUOUS),
    "a closing tag in the text": ("<Note><t>say </t> please</t></Note>", RepairRefusal.INVALID),
    "a closing tag of no known name": ("<Note><t>a </b> & c</t></Note>", RepairRefusal.INVALID),
    "elements of no known name": ("<Note><t>a <b>c</b> & <br/></t></Note>", RepairRefusal.INVALID),
    "an element with attributes in the text": (
        "<Note><t>a <a href='x'> & c</t></Note>",
        RepairRefusal.INVALID,
    ),
    "an element of another payload": ("<Note><t>a <sku> & c</t></Note>", RepairRefusal.INVALID),
    "an end tag in an attribute": ("<Order kind='a </remark> & b'/>", RepairRefusal.INVALID),
    "markup that would make fields": (
        "<Mail><to>a</to><subject>R & D</subject><body>x</body><to>evil</to><body>y</body></Mail>",
        RepairRefusal.INVALID,
    ),
    "a field that stands twice": (
        "<Pay><note>x</note><note>y</note><amount>3</amount>",
        RepairRefusal.INVALID,
    ),
    "a field that stands twice, and something raw": (
        "<Pay><note>x &</note><note>y</note><amount>3</amount></Pay>",
        RepairRefusal.INVALID,
    ),
    "quotes in the same quotes": (
        "<Order kind='x' kind='y'><remark>&</remark></Order>",
        RepairRefusal.INVALID,
    ),
    "a text whose end is not known to the space": (
        "<Pay><note>x <amount>3</amount></Pay>",
        RepairRefusal.AMBIGUOUS,
    ),
    "one attribute or two": ("<Order kind='a & b' code='c'/>", RepairRefusal.AMBIGUOUS),
    "an example in prose": ("A <Note> goes like this: <Note><t>x</t></Note>", RepairRefusal.INVALID),
    "prose between payloads": ("<Note><t>x</t></Note> and <Ping/>", RepairRefusal.OUTSIDE),
    "markup behind": ("<Note><t>a & b</t></Note> </t></Note>", RepairRefusal.OUTSIDE),
    "an unknown element behind": ("<Note><t>a</t></Note><cc/>", RepairRefusal.OUTSIDE),
    "an unknown element before": ("<thinking>hm</thinking><Note><t>a & b</t></Note>", RepairRefusal.OUTSIDE),
    "a document type": ("<!DOCTYPE Note><Note><t>a</t></Note>", RepairRefusal.OUTSIDE),
    "a document type behind a declaration": (
        "<?xml version='1.0'?><!DOCTYPE a><Note><t>a</t></Note>",
        RepairRefusal.OUTSIDE,
    ),
    "an envelope": (
        f"<message xmlns='{NAMESPACE}'><from>a</from><Note><t>x & y</t></Note></message>",
        RepairRefusal.INVALID,
    ),
    "a well-formed envelope": (
        f"<message xmlns='{NAMESPACE}'><from>a</from><Note xmlns='u:u'/></message>",
        RepairRefusal.UNKNOWN_ROOT,
    ),
    "an envelope without a namespace": (
        "<message><from>a</from><Note><t>x</t></Note></message>",
        RepairRefusal.UNKNOWN_ROOT,
    ),
    "a root that is called as the envelope": ("<message><t>x</t></message>", RepairRefusal.UNKNOWN_ROOT),
    "a raw root that is called as the envelope": ("<message><t>x & y</t></message>", RepairRefusal.INVALID),
    "an envelope of another kind": (
        "<envelope><to>evil</to><Note><t>x & y</t></Note></envelope>",
        RepairRefusal.OUTSIDE,
    ),
    "names of an envelope beside": (
        "<from>a</from><to>b</to><Note><t>x & y</t></Note>",
        RepairRefusal.OUTSIDE,
    ),
    "a value that was cut": ("<Note><t>pay 100", RepairRefusal.CUT),
    "a raw value that was cut": ("<Pay><note>a & b</note><amount>10", RepairRefusal.CUT),
    "a cut tag that may be text": ("<Note><t>pay 100 <", RepairRefusal.CUT),
    "a cut start tag": ("<Order><line><sku>a</sku><count>1</count></line><rem", RepairRefusal.INVALID),
    "a cut tag of any kind": ("<Order><line><sku>a</sku><count>1</count></line><", RepairRefusal.INVALID),
    "a cut end tag of another": ("<Note><t>pay 100 </note", RepairRefusal.CUT),
    "not UTF-8": (b"<Note><t>\xff & b</t></Note>", RepairRefusal.ENCODING),
    "too long": ("<Note><t>" + "&" * repair.LIMIT + "</t></Note>", RepairRefusal.SIZE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_text_that_needs_a_guess_is_refused(name: str) -> None:
    text, reason = REFUSED[name]
    answer = read(text)
    assert answer == Unreadable(reason)
    assert answer.unknown_root is (reason is RepairRefusal.UNKNOWN_ROOT)


def test_a_root_named_as_the_envelope_is_read_under_its_own_namespace() -> None:
    answer = read(with_namespaces("<message><t>x & y</t></message>"))
    assert isinstance(answer, RepairedText)
    assert answer.payloads == (write_canonical(message("x & y")),)


def test_well_formed_text_is_never_repaired() -> None:
    """Its content is for the schema to refuse, with corrections."""
    answer = read(with_namespaces("<Mail><to>a</to><body>x</body><to>evil</to><body>y</body></Mail>"))
    assert isinstance(answer, RepairedText)
    assert answer.notes == ()
    assert not codec_of(Mail).valid(read_payload(answer.payloads[0].encode()))


def test_a_note_gives_repair_and_place() -> None:
    answer = read("so: <Note><t>a & b</t>")
    assert isinstance(answer, RepairedText)
    assert [str(note) for note in answer.notes] == [
        "left out prose around the payloads (character 0)",
        "added the root's namespace (character 4)",
        "escaped characters of a text (character 15)",
        "closed an element at the end of the text (character 22)",
    ]


VERSIONS = (GeneratedCodec(describe(Pay)), GeneratedCodec(describe(Pay, version=2)))


@pytest.mark.parametrize(
    "text", ["<Pay><note>x</note><amount>1</amount></Pay>", "<Pay><note>&</note><amount>1</amount></Pay>"]
)
def test_a_root_of_two_namespaces_is_not_guessed(text: str) -> None:
    assert read(text, VERSIONS) == Unreadable(RepairRefusal.AMBIGUOUS)
    answer = read(text.replace("<Pay", f"<Pay xmlns='{VERSIONS[1].described.namespace}'"), VERSIONS)
    assert isinstance(answer, RepairedText)
    assert VERSIONS[1].described.namespace in answer.payloads[0]


def test_without_a_field_table_text_is_read_verbatim() -> None:
    codec = codec_of(Note)
    plain = SimpleNamespace(name=codec.name, described=None, valid=codec.valid)
    for text in (with_namespaces("<Note><t>x</t></Note>"), "```\n<Note><t>x</t></Note>\n```"):
        answer = read(text, [plain])
        assert isinstance(answer, RepairedText)
        assert answer.payloads == (write_canonical(Note("x")),)
    assert read("<Note><t>x & y</t></Note>", [plain]) == Unreadable(RepairRefusal.INVALID)


def test_nothing_is_read_without_known_payloads() -> None:
    assert read("<Note><t>x</t></Note>", []) == Unreadable(RepairRefusal.UNKNOWN_ROOT)


K = 1024
FLOODS = {
    "less-than": "<Note><t>" + "<" * 250 * K,
    "end tags": "<Note><t>&" + "</t>" * 60 * K + "</Note>",
    "start tags": "<Note><t>&" + "<sku>" * 40 * K,
    "end tags of both": "<Note><t>&" + "</t></Note>x" * 15 * K,
    "lines": "<Order>" + "<line><sku>a & b</sku><count>1</count></line>" * 5000 + "</Order>",
    "invalid lines": "<Order>" + "<line><sku>a & b</sku><count>x</count></line>" * 5000 + "</Order>",
    "unclosed lines": "<Order>" + "<line><sku>a<count>1" * 9000 + "</Order>",
    "quotes": "<Order kind=" + "\"' " * 80 * K + ">",
    "attributes": "<Order" + " kind='a'" * 20 * K + "><remark>&</remark></Order>",
    "payloads": "<Note><t>&</t></Note>" * 10 * K,
    "nesting": "<Tree>" * 40 * K + "<name>&",
    "blanks": "<Order><line><sku>a" + "</sku>" * 1000 + " " * 150 * K + "<x></Order>",
    "cut names": "<Note><t>&</t>" + "<a" * 100 * K,
    "fences": "```\n" * 60 * K + "<Note><t>&</t>",
    "declarations": "<?xml " * 40 * K + "<Note><t>&</t></Note>",
    "notes": "".join(f"<Note><t>{i}</t>" for i in range(200)),
}


@pytest.mark.parametrize("name", FLOODS)
def test_work_is_bounded(name: str, monkeypatch) -> None:
    """By tags and quotes looked at and by readings judged, whatever the text."""
    searches = []

    class CountedSearch(repair_search.Search):
        def __init__(self, *args) -> None:
            super().__init__(*args)
            self.judged = 0
            searches.append(self)

        def iter_candidates(self, start):
            for candidate in super().iter_candidates(start):
                self.judged += 1
                yield candidate

    monkeypatch.setattr(repair, "Search", CountedSearch)
    answer = read(FLOODS[name])
    assert isinstance(answer, (RepairedText, Unreadable))
    for search in searches:
        assert search._work >= -2 - len(FLOODS)
        assert search.judged <= repair.CANDIDATES + 1


def test_more_readings_than_the_bound_are_refused(monkeypatch) -> None:
    text = "<Pay><note>&</note><amount>x</amount><note></note><amount>x</amount></Pay>"
    assert read(text) == Unreadable(RepairRefusal.INVALID)
    monkeypatch.setattr(repair, "CANDIDATES", 0)
    assert read(text) == Unreadable(RepairRefusal.WORK)


def test_more_work_than_the_bound_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(repair_search, "WORK", 2)
    assert read("<Note><t>a & b</t></Note>") == Unreadable(RepairRefusal.WORK)


def test_more_notes_than_the_bound_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(repair, "NOTES", 2)
    assert isinstance(read("<Note><t>a & b</t></Note>"), RepairedText)
    assert read("so: <Note><t>a & b</t></Note>") == Unreadable(RepairRefusal.WORK)


def test_the_callers_bounds_hold() -> None:
    text = with_namespaces("<Note><t>x</t></Note>") + " " * 100
    assert isinstance(read(text, bounds=Bounds(bytes=len(text))), RepairedText)
    assert isinstance(read(text, bounds=Bounds(bytes=20)), Unreadable)
    assert read("<Note><t>a & b</t></Note>", bounds=Bounds(depth=1)) == Unreadable(RepairRefusal.INVALID)


FRAGMENTS = st.sampled_from(
    [
        *(
            "a",
            "b",
            " ",
            "\n",
            "&",
            "<",
            ">",
            '"',
            "'",
            "/",
            "]]>",
            "&amp;",
            "&lt;",
            "&#65;",
            "<![CDATA[",
            "<!--",
            "-->",
        ),
        *(
            "<?x",
            "```",
            "a < b",
            "AT&T",
            "<int>",
            "</int>",
            "<t>",
            "</t>",
            "<Note>",
            "</Note>",
            "<note>",
            "</note>",
        ),
        *(
            "<amount>",
            "</amount>",
            "1",
            "<Pay>",
            "</Pay>",
            "<remark>",
            "</remark>",
            "<line>",
            "</line>",
            "<sku>",
        ),
        *(
            "</sku>",
            "<count>",
            "</count>",
            "<Order>",
            "</Order>",
            "kind=",
            "code=",
            "<body>",
            "</body>",
            "<to>",
            "</to>",
        ),
        *(
            "<words>",
            "</words>",
            "<from>",
            "<message>",
            "</Mail>",
            "xmlns=''",
            "<Ping/>",
            "<name>",
            "</name>",
            "<more>",
        ),
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=6).map("".join)
WORDS = TEXTS.filter(lambda text: "\n" not in text and text)
VALUES = st.one_of(
    st.builds(Note, t=TEXTS),
    st.builds(Pay, note=TEXTS, amount=st.integers(0, 9)),
    st.builds(Mail, to=TEXTS, subject=st.just("s"), body=TEXTS, words=st.none() | TEXTS),
    st.builds(
        Order,
        line=st.lists(st.builds(Line, sku=TEXTS, count=st.integers(0, 9)), max_size=2),
        remark=TEXTS,
        kind=st.just("") | WORDS,
        code=st.just("") | WORDS,
    ),
    st.builds(Tree, name=TEXTS, Tree=st.none() | st.builds(Leaf, name=TEXTS)),
)


def write_unescaped(value: object) -> str:
    """The payload as an author writes it without knowing of escaping."""
    markup = codec_of(type(value)).encode(value)
    for reference, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        markup = markup.replace(reference, character)
    return markup


def well_formed(text: str) -> bool:
    try:
        etree.fromstring(f"<w>{text}</w>".encode())
    except etree.XMLSyntaxError:
        return False
    return True


PROSE = st.sampled_from(["", "Sure:\n", "a < b & c > d. ", "\n```xml\n", "Here you go:\n```xml\n", "```\n"])
AFTER = st.sampled_from(["", "\n", "\n```", "\n```\nThat is it & done.", " The end, 1 < 2.", "\n\n"])


@settings(LAWFUL, max_examples=examples(400))
@given(value=VALUES, before=PROSE, after=AFTER, bare=st.booleans())
@example(Note("a & b</t></Note><Note><t>c"), "", "", False)
@example(Pay("a & b</note><amount>9</amount><note>", 1), "", "", True)
@example(Order(kind='a & b" code="c'), "", "", False)
@example(Note("AT&T &amp; co"), "", "", False)
@example(Order(code='a"b'), "", "", False)
def test_unescaped_text_is_read_as_meant_or_refused(value, before: str, after: str, bare: bool) -> None:
    text = write_unescaped(value)
    assume(not well_formed(text))
    if bare:
        text = text.replace(f' xmlns="{codec_of(type(value)).described.namespace}"', "", 1)
    answer = read(before + text + after)
    if isinstance(answer, RepairedText):
        assert answer.payloads == (write_canonical(value),)
        assert answer.notes


@settings(LAWFUL, max_examples=examples(300))
@given(value=VALUES, before=PROSE, after=AFTER, bare=st.booleans())
def test_the_surroundings_of_a_payload_change_nothing(value, before: str, after: str, bare: bool) -> None:
    text = codec_of(type(value)).encode(value)
    if bare:
        text = text.replace(f' xmlns="{codec_of(type(value)).described.namespace}"', "", 1)
    answer = read(before + text + after)
    assert isinstance(answer, RepairedText)
    assert answer.payloads == (write_canonical(value),)
    assert bool(answer.notes) == bool(before.strip() or after.strip() or bare)


@LAWFUL
@given(values=st.lists(VALUES, min_size=1, max_size=3), between=st.sampled_from(["", "\n", "\r\n  "]))
def test_strict_text_passes_without_a_note(values, between: str) -> None:
    text = between.join(codec_of(type(value)).encode(value) for value in values)
    assert read(between + text + between) == RepairedText(tuple(map(write_canonical, values)), ())


@settings(LAWFUL, max_examples=examples(300))
@given(parts=st.lists(FRAGMENTS | st.sampled_from(["<Note><t>", "</t></Note>", "<Pay><note>"]), max_size=12))
def test_no_element_is_made_that_the_text_does_not_name_and_the_schema_does_not_know(parts) -> None:
    text = "".join(parts)
    answer = read(text)
    if isinstance(answer, RepairedText) and not {note.kind for note in answer.notes} <= {
        Repair.NAMESPACE,
        Repair.PROSE,
        Repair.FENCE,
    }:
        for payload in answer.payloads:
            element = read_payload(payload.encode())
            assert isinstance(element, etree._Element)
            assert {each.tag for each in element.iter()} <= NAMES
            assert all(f"<{etree.QName(each).localname}" in text for each in element.iter())
            assert any(codec.name == element.tag and codec.valid(element) for codec in KNOWN)


@LAWFUL
@given(value=VALUES, cut=st.integers(0, 400))
def test_a_cut_never_changes_a_value(value, cut: int) -> None:
    """A cut leaves the whole payload, or one without optional parts."""
    text = codec_of(type(value)).encode(value)
    assume(cut < len(text))
    answer = read(text[:cut])
    if isinstance(answer, RepairedText):
        kept = codec_of(type(value)).decode(read_payload(answer.payloads[0].encode()))
        for name in value.__dataclass_fields__:
            now, then = getattr(kept, name), getattr(value, name)
            default = getattr(type(value)(**_required_fields(value)), name)
            assert (
                now in (then, default)
                or (isinstance(now, list) and now == then[: len(now)])
                or name == "Tree"
            )


def _required_fields(value: object) -> dict[str, object]:
    return {
        name: getattr(value, name)
        for name in {
            Note: ["t"],
            Pay: ["note", "amount"],
            Order: [],
            Mail: ["to", "subject", "body"],
            Tree: ["name"],
        }[type(value)]
    }


@LAWFUL
@given(data=st.binary(max_size=60), parts=st.lists(FRAGMENTS, max_size=5))
def test_no_bytes_make_reading_raise(data: bytes, parts) -> None:
    for text in (data, "".join(parts).encode() + data, b"<Note><t>" + data + b"</t></Note>"):
        assert isinstance(read(text), (RepairedText, Unreadable))
