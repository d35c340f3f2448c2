"""Limits on the size of a payload schema.

libxml2 compiles 500 optional elements in 0.4 s but cannot finish 2000, and a 2 kB schema with nested optional groups
takes it longer than anybody waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BYTES: Final = 256 * 1024
"""Of the file."""
DEPTH: Final = 32
"""Levels of nesting, with references expanded."""
NODES: Final = 20_000
"""Values or elements in the document."""
EXPANDED: Final = 20_000
"""Schemas or elements, with references expanded."""
WRITTEN: Final = 128
"""Levels of XSD elements, with references expanded; the code that processes them recurses."""
PROPERTIES: Final = 256
"""Members of one object, or particles of one group."""
LISTED: Final = 1000
"""Values of one enumeration."""
TRIED: Final = 16
"""Alternatives in one place of a JSON Schema."""
REPEATED: Final = 10_000
"""A finite limit on occurrences, lengths and items."""
OPTIONAL: Final = 3
"""Nested optional groups."""


def check_document_size(
    root: Any, inside: Callable[[Any], Iterable[Any]], kind: str
) -> Iterator[tuple[str, str]]:
    """Object to a document with too many levels or nodes. The document may contain itself.

    Args:
        root: the document.
        inside: returns the direct children of a node.
        kind: the noun for nodes.
    """
    waiting = [(root, 0)]
    seen = 0
    while waiting:
        node, depth = waiting.pop()
        seen += 1
        if depth > DEPTH:
            yield "", f"is nested more than {DEPTH} levels deep, or contains itself"
            return
        if seen > NODES:
            yield "", f"has more than {NODES} {kind}"
            return
        waiting.extend((each, depth + 1) for each in inside(node))
