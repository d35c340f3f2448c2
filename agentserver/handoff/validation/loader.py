"""Opening payload schemas by restricted reference."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from typing import TYPE_CHECKING

from agentserver.hygiene import objections, rules
from agentserver.hygiene.limits import BYTES
from agentserver.hygiene.objections import Objection, Schema, quote

if TYPE_CHECKING:
    from pathlib import Path


def load(value: object, root: Path) -> Schema | Objection:
    """Return the schema that a reference names below ``root``, read but not inspected; or why it is refused."""
    place = objections.parse_reference(value)
    if isinstance(place, Objection):
        return place
    try:
        data = _read(root.resolve(strict=True), root / objections.format_reference(place))
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Objection("reference", "", f"{quote(value)} cannot be read: {reason}")
    return rules.read_schema(place.kind, data, place)


def admit(value: object, root: Path) -> Schema | tuple[Objection, ...]:
    """Return the schema that a reference names, inspected by every rule; the objections when there are any."""
    schema = load(value, root)
    if isinstance(schema, Objection):
        return (schema,)
    return rules.inspect(schema) or schema


def identity(cell: str, root: Path) -> str | Objection:
    """Return the id of the inspected schema that a plan's cell names by its reference or its ``$id``."""
    named = objections.json_id(cell)
    place = None if named is None else objections.Reference(*named, objections.SchemaLanguage.JSON)
    schema = admit(cell if place is None else objections.format_reference(place), root)
    if not isinstance(schema, Schema):
        return schema[0]
    own = rules.identity(schema)
    if place is not None and own != cell:
        return Objection("reference", "", f"{quote(cell)} is not the $id of its file, which is {quote(own)}")
    return own


def _read(root: Path, path: Path) -> bytes:
    """Return the file's bytes. Raises ValueError for a path that leads out of the root, or to no plain file."""
    resolved = path.resolve(strict=True)
    if not resolved.is_relative_to(root):
        raise ValueError("a symbolic link leads out of the root")
    *folders, name = resolved.relative_to(root).parts
    with ExitStack() as open_files:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        open_files.callback(os.close, at)
        for folder in folders:
            at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            open_files.callback(os.close, at)
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        open_files.callback(os.close, file)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is no plain file")
        return _read_all(file)


def _read_all(file: int) -> bytes:
    """Everything in the file, and never more than one byte beyond the bound."""
    parts: list[bytes] = []
    left = BYTES + 1
    while left > 0 and (part := os.read(file, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
