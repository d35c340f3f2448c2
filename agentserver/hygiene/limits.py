"""The limits on the size of a payload schema.

Owns the figures. libxml2 compiles 500 optional elements in 0.4 s and 2000 not at all; a schema of 2 kB with
optional groups inside one another takes it longer than anybody waits.
"""

from __future__ import annotations

from typing import Final

BYTES: Final = 256 * 1024
"""Of the file."""
DEPTH: Final = 32
"""Levels of nesting, with references written out."""
NODES: Final = 20_000
"""Values or elements in the document."""
EXPANDED: Final = 20_000
"""Schemas or elements, with references written out."""
WRITTEN: Final = 128
"""Levels of elements of an XSD, with references written out; what follows them recurses."""
PROPERTIES: Final = 256
"""Members of one object, or particles of one group."""
LISTED: Final = 1000
"""Values of one enumeration."""
TRIED: Final = 16
"""Alternatives in one place of a JSON Schema."""
REPEATED: Final = 10_000
"""A finite bound on occurrences, lengths and items."""
OPTIONAL: Final = 3
"""Optional groups inside one another."""
