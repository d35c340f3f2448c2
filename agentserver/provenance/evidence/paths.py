"""Matching of names and paths in declarations: globs over names and over paths without indices."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final

_TOKEN: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def split_name(name: str) -> tuple[str, ...]:
    """Split a name into words: ``sendMail_to.url-2`` is ``send mail to url 2``."""
    return tuple(token.lower() for token in _TOKEN.findall(name))


def covers(entry: str, listener: str) -> bool:
    """Check whether a declared source or sink matches a listener: exactly, by glob, or by its first whole words."""
    wanted = split_name(entry)
    prefix = bool(wanted) and "*" not in entry and split_name(listener)[: len(wanted)] == wanted
    return prefix or means(entry, listener)


def means(entry: str, listener: str) -> bool:
    """Check whether a name that loosens a rule matches a listener: exactly or by glob, never by its beginning."""
    return entry == listener or fnmatchcase(listener, entry)


def strip_indices(path: str) -> str:
    """Strip the indices of a path: ``items[3].to[0]`` is ``items.to``."""
    return (re.sub(r"\[\d+\]", "", path) if "[" in path else path).lstrip(".")


def argument_name(path: str) -> str:
    """Extract the argument that a path lies in: ``attachments[0].id`` lies in ``attachments``."""
    return strip_indices(path).partition(".")[0]
