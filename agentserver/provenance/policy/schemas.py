"""Roles of arguments that the JSON schema of a foreign tool states: by format, enumeration and type, never by name.

A foreign schema only tightens by itself: a text with the format of an address is a destination. What loosens counts if
the operator lists the tool under ``schemas``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.options import list_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LEVELS: Final = 12
"""Maximum objects inside one another that are read."""
POSITIONS: Final = 1000
"""Maximum positions of a schema that are read; with more of them, the schema states nothing."""

FORMAT_ROLES: Final[Mapping[str, Role]] = {
    **dict.fromkeys(("email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"), Role.DESTINATION),
    **dict.fromkeys(("uri", "iri", "uri-reference", "iri-reference"), Role.DESTINATION),
    **dict.fromkeys(("date", "time", "date-time", "duration"), Role.TIME),
}
"""Role of a text by its ``format`` in JSON Schema."""


@dataclass(frozen=True, slots=True)
class StatedRoles:
    """Roles that a schema states.

    Args:
        formats: roles of texts by their format, by path without indices.
        options: values that the schema lists, by path without indices.
    """

    formats: tuple[tuple[str, Role], ...] = ()
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()


def read_schema(schema: Mapping[str, Any]) -> StatedRoles:
    """Read the roles that a JSON schema of arguments states. A malformed part of it states nothing."""
    reader = _SchemaReader()
    found = [*reader.list_positions(schema, "", 0)]
    if reader.left < 0:
        return StatedRoles()
    formats = ((path, FORMAT_ROLES.get(str(each.get("format")))) for path, each in found)
    listed = ((path, each.get("enum")) for path, each in found)
    options = ((path, list_options(values)) for path, values in listed if isinstance(values, list))
    return StatedRoles(
        tuple((path, role) for path, role in formats if role is not None),
        tuple((path, values) for path, values in options if values),
    )


class _SchemaReader:
    """Reader of the positions of one schema, within a bound."""

    def __init__(self) -> None:
        self.left = POSITIONS

    def list_positions(self, schema: Any, path: str, level: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """List the schemas of values by path. All alternatives of a value count."""
        self.left -= 1
        if self.left < 0 or level > LEVELS or not isinstance(schema, dict):
            return
        if path:
            yield path, schema
        for key in ("anyOf", "oneOf", "allOf"):
            inner = schema.get(key)
            for each in inner if isinstance(inner, list) else ():
                yield from self.list_positions(each, path, level + 1)
        yield from self.list_positions(schema.get("items"), path, level + 1)
        members = schema.get("properties")
        for name, each in members.items() if isinstance(members, dict) else ():
            yield from self.list_positions(each, f"{path}.{name}" if path else str(name), level + 1)
