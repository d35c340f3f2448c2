"""Plain expressions of XSD, in the words of Python's ``re``.

Owns the translation of what most patterns are: letters, classes of ASCII characters, groups, counts. Refuses everything
else, categories and subtraction among it, which elementpath translates; where both do, their words are the same
(a test compares them). Elementpath takes a tenth of a second to import.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Final

_ESCAPED: Final = r"\\[.\\?*+(){}\[\]|\-^]"
_LITERAL: Final = r"[A-Za-z0-9 _@/:%#&=,;!\"'<>~`-]"
_MEMBER: Final = r"(?:[A-Za-z0-9 _@/:%#&=,;!\"'<>~`.?*+(){}$]|\\[.?*+(){}\[\]|\-^])"
"""A character of a class. Elementpath takes a backslash there that is escaped for the beginning of what follows."""
_RANGE: Final = re.compile(rf"(?P<low>{_MEMBER})(?:-(?P<high>{_MEMBER}))?")
_TOKEN: Final = re.compile(
    rf"(?P<atom>{_LITERAL}|{_ESCAPED}|\.|\\d)|\[(?P<class>\^?(?:{_MEMBER}(?:-{_MEMBER})?)+)\]"
    r"|(?P<open>\((?!\?))|(?P<close>\))|(?P<count>[?*+]|\{[0-9]{1,4}(?:,[0-9]{0,4})?\})|(?P<or>\|)"
)
_SPECIAL: Final = frozenset("-|.^?*+{}()[]\\")


def translate(text: str) -> str | None:
    """An expression that is plain and whole, for Python's ``re``; None for every other, right or wrong."""
    words, depth, before, at = [], 0, "open", 0
    for found in _TOKEN.finditer(text):
        kind = str(found.lastgroup)
        if found.start() != at or not _follows(kind, before):
            return None
        depth += (kind == "open") - (kind == "close")
        if depth < 0:
            return None
        words.append(_word(kind, found[kind]))
        before, at = kind, found.end()
    whole = at == len(text) and depth == 0 and before not in {"open", "or"} and None not in words
    return f"^(?:{''.join(map(str, words))})$(?!\\n\\Z)" if whole else None


def _follows(kind: str, before: str) -> bool:
    """A count stands behind a part, and a part behind every bar and parenthesis that opens."""
    if kind == "count":
        return before in {"atom", "class", "close"}
    return kind not in {"or", "close"} or before not in {"open", "or"}


def _word(kind: str, text: str) -> str | None:
    if kind == "class":
        return _class(text)
    return {"(": "(?:", ".": r"[^\r\n]"}.get(text, text)


def _class(text: str) -> str | None:
    """A class with its characters in order; None for a range that goes backwards."""
    held: set[int] = set()
    for found in _RANGE.finditer(text, text.startswith("^")):
        low = ord(found["low"][-1])
        high = ord((found["high"] or found["low"])[-1])
        if high < low:
            return None
        held.update(range(low, high + 1))
    runs = (
        [code for _, code in run] for _, run in groupby(enumerate(sorted(held)), lambda one: one[1] - one[0])
    )
    return f"[{'^' * text.startswith('^')}{''.join(map(_run, runs))}]"


def _run(codes: list[int]) -> str:
    first, last = (f"\\{chr(code)}" if chr(code) in _SPECIAL else chr(code) for code in (codes[0], codes[-1]))
    if first == last:
        return first
    return f"{first}{'-' * (codes[-1] - codes[0] > 1)}{last}"
