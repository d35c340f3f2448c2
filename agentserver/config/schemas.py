"""Codecs for payload classes with a hand-written schema."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from agentserver.payload.fields.field_table import PayloadError

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.config.organism import Organism
    from agentserver.payload.codec import Codec
    from agentserver.payload.xsd_codec import Binding


def schema_codecs(organism: Organism) -> list[Codec]:
    """Make the codecs for the ``schema:`` of listeners; it overrides the schema of the class.

    Raises PayloadError for a class that does not fit the schema, and for a class with two schemas.
    """
    codecs: dict[type, Codec] = {}
    for bound in organism.listeners:
        if bound.schema is None:
            continue
        shown = os.path.relpath(bound.schema, organism.project)
        where = f"{bound.source}: listener {bound.listener.name}: {shown}"
        for payload in bound.listener.payloads:
            try:
                codec = _bind_schema(payload, bound.schema).codec()
            except (PayloadError, OSError) as error:
                raise PayloadError(f"{where}: {error}") from None
            known = codecs.setdefault(payload, codec)
            if known.xsd() != codec.xsd():
                raise PayloadError(f"{where}: {payload.__qualname__} has another schema at another listener")
    return list(codecs.values())


def _bind_schema(payload: type, schema: Path) -> Binding:
    """Bind the class to the schema and the schemas in its folder; links out of the folder are skipped."""
    # Slow to import, and few schemas are written by hand.
    from agentserver.payload.xsd_codec import Binding

    carried = payload.__dict__.get("__payload__")
    example = carried.example if isinstance(carried, Binding) else None
    others = (each for each in sorted(schema.parent.glob("*.xsd")) if each != schema)
    folder = {each.name: each.read_bytes() for each in others if each.resolve().parent == schema.parent}
    return Binding(payload, schema.read_bytes(), folder, example)
