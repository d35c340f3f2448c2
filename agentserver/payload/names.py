"""Names of elements as ``{namespace}local``.

Owns how one is taken apart. Refuses to know elements: a name is text.
"""

from __future__ import annotations


def local(name: str) -> str:
    """The local part of ``{namespace}local``; the whole of a name without a namespace."""
    return name.rpartition("}")[2]


def namespace(name: str) -> str:
    """The namespace of ``{namespace}local``; empty for a name without one."""
    return name[1:].partition("}")[0] if name.startswith("{") else ""
