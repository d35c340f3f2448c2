"""Leaves of payload elements.

No constructor of a payload class is called: that would run code of its author.
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
from agentserver.provenance.policy.marks import RoleMarks, find_dataclasses, read_marks
from agentserver.provenance.policy.paths import strip_indices
from agentserver.provenance.policy.quarantine import Channel, measure_capacity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.payload.codec import Codec, Codecs
    from agentserver.payload.fields.field_table import Type
    from agentserver.provenance.evidence.labels import Role


_NONE: Final = object()
"""No value is equal to it."""


@dataclass(frozen=True, slots=True)
class ElementReader:
    """The way in which the elements of one payload are read.

    Args:
        codec: the payload's.
        marks: what its type says of its fields.
        channel: what one message of it can tell.
        defaults: the default value of each field, by its path.
    """

    codec: Codec
    marks: RoleMarks
    channel: Channel
    defaults: Mapping[str, Any]

    def filled(self, leaves: tuple[Leaf, ...]) -> frozenset[str]:
        """The paths of scalars with the value that the type fills in: possibly nothing was sent."""
        if not self.defaults:
            return frozenset()
        known = (
            (leaf.path, self.defaults.get(strip_indices(leaf.path), _NONE), leaf.value) for leaf in leaves
        )
        return frozenset(path for path, default, value in known if default == value)

    def leaves(self, element: etree._Element) -> tuple[Leaf, ...]:
        """The scalars of a valid element, each with the standing that its field declares."""
        described = self.codec.described
        if described is not None:
            return self.marks.mark_leaves(_record(element, described.record, described.namespace))
        return self.marks.mark_leaves(_plain(element, self.codec.payload))

    @property
    def roles(self) -> tuple[tuple[str, Role], ...]:
        """The roles of its fields, as its type declares them."""
        return self.marks.roles


class Readings:
    """A reading for each codec. A payload that could not be foreseen is read when it is first met.

    ``unmarked`` holds the root elements of those whose types name no readers.

    Raises PayloadError for a payload whose type says contradictory things of a field.
    """

    def __init__(self, codecs: Codecs) -> None:
        self._codecs = codecs
        self._known = {codec.name: _reading(codec) for codec in codecs}
        self.unmarked = {root for root, reading in self._known.items() if not reading.marks.readers}

    def __getitem__(self, root: str) -> ElementReader:
        """The reading of a root element. Raises KeyError for one that no codec claims."""
        if root not in self._known:
            codec = self._codecs.for_root(root)
            if codec is None:
                raise KeyError(root)
            self._known[root] = _reading(codec)
            if not self._known[root].marks.readers:
                self.unmarked.add(root)
        return self._known[root]


class Said:
    """A message, on its way or arrived.

    Args:
        sender: whose words it holds.
        to: the listener it is for.
        thread: the sender's.
        root: name of the payload element.
        element: the payload.
        reading: the way to its scalars.
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
        """Its scalars, read when they are first needed: in a conversation without untrusted text they are not."""
        if self._leaves is None:
            self._leaves = self.reading.leaves(self.element)
        return self._leaves


def words(leaves: tuple[Leaf, ...]) -> Iterator[str]:
    """The texts of leaves, without empty ones."""
    return filter(None, (text_of(leaf.value) for leaf in leaves))


def handed(task: Any) -> tuple[Leaf, ...]:
    """The sender's part of a task: its values by the intent's own names, and its words. The rest is the organism's."""
    params = (Leaf(param.name, param.value) for param in task.params)
    return (*params, *(Leaf(f"data[{number}].text", words.text) for number, words in enumerate(task.data)))


def channel(codec: Codec) -> Channel:
    """The channel that one message of a payload is."""
    return measure_capacity(etree.fromstring(codec.xsd().encode()), local(codec.name))


def _reading(codec: Codec) -> ElementReader:
    try:
        marks = read_marks(codec.payload)
    except (TypeError, NameError) as error:
        raise PayloadError(f"{codec.payload.__qualname__}: {error}") from None
    described = codec.described
    defaults = {} if described is None else dict(_defaults(described.record))
    return ElementReader(codec, marks, channel(codec), defaults)


def _defaults(
    record: RecordType, prefix: str = "", above: tuple[RecordType, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """The path of each scalar of a record that has a default, and the default as it is read."""
    for field in record.fields:
        path, kind = f"{prefix}{field.name}", field.type
        if isinstance(kind, RecordType):
            if kind not in above:
                yield from _defaults(kind, f"{path}.", (*above, record))
        elif field.default is not None and not field.repeated and (value := field.default.make()) is not None:
            written = {each: text for text, each in kind.choices}.get(value) if kind.choices else None
            yield path, _scalar(kind, WRITERS[kind.kind](value) if written is None else written)


def _record(element: etree._Element, record: RecordType, space: str) -> dict[str, Any]:
    """The fields of a record that the element holds, by their Python names."""
    found: dict[str, Any] = {}
    for field in record.fields_at(FieldKind.ATTRIBUTE):
        text = element.get(field.xml)
        if text is not None:
            found[field.name] = _scalar(field.type, text)
    named = {f"{{{space}}}{field.xml}": field for field in record.fields_at(FieldKind.ELEMENT)}
    for child in element:
        field = named[str(child.tag)]
        kind = field.type
        value = (
            _record(child, kind, space) if isinstance(kind, RecordType) else _scalar(kind, child.text or "")
        )
        if field.repeated:
            found.setdefault(field.name, []).append(value)
        else:
            found[field.name] = value
    return found


def _scalar(kind: Type, text: str) -> Any:
    assert not isinstance(kind, RecordType)
    return text if kind.kind is ScalarKind.STR else READERS[kind.kind](text)


def _plain(element: etree._Element, cls: Any) -> Any:
    """An element of a hand-written schema: names by the class that was made of it, values as they are written."""
    names = names_of(cls)
    found: dict[str, list[Any]] = {}
    for name, text in element.attrib.items():
        key, _ = names.get(local(str(name)), (local(str(name)), None))
        found.setdefault(key, []).append(text)
    for child in element:
        key, inner = names.get(local(str(child.tag)), (local(str(child.tag)), None))
        found.setdefault(key, []).append(_plain(child, inner))
    text = "".join([element.text or "", *(child.tail or "" for child in element)])
    if not found:
        return text
    if text.strip():
        found.setdefault(names.get("", ("value", None))[0], []).append(text)
    return found


def names_of(cls: Any) -> Mapping[str, tuple[str, Any]]:
    """For each XML name of a generated class its field and the class inside; the empty name is its own text."""
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
