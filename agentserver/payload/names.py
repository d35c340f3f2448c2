"""Names of elements as ``{namespace}local``."""

from __future__ import annotations


def local(name: str) -> str:
    """Return the local part of ``{namespace}local``; the whole of a name without a namespace."""
    return name.rpartition("}")[2]


def namespace(name: str) -> str:
    """Return the namespace of ``{namespace}local``; empty for a name without one."""
    return name[1:].partition("}")[0] if name.startswith("{") else ""


def free(wanted: str, taken: set[str]) -> str:
    """Return the name, or where it is taken the same with the first number from 2 that makes it free.

    It is taken then.
    """
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}-{count}"
    taken.add(name)
    return name
