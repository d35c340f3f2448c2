"""Payloads from typed input: named fields, or one bare text.

The schema validates the values, so that typed fields mean the same as markup.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lxml import etree

from agentserver.payload.corrections import label
from agentserver.payload.fields.field_table import FieldKind, PayloadType, RecordType, Scalar
from agentserver.payload.fields.lexical import BOOLS, WRITERS, ScalarKind
from agentserver.provenance.evidence.labels import Standing
from agentserver.provenance.policy.marks import read_marks
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agentserver.payload.codec import Codec
    from agentserver.payload.fields.field_table import Field

MAX_ITEMS = 1000
"""Items that a list may be given by index."""


@dataclass(frozen=True, slots=True)
class FormMisfit:
    """The reasons why the typed fields make no payload; one line for each thing to correct."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FormField:
    """One field as it is typed.

    Args:
        path: the names from the root down; INDEX replaces the number of an item.
        label: a description of its type.
        required: whether the record around it requires it.
        repeated: whether it may be given several times.
        choices: allowed texts; empty if unrestricted.
        default: the text of its default value; None without one.
        doc: its documentation, on one line.
    """

    path: tuple[str, ...]
    label: str
    required: bool = False
    repeated: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None
    doc: str = ""

    @property
    def name(self) -> str:
        """The path as it is typed."""
        return ".".join(self.path)


INDEX = "N"
"""The sign in the name of a field for the number of an item, which counts from 0."""


def list_form_fields(codec: Codec) -> tuple[FormField, ...]:
    """List every field that ``compose`` takes, in the order of the schema; empty without a field table."""
    table = find_table(codec)
    return tuple(_iter_form_fields(table.record, ())) if table else ()


def group_inner(codec: Codec) -> Mapping[str, list[FormField]]:
    """Group the fields of inner records by the field that holds them."""
    found: dict[str, list[FormField]] = {}
    for each in list_form_fields(codec):
        if len(each.path) > 1:
            found.setdefault(each.path[0], []).append(each)
    return found


def _iter_form_fields(record: RecordType, above: tuple[str, ...]) -> Iterator[FormField]:
    for each in record.fields:
        path = (*above, each.xml)
        if isinstance(each.type, RecordType):
            yield from _iter_form_fields(each.type, (*path, INDEX) if each.repeated else path)
        else:
            yield FormField(
                path,
                label(each.type),
                required=not each.optional,
                repeated=each.repeated,
                choices=_collect_choices(each.type),
                default=_format_default(each, each.type),
                doc=" ".join(each.doc.split()),
            )


def _collect_choices(scalar: Scalar) -> tuple[str, ...]:
    if scalar.kind is ScalarKind.BOOL:
        return tuple(text for text in BOOLS if text.isalpha())
    return tuple(text for text, _ in scalar.choices)


def _format_default(each: Field, scalar: Scalar) -> str | None:
    """Format the default value; None for factories, which may vary."""
    if each.default is None or each.default.factory is not None or each.default.value is None:
        return None
    value = each.default.value
    if scalar.choices:
        return next((text for text, chosen in scalar.choices if chosen == value), None)
    try:
        return WRITERS[scalar.kind](value)
    except (TypeError, ValueError):  # a default that the schema would refuse is nothing to show
        return None


def list_pasted_fields(codec: Codec) -> frozenset[str]:
    """List the fields, as typed, that are declared to hold text of other authors."""
    if codec.described is None:
        return frozenset()
    try:
        marks = read_marks(codec.payload)
    except TypeError:  # contradictory marks declare nothing; where they count, loading refuses them
        return frozenset()
    fields = codec.described.record.fields
    return frozenset(each.xml for each in fields if marks.find_standing(each.name) is Standing.PROSE)


@dataclass
class _Node:
    """The typed parts of one record: texts, and further records by index."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    records: dict[str, dict[int, _Node]] = field(default_factory=dict)


def find_table(codec: Codec) -> PayloadType | None:
    """Return the field table of a codec; None without one."""
    described = getattr(codec, "described", None) or codec.payload.__dict__.get("__payload__")
    return described if isinstance(described, PayloadType) else None


def compose(codec: Codec, values: Sequence[tuple[str, str]]) -> bytes | FormMisfit:
    """Build the payload element from named fields.

    Nested fields have dotted names, items of a list of records an index from 0: ``lines.1.sku``. A name given
    several times fills a list. Names may be the element's or Python's; ``-`` and ``_`` are the same.
    """
    table = find_table(codec)
    if table is None:
        return FormMisfit((f"{codec.name} has no field table: send it as XML",))
    root, wrong = _Node(), []
    for name, text in values:
        misfit = _put(table.record, root, name.split("."), text)
        if misfit:
            wrong.append(f"{name}: {misfit}")
    wrong += _list_gaps(root, "")
    if wrong:
        return FormMisfit(tuple(wrong))
    try:
        element = _build(codec.name, table.record, root, table.namespace)
    except ValueError:
        return FormMisfit(("a value holds a character that XML cannot carry",))
    if not codec.valid(element):
        return FormMisfit(
            tuple(f"{_to_typed_name(fault.path)}: {fault.rule}" for fault in codec.faults(element))
        )
    return canonical(element)


def _to_typed_name(path: str) -> str:
    """Convert a path of a correction, ``Order/items[2]/@no``, to a typed name: ``items.1.no``. The root is kept."""
    _, _, below = path.partition("/")
    return (
        _NUMBER.sub(lambda found: f".{int(found[1]) - 1}", below.replace("@", "").replace("/", ".")) or path
    )


_NUMBER = re.compile(r"\[([0-9]+)\]")


def _list_gaps(node: _Node, above: str) -> Iterator[str]:
    """List items that are missing before a given one."""
    for name, items in node.records.items():
        missing = next((index for index in range(len(items)) if index not in items), None)
        if missing is not None:
            yield f"{above}{name}.{missing}: is left out, and {above}{name}.{max(items)} is given"
        for index, item in items.items():
            yield from _list_gaps(item, f"{above}{name}.{index}.")


def find_text_field(codec: Codec) -> str | None:
    """Find the one required ``str`` field of a payload, which a bare text fills."""
    table = find_table(codec)
    required = [each for each in table.record.fields if not each.optional] if table else []
    if len(required) != 1 or required[0].repeated or isinstance(required[0].type, RecordType):
        return None
    only = required[0].type
    return required[0].xml if only.kind is ScalarKind.STR and not only.choices else None


def list_field_names(codec: Codec) -> tuple[str, ...]:
    """List every name that ``compose`` takes without an index, in the order of the schema."""
    table = find_table(codec)
    return tuple(_iter_names(table.record)) if table else ()


def _iter_names(record: RecordType) -> Iterator[str]:
    for each in record.fields:
        if isinstance(each.type, RecordType):
            yield from (f"{each.xml}.{below}" for below in _iter_names(each.type))
        else:
            yield each.xml


def takes(codec: Codec, name: str) -> bool:
    """Tell whether a typed name begins with a field of the payload."""
    table = find_table(codec)
    return table is not None and _find(table.record, name.split("."))[0] is not None


def _find(record: RecordType, path: list[str]) -> tuple[Field | None, list[str]]:
    """Find the field that a path begins with, and the rest of the path. Names may hold dots: the longest match wins."""
    for end in range(len(path), 0, -1):
        head = ".".join(path[:end])
        for each in record.fields:
            if head in {each.xml, each.name} or _fold(head) in {_fold(each.xml), _fold(each.name)}:
                return each, path[end:]
    return None, path


def _fold(name: str) -> str:
    return name.replace("-", "_")


def _put(record: RecordType, node: _Node, path: list[str], text: str) -> str:
    """Note a text at its place; gives why that is impossible, or nothing."""
    found, rest = _find(record, path)
    if found is None:
        return _format_unknown(record, ".".join(path))
    if isinstance(found.type, RecordType):
        return _put_below(found, found.type, node, rest, text)
    if rest:
        return f"{found.xml} holds no further fields"
    texts = node.texts.setdefault(found.name, [])
    texts.append(text)
    return "is given twice" if len(texts) > 1 and not found.repeated else ""


def _put_below(above: Field, record: RecordType, node: _Node, rest: list[str], text: str) -> str:
    index = 0
    if rest and rest[0].isdecimal():
        number = rest[0].lstrip("0") or "0"
        index, rest = int(number) if len(number) <= len(str(MAX_ITEMS)) else MAX_ITEMS, rest[1:]
    if index and (not above.repeated or index >= MAX_ITEMS):
        return f"{above.xml} has no item {index}"
    if not rest:
        return f"holds fields of its own: {', '.join(_iter_names(record))}"
    items = node.records.setdefault(above.name, {})
    return _put(record, items.setdefault(index, _Node()), rest, text)


def _format_unknown(record: RecordType, name: str) -> str:
    known = list(_iter_names(record))
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
    return f"no such field; {hint}"


def _build(tag: str, record: RecordType, node: _Node, namespace: str) -> etree._Element:
    element = etree.Element(tag, nsmap={None: namespace})  # type: ignore[dict-item]
    for each in record.fields:
        name = f"{{{namespace}}}{each.xml}"
        if isinstance(each.type, RecordType):
            below = node.records.get(each.name, {})
            element.extend(_build(name, each.type, below[index], namespace) for index in sorted(below))
        elif each.place is FieldKind.ATTRIBUTE:
            for text in node.texts.get(each.name, ()):
                element.set(each.xml, text)
        else:
            for text in node.texts.get(each.name, ()):
                etree.SubElement(element, name).text = text
    return element
