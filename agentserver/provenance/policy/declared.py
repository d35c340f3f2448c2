"""Declarations of fields in a payload's own type: ``to: Annotated[str, Role.DESTINATION]``, ``file: Id["file"]``.

Owns reading those marks from dataclasses, nested ones and lists of them too. Refuses to invent any: a field
without a mark is left to the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_args, get_type_hints

from agentserver.provenance.confidentiality.readers import Readers
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.policy.marks import Id
from agentserver.provenance.policy.paths import bare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.provenance.evidence.labels import Leaf

_Mark: TypeAlias = Standing | Role | Readers | Id
_One = TypeVar("_One", Standing, Role, Id)


@dataclass(frozen=True, slots=True)
class RoleMarks:
    """The marks of one payload type, by the path of the field without indices. Read once, at registration."""

    standings: tuple[tuple[str, Standing], ...] = ()
    roles: tuple[tuple[str, Role], ...] = ()
    readers: tuple[tuple[str, Readers], ...] = ()
    ids: tuple[tuple[str, str], ...] = ()
    """The kinds of things that fields identify. Each of these fields has a standing and a role."""

    def standing(self, path: str) -> Standing | None:
        """The standing that the field of a path declares, or one that it lies in; None where none does."""
        known = dict(self.standings)
        found = _covering(known, bare(path))
        return None if found is None else known[found]

    def leaves(self, payload: Any) -> tuple[Leaf, ...]:
        """The typed leaves of a payload, each with the standing, the id and the readers that its field declares."""
        if not self.standings and not self.readers:
            return leaves(payload)
        known, ids = dict(self.standings), dict(self.ids)
        found = tuple(
            replace(leaf, standing=known[path], id=ids.get(path, ""), inside="")
            if (path := _covering(known, bare(leaf.path)))
            else leaf
            for leaf in leaves(payload)
        )
        return tuple(map(self._private, found)) if self.readers else found

    def _private(self, leaf: Leaf) -> Leaf:
        """A leaf with its readers: those of its field, and of each field that it lies in."""
        path = bare(leaf.path)
        covering = (
            readers.entries
            for field, readers in self.readers
            if path == field or path.startswith(f"{field}.")
        )
        groups = tuple(covering)
        return replace(leaf, readers=groups) if groups else leaf


def declared(payload: type) -> RoleMarks:
    """The marks of a dataclass.

    Raises:
        TypeError: ``payload`` is no dataclass, or a field has two standings, two roles or two ids, or an id beside
            what no id is: prose, another role than a selector, several fields.
    """
    if not is_dataclass(payload):
        raise TypeError(f"{payload.__name__} is no dataclass")
    marks = tuple(_marks(payload, "", ()))
    return RoleMarks(
        tuple((path, mark) for path, mark in marks if isinstance(mark, Standing)),
        tuple((path, mark) for path, mark in marks if isinstance(mark, Role)),
        tuple((path, mark) for path, mark in marks if isinstance(mark, Readers)),
        tuple((path, mark.kind) for path, mark in marks if isinstance(mark, Id)),
    )


def paths(payload: Any, prefix: str = "", above: tuple[type, ...] = ()) -> Iterator[str]:
    """The path of every field of a dataclass and of those inside it, without indices."""
    hints = get_type_hints(payload, include_extras=True)
    for field in fields(payload):
        yield f"{prefix}{field.name}"
        for inner in dataclasses_in(hints[field.name]):
            if inner not in above:
                yield from paths(inner, f"{prefix}{field.name}.", (*above, inner))


def _marks(payload: Any, prefix: str, above: tuple[type, ...]) -> Iterator[tuple[str, _Mark]]:
    hints = get_type_hints(payload, include_extras=True)
    for field in fields(payload):
        path = f"{prefix}{field.name}"
        yield from ((path, mark) for mark in _checked(path, hints[field.name]))
        for inner in dataclasses_in(hints[field.name]):
            if inner not in above:
                yield from _marks(inner, f"{path}.", (*above, inner))


def _checked(path: str, hint: Any) -> Iterator[_Mark]:
    marks = tuple(_metadata(hint))
    standing = _single(path, [mark for mark in marks if isinstance(mark, Standing)])
    role = _single(path, [mark for mark in marks if isinstance(mark, Role)])
    identified = _single(path, [mark for mark in marks if isinstance(mark, Id)])
    if identified is not None:
        standing, role = standing or Standing.RECORD, role or Role.SELECTOR
        _identifies(path, identified, standing, role)
        if any(dataclasses_in(hint)):
            raise TypeError(
                f"'{path}' is marked {_told(identified)}, and holds fields; mark the one that is it"
            )
    yield from (mark for mark in (standing, role, identified) if mark is not None)
    yield from (mark for mark in marks if isinstance(mark, Readers))


def _single(path: str, found: Sequence[_One]) -> _One | None:
    """The only mark of its sort, if there is one. Raises TypeError where there are two."""
    if len(found) > 1:
        raise TypeError(f"'{path}' is marked {' and '.join(map(_told, found))}")
    return found[0] if found else None


def _identifies(path: str, identified: Id, standing: Standing, role: Role) -> None:
    """Refuse a standing or a role that an id has not. Raises TypeError."""
    if standing is Standing.PROSE:
        raise TypeError(f"'{path}' is marked {_told(identified)} and {standing.value}; no id is prose")
    if role is not Role.SELECTOR:
        raise TypeError(f"'{path}' is marked {_told(identified)} and {role.value}; an id is a selector")


def _told(mark: Standing | Role | Id) -> str:
    return f'Id["{mark.kind}"]' if isinstance(mark, Id) else mark.value


def _metadata(hint: Any) -> Iterator[Any]:
    """Everything that ``Annotated`` says anywhere in a hint, of the items of a list and inside a union too."""
    yield from getattr(hint, "__metadata__", ())
    for inner in get_args(hint):
        yield from _metadata(inner)


def dataclasses_in(hint: Any) -> Iterator[type]:
    """The dataclasses inside a hint: ``list[Annotated[Mail, ...]] | None`` holds ``Mail``."""
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint
    for inner in get_args(hint):
        yield from dataclasses_in(inner)


def _covering(known: dict[str, Standing], path: str) -> str | None:
    """The marked field that a path is, or lies in: a mark on a list holds for its items."""
    while path not in known:
        if "." not in path:
            return None
        path = path.rpartition(".")[0]
    return path
