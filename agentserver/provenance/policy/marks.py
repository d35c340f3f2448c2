"""Marks of a payload's fields for provenance: ``to: Annotated[str, Role.DESTINATION]``, ``file: Id["file"]``.

Defines the marked types, and reads the marks of dataclasses, including nested ones and lists. A field without a mark is
left to the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from decimal import Decimal
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    TypeAlias,
    TypeVar,
    get_args,
    get_type_hints,
)

from agentserver.provenance.confidentiality.readers import Readers
from agentserver.provenance.evidence.labels import Role, Standing, strip_indices
from agentserver.provenance.evidence.leaves import leaves

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from agentserver.provenance.evidence.labels import Leaf


class Id:
    """Mark of a field that identifies a thing of some kind: ``Id["file"]``, or ``Annotated[int, Id("file")]``.

    In a listener's answer the field is a record that identifies such a thing. In a sink's payload it selects one, and
    only an id of the same kind authorises it. Type checkers read the text in ``Id["file"]`` as the name of a type;
    ``Annotated[str, Id("file")]`` avoids that.

    Args:
        kind: the kind of thing, as named by other payloads and the policy.

    Raises:
        ValueError: ``kind`` is empty or no text.
    """

    __slots__ = ("kind",)
    no_constraint: ClassVar = True
    """Keeps the mark out of the payload's schema."""

    def __init__(self, kind: str) -> None:
        value: object = kind
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{value!r} names no kind of thing")
        self.kind = kind.strip()

    def __class_getitem__(cls, kind: str) -> Any:
        """Return the type of a text that identifies a thing of this kind."""
        return Annotated[str, cls(kind)]


Destination: TypeAlias = Annotated[str, Role.DESTINATION]
"""Text that says who receives."""

Link: TypeAlias = Annotated[str, Role.DESTINATION]
"""Text that says which address is fetched or followed."""

Amount: TypeAlias = Annotated[Decimal, Role.QUANTITY]
"""Number that says how much. For whole numbers: ``Annotated[int, Role.QUANTITY]``."""

Secret: TypeAlias = Annotated[str, Role.SELECTOR, Readers("principal")]
"""Credential. As an argument it selects an identity to act for; as a field only the principal may read it."""


_Mark: TypeAlias = Standing | Role | Readers | Id
_One = TypeVar("_One", Standing, Role, Id)


@dataclass(frozen=True, slots=True)
class RoleMarks:
    """Marks of one payload type, by the path of the field without indices. Read once, at registration."""

    standings: tuple[tuple[str, Standing], ...] = ()
    roles: tuple[tuple[str, Role], ...] = ()
    readers: tuple[tuple[str, Readers], ...] = ()
    ids: tuple[tuple[str, str], ...] = ()
    """Kinds of things that fields identify. Each of these fields has a worth and a role."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Values that the type lists for fields, as :mod:`options` finds them; ``read_marks`` reads none."""
    formats: tuple[tuple[str, Role], ...] = ()
    """Roles that a foreign schema states by the formats of texts; ``read_marks`` reads none."""
    foreign: bool = False
    """True when a foreign schema made the type, so that its options count only where the operator accepts them."""

    def find_standing(self, path: str) -> Standing | None:
        """Look up the worth of a field or of the nearest enclosing one; None without a declaration."""
        known = dict(self.standings)
        found = find_covering(known, strip_indices(path))
        return None if found is None else known[found]

    def mark_leaves(self, payload: Any) -> tuple[Leaf, ...]:
        """List the typed leaves of a payload, each with the worth, id and readers that its field declares."""
        if not self.standings and not self.readers:
            return leaves(payload)
        known, ids = dict(self.standings), dict(self.ids)
        found = tuple(
            replace(leaf, standing=known[path], id=ids.get(path, ""), inside="")
            if (path := find_covering(known, strip_indices(leaf.path)))
            else leaf
            for leaf in leaves(payload)
        )
        return tuple(map(self._add_readers, found)) if self.readers else found

    def _add_readers(self, leaf: Leaf) -> Leaf:
        """Add the readers that a leaf's field and every enclosing field declare."""
        path = strip_indices(leaf.path)
        covering = (
            readers.entries
            for field, readers in self.readers
            if path == field or path.startswith(f"{field}.")
        )
        groups = tuple(covering)
        return replace(leaf, readers=groups) if groups else leaf


def read_marks(payload: type) -> RoleMarks:
    """Read the marks of a dataclass.

    Raises:
        TypeError: ``payload`` is no dataclass; or a field has two standings, two roles or two ids; or an id is marked
            as prose, has a role other than selector, or covers several fields.
    """
    if not is_dataclass(payload):
        raise TypeError(f"{payload.__name__} is no dataclass")
    marks = tuple(_find_marks(payload, "", ()))
    return RoleMarks(
        tuple((path, mark) for path, mark in marks if isinstance(mark, Standing)),
        tuple((path, mark) for path, mark in marks if isinstance(mark, Role)),
        tuple((path, mark) for path, mark in marks if isinstance(mark, Readers)),
        tuple((path, mark.kind) for path, mark in marks if isinstance(mark, Id)),
    )


def list_field_paths(payload: Any, prefix: str = "", above: tuple[type, ...] = ()) -> Iterator[str]:
    """List the paths of all fields of a dataclass and of nested ones, without indices."""
    hints = get_type_hints(payload, include_extras=True)
    for field in fields(payload):
        yield f"{prefix}{field.name}"
        for inner in find_dataclasses(hints[field.name]):
            if inner not in above:
                yield from list_field_paths(inner, f"{prefix}{field.name}.", (*above, inner))


def _find_marks(payload: Any, prefix: str, above: tuple[type, ...]) -> Iterator[tuple[str, _Mark]]:
    hints = get_type_hints(payload, include_extras=True)
    for field in fields(payload):
        path = f"{prefix}{field.name}"
        yield from ((path, mark) for mark in _check_marks(path, hints[field.name]))
        for inner in find_dataclasses(hints[field.name]):
            if inner not in above:
                yield from _find_marks(inner, f"{path}.", (*above, inner))


def _check_marks(path: str, hint: Any) -> Iterator[_Mark]:
    marks = tuple(_find_metadata(hint))
    standing = _find_single(path, [mark for mark in marks if isinstance(mark, Standing)])
    role = _find_single(path, [mark for mark in marks if isinstance(mark, Role)])
    identified = _find_single(path, [mark for mark in marks if isinstance(mark, Id)])
    if identified is not None:
        standing, role = standing or Standing.RECORD, role or Role.SELECTOR
        _check_id(path, identified, standing, role)
        if any(find_dataclasses(hint)):
            raise TypeError(
                f"'{path}' is marked {_describe(identified)}, and holds fields; mark the one that is it"
            )
    yield from (mark for mark in (standing, role, identified) if mark is not None)
    yield from (mark for mark in marks if isinstance(mark, Readers))


def _find_single(path: str, found: Sequence[_One]) -> _One | None:
    """Return the only mark of its sort, if any. Raises TypeError if there are two."""
    if len(found) > 1:
        raise TypeError(f"'{path}' is marked {' and '.join(map(_describe, found))}")
    return found[0] if found else None


def _check_id(path: str, identified: Id, worth: Standing, role: Role) -> None:
    """Refuse a worth or a role that does not fit an id. Raises TypeError."""
    if worth is Standing.PROSE:
        raise TypeError(f"'{path}' is marked {_describe(identified)} and {worth.value}; no id is prose")
    if role is not Role.SELECTOR:
        raise TypeError(f"'{path}' is marked {_describe(identified)} and {role.value}; an id is a selector")


def _describe(mark: Standing | Role | Id) -> str:
    return f'Id["{mark.kind}"]' if isinstance(mark, Id) else mark.value


def _find_metadata(hint: Any) -> Iterator[Any]:
    """Find all ``Annotated`` metadata in a hint, including list items and members of unions."""
    yield from getattr(hint, "__metadata__", ())
    for inner in get_args(hint):
        yield from _find_metadata(inner)


def find_dataclasses(hint: Any) -> Iterator[type]:
    """Find the dataclasses in a hint: ``list[Annotated[Mail, ...]] | None`` holds ``Mail``."""
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint
    for inner in get_args(hint):
        yield from find_dataclasses(inner)


def find_covering(known: Container[str], path: str) -> str | None:
    """Find the field that a path equals or lies in: a mark on a list applies to its items."""
    while path not in known:
        if "." not in path:
            return None
        path = path.rpartition(".")[0]
    return path
