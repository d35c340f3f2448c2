"""Codecs: one object for each payload class that writes, judges, reads and explains it."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from lxml import etree

from agentserver.contract import SYSTEM_PAYLOADS
from agentserver.payload import corrections, generate, sample
from agentserver.payload.fields.describe import table
from agentserver.payload.fields.field_table import FieldKind, PayloadError, PayloadType, RecordType
from agentserver.payload.fields.lexical import UNREADABLE
from agentserver.payload.generate import Undecodable, Unencodable
from agentserver.payload.names import local
from agentserver.payload.xsd import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from agentserver.payload.corrections import Correction
from agentserver.payload.fields.field_table import Field

SYSTEM = "urn:agentserver:system"
"""Namespace of the system's own payloads, without the version."""

_SYSTEMS_ROOTS = frozenset(payload.__name__ for payload in SYSTEM_PAYLOADS)


SYSTEMS_OWN = f"{{{SYSTEM}"
"""The beginning of the names of the system's payloads, in this version or any other."""


def is_system_name(name: str) -> bool:
    """Check whether ``{namespace}root`` is of the system's namespace, in this version or any other."""
    return name.startswith(SYSTEMS_OWN)


def claim(cls: type, name: str) -> None:
    """Keep the system's names from every class but its own. Raises PayloadError.

    A root that is called as one of the system's is refused in any namespace: people and models read the root alone.
    """
    if cls in SYSTEM_PAYLOADS or not (is_system_name(name) or local(name) in _SYSTEMS_ROOTS):
        return
    raise PayloadError(f"{cls.__qualname__}: {name} is a name of the system's own payloads; use another one")


class UndeclaredPayload(PayloadError):  # noqa: N818 - says what the class is
    """A payload class that was not declared when the codecs were made, so a restart could not read its messages."""

    def __init__(self, cls: type) -> None:
        super().__init__(
            f"{cls.__qualname__}: could not be read after a restart: import it at the top of the handler's module, or "
            "list it under replies: of the listener"
        )


@dataclass(frozen=True, slots=True)
class Outline:
    """One field, for completion and forms.

    Args:
        name: its element or attribute name.
        label: a description of its type, as in ``integer from 1 to 10``.
        optional: whether it may be left out.
        repeated: whether it may occur more than once.
        attribute: whether it is an XML attribute.
    """

    name: str
    label: str
    optional: bool
    repeated: bool = False
    attribute: bool = False


class Codec(Protocol):
    """A payload class and its XML."""

    @property
    def payload(self) -> type:
        """The dataclass."""

    @property
    def name(self) -> str:
        """The root element as ``{namespace}root``."""

    @property
    def described(self) -> PayloadType | None:
        """Its field table; None for a class bound to a hand-written schema."""

    @property
    def regular(self) -> bool:
        """True if byte counts determine the size of the markup (``shape.PayloadType.regular``)."""

    @property
    def assured(self) -> bool:
        """True if the schema accepts whatever ``encode`` writes."""

    @property
    def outline(self) -> tuple[Outline, ...]:
        """The fields of the root."""

    def encode(self, value: object, /) -> str:
        """Write the markup of the payload element with its own namespace declaration. Raises Unencodable."""

    def valid(self, element: etree._Element) -> bool:
        """Check whether the schema accepts an element of any tree, and each scalar decodes."""

    def valid_own(self, element: etree._Element, size: int) -> bool:
        """Check an element parsed from ``encode``'s own output, and skip what the encoder rules out.

        ``size``: characters of what ``encode`` gave.
        """

    def decode(self, element: etree._Element, /) -> Any:
        """Return the value of a valid element. Raises Undecodable."""

    def faults(self, element: etree._Element) -> tuple[Correction, ...]:
        """Return the corrections of an element that is not valid: 1 to 8 faults."""

    def xsd(self, *, documented: bool = False) -> str:
        """Return the schema's text; ``documented`` includes what docstrings say."""

    def example(self) -> str:
        """Write markup that validates and decodes, the same each time."""


@runtime_checkable
class CodecMark(Protocol):
    """The mark that a class carries as ``__payload__`` when its codec is made elsewhere."""

    @property
    def cls(self) -> type:
        """The dataclass."""

    def codec(self) -> Codec:
        """Return a new codec. Raises PayloadError."""


class GeneratedCodec:
    """The codec of a dataclass: schema, decoder and encoder all come from its field table.

    Args:
        payload: the field table.
        functions: of this table, where they were made before.

    Raises PayloadError when the table makes no sense as a whole: no example value validates and decodes.
    """

    def __init__(self, payload: PayloadType, functions: generate.Functions | None = None) -> None:
        claim(payload.cls, payload.qname)
        self.described = payload
        self.payload = payload.cls
        self.name = payload.qname
        self.regular = payload.regular
        self.assured = generate.is_assured(payload)
        self.outline = tuple(_make_outline_field(field) for field in payload.record.fields)
        self._xsd = schema.text(payload)
        self._schema = schema.compile_schema(self._xsd)
        self._lists = any(field.repeated for record in payload.records for field in record.fields)
        self._part: corrections.Part | None = None
        self.functions = functions or generate.functions(payload)
        # The functions themselves: a method of this class around them would be one more call for each message.
        self.decode: Callable[[etree._Element], Any]
        self.encode: Callable[[object], str]
        self.decode, self._check, self.encode = self.functions
        self._doubtful = generate.is_doubtful(payload)
        self._example = self._prove()

    def valid(self, element: etree._Element) -> bool:
        """Check whether the schema and the decoder both take ``element``."""
        try:
            lists, judge = self._lists, self._schema
            accepted = schema.accepts(judge, element) if lists else judge.validate(element)
            if self._check is not None and accepted:
                self._check(element)
        except (etree.LxmlError, *UNREADABLE):  # libxml2 giving up is a no
            return False
        return accepted

    def valid_own(self, element: etree._Element, size: int) -> bool:
        """Check whether the schema takes ``element``, and the decoder where the encoder cannot promise it."""
        if self._lists and size > schema.NARROW and schema.is_wide(element):
            return self.valid(element)
        try:
            accepted: bool = self._schema.validate(element)
            if self._doubtful and accepted and self._check is not None:
                self._check(element)
        except (etree.LxmlError, *UNREADABLE):  # libxml2 giving up is a no
            return False
        return accepted

    def faults(self, element: etree._Element) -> tuple[Correction, ...]:
        """Return the corrections of ``element``."""
        if self._part is None:
            self._part = corrections.describe_parts(self.described)
        return corrections.list_faults(self.name, self._part, element)

    def xsd(self, *, documented: bool = False) -> str:
        """Return the schema's text."""
        return schema.text(self.described, documented=True) if documented else self._xsd

    def example(self) -> str:
        """Write the markup of the example value."""
        return self._example

    def _prove(self) -> str:
        label = self.payload.__qualname__
        try:
            markup = self.encode(sample.example(self.described.record))
        except Unencodable as error:
            raise PayloadError(f"{error} (in a default or an example value)") from None
        element = etree.fromstring(markup)
        if not self.valid(element):
            fault = self.faults(element)[0]
            raise PayloadError(
                f"{label}: a default or example value breaks a rule: {fault.path}: {fault.rule}"
            )
        try:
            self.decode(element)
        except Undecodable as error:
            raise PayloadError(f"{error} of its own example; give @xmlify(example=...)") from None
        return markup


def _make_outline_field(field: Field) -> Outline:
    label = "element" if isinstance(field.type, RecordType) else corrections.label(field.type)
    return Outline(field.xml, label, field.optional, field.repeated, field.place is FieldKind.ATTRIBUTE)


_SYSTEM_CODECS = tuple(GeneratedCodec(table(payload, namespace=SYSTEM)) for payload in SYSTEM_PAYLOADS)


Payload: TypeAlias = "type | PayloadType | Codec"


class Codecs:
    """The codecs of one server, by class and by root element; the system's payloads are always among them.

    Args:
        payloads: ``@xmlify`` classes, field tables, or codecs made elsewhere.
        closed: whether these are all: what a restart would not find is then refused when it is met.

    Raises PayloadError for a class that is no payload, and for two classes that claim one root element with
    different schemas.
    """

    def __init__(self, payloads: Iterable[Payload] = (), *, closed: bool = False) -> None:
        self._closed = False
        self._by_class: dict[type, Codec] = {}
        self._by_name: dict[str, Codec] = {}
        self.for_root: Callable[[str], Codec | None] = self._by_name.get
        """Returns the codec of a root element ``{namespace}root``, or None."""
        self.known: Callable[[type], Codec | None] = self._by_class.get
        """Returns the codec of a class that has one already, or None."""
        for codec in _SYSTEM_CODECS:
            self.add(codec)
        for payload in payloads:
            self.add(payload)
        self._closed = closed

    def add(self, payload: Payload) -> Codec:
        """Return the codec of ``payload``, made now if it is new. Raises Unlisted when the codecs are closed."""
        if isinstance(payload, type):
            return self.of(payload)
        cls = payload.cls if isinstance(payload, PayloadType) else payload.payload
        known = self._by_class.get(cls)
        if known is not None:
            if known.name != (payload.qname if isinstance(payload, PayloadType) else payload.name):
                raise PayloadError(f"{cls.__qualname__}: has a codec under another name; use two classes")
            return known
        if self._closed:
            raise UndeclaredPayload(cls)
        codec = GeneratedCodec(payload) if isinstance(payload, PayloadType) else payload
        claim(cls, codec.name)
        other = self._by_name.setdefault(codec.name, codec)
        if other is not codec and other.xsd() != codec.xsd():
            raise PayloadError(
                f"{cls.__qualname__}: claims {codec.name}, as {other.payload.__qualname__} does, with "
                "another schema; give one of them another name, namespace or version"
            )
        self._by_class[cls] = codec
        return codec

    def of(self, cls: Any) -> Codec:
        """Return the codec of a class.

        Raises PayloadError when it is no payload, Unlisted when the codecs are closed.
        """
        if isinstance(cls, type) and cls in self._by_class:
            return self._by_class[cls]
        described = cls.__dict__.get("__payload__") if isinstance(cls, type) else None
        if not isinstance(described, (PayloadType, CodecMark)) or described.cls is not cls:
            label = getattr(cls, "__qualname__", type(cls).__name__)
            advice = (
                "put @xmlify above @dataclass"
                if is_dataclass(cls)
                else "a payload is a dataclass with @xmlify"
            )
            raise PayloadError(f"{label}: is not a payload; {advice}")
        if self._closed:
            raise UndeclaredPayload(cls)
        if isinstance(described, PayloadType):
            generated = cls.__dict__.get("__codec__")
            if isinstance(generated, GeneratedCodec) and generated.described is described:
                return self.add(generated)
            return self.add(GeneratedCodec(described))
        return self.add(described.codec())

    def __iter__(self) -> Iterator[Codec]:
        """Yield every codec, in the order of addition."""
        return iter(self._by_class.values())
