"""Texts of an observation that a program laid out, read as the fields that they are.

Owns where that is done: at a text whose layout the operator declares, and at no other. Whoever has words in a text may
lay them out as well, so that the layout alone says nothing; the declaration says that it is the program's. Refuses to
read layouts itself, and to give a field any worth.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentserver.provenance.evidence.layouts import TextLayout, laid_out
from agentserver.provenance.evidence.leaves import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.labels import Leaf, Observation
    from agentserver.provenance.policy.declarations import Policy


def taken_apart(policy: Policy, seen: Observation) -> Observation:
    """An observation with fields where a text of it is in the layout that is declared for it."""
    if not policy.layouts:
        return seen
    return replace(
        seen, leaves=tuple(part for leaf in seen.leaves for part in _parts(policy, seen.source, leaf))
    )


def _parts(policy: Policy, source: str, leaf: Leaf) -> Iterator[Leaf]:
    """The fields of a text, or the text itself. What its payload's type says of it stands."""
    if leaf.inside:  # JSON comes taken apart
        own = not leaf.readers and policy.layout_of(source, leaf.inside) is TextLayout.JSON
        yield replace(leaf, standing=None, inside="") if own else leaf
        return
    layout = policy.layout_of(source, leaf.path) if leaf.standing is None and not leaf.readers else None
    found = laid_out(leaf.value, layout) if layout is not None and isinstance(leaf.value, str) else None
    yield from (leaf,) if found is None else leaves(found, leaf.path)
