"""The text of an agent's answer, read from the pieces of a completion."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from agentserver.payload.fields.lexical import is_xml_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agentserver.completion import AnswerWriter

HEAD: Final = 400
"""Characters before the text of an answer: a brace, the name and a colon."""

_HEAD = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*("(?:[^"\\]|\\.)*")[ \t\r\n]*:[ \t\r\n]*"')
_RUN = re.compile(r'[^"\\\x00-\x1f]+')
_TAIL = re.compile(r"[ \t\r\n]*(?:\}[ \t\r\n]*)?")
_UNIT = re.compile(r"\\u([0-9a-fA-F]{4})")
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_LONGEST: Final = len(r"\ud83d\ude00")


def find_free_text(schema: Mapping[str, Any]) -> str | None:
    """Find the only member of an answer, if it is a text without any bound; else None."""
    members: Mapping[str, Any] = schema.get("properties", {})
    if len(members) != 1 or list(members) != list(schema.get("required", ())):
        return None
    ((name, form),) = members.items()
    return name if form.get("type") == "string" and not set(form) - {"type", "title", "description"} else None


class TextReader:
    """Incremental reader of a JSON object whose only member is a text.

    It stops at anything else: then ``broken`` is set, and no further text comes.

    Args:
        member: the name.
    """

    def __init__(self, member: str) -> None:
        self._member = member
        self._buffer = ""
        self._inside = self._after = False
        self.broken = False

    def feed(self, piece: str) -> str:
        """Return the text in a further piece of the object."""
        if self.broken:
            return ""
        self._buffer += piece
        if not (self._inside or self._after) and not self._enter():
            return ""
        return self._read_text() if self._inside else self._leave("")

    def _enter(self) -> bool:
        found = _HEAD.match(self._buffer)
        if found is None:
            self.broken = len(self._buffer) > HEAD
            return False
        self._inside = found[1] == json.dumps(self._member)
        self.broken, self._buffer = not self._inside, self._buffer[found.end() :]
        return self._inside

    def _read_text(self) -> str:
        text, at = self._buffer, 0
        found: list[str] = []
        while at < len(text):
            if text[at] == '"':
                self._buffer, self._inside, self._after = text[at + 1 :], False, True
                return self._leave(self._check("".join(found)))
            run = _RUN.match(text, at)
            if run is not None:
                found.append(run[0])
                at = run.end()
                continue
            sign, size = _unescape(text, at)
            if sign is None:
                break
            found.append(sign)
            at += size
        self._buffer = text[at:]
        if len(self._buffer) >= _LONGEST or (self._buffer and self._buffer[0] != "\\"):
            self.broken = True
        return self._check("".join(found))

    def _leave(self, text: str) -> str:
        self.broken = self.broken or _TAIL.fullmatch(self._buffer) is None
        return text

    def _check(self, text: str) -> str:
        """Return a text that XML can carry; at another one, stop."""
        if is_xml_text(text):
            return text
        self.broken = True
        return ""


def _unescape(text: str, at: int) -> tuple[str | None, int]:
    """Return the character of an escape and its length; None for an incomplete or invalid one."""
    unit = _UNIT.match(text, at)
    if unit is None:
        sign = _SIGNS.get(text[at : at + 2])
        return sign, 2
    pair = _PAIR.match(text, at)
    if pair is not None:
        halves = pair[0].encode("ascii").decode("unicode-escape")
        return halves.encode("utf-16", "surrogatepass").decode("utf-16"), len(pair[0])
    return (None, 0) if _HALF.match(text, at) else (chr(int(unit[1], 16)), len(unit[0]))


_SIGNS: Final = {
    '\\"': '"', "\\\\": "\\", "\\/": "/", "\\b": "\b", "\\f": "\f", "\\n": "\n", "\\r": "\r", "\\t": "\t",
}  # fmt: skip


class AnswerPieces:
    """Sink of a completion's pieces that writes the text of the answer; see ``agentserver.completion.PieceSink``.

    An answer that comes with calls of tools is not taken, so its text stops there.

    Args:
        tool: name of the tool for answers.
        member: name of its text.
        writer: receives the text.
    """

    def __init__(self, tool: str, member: str, writer: AnswerWriter) -> None:
        self._tool, self._member, self._writer = tool, member, writer
        self._names: dict[int, str] = {}
        self._reader = TextReader(member)

    def restart(self, reason: str) -> None:
        """Void the pieces so far: another attempt begins."""
        self._names, self._reader = {}, TextReader(self._member)
        self._writer.reset(reason)

    def add_call(self, index: int, name: str, arguments: str) -> None:
        """Take a piece of a call."""
        self._names[index] = self._names.get(index, "") + name
        if list(self._names.values()) == [self._tool]:
            self._writer.write(self._reader.feed(arguments))
        elif len(self._names) > 1:
            self._reader.broken = True
