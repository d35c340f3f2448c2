r"""Regular expressions of XSD: the profile that payloads may use, and a text that matches.

Owns which expressions are portable. Refuses to know fields and facets other than a length.
The profile is what libxml2 and xmlschema read alike; ``\w \s \i \c`` and their complements differ between
them on real characters, and ``^`` and ``$`` are plain characters in XSD but anchors to most authors.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found] # no public parser; pinned by the tests
import re._parser as sre_parser  # type: ignore[import-not-found]
from sys import maxunicode
from typing import TYPE_CHECKING, Any

from elementpath.regex import RegexError, translate_pattern
from lxml import etree

from agentserver.core.lexical import carried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LONGEST = 1000
"""Characters of an expression."""

_TRIES = 256
_FORBIDDEN = {
    **dict.fromkeys(("\\w", "\\W", "\\s", "\\S"), "name the characters in a class such as [A-Za-z0-9_]"),
    **dict.fromkeys(("\\i", "\\I", "\\c", "\\C"), "name the characters in a class such as [A-Za-z_]"),
    "^": "a pattern always matches the whole value; write \\^ for the character",
    "$": "a pattern always matches the whole value; write [$] for the character",
}
_ATOMS = re.compile(r"\\.|\[|\]|\^|\$|[^\\\[\]^$]+", re.DOTALL)
_XSD = "http://www.w3.org/2001/XMLSchema"
_PREFERRED = "a0A-_. "


def objection(regex: str) -> str:
    """Why ``regex`` cannot be a pattern facet, with what would work; empty when it can."""
    if not regex or len(regex) > LONGEST or not carried(regex):
        return f"must hold 1 to {LONGEST} characters that XML can carry"
    for atom in _unclassed(regex):
        if atom in _FORBIDDEN:
            return f"must not use {atom}: {_FORBIDDEN[atom]}"
    try:
        compiled(regex)
        acceptor((regex,))
    except (RegexError, re.error, RecursionError, OverflowError, etree.LxmlError):
        return "is not a regular expression of XSD 1.0"
    return ""


def _unclassed(regex: str) -> Iterator[str]:
    depth = 0
    for found in _ATOMS.finditer(regex):
        atom = found.group()
        depth += (atom == "[") - (atom == "]")
        if depth == 0 or atom[0] == "\\":
            yield atom


def compiled(regex: str) -> re.Pattern[str]:
    """The expression for Python's ``re``. Raises RegexError or re.error."""
    return re.compile(_translated(regex))


def _translated(regex: str) -> str:
    return str(translate_pattern(regex, back_references=False, lazy_quantifiers=False, anchors=False))


def acceptor(regexes: Sequence[str]) -> Callable[[str], bool]:
    """What libxml2, the judge at run time, says of a text. Raises etree.LxmlError for a bad expression."""
    schema = etree.Element(f"{{{_XSD}}}schema", nsmap={"xs": _XSD})
    _restrict(etree.SubElement(schema, f"{{{_XSD}}}element", name="v"), regexes)
    judge = etree.XMLSchema(schema)

    def accepts(text: str) -> bool:
        element = etree.Element("v")
        element.text = text
        try:
            return bool(judge.validate(element))
        except etree.LxmlError:  # libxml2 gave up
            return False

    return accepts


def _restrict(parent: etree._Element, regexes: Sequence[str]) -> None:
    """One step of derivation for each expression: those of one step would be alternatives."""
    step = etree.SubElement(etree.SubElement(parent, f"{{{_XSD}}}simpleType"), f"{{{_XSD}}}restriction")
    if regexes[1:]:
        _restrict(step, regexes[1:])
    else:
        step.set("base", "xs:string")
    etree.SubElement(step, f"{{{_XSD}}}pattern", value=regexes[0])


def sample(regexes: Sequence[str], least: int = 0, most: int | None = None) -> str | None:
    """A short text that fits every expression and the length, the same each time; None when not found."""
    accepts = acceptor(regexes)
    for regex in regexes:
        tree = sre_parser.parse(_translated(regex))
        for extra in (1, 0, *range(2, min(least, _TRIES) + 1)):
            text = _expand(tree, extra)
            fits = least <= len(text) and (most is None or len(text) <= most)
            if fits and carried(text) and accepts(text):
                return text
    return None


def _expand(tree: Any, extra: int) -> str:
    return "".join(_STEPS[op](value, extra) for op, value in tree if op in _STEPS)


def _repeat(value: Any, extra: int) -> str:
    low, high, body = value
    return _expand(body, extra) * int(min(low + extra, high))


def _one_of(items: Any, extra: int) -> str:
    del extra
    negated = items[0][0] is sre.NEGATE
    ranges = [_range(op, value) for op, value in items if op is not sre.NEGATE]
    candidates = [ord(char) for char in _PREFERRED]
    candidates += [
        edge for low, high in ranges for edge in (low, low - 1, high + 1) if 0 < edge <= maxunicode
    ]
    for code in candidates:
        if any(low <= code <= high for low, high in ranges) is not negated and carried(chr(code)):
            return chr(code)
    return ""


def _range(op: Any, value: Any) -> tuple[int, int]:
    if op is sre.LITERAL:
        return value, value
    if op is sre.RANGE:
        low, high = value
        return low, high
    return ord("0"), ord("9")  # the only category in the profile is \\d


_STEPS: dict[Any, Callable[[Any, int], str]] = {
    sre.LITERAL: lambda value, _: chr(value),
    sre.NOT_LITERAL: lambda value, _: next(char for char in _PREFERRED if ord(char) != value),
    sre.ANY: lambda _, __: "a",
    sre.IN: _one_of,
    sre.MAX_REPEAT: _repeat,
    sre.SUBPATTERN: lambda value, extra: _expand(value[3], extra),
    sre.BRANCH: lambda value, extra: _expand(value[1][0], extra),
}
