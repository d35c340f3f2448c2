"""Translates simple XSD expressions to Python's ``re``.

Covers most patterns: letters, ASCII character classes, groups, counts. Other expressions, such as categories and
subtraction, are left to elementpath, which takes a tenth of a second to import. A test checks that both agree.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Final

_ESCAPED: Final = r"\\[.\\?*+(){}\[\]|\-^]"
_LITERAL: Final = r"[A-Za-z0-9 _@/:%#&=,;!\"'<>~`-]"
_MEMBER: Final = r"(?:[A-Za-z0-9 _@/:%#&=,;!\"'<>~`.?*+(){}$]|\\[.?*+(){}\[\]|\-^])"
"""A character of a class. Elementpath reads an escaped backslash in a class as the start of another escape."""
_RANGE: Final = re.compile(rf"(?P<low>{_MEMBER})(?:-(?P<high>{_MEMBER}))?")
_TOKEN: Final = re.compile(
    rf"(?P<atom>{_LITERAL}|{_ESCAPED}|\.|\\d)|\[(?P<class>\^?(?:{_MEMBER}(?:-{_MEMBER})?)+)\]"
    r"|(?P<open>\((?!\?))|(?P<close>\))|(?P<count>[?*+]|\{[0-9]{1,4}(?:,[0-9]{0,4})?\})|(?P<or>\|)"
)
_SPECIAL: Final = frozenset("-|.^?*+{}()[]\\")


def translate(text: str) -> str | None:
    """Translate an expression; None if it is not simple or not valid."""
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
    """Check the order of tokens: a count follows a part, and a part follows each bar and opening parenthesis."""
    if kind == "count":
        return before in {"atom", "class", "close"}
    return kind not in {"or", "close"} or before not in {"open", "or"}


def _word(kind: str, text: str) -> str | None:
    if kind == "class":
        return _class(text)
    return {"(": "(?:", ".": r"[^\r\n]"}.get(text, text)


def _class(text: str) -> str | None:
    """Translate a class, with its characters sorted; None for a reversed range."""
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
