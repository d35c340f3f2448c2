"""The inverse of ``visible``; tests use it to prove that the escaped form is unambiguous."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:([\\nrt])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_SHORT = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


def unescape_visible(text):
    """Restore the text that ``visible`` escaped."""
    return _ESCAPE.sub(_character, text)


def _character(match):
    short, *digits = match.groups()
    return _SHORT[short] if short else chr(int(next(filter(None, digits)), 16))
