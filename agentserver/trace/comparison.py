"""Fields of payloads, and the comparison of two conversations by steps and fields. Pure."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from lxml import etree

from agentserver.core.messages import TODO
from agentserver.core.records.audit import Event
from agentserver.payload.names import local
from agentserver.trace.text import list_visible_hops, order_by_request
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.trace.text import TracedHop

T = TypeVar("T")

PLUMBING: Final = frozenset({Event.RESERVED, Event.SETTLED, Event.HANDLED, Event.CLOSED})
"""Events that say how the server worked, and not what listeners did."""

_BOUNDS: Final = envelope.Bounds(bytes=1 << 30)


def is_plumbing(record: AuditRecord) -> bool:
    """Check whether a record is folded away at first: charges, ends of invocations and threads, todos."""
    return not record.code and (record.event in PLUMBING or TODO in (record.sender, record.to))


class Field(NamedTuple):
    """One field of a payload.

    Args:
        depth: number of fields around it.
        path: its name after those of the fields around it, without indices.
        name: of the element or, after ``@``, of the attribute; with an index among several of the name.
        value: its text; None for a field of further fields.
    """

    depth: int
    path: str
    name: str
    value: str | None


def list_fields(message: bytes) -> list[Field] | None:
    """List the fields of a message's payload, in order; None for a message that is not XML."""
    read = envelope.read_envelope(message, _BOUNDS)
    if isinstance(read, envelope.Malformed):
        return None
    found = list(_walk(read.payload, 0, ""))
    own = (read.payload.text or "").strip()
    return found or ([Field(0, "", "text", own)] if own else [])


def _walk(element: etree._Element, depth: int, path: str) -> Iterator[Field]:
    for name, value in element.attrib.items():
        yield Field(depth, _join(path, local(str(name))), f"@{local(str(name))}", str(value))
    children = list(element.iterchildren(etree.Element))
    names = [local(str(each.tag)) for each in children]
    counts, seen = Counter(names), Counter[str]()
    for child, name in zip(children, names, strict=True):
        label = f"{name}[{seen[name]}]" if counts[name] > 1 else name
        seen[name] += 1
        place = _join(path, name)
        leaf = not len(child) and not child.attrib
        yield Field(depth, place, label, (child.text or "") if leaf else None)
        if not leaf:
            own = (child.text or "").strip()
            if own:
                yield Field(depth + 1, place, "text", own)
            yield from _walk(child, depth + 1, place)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class FieldPair(NamedTuple):
    """Field of two messages, whose values differ.

    Args:
        name: of the field, after the names of the fields around it.
        left: its value in the first message; None where it is missing.
        right: its value in the second message.
    """

    name: str
    left: str | None
    right: str | None


class StepPair(NamedTuple):
    """Step of two conversations, or of one of them.

    Args:
        left: of the first conversation.
        right: of the second conversation.
        fields: those whose values differ, if the step is in both.
    """

    left: TracedHop | None
    right: TracedHop | None
    fields: tuple[FieldPair, ...] = ()


def pair_steps(
    left: Sequence[T], right: Sequence[T], key: Callable[[T], Hashable]
) -> Iterator[tuple[T | None, T | None]]:
    """Pair the steps of two conversations in order; a step without a counterpart is alone."""
    matcher = SequenceMatcher(None, [*map(key, left)], [*map(key, right)], autojunk=False)
    for tag, i, j, m, n in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(left[i:j], right[m:n], strict=True)
            continue
        yield from ((one, None) for one in left[i:j])
        yield from ((None, one) for one in right[m:n])


def compare_records(left: Sequence[AuditRecord], right: Sequence[AuditRecord]) -> list[StepPair]:
    """Compare the steps of two conversations, without plumbing, and the fields of those in both."""
    one_side, other_side = (
        [hop for hop in order_by_request(list_visible_hops(records)) if not is_plumbing(hop.record)]
        for records in (left, right)
    )
    return [
        StepPair(one, other, _compare_fields(one, other) if one and other else ())
        for one, other in pair_steps(one_side, other_side, _make_key_of_hop)
    ]


def find_step_key(get: Callable[[str], object], depth: int) -> Hashable:
    """Find the key by which steps are paired; ``get`` gives a field of the step's record by its name."""
    return (*map(get, ("event", "sender", "to", "root", "code")), depth)


def _make_key_of_hop(hop: TracedHop) -> Hashable:
    return find_step_key(lambda name: getattr(hop.record, name), hop.depth)


def _compare_fields(left: TracedHop, right: TracedHop) -> tuple[FieldPair, ...]:
    return compare_messages(left.record.message, right.record.message)


def compare_messages(left: bytes, right: bytes) -> tuple[FieldPair, ...]:
    """Compare the fields of two messages. Returns those whose values differ."""
    one, other = map(_map_values, (left, right))
    return tuple(
        FieldPair(name, one.get(name), other.get(name))
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    )


def _map_values(message: bytes) -> Mapping[str, str]:
    """Map the full name of each field with a value to it; a message that is not XML is one value."""
    fields = list_fields(message) if message else []
    if fields is None:
        return {"message": message.decode("utf-8", "backslashreplace")}
    around: list[str] = []
    found = {}
    for each in fields:
        around[each.depth :] = [each.name]
        if each.value is not None:
            found[".".join(around)] = each.value
    return found
