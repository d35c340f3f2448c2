"""The wire: the envelope, its schema, and the only hardened parser of the package.

Owns the bytes of a message: reading them under stated bounds, and writing them. Refuses to know
what a payload means, who may send it, or whether the claimed sender is the true one: that is for the
caller to decide, whatever the bytes say.

Nothing here repairs: a document is read exactly as it stands or refused. Refusals are values of bounded size
that quote nothing of the document, so they can be logged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from typing import Any, Final, TypeAlias, cast

from lxml import etree

from agentserver.wire.canonical import canonical
from agentserver.wire.familiar import familiar

Names: TypeAlias = frozenset[bytes]

NAMESPACE: Final = "urn:agentserver:envelope:v1"

SCHEMA: Final = """\
<?xml version="1.0" encoding="UTF-8"?>
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:agentserver:envelope:v1"
           targetNamespace="urn:agentserver:envelope:v1" elementFormDefault="qualified">
  <xs:element name="message">
    <xs:complexType>
      <xs:sequence>
        <xs:element name="from" type="name" minOccurs="0"/>
        <xs:element name="to" type="name" minOccurs="0"/>
        <xs:element name="thread" type="name" minOccurs="0"/>
        <xs:any namespace="##other" processContents="skip"/>
      </xs:sequence>
    </xs:complexType>
  </xs:element>
  <xs:simpleType name="name">
    <xs:annotation>
      <xs:documentation>1 to 256 characters on one line; no white space is trimmed.</xs:documentation>
    </xs:annotation>
    <xs:restriction base="xs:string">
      <xs:minLength value="1"/>
      <xs:maxLength value="256"/>
      <xs:pattern value="[ -~&#xA0;-&#xD7FF;&#xE000;-&#xFFFD;&#x10000;-&#x10FFFF;]*"/>
    </xs:restriction>
  </xs:simpleType>
</xs:schema>
"""
"""The envelope's XSD; the packaged file and the one at the top of the project are held identical to it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a document, beyond which it is refused.

    Args:
        bytes: of the whole document; below 10 MB, where libxml2 has bounds of its own.
        depth: elements inside one another, the root included; at most 256, libxml2's own bound.
        elements: in the whole document. More than twice as many ``<``, wherever they stand, are not parsed.
        attributes: of one element; as many namespace declarations may be in scope at once.
        text: characters of one run of text or of one attribute value.
        name: characters of an element's or attribute's name and its prefix together. Beyond 50,000 it is a
            syntax error to libxml2.
        names: those that the server's own schemas declare. A document with others has a parser of its own.
    """

    bytes: int = 1 << 20
    depth: int = 64
    elements: int = 20_000
    attributes: int = 64
    text: int = 1 << 20
    name: int = 256
    names: Names = frozenset()


class Fault(StrEnum):
    """The reason why a document was refused."""

    SIZE = "size"
    ENCODING = "encoding"
    DOCTYPE = "doctype"
    SYNTAX = "syntax"
    DEPTH = "depth"
    ELEMENTS = "elements"
    ATTRIBUTES = "attributes"
    TEXT = "text"
    NAME = "name"
    SHAPE = "shape"


@dataclass(frozen=True, slots=True)
class Malformed:
    """A document that was refused; ``detail`` is at most 200 characters and quotes nothing of it."""

    kind: Fault
    detail: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message as its bytes claim it. ``payload`` is the element inside the envelope's own tree.

    Args:
        sender: the claimed sender, empty when none is; authority is the caller's knowledge, never this.
        to: the listener named, or None when the payload's root decides.
        thread: the thread named, None when none is; a claim as well.
        payload: one element of a namespace other than the envelope's.
    """

    sender: str
    to: str | None
    thread: str | None
    payload: etree._Element


_DEFAULT: Final = Bounds()


# Reused because a new parser costs a third of a small message. lxml locks a parser while it works, so threads
# may share it. `collect_ids=False` is absent on purpose: with it libxml2 opens external DTDs. Comments and
# processing instructions go because they would split `.text`. What stays of a document is each name that the thread
# had not seen before, for as long as the thread lives or this parser does: one with unknown names gets another
# parser, so documents of strangers are read in a thread of their own.
def _parser() -> etree.XMLParser:
    return etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
        recover=False,
        remove_comments=True,
        remove_pis=True,
        strip_cdata=True,
    )


_PARSER: Final = _parser()
_SCHEMA: Final = etree.XMLSchema(etree.fromstring(SCHEMA.encode(), _PARSER))

_OWN: Final = f"{{{NAMESPACE}}}"
_FROM, _TO, _THREAD = (_OWN + name for name in ("from", "to", "thread"))
_OPEN: Final = f'<message xmlns="{NAMESPACE}">'
_NAME: Final = re.compile("[ -~\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]{1,256}")
_PLAIN_NAMES: Final = re.compile("\n".join(["[ -%'-;=?-~]{1,256}"] * 3))  # a line each, nothing to escape
# In a document of less than 10 MB nothing but depth exhausts one of libxml2's own resources.
_EXHAUSTED: Final = etree.ErrorTypes.ERR_RESOURCE_LIMIT
_BOM: Final = b"\xef\xbb\xbf"
_BARE: Final = re.compile(rb"<[^!?]")
_MISC: Final = re.compile(rb"(?:-->|\?>)?[ \t\r\n]*(<!--|<\?)")
_CLOSING: Final = {b"<!--": b"-->", b"<?": b"?>"}
_DOCTYPE: Final = re.compile(rb"(?:-->|\?>)?[ \t\r\n]*<!")
_ENCODING: Final = re.compile(rb"""encoding\s*=\s*["']([^"']*)["']""")
# The declarations that surely have a canonical form; any other is tried out.
_PLAIN_NAMESPACE: Final = re.compile(
    rb"""xmlns(?::[A-Za-z_][A-Za-z0-9_.-]{0,63})?=(["'])"""
    rb"""(?:urn:[A-Za-z0-9][A-Za-z0-9:._/-]*|https?://[A-Za-z0-9.-]+(?:/[A-Za-z0-9._/-]*)?)\1"""
)
_DEFAULT_NAMESPACE: Final = re.compile(rb' xmlns="urn:[A-Za-z0-9][A-Za-z0-9:._/-]*"')
_LONG_TEXT: Final = etree.XPath("boolean(//text()[string-length() > $n] | //@*[string-length() > $n])")
_LONG_ATTRIBUTE: Final = etree.XPath("boolean(//@*[string-length(name()) > $n])")
_LONGISH: Final = 32
_LONGISH_TAG: Final = re.compile(rb"<[^\s>]{%d}" % _LONGISH)
_UNUSUAL_TAG: Final = re.compile(rb"<(?:!|[^\s>]{%d})" % _LONGISH)
_LONG_TAG: Final = etree.XPath("boolean(//*[string-length(name()) > $n])")
_MANY_ATTRIBUTES: Final = etree.XPath("boolean(//*[@*[$n + 1]])")
_TYPED: Final = etree.XPath(
    "boolean(//@i:type)", namespaces={"i": "http://www.w3.org/2001/XMLSchema-instance"}
)


def read(data: bytes, bounds: Bounds = _DEFAULT) -> Envelope | Malformed:
    """The envelope in `data`, or why there is none. Raises nothing for any bytes.

    The bytes are UTF-8, with or without a byte order mark, and have no DOCTYPE. What is read has a canonical form.
    ``xsi:type`` is refused: it would pick a type, and canonical forms would not tell two types apart. Other
    attributes of that namespace, ``xml:base`` and ``xml:id`` mean nothing here.
    """
    root = _parse(data, bounds)
    return root if isinstance(root, Malformed) else _envelope(root)


def read_either(data: bytes, bounds: Bounds = _DEFAULT) -> Envelope | etree._Element | Malformed:
    """The envelope in `data`, or the payload element that it is, parsed once. Neither is a malformed payload."""
    root = _parse(data, bounds)
    if isinstance(root, Malformed):
        return root
    bare = _payload(root)
    if not isinstance(bare, Malformed):
        return bare
    read = _envelope(root)
    return read if isinstance(read, Envelope) else bare


def _envelope(root: etree._Element) -> Envelope | Malformed:
    if not _fits(root):
        return Malformed(
            Fault.SHAPE, "not a message: from?, to?, thread?, then one payload of another namespace"
        )
    *heads, payload = root
    names = {head.tag: head.text for head in heads}
    return Envelope(names.get(_FROM) or "", names.get(_TO), names.get(_THREAD), payload)


def read_payload(data: bytes, bounds: Bounds = _DEFAULT) -> etree._Element | Malformed:
    """The payload element that `data` is, or why there is none. Raises nothing for any bytes."""
    return _payload(_parse(data, bounds))


def read_written(markup: str, bounds: Bounds, *, regular: bool = False) -> etree._Element | Malformed:
    """The payload element that a codec has written, whose names are its own; else as `read_payload`.

    `regular` markup has short names, no attributes and nothing but elements and escaped text: counts show its bounds.
    """
    data = markup.encode()
    few = regular and len(data) <= bounds.bytes and data.count(b"<") <= min(2 * bounds.depth, bounds.elements)
    if not few or len(data) > bounds.text or bounds.name < _LONGISH:
        return _payload(_parse(data, bounds, _PARSER))
    try:
        root = etree.fromstring(data, _PARSER)
    except etree.LxmlError as error:
        return _unparsed(error)
    return root if root.tag[0] == "{" and not root.tag.startswith(_OWN) else _payload(root)


def _payload(root: etree._Element | Malformed) -> etree._Element | Malformed:
    if isinstance(root, Malformed):
        return root
    if not root.tag.startswith("{") or root.tag.startswith(_OWN):
        return Malformed(Fault.SHAPE, "a payload needs a namespace, and not the envelope's")
    return root


def write(sender: str, to: str | None, thread: str | None, payload_markup: str) -> bytes:
    """The message as UTF-8 bytes; `read` is its inverse.

    `payload_markup` is one well-formed element without a prolog, as the codec writes it: taken on trust.
    Raises ValueError when a name is not one that the schema allows.
    """
    if to and thread and _PLAIN_NAMES.fullmatch(f"{sender}\n{to}\n{thread}"):
        head = f"{_OPEN}<from>{sender}</from><to>{to}</to><thread>{thread}</thread>"
        return f"{head}{payload_markup}</message>".encode()
    to_markup = "" if to is None else f"<to>{_name(to)}</to>"
    thread_markup = "" if thread is None else f"<thread>{_name(thread)}</thread>"
    head = f"{_OPEN}<from>{_name(sender)}</from>{to_markup}{thread_markup}"
    return f"{head}{payload_markup}</message>".encode()


def _name(value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise ValueError("an envelope's names are 1 to 256 characters on one line")
    return escape(value, quote=False) if "&" in value or "<" in value or ">" in value else value


def _parse(data: bytes, bounds: Bounds, parser: etree.XMLParser | None = None) -> etree._Element | Malformed:
    refusal = _before(data, bounds)
    if refusal is not None:
        return refusal
    try:
        parser = parser or (_PARSER if familiar(data, bounds.names) else _parser())
        root = etree.fromstring(data, parser)
        return _after(root, data, bounds) or root
    except etree.LxmlError as error:  # not only its syntax errors: libxml2 raises on trees that it dislikes
        return _unparsed(error)


def _before(data: bytes, bounds: Bounds) -> Malformed | None:
    """Faults that the bytes alone show, before anything is built from them."""
    if len(data) > bounds.bytes:
        return Malformed(Fault.SIZE, f"more than {bounds.bytes} bytes")
    if data.count(b"<") > 2 * bounds.elements:
        return Malformed(Fault.ELEMENTS, f"more than {2 * bounds.elements} '<'")
    if not _utf8(data):
        return Malformed(Fault.ENCODING, "not UTF-8 text")
    return None if _BARE.match(data) else _prolog(data)


def _utf8(data: bytes) -> bool:
    """Strict, so that no other decoder's leniency (overlong forms, surrogates, NUL) can matter later."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _prolog(data: bytes) -> Malformed | None:
    """Refuse other declared encodings, and a DOCTYPE, which can only stand before the root (XML 1.0, 2.8)."""
    start = len(_BOM) if data.startswith(_BOM) else 0
    if data.startswith(b"<?xml", start):
        declared = _ENCODING.search(data, start, data.find(b"?>") + 1)
        if declared is not None and declared[1].lower() != b"utf-8":
            return Malformed(Fault.ENCODING, "declares an encoding other than UTF-8")
    while (misc := _MISC.match(data, start)) is not None:
        end = data.find(_CLOSING[misc[1]], misc.end())
        start = len(data) if end < 0 else end
    return Malformed(Fault.DOCTYPE, "has a DOCTYPE") if _DOCTYPE.match(data, start) else None


def _after(root: etree._Element, data: bytes, bounds: Bounds) -> Malformed | None:
    """Faults that only the tree shows. Each exact look is taken when a count of bytes cannot rule its answer out."""
    if _ordinary(data, bounds):
        return None
    if b"<!" in data and root.getroottree().docinfo.internalDTD is not None:  # _prolog saw it already
        return Malformed(Fault.DOCTYPE, "has a DOCTYPE")
    if b":type" in data and _TYPED(root):
        return Malformed(Fault.SHAPE, "xsi:type is not accepted: the schema alone says what an element is")
    return _structure(root, data, bounds) or _lengths(root, data, bounds)


def _ordinary(data: bytes, bounds: Bounds) -> bool:
    """True when counts of bytes rule out every answer of ``_after``, as they do for what codecs write.

    Each ``=`` is that of a plain default namespace, so there are no attributes, and none named ``xsi:type``.
    """
    return (
        len(data) <= bounds.text
        and data.count(b"<") <= min(2 * bounds.depth, bounds.elements)
        and data.count(b"=") == len(_DEFAULT_NAMESPACE.findall(data)) <= bounds.attributes
        and bounds.name >= _LONGISH
        and _UNUSUAL_TAG.search(data) is None
    )


def _structure(root: etree._Element, data: bytes, bounds: Bounds) -> Malformed | None:
    tags = data.count(b"<")
    if tags > 2 * bounds.depth and root.xpath(f"boolean({'/*' * (bounds.depth + 1)})"):
        return Malformed(Fault.DEPTH, f"more than {bounds.depth} elements deep")
    if tags > bounds.elements and cast("float", root.xpath("count(//*)")) > bounds.elements:
        return Malformed(Fault.ELEMENTS, f"more than {bounds.elements} elements")
    many = bounds.attributes
    if data.count(b"=") > many and _MANY_ATTRIBUTES(root, n=many):
        return Malformed(Fault.ATTRIBUTES, f"more than {many} attributes on an element")
    return _namespaces(root, data, many)


def _namespaces(root: etree._Element, data: bytes, many: int) -> Malformed | None:
    declared = data.count(b"xmlns")
    if declared > many and _in_scope(root, many):
        return Malformed(Fault.ATTRIBUTES, f"more than {many} namespace declarations in scope")
    if len(_PLAIN_NAMESPACE.findall(data)) < declared:
        try:
            canonical(root)
        except etree.C14NError:
            return Malformed(Fault.SHAPE, "a namespace that is no absolute URI has no canonical form")
    return None


def _in_scope(root: etree._Element, many: int) -> bool:
    """True when more declarations than this hold at one place. Asking each element would cost their product."""
    now = 0
    for event, _ in etree.iterwalk(root, events=("start-ns", "end-ns")):
        now += 1 if event == "start-ns" else -1
        if now > many:
            return True
    return False


def _lengths(root: etree._Element, data: bytes, bounds: Bounds) -> Malformed | None:
    if len(data) > bounds.text and _LONG_TEXT(root, n=bounds.text):
        return Malformed(Fault.TEXT, f"more than {bounds.text} characters of text in one place")
    if len(data) <= bounds.name:
        return None
    suspicious = bounds.name < _LONGISH or _LONGISH_TAG.search(data) is not None
    if (suspicious and _LONG_TAG(root, n=bounds.name)) or (
        data.count(b"=") > data.count(b" xmlns=") and _LONG_ATTRIBUTE(root, n=bounds.name)
    ):
        return Malformed(Fault.NAME, f"a name of more than {bounds.name} characters")
    return None


def _fits(root: etree._Element) -> bool:
    try:
        return _SCHEMA.validate(root)
    except etree.LxmlError:  # see _parse
        return False


def _unparsed(error: etree.LxmlError) -> Malformed:
    """The place at which libxml2 gave up, and its name for the fault; its own message would quote the document."""
    last = cast("Any", error.error_log).last_error
    if last is None:
        return Malformed(Fault.SYNTAX, "ERR_UNKNOWN")
    kind = Fault.DEPTH if last.type == _EXHAUSTED else Fault.SYNTAX
    return Malformed(kind, f"{last.type_name} at line {last.line}, column {last.column}")
