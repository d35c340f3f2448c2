"""The frozen field table of a payload class: what schema, codec, example and explanation are made from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from agentserver.payload.fields.facets import NO_FACETS, Facets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.payload.fields.lexical import ScalarKind

NAME_LENGTH = 128
"""Longest element, attribute or class name, in characters."""

SHORT_NAME = 32
"""Characters below which a name is short."""

_PLAIN_URN = re.compile("urn:[A-Za-z0-9][A-Za-z0-9:._/-]*")


class PayloadError(TypeError):
    """A class that cannot be a payload. The text names the class, the field and what would work."""


class FieldKind(Enum):
    """The place of a field in its parent's markup."""

    ELEMENT = "element"
    ATTRIBUTE = "attribute"


class Count(Enum):
    """The number of times that a field occurs."""

    ONE = "one"
    OPTIONAL = "optional"
    LIST = "list"
    TUPLE = "tuple"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value that is text in XML.

    Args:
        kind: its lexical family.
        facets: its constraints; NO_FACETS if it has choices.
        choices: for Enum and Literal the lexical text of each value and the value; empty otherwise.
        enum: the Enum class, when the choices are its members.
    """

    kind: ScalarKind
    facets: Facets = NO_FACETS
    choices: tuple[tuple[str, Any], ...] = ()
    enum: type[Enum] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Default:
    """The value that the constructor fills in: ``value``, or what ``factory`` makes."""

    value: Any = None
    factory: Callable[[], Any] | None = None

    def make(self) -> Any:
        """Return the value of one more instance."""
        return self.factory() if self.factory else self.value


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of a record.

    Args:
        name: the Python name.
        xml: the local name of its element or attribute.
        type: what one occurrence holds.
        place: element or attribute.
        count: how often it occurs.
        minimum, maximum: occurrences of a list or tuple; None is unbounded.
        default: None when the constructor requires a value.
        keyword: whether the constructor takes it by keyword only.
        doc: documentation in plain words.
    """

    name: str
    xml: str
    type: Type
    place: FieldKind = FieldKind.ELEMENT
    count: Count = Count.ONE
    minimum: int = 0
    maximum: int | None = None
    default: Default | None = None
    keyword: bool = False
    doc: str = ""

    @property
    def repeated(self) -> bool:
        """True when the field holds a list or tuple."""
        return self.count is Count.LIST or self.count is Count.TUPLE

    @property
    def optional(self) -> bool:
        """True when a document may leave the field out."""
        if self.repeated:
            return self.minimum == 0
        return self.count is Count.OPTIONAL or self.default is not None


@dataclass(frozen=True, slots=True, eq=False)
class RecordType:
    """A dataclass as a complex type.

    Args:
        cls: the dataclass.
        name: the name of its complex type, unique within the payload's schema.
        fields: in the order of declaration.
        doc: documentation in plain words.
        example: values for the example of this class, by field name.
    """

    cls: type
    name: str
    fields: tuple[Field, ...]
    doc: str = ""
    example: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def list_fields_at(self, place: FieldKind) -> tuple[Field, ...]:
        """Return the fields that are elements, or the fields that are attributes."""
        return tuple(each for each in self.fields if each.place is place)

    @property
    def ordered(self) -> bool:
        """True when its elements must keep their order: XSD 1.0 frees it only where nothing repeats."""
        return any(each.repeated for each in self.fields)


Type: TypeAlias = Scalar | RecordType


@dataclass(frozen=True, slots=True, eq=False)
class PayloadType:
    """A payload class: its root element and the records below it.

    Args:
        cls: the dataclass.
        root: local name of the root element.
        namespace: of the root and of every element below it, version included.
        record: the root's content.
        records: every record in the schema, the root's first.
    """

    cls: type
    root: str
    namespace: str
    record: RecordType
    records: tuple[RecordType, ...]

    @property
    def qname(self) -> str:
        """The root element as ``{namespace}root``."""
        return f"{{{self.namespace}}}{self.root}"

    @property
    def regular(self) -> bool:
        """True when its markup has short names alone, a plain URN as namespace, and no attributes."""
        fields = [field for record in self.records for field in record.fields]
        short = all(len(name) < SHORT_NAME for name in (self.root, *(field.xml for field in fields)))
        plain = _PLAIN_URN.fullmatch(self.namespace) is not None
        return short and plain and all(field.place is FieldKind.ELEMENT for field in fields)
