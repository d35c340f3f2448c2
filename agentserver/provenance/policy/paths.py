"""Names and paths in declarations: which listener an entry means, and which argument a path lies in.

Owns globs over names and paths without indices. Refuses to know what is declared by them.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final

_TOKEN: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def tokens(name: str) -> tuple[str, ...]:
    """The words of a name: ``sendMail_to.url-2`` is ``send mail to url 2``."""
    return tuple(token.lower() for token in _TOKEN.findall(name))


def covers(entry: str, listener: str) -> bool:
    """True when a declared source or sink means a listener: exactly, by glob, or as its first whole tokens."""
    wanted = tokens(entry)
    prefix = bool(wanted) and "*" not in entry and tokens(listener)[: len(wanted)] == wanted
    return prefix or means(entry, listener)


def means(entry: str, listener: str) -> bool:
    """True when a name that loosens a rule means a listener: exactly or by glob, never by its beginning."""
    return entry == listener or fnmatchcase(listener, entry)


def bare(path: str) -> str:
    """A path without indices: ``items[3].to[0]`` is ``items.to``."""
    return (re.sub(r"\[\d+\]", "", path) if "[" in path else path).lstrip(".")


def argument_name(path: str) -> str:
    """The argument that a path lies in: ``attachments[0].id`` lies in ``attachments``."""
    return bare(path).partition(".")[0]
