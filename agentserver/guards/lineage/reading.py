"""Reads the leaves of payload elements.

It never calls the constructor of a payload class, since that would run its author's code.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from lxml import etree

from agentserver.payload.fields.field_table import FieldKind, PayloadError, RecordType
from agentserver.payload.fields.lexical import READERS, WRITERS, ScalarKind
from agentserver.payload.names import local
from agentserver.provenance.evidence.labels import Leaf
from agentserver.provenance.evidence.leaves import text_of
from agentserver.provenance.evidence.paths import strip_indices
from agentserver.provenance.policy.marks import RoleMarks, find_dataclasses, read_marks
from agentserver.provenance.policy.quarantine import Channel, measure_capacity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.payload.codec import Codec, Codecs
    from agentserver.payload.fields.field_table import Type
    from agentserver.provenance.evidence.labels import Role


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
    """

    codec: Codec
    marks: RoleMarks
    channel: Channel
    defaults: Mapping[str, Any]

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
        described = self.codec.described
        if described is not None:
            return self.marks.mark_leaves(_read_record(element, described.record, described.namespace))
        return self.marks.mark_leaves(_read_plain(element, self.codec.payload))

    @property
    def roles(self) -> tuple[tuple[str, Role], ...]:
        """The roles that the type of the payload declares for its fields."""
        return self.marks.roles


class Readings:
    """Readers of all codecs. A payload that was not known in advance gets its reader when it first occurs.

    ``unmarked`` holds the root elements of payloads whose types declare no readers.

    Raises PayloadError for a payload whose type has contradictory marks.
    """

    def __init__(self, codecs: Codecs) -> None:
        self._codecs = codecs
        self._known = {codec.name: _make_reader(codec) for codec in codecs}
        self.unmarked = {root for root, reading in self._known.items() if not reading.marks.readers}

    def __getitem__(self, root: str) -> ElementReader:
        """Look up the reader of a root element. Raises KeyError if no codec matches."""
        if root not in self._known:
            codec = self._codecs.for_root(root)
            if codec is None:
                raise KeyError(root)
            self._known[root] = _make_reader(codec)
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

    __slots__ = ("_leaves", "element", "reading", "root", "sender", "thread", "to", "trace")

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
        self._leaves: tuple[Leaf, ...] | None = None

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The scalars, read at first access. Clean conversations never access them."""
        if self._leaves is None:
            self._leaves = self.reading.read_leaves(self.element)
        return self._leaves


def list_texts(leaves: tuple[Leaf, ...]) -> Iterator[str]:
    """List the texts of leaves, without empty ones."""
    return filter(None, (text_of(leaf.value) for leaf in leaves))


def list_task_leaves(task: Any) -> tuple[Leaf, ...]:
    """List the sender's leaves of a task: its values by the intent's own names, and its words."""
    params = (Leaf(param.name, param.value) for param in task.params)
    return (*params, *(Leaf(f"data[{number}].text", words.text) for number, words in enumerate(task.data)))


def measure_channel(codec: Codec) -> Channel:
    """Measure the channel capacity of one message of a payload."""
    return measure_capacity(etree.fromstring(codec.xsd().encode()), local(codec.name))


def _make_reader(codec: Codec) -> ElementReader:
    try:
        marks = read_marks(codec.payload)
    except (TypeError, NameError) as error:
        raise PayloadError(f"{codec.payload.__qualname__}: {error}") from None
    described = codec.described
    defaults = {} if described is None else dict(_list_defaults(described.record))
    return ElementReader(codec, marks, measure_channel(codec), defaults)


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
    for field in record.fields_at(FieldKind.ATTRIBUTE):
        text = element.get(field.xml)
        if text is not None:
            found[field.name] = _read_scalar(field.type, text)
    named = {f"{{{space}}}{field.xml}": field for field in record.fields_at(FieldKind.ELEMENT)}
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
    assert not isinstance(kind, RecordType)
    return text if kind.kind is ScalarKind.STR else READERS[kind.kind](text)


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
