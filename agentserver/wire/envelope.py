"""Reads and writes message envelopes, with their schema and the package's only hardened XML parser.

A document is read exactly as it is or refused; nothing is repaired here. The claimed sender is returned as a claim:
the caller knows the true one. Refusals have a bounded size and quote nothing from the document, so they can be
logged.

libxml2 keeps every distinct name for as long as the parsing thread lives, so documents with names that the server's own
schemas do not declare are parsed in a thread and by a parser that are discarded. The check for such names may reject a
harmless document, which costs time, but never accepts one with a new name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN_TAG: Final = re.compile(rb"</?([A-Za-z_][\w.-]*)[ \t\r\n]*/?>")
_TAG: Final = re.compile(rb"<([A-Za-z_][\w.-]*)((?:[ \t\r\n]+[A-Za-z_][\w:.-]*=\"[^\"<]*\")+)[ \t\r\n]*/?>")
_ATTRIBUTE: Final = re.compile(rb"([A-Za-z_][\w:.-]*)=\"([^\"<]*)\"")
_REFERENCE: Final = re.compile(rb"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});")
_DECLARED: Final = re.compile(r"""\b(?:name|targetNamespace|xmlns(?::[\w.-]+)?)=["']([^"'<>&]+)["']""")


def collect_names(schemas: Iterable[str]) -> frozenset[bytes]:
    """Collect every name and namespace that the schemas declare, as a document would spell it."""
    return frozenset(found.encode() for schema in schemas for found in _DECLARED.findall(schema))


def check_familiar(data: bytes, known: frozenset[bytes]) -> bool:
    """Check that the document has only tags with known names, text and character references.

    Each ``<`` must begin a tag that one of two patterns matches completely, without attributes or with some, and
    attribute values contain no ``<``, so a parser cannot find a name that this check misses. Prefixed names count as
    unknown.
    """
    plain = _PLAIN_TAG.findall(data)
    tags = _TAG.findall(data)
    if not (plain or tags) or len(plain) + len(tags) != data.count(b"<") or not known.issuperset(plain):
        return False
    for opening, attributes in tags:
        if opening not in known:
            return False
        for name, value in _ATTRIBUTE.findall(attributes):
            if name not in known and not (name == b"xmlns" and value in known):
                return False
    references = data.count(b"&")
    return not references or references == len(_REFERENCE.findall(data))


# A namespace declaration in C14N output, and a start tag: C14N writes "<" nowhere else, and escapes quotes in
# attributes.
_BARE_SPACE: Final = re.compile(rb' xmlns(?::[^\s="<>]+)?="[^"<>]*&[^"<>]*"')
_START_TAG: Final = re.compile(rb'<[^"<>]*(?:"[^"<]*"[^"<>]*)*>')


def canonical(element: etree._Element) -> bytes:
    """Write Exclusive C14N 1.0 without comments (RFC 3741), independent of the surrounding document.

    The result can be parsed again, and is its own canonical form.
    """
    form = etree.tostring(element, method="c14n", exclusive=True, with_comments=False, with_tail=False)
    # libxml2 does not escape namespace URIs. Of the characters that C14N escapes, only "&" can occur in a URI it
    # accepts.
    return _START_TAG.sub(_escaped_spaces, form) if _BARE_SPACE.search(form) else form


def _escaped_spaces(tag: re.Match[bytes]) -> bytes:
    return _BARE_SPACE.sub(lambda space: space[0].replace(b"&", b"&amp;"), tag[0])


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
"""The envelope's XSD. Tests keep the packaged file and ``schemas/`` identical to it."""


_LONGISH: Final = 32
"""Characters of a name that is looked at more closely."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on a document; one that exceeds them is refused.

    Args:
        bytes: of the whole document; below 10 MB, where libxml2 has limits of its own.
        depth: nested elements, including the root; at most 256, libxml2's own limit.
        elements: in the whole document. A document with more than twice as many ``<`` is not parsed at all.
        attributes: of one element; also the limit on namespace declarations in scope.
        text: characters of one run of text or one attribute value.
        name: characters of an element or attribute name with its prefix. Beyond 50,000 libxml2 reports a syntax
            error.
        names: declared by the server's own schemas. A document with other names gets a parser of its own.
    """

    bytes: int = 1 << 20
    depth: int = 64
    elements: int = 20_000
    attributes: int = 64
    text: int = 1 << 20
    name: int = 256
    names: Names = frozenset()
    plain_bytes: int = field(init=False, compare=False, repr=False)
    """Bytes up to which a document without attributes and long names has no text that is too long."""
    plain_tags: int = field(init=False, compare=False, repr=False)
    """Number of ``<`` up to which a document is neither too deep nor has too many elements."""

    def __post_init__(self) -> None:
        """Derive the bounds that each message is compared with."""
        plain = min(self.bytes, self.text) if self.name >= _LONGISH else -1
        object.__setattr__(self, "plain_bytes", plain)
        object.__setattr__(self, "plain_tags", min(2 * self.depth, self.elements))


class Fault(StrEnum):
    """Reason for refusing a document."""

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
    """A refused document; ``detail`` has at most 200 characters and quotes nothing from it."""

    kind: Fault
    detail: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message as its bytes claim it. ``payload`` is an element within the envelope's tree.

    Args:
        sender: the claimed sender, or empty; never authoritative.
        to: the named listener, or None if the payload's root decides.
        thread: the claimed thread, or None.
        payload: one element of a namespace other than the envelope's.
    """

    sender: str
    to: str | None
    thread: str | None
    payload: etree._Element


_DEFAULT: Final = Bounds()


# Reused because a new parser costs a third of a small message; lxml locks a parser in use, so threads may share it.
# `collect_ids=False` is absent on purpose: it would make libxml2 open external DTDs. Comments and processing
# instructions are removed because they would split `.text`. libxml2 keeps every new name for the life of the thread
# or the parser, so a document with unknown names gets its own parser, in a thread of its own.
def _make_parser() -> etree.XMLParser:
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


_PARSER: Final = _make_parser()
_SCHEMA: Final = etree.XMLSchema(etree.fromstring(SCHEMA.encode(), _PARSER))

_OWN: Final = f"{{{NAMESPACE}}}"
_FROM, _TO, _THREAD = (_OWN + name for name in ("from", "to", "thread"))
_OPEN: Final = f'<message xmlns="{NAMESPACE}">'
_NAME: Final = re.compile("[ -~\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]{1,256}")
_PLAIN_NAMES: Final = re.compile("\n".join(["[ -%'-;=?-~]{1,256}"] * 3))  # one per line, nothing to escape
# Below 10 MB, only depth can exhaust one of libxml2's own limits.
_EXHAUSTED: Final = etree.ErrorTypes.ERR_RESOURCE_LIMIT
_BOM: Final = b"\xef\xbb\xbf"
_BARE: Final = re.compile(rb"<[^!?]")
_MISC: Final = re.compile(rb"(?:-->|\?>)?[ \t\r\n]*(<!--|<\?)")
_CLOSING: Final = {b"<!--": b"-->", b"<?": b"?>"}
_DOCTYPE: Final = re.compile(rb"(?:-->|\?>)?[ \t\r\n]*<!")
_ENCODING: Final = re.compile(rb"""encoding\s*=\s*["']([^"']*)["']""")
# Declarations that certainly have a canonical form; others are tried.
_PLAIN_NAMESPACE: Final = re.compile(
    rb"""xmlns(?::[A-Za-z_][A-Za-z0-9_.-]{0,63})?=(["'])"""
    rb"""(?:urn:[A-Za-z0-9][A-Za-z0-9:._/-]*|https?://[A-Za-z0-9.-]+(?:/[A-Za-z0-9._/-]*)?)\1"""
)
_DEFAULT_NAMESPACE: Final = re.compile(rb' xmlns="urn:[A-Za-z0-9][A-Za-z0-9:._/-]*"')
_LONG_TEXT: Final = etree.XPath("boolean(//text()[string-length() > $n] | //@*[string-length() > $n])")
_LONG_ATTRIBUTE: Final = etree.XPath("boolean(//@*[string-length(name()) > $n])")
_LONGISH_TAG: Final = re.compile(rb"<[^\s>]{%d}" % _LONGISH)
_UNUSUAL_TAG: Final = re.compile(rb"<(?:!|[^\s>]{%d})" % _LONGISH)
_LONG_TAG: Final = etree.XPath("boolean(//*[string-length(name()) > $n])")
_MANY_ATTRIBUTES: Final = etree.XPath("boolean(//*[@*[$n + 1]])")
_TYPED: Final = etree.XPath(
    "boolean(//@i:type)", namespaces={"i": "http://www.w3.org/2001/XMLSchema-instance"}
)


def read_envelope(data: bytes, bounds: Bounds = _DEFAULT) -> Envelope | Malformed:
    """Read the envelope in `data`, or the reason to refuse it. Raises nothing for any bytes.

    The bytes are UTF-8, with or without a byte order mark, and have no DOCTYPE. A document that is read has a
    canonical form. ``xsi:type`` is refused because it would select a type that canonical forms do not distinguish.
    Other attributes of that namespace, ``xml:base`` and ``xml:id`` have no meaning here.
    """
    root = _parse(data, bounds)
    return root if isinstance(root, Malformed) else _make_envelope(root)


def read_either(
    data: bytes, bounds: Bounds = _DEFAULT, *, checked: bool = False
) -> Envelope | etree._Element | Malformed:
    """Read an envelope or a bare payload element, parsing once. If it is neither, the fault is that of a payload.

    ``checked``: the data passed ``check_familiar`` with the names of these bounds.
    """
    root = _parse(data, bounds, _PARSER if checked else None)
    if isinstance(root, Malformed):
        return root
    bare = _make_payload(root)
    if not isinstance(bare, Malformed):
        return bare
    read = _make_envelope(root)
    return read if isinstance(read, Envelope) else bare


def _make_envelope(root: etree._Element) -> Envelope | Malformed:
    if not _fits(root):
        return Malformed(
            Fault.SHAPE, "not a message: from?, to?, thread?, then one payload of another namespace"
        )
    *heads, payload = root
    names = {head.tag: head.text for head in heads}
    return Envelope(names.get(_FROM) or "", names.get(_TO), names.get(_THREAD), payload)


def read_sent(data: bytes, names: frozenset[bytes] = frozenset()) -> Envelope | Malformed:
    """Read an envelope that this server wrote around a payload within bounds.

    Bounds are not checked again: the envelope adds to the size and the depth of its payload, and a message at the
    bounds could not be read.

    Args:
        data: the envelope.
        names: as of `Bounds`.
    """
    try:
        parser = _PARSER if check_familiar(data, names) else _make_parser()
        return _make_envelope(etree.fromstring(data, parser))
    except etree.LxmlError as error:
        return _describe_syntax_fault(error)


def read_payload(data: bytes, bounds: Bounds = _DEFAULT) -> etree._Element | Malformed:
    """Read a bare payload element, or the reason to refuse it. Raises nothing for any bytes."""
    return _make_payload(_parse(data, bounds))


def read_written(markup: str, bounds: Bounds, *, regular: bool = False) -> etree._Element | Malformed:
    """Read a payload element that a codec wrote, with only its own names; otherwise like `read_payload`.

    `regular` markup has short names, no attributes, and only elements and escaped text, so byte counts show its
    limits.
    """
    data = markup.encode()
    if not regular or not fits_by_count(data, bounds):
        return _make_payload(_parse(data, bounds, _PARSER))
    try:
        root = etree.fromstring(data, _PARSER)
    except etree.LxmlError as error:
        return _describe_syntax_fault(error)
    tag = root.tag
    return root if tag[0] == "{" and not tag.startswith(_OWN) else _make_payload(root)


def fits_by_count(data: bytes, bounds: Bounds) -> bool:
    """Check by counting bytes that regular markup is within bounds. False if only parsing can show it."""
    return len(data) <= bounds.plain_bytes and data.count(b"<") <= bounds.plain_tags


def _make_payload(root: etree._Element | Malformed) -> etree._Element | Malformed:
    if isinstance(root, Malformed):
        return root
    if not root.tag.startswith("{") or root.tag.startswith(_OWN):
        return Malformed(Fault.SHAPE, "a payload needs a namespace, and not the envelope's")
    return root


def write(sender: str, to: str | None, thread: str | None, payload_markup: str) -> bytes:
    """Write the message as UTF-8 bytes; the inverse of `read_envelope`.

    `payload_markup` is one well-formed element without a prolog, as the codec writes it; it is not checked. Raises
    ValueError when a name is not allowed by the schema.
    """
    if to and thread != "" and _PLAIN_NAMES.fullmatch(f"{sender}\n{to}\n{thread or to}"):
        place = f"<thread>{thread}</thread>" if thread else ""
        return f"{_OPEN}<from>{sender}</from><to>{to}</to>{place}{payload_markup}</message>".encode()
    to_markup = "" if to is None else f"<to>{_name(to)}</to>"
    thread_markup = "" if thread is None else f"<thread>{_name(thread)}</thread>"
    head = f"{_OPEN}<from>{_name(sender)}</from>{to_markup}{thread_markup}"
    return f"{head}{payload_markup}</message>".encode()


def _name(value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise ValueError("an envelope's names are 1 to 256 characters on one line")
    return escape(value, quote=False) if "&" in value or "<" in value or ">" in value else value


def _parse(data: bytes, bounds: Bounds, parser: etree.XMLParser | None = None) -> etree._Element | Malformed:
    refusal = _check_bytes(data, bounds)
    if refusal is not None:
        return refusal
    try:
        parser = parser or (_PARSER if check_familiar(data, bounds.names) else _make_parser())
        root = etree.fromstring(data, parser)
        return _check_tree(root, data, bounds) or root
    except etree.LxmlError as error:  # not only for syntax errors: libxml2 also rejects some trees
        return _describe_syntax_fault(error)


def _check_bytes(data: bytes, bounds: Bounds) -> Malformed | None:
    """Refuse faults that show in the bytes alone, before parsing."""
    if len(data) > bounds.bytes:
        return Malformed(Fault.SIZE, f"more than {bounds.bytes} bytes")
    if data.count(b"<") > 2 * bounds.elements:
        return Malformed(Fault.ELEMENTS, f"more than {2 * bounds.elements} '<'")
    # Strict UTF-8, so that no other decoder's leniency (overlong forms, surrogates, NUL) matters later.
    try:
        data.decode()
    except UnicodeDecodeError:
        return Malformed(Fault.ENCODING, "not UTF-8 text")
    if b"\0" in data:
        return Malformed(Fault.ENCODING, "not UTF-8 text")
    return None if _BARE.match(data) else _prolog(data)


def _prolog(data: bytes) -> Malformed | None:
    """Refuse other declared encodings, and a DOCTYPE, which can only precede the root (XML 1.0, 2.8)."""
    start = len(_BOM) if data.startswith(_BOM) else 0
    if data.startswith(b"<?xml", start):
        declared = _ENCODING.search(data, start, data.find(b"?>") + 1)
        if declared is not None and declared[1].lower() != b"utf-8":
            return Malformed(Fault.ENCODING, "declares an encoding other than UTF-8")
    while (misc := _MISC.match(data, start)) is not None:
        end = data.find(_CLOSING[misc[1]], misc.end())
        start = len(data) if end < 0 else end
    return Malformed(Fault.DOCTYPE, "has a DOCTYPE") if _DOCTYPE.match(data, start) else None


def _check_tree(root: etree._Element, data: bytes, bounds: Bounds) -> Malformed | None:
    """Refuse faults that only the tree shows. Exact checks run only if byte counts cannot rule the fault out."""
    if _check_ordinary(data, bounds):
        return None
    if b"<!" in data and root.getroottree().docinfo.internalDTD is not None:  # _prolog checked it already
        return Malformed(Fault.DOCTYPE, "has a DOCTYPE")
    if b":type" in data and _TYPED(root):
        return Malformed(Fault.SHAPE, "xsi:type is not accepted: the schema alone says what an element is")
    return _find_structure(root, data, bounds) or _find_lengths(root, data, bounds)


def _check_ordinary(data: bytes, bounds: Bounds) -> bool:
    """Check whether byte counts rule out every fault of ``_check_tree``, as they do for codec output.

    Every ``=`` belongs to a plain default namespace, so there are no attributes and no ``xsi:type``.
    """
    return (
        fits_by_count(data, bounds)
        and data.count(b"=") == len(_DEFAULT_NAMESPACE.findall(data)) <= bounds.attributes
        and _UNUSUAL_TAG.search(data) is None
    )


def _find_structure(root: etree._Element, data: bytes, bounds: Bounds) -> Malformed | None:
    tags = data.count(b"<")
    if tags > 2 * bounds.depth and root.xpath(f"boolean({'/*' * (bounds.depth + 1)})"):
        return Malformed(Fault.DEPTH, f"more than {bounds.depth} elements deep")
    if tags > bounds.elements and cast("float", root.xpath("count(//*)")) > bounds.elements:
        return Malformed(Fault.ELEMENTS, f"more than {bounds.elements} elements")
    many = bounds.attributes
    if data.count(b"=") > many and _MANY_ATTRIBUTES(root, n=many):
        return Malformed(Fault.ATTRIBUTES, f"more than {many} attributes on an element")
    return _find_namespaces(root, data, many)


def _find_namespaces(root: etree._Element, data: bytes, many: int) -> Malformed | None:
    declared = data.count(b"xmlns")
    if declared > many and _check_in_scope(root, many):
        return Malformed(Fault.ATTRIBUTES, f"more than {many} namespace declarations in scope")
    if len(_PLAIN_NAMESPACE.findall(data)) < declared:
        try:
            canonical(root)
        except etree.C14NError:
            return Malformed(Fault.SHAPE, "a namespace that is no absolute URI has no canonical form")
    return None


def _check_in_scope(root: etree._Element, many: int) -> bool:
    """Check whether more than ``many`` declarations are in scope anywhere, in one walk of the tree."""
    now = 0
    for event, _ in etree.iterwalk(root, events=("start-ns", "end-ns")):
        now += 1 if event == "start-ns" else -1
        if now > many:
            return True
    return False


def _find_lengths(root: etree._Element, data: bytes, bounds: Bounds) -> Malformed | None:
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


def _describe_syntax_fault(error: etree.LxmlError) -> Malformed:
    """Describe libxml2's error by name and place; its own message would quote the document."""
    last = cast("Any", error.error_log).last_error
    if last is None:
        return Malformed(Fault.SYNTAX, "ERR_UNKNOWN")
    kind = Fault.DEPTH if last.type == _EXHAUSTED else Fault.SYNTAX
    return Malformed(kind, f"{last.type_name} at line {last.line}, column {last.column}")
