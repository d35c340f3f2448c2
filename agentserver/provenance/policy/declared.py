"""Declarations of fields in a payload's own type: ``to: Annotated[str, Role.DESTINATION]``.

Owns reading those marks from dataclasses, nested ones and lists of them too. Refuses to invent any: a field
without a mark is left to the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from agentserver.provenance.confidentiality.readers import Readers
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.policy.paths import bare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.labels import Leaf


@dataclass(frozen=True, slots=True)
class RoleMarks:
    """The marks of one payload type, by the path of the field without indices. Read once, at registration."""

    standings: tuple[tuple[str, Standing], ...] = ()
    roles: tuple[tuple[str, Role], ...] = ()
    readers: tuple[tuple[str, Readers], ...] = ()

    def standing(self, path: str) -> Standing | None:
        """The standing that the field of a path declares, or one that it lies in; None where none does."""
        known = dict(self.standings)
        found = _covering(known, bare(path))
        return None if found is None else known[found]

    def leaves(self, payload: Any) -> tuple[Leaf, ...]:
        """The typed leaves of a payload, each with the standing and the readers that its field declares."""
        known = dict(self.standings)
        found = tuple(
            replace(leaf, standing=known[path]) if (path := _covering(known, bare(leaf.path))) else leaf
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
        TypeError: ``payload`` is no dataclass, or a field has two standings or two roles.
    """
    if not is_dataclass(payload):
        raise TypeError(f"{payload.__name__} is no dataclass")
    marks = tuple(_marks(payload, "", ()))
    return RoleMarks(
        tuple((path, mark) for path, mark in marks if isinstance(mark, Standing)),
        tuple((path, mark) for path, mark in marks if isinstance(mark, Role)),
        tuple((path, mark) for path, mark in marks if isinstance(mark, Readers)),
    )


def paths(payload: Any, prefix: str = "", above: tuple[type, ...] = ()) -> Iterator[str]:
    """The path of every field of a dataclass and of those inside it, without indices."""
    hints = get_type_hints(payload, include_extras=True)
    for field in fields(payload):
        yield f"{prefix}{field.name}"
        for inner in dataclasses_in(hints[field.name]):
            if inner not in above:
                yield from paths(inner, f"{prefix}{field.name}.", (*above, inner))


def _marks(
    payload: Any, prefix: str, above: tuple[type, ...]
) -> Iterator[tuple[str, Standing | Role | Readers]]:
    hints = get_type_hints(payload, include_extras=True)
    for field in fields(payload):
        path = f"{prefix}{field.name}"
        yield from _checked(path, hints[field.name])
        for inner in dataclasses_in(hints[field.name]):
            if inner not in above:
                yield from _marks(inner, f"{path}.", (*above, inner))


def _checked(path: str, hint: Any) -> Iterator[tuple[str, Standing | Role | Readers]]:
    for kind in (Standing, Role):
        found = [mark for mark in _metadata(hint) if isinstance(mark, kind)]
        if len(found) > 1:
            raise TypeError(f"'{path}' is marked {' and '.join(mark.value for mark in found)}")
        yield from ((path, mark) for mark in found)
    yield from ((path, mark) for mark in _metadata(hint) if isinstance(mark, Readers))


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
