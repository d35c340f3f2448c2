"""Steering texts: an author's sentences with places for proved values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from string import Formatter
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST: Final = 4000
"""Characters of a template."""

_CLAUSE = re.compile(r"[^\n]*?[.!?](?=\s|$)\s*|[^\n]+\s*|\n\s*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_PLAIN = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*")

Piece: TypeAlias = "tuple[str, str | None]"
"""A text, and the name of the value that follows it."""


class TemplateError(ValueError):
    """Text that is no template; the message says what would work."""


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: its clauses, each a sequence of pieces."""

    clauses: tuple[tuple[Piece, ...], ...]
    names: frozenset[str] = field(init=False, compare=False, repr=False)
    """The names of the values that it interpolates."""
    _whole: str = field(init=False, compare=False, repr=False)
    """The text with no clause dropped, as a form of Python's ``%``."""

    def __post_init__(self) -> None:
        """Write down once what nearly every rendering is: all clauses, with all of their values."""
        pieces = [piece for clause in self.clauses for piece in clause]
        whole = "".join(
            text.replace("%", "%%") + ("" if name is None else f"%({name})s") for text, name in pieces
        )
        object.__setattr__(self, "names", frozenset(name for _, name in pieces if name is not None))
        object.__setattr__(self, "_whole", whole)

    def holds_with(self, present: frozenset[str]) -> bool:
        """Check whether a clause is left when only these values are present."""
        return any(all(name is None or name in present for _, name in clause) for clause in self.clauses)

    def render(self, values: Mapping[str, str]) -> str:
        """Return the steering text; a clause that names an absent value is dropped whole."""
        if values.keys() >= self.names:
            return (self._whole % values).strip()
        kept = (
            "".join(text + (values[name] if name is not None else "") for text, name in clause)
            for clause in self.clauses
            if all(name is None or name in values for _, name in clause)
        )
        return "".join(kept).strip()


def parse(text: str) -> Template:
    """Read a template. Raises TemplateError. ``{{`` and ``}}`` are braces."""
    if not text.strip() or len(text) > LONGEST:
        raise TemplateError(f"must hold 1 to {LONGEST} characters")
    if not _PLAIN.fullmatch(text):
        raise TemplateError("must not hold control characters or characters that nobody sees")
    return Template(tuple(_pieces(clause) for clause in _split(text)))


def _split(text: str) -> list[str]:
    """Return the clauses, with their ends outside of placeholders."""
    clauses: list[str] = []
    for found in _CLAUSE.finditer(text):
        if clauses and clauses[-1].count("{") > clauses[-1].count("}"):
            clauses[-1] += found.group()
        else:
            clauses.append(found.group())
    return clauses


def _pieces(clause: str) -> tuple[Piece, ...]:
    try:
        parsed = list(Formatter().parse(clause))
    except ValueError:
        raise TemplateError("has a brace without its partner; write {{ or }} for the character") from None
    for _, name, form, conversion in parsed:
        if name is not None and (form or conversion or not _NAME.fullmatch(name)):
            raise TemplateError("may hold {name} alone: no attributes, indexes, formats or conversions")
    return tuple((text, name) for text, name, _, _ in parsed)
