"""Reads the leaves of payload elements.

It never calls the constructor of a payload class, since that would run its author's code.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from math import log2
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_type_hints

from lxml import etree

from agentserver.payload.fields.field_table import FieldKind, PayloadError, RecordType, Scalar
from agentserver.payload.fields.lexical import READERS, WRITERS, ScalarKind
from agentserver.payload.foreign.formats import is_foreign, list_formats
from agentserver.payload.names import local
from agentserver.provenance.evidence.labels import Leaf, strip_indices
from agentserver.provenance.evidence.leaves import format_text, is_plain
from agentserver.provenance.observations.assessment import LastAssessment
from agentserver.provenance.policy.marks import RoleMarks, find_dataclasses, read_marks
from agentserver.provenance.policy.options import find_options
from agentserver.provenance.policy.quarantine import Channel, measure_capacity
from agentserver.provenance.policy.schemas import FORMAT_ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from agentserver.payload.codec import Codec, Codecs
    from agentserver.payload.fields.field_table import Field, PayloadType, Type
    from agentserver.provenance.evidence.labels import Role
    from agentserver.provenance.judging.case import Argument
    from agentserver.provenance.ledger import Ledger


class Place(NamedTuple):
    """Scalar of an element.

    Args:
        node: the node that holds it.
        attribute: the name of its attribute; None for the text of the node.
        path: the path of its field in the payload class, with indices: ``items[3].body``.
        shape: the names from the root on, without indices, as in the measured schema: ``/Order/items/@/id``.
        kind: its type; None in a payload with a hand-written schema.
    """

    node: etree._Element
    attribute: str | None
    path: str
    shape: str
    kind: Scalar | None = None

    @property
    def text(self) -> str:
        """The scalar as written; empty for an element without text."""
        return (self.node.text or "") if self.attribute is None else str(self.node.get(self.attribute, ""))

    def write(self, text: str) -> None:
        """Replace the scalar."""
        if self.attribute is None:
            self.node.text = text
        else:
            self.node.set(self.attribute, text)

    def clear(self) -> None:
        """Remove the field."""
        above = self.node.getparent()
        if self.attribute is not None:
            del self.node.attrib[self.attribute]
        elif above is not None:
            above.remove(self.node)


def list_places(codec: Codec, element: etree._Element) -> tuple[Place, ...]:
    """List the scalars of a valid element in document order, attributes before children."""
    start = f"/{local(codec.name)}"
    described = codec.described
    if described is not None:
        return tuple(_list_record_places(element, described.record, described.namespace, "", start))
    return tuple(_list_element_places(element, codec.payload, "", start))


def _list_record_places(
    element: etree._Element, record: RecordType, space: str, above: str, shape: str
) -> Iterator[Place]:
    for field in record.list_fields_at(FieldKind.ATTRIBUTE):
        if element.get(field.xml) is not None:
            assert isinstance(field.type, Scalar)
            yield Place(element, field.xml, f"{above}{field.name}", f"{shape}/@/{field.xml}", field.type)
    named = {f"{{{space}}}{field.xml}": field for field in record.list_fields_at(FieldKind.ELEMENT)}
    counts: dict[str, int] = {}
    for child in element:
        field = named[str(child.tag)]
        path, inner = f"{above}{field.name}", f"{shape}/{field.xml}"
        if field.repeated:
            number = counts.get(field.name, 0)
            counts[field.name] = number + 1
            path = f"{path}[{number}]"
        if isinstance(field.type, RecordType):
            yield from _list_record_places(child, field.type, space, f"{path}.", inner)
        else:
            yield Place(child, None, path, inner, field.type)


def _list_element_places(element: etree._Element, cls: Any, above: str, shape: str) -> Iterator[Place]:
    """List the scalars of an element of a hand-written schema, named by its generated class."""
    names = map_names(cls)
    dotted = f"{above}." if above else ""
    for name in element.attrib:
        key, _ = names.get(local(str(name)), (local(str(name)), None))
        yield Place(element, str(name), f"{dotted}{key}", f"{shape}/@/{local(str(name))}")
    counts: dict[str, int] = {}
    for child in element:
        name = local(str(child.tag))
        key, inner = names.get(name, (name, None))
        number = counts.get(key, 0)
        counts[key] = number + 1
        yield from _list_element_places(child, inner, f"{dotted}{key}[{number}]", f"{shape}/{name}")
    if not len(element):
        own = names.get("", ("value", None))[0]
        yield Place(element, None, f"{dotted}{own}" if element.attrib or not above else above, shape)


def count_structure_bits(codec: Codec, names: NameCounts, element: etree._Element) -> float:
    """Count the bits that the structure of a valid element can reveal: omitted fields and numbers of repetitions.

    ``names`` are counted in a hand-written schema, which has no field table.
    """
    described = codec.described
    if described is not None:
        return _record_bits(element, described.record, described.namespace)
    # Each node is followed by one of the elements or ends its parent; each attribute is there or is not.
    return sum(1 for _ in element.iter()) * (2 * log2(names.elements + 1) + names.attributes)


def _record_bits(element: etree._Element, record: RecordType, space: str) -> float:
    bits = float(sum(field.optional for field in record.list_fields_at(FieldKind.ATTRIBUTE)))
    found: dict[str, list[etree._Element]] = {}
    for child in element:
        found.setdefault(str(child.tag), []).append(child)
    for field in record.list_fields_at(FieldKind.ELEMENT):
        children = found.get(f"{{{space}}}{field.xml}", [])
        if field.repeated:
            bits += 2 * log2(len(children) + 1) + 1  # a number that says where it ends
        else:
            bits += field.optional
        if isinstance(field.type, RecordType):
            bits += sum(_record_bits(child, field.type, space) for child in children)
    return bits


class NameCounts(NamedTuple):
    """Number of elements and attributes that a schema declares."""

    elements: int
    attributes: int


def list_fields(codec: Codec) -> Iterator[tuple[str, RecordType, Field]]:
    """List each scalar field of a generated payload by its path, with its record; none of a hand-written schema."""
    if codec.described is not None:
        yield from _list_record_fields(codec.described.record, "")


def _list_record_fields(record: RecordType, above: str) -> Iterator[tuple[str, RecordType, Field]]:
    for field in record.fields:
        if isinstance(field.type, Scalar):
            yield f"{above}{field.name}", record, field
        else:
            yield from _list_record_fields(field.type, f"{above}{field.name}.")


RECENT: Final = 64
"""Messages whose content is kept between their judgement and their delivery."""
LONGEST_RECENT: Final = 1 << 16
"""Characters of such a message at most."""

_NONE: Final = object()
"""Sentinel that equals no value."""


@dataclass(frozen=True, slots=True)
class ElementReader:
    """Reader for the elements of one payload.

    Args:
        codec: the payload's codec.
        marks: the marks of its fields.
        channel: the information that one message of it can carry.
        defaults: the default value of each field, by its path.
        recent: the contents of the latest messages.
        plain: name and reader of each child, by its tag; None if an element may hold anything but unmarked scalars,
            each once.
    """

    codec: Codec
    marks: RoleMarks
    channel: Channel
    defaults: Mapping[str, Any]
    recent: RecentContents
    plain: Mapping[str, tuple[str, Callable[[str], Any]]] | None = None

    def read(self, element: etree._Element) -> MessageContent:
        """Read an element once for its judgement and its delivery."""
        known = self.recent.find(element)
        if known is None:
            known = MessageContent(element, self.read_leaves(element))
            self.recent.keep(known)
        return known

    def find_filled(self, leaves: tuple[Leaf, ...]) -> frozenset[str]:
        """Find the scalars that equal their default, so that they may not have been sent."""
        if not self.defaults:
            return frozenset()
        known = (
            (leaf.path, self.defaults.get(strip_indices(leaf.path), _NONE), leaf.value) for leaf in leaves
        )
        return frozenset(path for path, default, value in known if default == value)

    def read_leaves(self, element: etree._Element) -> tuple[Leaf, ...]:
        """Read the scalars of a valid element, each with the worth that its field declares."""
        if self.plain is not None and (found := _read_plainly(element, self.plain)) is not None:
            return found
        described = self.codec.described
        if described is not None:
            return self.marks.mark_leaves(_read_record(element, described.record, described.namespace))
        return self.marks.mark_leaves(_read_plain(element, self.codec.payload))

    @property
    def roles(self) -> tuple[tuple[str, Role], ...]:
        """The roles that the type of the payload declares for its fields."""
        return self.marks.roles


class MessageContent:
    """Scalars of a payload element, with the latest conclusions about them.

    Args:
        element: the payload.
        leaves: its scalars.
    """

    __slots__ = ("arguments", "assessment", "element", "learned", "leaves", "sink")

    def __init__(self, element: etree._Element, leaves: tuple[Leaf, ...]) -> None:
        self.element, self.leaves = element, leaves
        self.assessment = LastAssessment()
        self.sink = ""
        self.arguments: tuple[Argument, ...] = ()
        self.learned: tuple[tuple[object, ...], tuple[object, ...], Ledger] | None = None


class RecentContents:
    """Contents of the latest messages by their elements, which are the same when they are judged and delivered."""

    def __init__(self) -> None:
        self._known: dict[int, MessageContent] = {}

    def find(self, element: etree._Element) -> MessageContent | None:
        """Find the content of an element, by its identity."""
        return self._known.get(id(element))  # an element that is kept has its id for itself

    def keep(self, content: MessageContent) -> None:
        """Keep a content in place of the oldest one, unless it is long."""
        length = 0
        for leaf in content.leaves:
            length += len(leaf.value) if isinstance(leaf.value, str) else 0
        if length > LONGEST_RECENT:
            return
        self._known[id(content.element)] = content
        if len(self._known) > RECENT:
            del self._known[next(iter(self._known))]


class Readings:
    """Readers of all codecs. A payload that was not known in advance gets its reader when it first occurs.

    ``unmarked`` holds the root elements of payloads whose types declare no readers.

    Raises PayloadError for a payload whose type has contradictory marks.
    """

    def __init__(self, codecs: Codecs) -> None:
        self._codecs = codecs
        self._recent = RecentContents()
        self._known = {codec.name: _make_reader(codec, self._recent) for codec in codecs}
        self.unmarked = {root for root, reading in self._known.items() if not reading.marks.readers}

    def __getitem__(self, root: str) -> ElementReader:
        """Look up the reader of a root element. Raises KeyError if no codec matches."""
        if root not in self._known:
            codec = self._codecs.for_root(root)
            if codec is None:
                raise KeyError(root)
            self._known[root] = _make_reader(codec, self._recent)
            if not self._known[root].marks.readers:
                self.unmarked.add(root)
        return self._known[root]


class ObservedMessage:
    """Message, delivered or proposed.

    Args:
        sender: the sender of the words.
        to: the listener it is for.
        thread: the sender's.
        root: name of the payload element.
        element: the payload.
        reading: the reader of its scalars.
        trace: id of the delivery, if there is one.
    """

    __slots__ = ("_content", "element", "reading", "root", "sender", "thread", "to", "trace")

    def __init__(
        self,
        sender: str,
        to: str,
        thread: str,
        root: str,
        element: etree._Element,
        reading: ElementReader,
        trace: str = "",
    ) -> None:
        self.sender, self.to, self.thread, self.root = sender, to, thread, root
        self.element, self.reading, self.trace = element, reading, trace
        self._content: MessageContent | None = None

    @property
    def content(self) -> MessageContent:
        """The content, read at first access. Clean conversations never access it."""
        if self._content is None:
            self._content = self.reading.read(self.element)
        return self._content

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The scalars."""
        return (self._content or self.content).leaves


def list_texts(leaves: tuple[Leaf, ...]) -> Iterator[str]:
    """List the texts of leaves, without empty ones."""
    return filter(None, (format_text(leaf.value) for leaf in leaves))


def list_task_leaves(task: Any) -> tuple[Leaf, ...]:
    """List the sender's leaves of a task: its values by the intent's own names, and its words."""
    params = (Leaf(param.name, param.value) for param in task.params)
    return (*params, *(Leaf(f"data[{number}].text", words.text) for number, words in enumerate(task.data)))


def measure_channel(codec: Codec) -> Channel:
    """Measure the channel capacity of one message of a payload."""
    return measure_capacity(etree.fromstring(codec.xsd().encode()), local(codec.name))


def _make_reader(codec: Codec, recent: RecentContents) -> ElementReader:
    try:
        stated = ((path, FORMAT_ROLES.get(name)) for path, name in list_formats(codec.payload))
        marks = replace(
            read_marks(codec.payload),
            options=find_options(codec.payload),
            formats=tuple((path, role) for path, role in stated if role is not None),
            foreign=is_foreign(codec.payload),
        )
    except (TypeError, NameError) as error:
        raise PayloadError(f"{codec.payload.__qualname__}: {error}") from None
    described = codec.described
    defaults = {} if described is None else dict(_list_defaults(described.record))
    plain = None if described is None else _list_plain_fields(described, marks)
    return ElementReader(codec, marks, measure_channel(codec), defaults, recent, plain)


def _list_plain_fields(
    described: PayloadType, marks: RoleMarks
) -> Mapping[str, tuple[str, Callable[[str], Any]]] | None:
    """List name and reader of each child of an element, by its tag; None if it has more than unmarked scalars."""
    fields = described.record.fields
    if marks.standings or marks.readers or described.record.list_fields_at(FieldKind.ATTRIBUTE):
        return None
    if any(field.repeated or isinstance(field.type, RecordType) for field in fields):
        return None
    return {
        f"{{{described.namespace}}}{field.xml}": (field.name, _find_reader(field.type))
        for field in described.record.list_fields_at(FieldKind.ELEMENT)
    }


def _read_plainly(
    element: etree._Element, fields: Mapping[str, tuple[str, Callable[[str], Any]]]
) -> tuple[Leaf, ...] | None:
    """Read the scalars of an element that has nothing else; None if one of them has parts, as JSON does."""
    found: list[Leaf] = []
    for child in element:
        name, read = fields[child.tag]
        value = read(child.text or "")
        if not is_plain(value):
            return None
        found.append(Leaf(name, value))
    return tuple(found)


def _list_defaults(
    record: RecordType, prefix: str = "", above: tuple[RecordType, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """List the path and default of each scalar of a record that has a default."""
    for field in record.fields:
        path, kind = f"{prefix}{field.name}", field.type
        if isinstance(kind, RecordType):
            if kind not in above:
                yield from _list_defaults(kind, f"{path}.", (*above, record))
        elif field.default is not None and not field.repeated and (value := field.default.make()) is not None:
            written = {each: text for text, each in kind.choices}.get(value) if kind.choices else None
            yield path, _read_scalar(kind, WRITERS[kind.kind](value) if written is None else written)


def _read_record(element: etree._Element, record: RecordType, space: str) -> dict[str, Any]:
    """Read the fields of a record in the element, by their Python names."""
    found: dict[str, Any] = {}
    for field in record.list_fields_at(FieldKind.ATTRIBUTE):
        text = element.get(field.xml)
        if text is not None:
            found[field.name] = _read_scalar(field.type, text)
    named = {f"{{{space}}}{field.xml}": field for field in record.list_fields_at(FieldKind.ELEMENT)}
    for child in element:
        field = named[str(child.tag)]
        kind = field.type
        value = (
            _read_record(child, kind, space)
            if isinstance(kind, RecordType)
            else _read_scalar(kind, child.text or "")
        )
        if field.repeated:
            found.setdefault(field.name, []).append(value)
        else:
            found[field.name] = value
    return found


def _read_scalar(kind: Type, text: str) -> Any:
    return _find_reader(kind)(text)


def _find_reader(kind: Type) -> Callable[[str], Any]:
    assert not isinstance(kind, RecordType)
    return str if kind.kind is ScalarKind.STR else READERS[kind.kind]


def _read_plain(element: etree._Element, cls: Any) -> Any:
    """Read an element of a hand-written schema: names from its generated class, values as written."""
    names = map_names(cls)
    found: dict[str, list[Any]] = {}
    for name, text in element.attrib.items():
        key, _ = names.get(local(str(name)), (local(str(name)), None))
        found.setdefault(key, []).append(text)
    for child in element:
        key, inner = names.get(local(str(child.tag)), (local(str(child.tag)), None))
        found.setdefault(key, []).append(_read_plain(child, inner))
    text = "".join([element.text or "", *(child.tail or "" for child in element)])
    if not found:
        return text
    if text.strip():
        found.setdefault(names.get("", ("value", None))[0], []).append(text)
    return found


def map_names(cls: Any) -> Mapping[str, tuple[str, Any]]:
    """Map the XML names of a generated class to field and inner class; the empty name is its own text."""
    if not is_dataclass(cls) or not isinstance(cls, type):
        return {}
    hints = get_type_hints(cls)
    found: dict[str, tuple[str, Any]] = {}
    for field in fields(cls):
        name = "" if field.metadata.get("type") == "Text" else str(field.metadata.get("name", field.name))
        found[name] = field.name, next(find_dataclasses(hints[field.name]), None)
        for choice in field.metadata.get("choices", ()):
            found[str(choice["name"])] = field.name, next(find_dataclasses(choice.get("type")), None)
    return found
