"""A dataclass as a field table, or a refusal that names the field."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Hashable
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, Flag
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, NoReturn

from docstring_parser import parse
from lxml import etree

from agentserver.contract import Attribute, Element
from agentserver.payload.fields.facets import NO_FACETS, flatten, lengths, narrow_facets
from agentserver.payload.fields.field_table import (
    NAME_LENGTH,
    Count,
    Default,
    Field,
    FieldKind,
    PayloadError,
    PayloadType,
    RecordType,
    Scalar,
)
from agentserver.payload.fields.lexical import WRITERS, ScalarKind, is_xml_text
from agentserver.payload.names import free
from agentserver.payload.xsd.schema import RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIELDS = 256
"""Most fields of one class."""
DEPTH = 16
"""Most classes inside one another."""
ELEMENTS = 4096
"""Most elements of a payload in which every field occurs once."""
CHOICES = 1000
"""Most members of an Enum or Literal."""

PAYLOAD = "urn:agentserver:payload"

_KINDS: Mapping[Any, ScalarKind] = {
    str: ScalarKind.STR,
    int: ScalarKind.INT,
    float: ScalarKind.FLOAT,
    bool: ScalarKind.BOOL,
    Decimal: ScalarKind.DECIMAL,
    date: ScalarKind.DATE,
    time: ScalarKind.TIME,
    datetime: ScalarKind.DATETIME,
    bytes: ScalarKind.BYTES,
}
_CHOICE_KINDS = {str: ScalarKind.STR, int: ScalarKind.INT, bool: ScalarKind.BOOL}
_HINTS: Mapping[Any, str] = {
    dict: "declare a dataclass with the keys, or a list of a key-value dataclass",
    set: "use list[...] or tuple[..., ...]",
    frozenset: "use list[...] or tuple[..., ...]",
    Any: "declare the type",
    object: "declare the type",
    list: "name the item type, as in list[str]",
    tuple: "use tuple[T, ...] with one item type",
    type(None): "leave the field out",
    complex: "use two float fields",
}
_SUPPORTED = (
    "use str, int, float, bool, Decimal, date, time, datetime, bytes, an Enum, Literal, a dataclass, "
    "Optional of one of these, list[...] or tuple[..., ...]"
)
_CONSTANTS = (str, bytes, int, float, Decimal, list, tuple, dict, set, frozenset, NoneType)
"""Values that a class without a type for them most likely meant as the default of a field."""
_NAMESPACE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>\"{}|\\^`]+")


@dataclasses.dataclass(frozen=True, slots=True)
class _Use:
    """An annotation taken apart: its bare type, the metadata around it, whether None is allowed."""

    bare: Any
    metadata: tuple[Any, ...]
    nullable: bool


class _Refusal(Exception):  # noqa: N818 - never leaves this module
    """The reason why a field cannot be described; the caller adds class and field."""


def table(
    cls: Any,
    *,
    name: Any = None,
    namespace: str | None = None,
    version: int = 1,
    example: Mapping[str, Any] | None = None,
    scope: Mapping[str, Any] | None = None,
) -> PayloadType:
    """Return the field table of ``cls``; ``scope`` holds local names that its annotations may use.

    Raises PayloadError.
    """
    label = getattr(cls, "__qualname__", repr(cls))
    root: Any = getattr(cls, "__name__", None) if name is None else name
    if not _xml_name(root):
        raise PayloadError(
            f"{label}: {root!r} is not an XML name of at most {NAME_LENGTH} characters; use name=..."
        )
    reader = _Reader(dict(scope or {}))
    record = reader.record(cls, example or {})
    if record.name in reader.list_too_large():
        raise PayloadError(f"{label}: holds more than {ELEMENTS} elements; split it into several payloads")
    space = _add_version(label, f"{PAYLOAD}:{root}" if namespace is None else namespace, version)
    return PayloadType(cls, str(root), space, record, tuple(reader.records()))


def _add_version(label: str, namespace: str, version: Any) -> str:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise PayloadError(f"{label}: version must be a whole number from 1")
    if not _is_representable(namespace) or "www.w3.org" in namespace:
        raise PayloadError(
            f"{label}: {namespace!r} is not a namespace of your own; use a URI such as urn:shop:order"
        )
    web = namespace.startswith(("http://", "https://"))
    return f"{namespace.rstrip('/')}/v{version}" if web else f"{namespace}:v{version}"


def _is_representable(namespace: str) -> bool:
    """Check whether XML accepts it as an absolute URI; other namespaces have no canonical form."""
    if not _NAMESPACE.fullmatch(namespace) or not is_xml_text(namespace):
        return False
    try:
        etree.Element("a", nsmap={"a": namespace})
    except ValueError:
        return False
    return True


def _xml_name(name: Any) -> bool:
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH or name[0] == "{":
        return False
    try:
        etree.QName(name)
    except ValueError:
        return False
    return ":" not in name


class _Reader:
    """Reads one payload class and every dataclass below it."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self._scope = scope
        self._open: list[type] = []
        self._done: dict[type, RecordType] = {}
        self._used_names = set(RESERVED)

    def records(self) -> Iterator[RecordType]:
        """Yield the records, the outermost first."""
        return reversed(self._done.values())

    def list_too_large(self) -> set[str]:
        """Return the names of records that expand to more than ELEMENTS."""
        weight: dict[str, int] = {}
        for record in self._done.values():
            parts = (f.type for f in record.fields)
            weight[record.name] = 1 + sum(weight[p.name] if isinstance(p, RecordType) else 1 for p in parts)
        return {name for name, size in weight.items() if size > ELEMENTS}

    def record(self, cls: Any, example: Mapping[str, Any] | None = None) -> RecordType:
        """Return the table of a dataclass. Raises PayloadError."""
        if isinstance(cls, type) and cls in self._done:
            return self._done[cls]
        self._check_class(cls)
        self._open.append(cls)
        name = free(cls.__name__, self._used_names)
        prose, docs = read_documentation(cls)
        hints = self._read_hints(cls)
        fields = tuple(
            self._read_field(cls, each, hints[each.name], docs) for each in dataclasses.fields(cls)
        )
        _check_names(cls, fields)
        self._open.pop()
        payload = cls.__dict__.get("__payload__")
        chosen = payload.record.example if example is None and isinstance(payload, PayloadType) else example
        record = RecordType(cls, name, fields, prose, MappingProxyType(dict(chosen or {})))
        _check_example(cls, record)
        self._done[cls] = record
        return record

    def _check_class(self, cls: Any) -> None:
        label = getattr(cls, "__qualname__", repr(cls))
        if not isinstance(cls, type) or "__dataclass_fields__" not in cls.__dict__:
            raise PayloadError(f"{label}: is not a dataclass; put @xmlify above @dataclass")
        if cls in self._open:
            raise PayloadError(f"{label}: contains itself; send a list with parent ids instead")
        if len(self._open) >= DEPTH:
            raise PayloadError(f"{label}: lies deeper than {DEPTH} dataclasses")
        params = cls.__dict__["__dataclass_params__"]
        if not params.init or not _xml_name(cls.__name__):
            raise PayloadError(f"{label}: needs the constructor of a dataclass (init=True) and an XML name")
        if len(dataclasses.fields(cls)) > FIELDS:
            raise PayloadError(f"{label}: has more than {FIELDS} fields; nest some in a dataclass")
        for name, value in vars(cls).items():
            if (
                isinstance(value, _CONSTANTS)
                and not name.startswith("_")
                and name not in vars(cls)["__dataclass_fields__"]
            ):
                kind = type(value).__name__
                raise PayloadError(
                    f"{label}.{name}: has no type, so it is no field; write {name}: {kind}, or {name}: ClassVar[{kind}]"
                    " for a constant"
                )
        for each in vars(cls)["__dataclass_fields__"].values():
            if "INITVAR" in str(each._field_type):  # noqa: SLF001 - the only mark of a pseudo-field
                raise PayloadError(
                    f"{label}.{each.name}: is an InitVar, which no message could carry; use a field"
                )

    def _read_hints(self, cls: Any) -> dict[str, Any]:
        scope = {**self._scope, **{each.__name__: each for each in self._open}}
        try:
            return typing.get_type_hints(cls, localns=scope, include_extras=True)
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            raise PayloadError(
                f"{cls.__qualname__}: cannot resolve its annotations ({error}); define the types they name "
                "before the class, in its module or in the function that declares it"
            ) from None

    def _read_field(
        self, cls: type, each: dataclasses.Field[Any], hint: Any, docs: Mapping[str, str]
    ) -> Field:
        place = f"{cls.__qualname__}.{each.name}"
        try:
            return self._describe_record(each, _unfold(hint), docs.get(each.name, ""))
        except (_Refusal, ValueError) as error:
            raise PayloadError(f"{place}: {error}") from None

    def _describe_record(self, each: dataclasses.Field[Any], use: _Use, doc: str) -> Field:
        if not each.init:
            raise _Refusal("has init=False, so no message could fill it; make it a property")
        marks = [m for m in use.metadata if isinstance(m, (Element, Attribute))]
        facets = tuple(m for m in use.metadata if not isinstance(m, (Element, Attribute)))
        place, name = _place_fields(each.name, marks)
        count, item, minimum, maximum = self._count_elements(use, facets)
        default = _find_default(each)
        _check_count(place, count, item, default, minimum)
        if not _xml_name(name) or (place is FieldKind.ATTRIBUTE and name == "xmlns"):
            raise _Refusal(f"{name!r} is not an XML name; use Annotated[..., Element('name')]")
        return Field(
            each.name,
            name,
            item,
            place,
            count,
            minimum,
            maximum,
            default,
            keyword=bool(each.kw_only),
            doc=doc,
        )

    def _count_elements(
        self, use: _Use, facets: tuple[Any, ...]
    ) -> tuple[Count, Scalar | RecordType, int, int | None]:
        origin = typing.get_origin(use.bare)
        if origin not in {list, tuple}:
            count = Count.OPTIONAL if use.nullable else Count.ONE
            return count, self._read_single(use.bare, facets), 0, None
        if use.nullable:
            raise _Refusal("is an optional list; XML cannot tell it from an empty one: use list[...] alone")
        inner = typing.get_args(use.bare)
        if origin is tuple and inner[1:] != (...,):
            raise _Refusal("is a tuple of fixed length; use tuple[T, ...] or a dataclass")
        item = _unfold(inner[0])
        if item.nullable or typing.get_origin(item.bare) in {list, tuple}:
            raise _Refusal("holds optional items or lists; wrap the item in a dataclass")
        if any(isinstance(m, (Element, Attribute)) for m in item.metadata):
            raise _Refusal("names its items inside the list; put Element around the list")
        minimum, maximum = lengths(facets)
        return (
            (Count.LIST if origin is list else Count.TUPLE),
            self._read_single(item.bare, item.metadata),
            minimum,
            maximum,
        )

    def _read_single(self, bare: Any, facets: tuple[Any, ...]) -> Scalar | RecordType:
        if dataclasses.is_dataclass(bare) and isinstance(bare, type):
            if facets:
                raise _Refusal("puts constraints on a dataclass; put them on its fields")
            return self.record(bare)
        if isinstance(bare, Hashable) and bare in _KINDS:
            return Scalar(_KINDS[bare], narrow_facets(_KINDS[bare], facets))
        choices = _read_choices(bare)
        if choices is None:
            _refuse_type(bare)
        if facets:
            raise _Refusal("puts constraints on a closed list of values; leave them out")
        return choices


def _unfold(annotation: Any) -> _Use:
    """Take aliases, Annotated and Optional apart, in any nesting."""
    metadata: tuple[Any, ...] = ()
    nullable = False
    while True:
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            metadata = (*metadata, *annotation.__metadata__)
            annotation = annotation.__origin__
        elif origin in {typing.Union, types.UnionType}:
            rest = [each for each in typing.get_args(annotation) if each is not type(None)]
            if len(rest) != 1:
                raise _Refusal(
                    "is a union; use one type, or a dataclass with an optional field for each case"
                )
            nullable, annotation = True, rest[0]
        elif hasattr(annotation, "__value__") and not isinstance(annotation, type):
            annotation = annotation.__value__
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        else:
            return _Use(annotation, tuple(item for item in flatten(metadata) if not _is_mark(item)), nullable)


def _is_mark(item: Any) -> bool:
    """Check whether an annotation is for another reader: a member of an enumeration, or readers."""
    return isinstance(item, Enum) or getattr(item, "no_constraint", False) is True


def _read_choices(bare: Any) -> Scalar | None:
    if typing.get_origin(bare) is Literal:
        return _make_choices([(value, value) for value in typing.get_args(bare)], None)
    if isinstance(bare, type) and issubclass(bare, Enum):
        if issubclass(bare, Flag):
            raise _Refusal("is a Flag, whose combinations have no text; use list[...] of an Enum")
        return _make_choices([(member.value, member) for member in bare], bare)
    return None


def _make_choices(pairs: list[tuple[Any, Any]], enum: type[Enum] | None) -> Scalar:
    kinds = {_CHOICE_KINDS.get(type(value)) for value, _ in pairs}
    if len(kinds) != 1 or None in kinds or (enum and kinds == {ScalarKind.BOOL}):
        raise _Refusal(
            "must list values that are all str, or all int (a Literal also all bool); for None use | None"
        )
    if len(pairs) > CHOICES:
        raise _Refusal(f"lists more than {CHOICES} values; use str and check the value in the handler")
    (kind,) = kinds
    assert kind is not None
    texts = [WRITERS[kind](value) for value, _ in pairs]
    if not all(map(is_xml_text, texts)):
        raise _Refusal("lists a value that XML cannot carry")
    return Scalar(kind, NO_FACETS, tuple(zip(texts, (python for _, python in pairs), strict=True)), enum)


def _refuse_type(bare: Any) -> NoReturn:
    key = typing.get_origin(bare) or bare
    hint = _HINTS.get(key, _SUPPORTED) if isinstance(key, Hashable) else _SUPPORTED
    raise _Refusal(f"has a type without XSD form ({getattr(key, '__name__', 'unknown')}); {hint}")


def _place_fields(name: str, marks: list[Element | Attribute]) -> tuple[FieldKind, str]:
    if len(marks) > 1:
        raise _Refusal("has more than one Element or Attribute; keep one")
    if not marks:
        return FieldKind.ELEMENT, name
    (mark,) = marks
    if isinstance(mark, Element):
        return FieldKind.ELEMENT, mark.name
    return FieldKind.ATTRIBUTE, name if mark.name is None else mark.name


def _find_default(each: dataclasses.Field[Any]) -> Default | None:
    if each.default is not dataclasses.MISSING:
        return Default(each.default)
    if each.default_factory is not dataclasses.MISSING:
        return Default(factory=each.default_factory)
    return None


def _check_count(
    place: FieldKind, count: Count, item: Scalar | RecordType, default: Default | None, minimum: int
) -> None:
    repeated = count in {Count.LIST, Count.TUPLE}
    if place is FieldKind.ATTRIBUTE and (repeated or isinstance(item, RecordType)):
        raise _Refusal("is an Attribute, which holds one scalar; make it an element")
    if default is None:
        return
    if count is Count.OPTIONAL and (default.factory or default.value is not None):
        raise _Refusal("is optional, so an absent element means None; make None its default, or drop None")
    if repeated and (minimum or default.make() not in ([], ())):
        raise _Refusal("has a default that its absence cannot mean; use an empty one and no least length")


def _check_names(cls: type, fields: tuple[Field, ...]) -> None:
    seen: dict[tuple[FieldKind, str], str] = {}
    for each in fields:
        other = seen.setdefault((each.place, each.xml), each.name)
        if other != each.name:
            raise PayloadError(
                f"{cls.__qualname__}.{each.name}: is named {each.xml!r} in XML, as {other} is; rename one"
            )


def _check_example(cls: type, record: RecordType) -> None:
    unknown = set(record.example) - {each.name for each in record.fields}
    if unknown:
        raise PayloadError(f"{cls.__qualname__}: example= names {min(unknown)!r}, which is not a field of it")


DOC = 1000
"""Most characters of one documentation text."""


def read_documentation(cls: type) -> tuple[str, dict[str, str]]:
    """Return the documentation of the class and its fields, including inherited ones."""
    docs: dict[str, str] = {}
    prose = ""
    for each in reversed(cls.__mro__):
        text = each.__dict__.get("__doc__")
        if dataclasses.is_dataclass(each) and isinstance(text, str) and not _is_generated(each, text):
            prose, found = _parse(text)
            docs.update(found)
    return prose, docs


def _is_generated(cls: type, text: str) -> bool:
    return text.startswith(f"{cls.__name__}(") and text.endswith(")")


def _parse(text: str) -> tuple[str, dict[str, str]]:
    doc = parse(text)
    prose = doc.description or ""
    names: dict[str, str] = {}
    for param in doc.params:
        for name in param.arg_name.split(","):
            names[name.strip()] = _truncate(param.description or "")
    return _truncate(prose), names


def _truncate(text: str) -> str:
    words = " ".join(text.split())[:DOC]
    return words if is_xml_text(words) else ""
