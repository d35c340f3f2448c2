"""Finding handoff requests in a text that arrives in pieces.

A request may be nested JSON, in any key order, cut anywhere, one of several, inside prose or code fences. What the
scanner gives does not depend on where the text was cut.

It tries each bracket in order. One after which no JSON follows is dropped and the search continues behind it, so a
stray brace in prose hides nothing. A request inside another document, an object or an array of any size, is quoted:
it is reported when the document ends. Other JSON is ignored.

The work is linear. An attempt that fails takes every bracket with it that it had read as one, since each of them
would fail at the same place; text that it had read inside a string is scanned again. Two attempts that read the
same character as different things never read it as the same thing again, so none is read a third time.
"""

from __future__ import annotations

import re
from collections import deque
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.handoff.managed.document import STRINGS, WHOLE, Claim, Step, TextDocument
from agentserver.handoff.requests import LONGEST, TYPE, RequestRefusal, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Scanner"]

DEPTH: Final = 32
"""Levels of a request."""
PENDING: Final = 32
"""Requests inside one document that may wait for its end; the oldest of more are taken for quoted at once."""


@dataclass(frozen=True, slots=True)
class FoundRequest:
    """A JSON object of type ``handoff_request``, or a text that set out to be one.

    Args:
        raw: the text.
        fault: why it is no request, or None.
    """

    raw: str
    fault: RequestRefusal | None = None


class _Inner(NamedTuple):
    """A whole object of the type of a request inside the open document.

    Args:
        start: of its brace.
        level: open objects and arrays around it.
        request: the result if nothing around it is JSON.
    """

    start: int
    level: int
    request: FoundRequest


_S: Final = r"[ \t\n\r]*+"


def _text(then: str) -> str:
    """Return the pattern of a string and its possible successors.

    One with an escape, or that the text ends in, may be anything.
    """
    return rf'"[^"\\\x00-\x1f]*+(?:\\|\Z|"{_S}(?:\Z|{then}))'


_VALUE: Final = rf"{_S}(?:\Z|[\"{{\[]|[-0-9tfn][-+.0-9A-Za-z]*+{_S}(?:\Z|[,}}]))"
_START: Final = re.compile(
    rf"\{{(?={_S}(?:\Z|\}}|{_text(f':{_VALUE}')}))" + rf'|\[(?={_S}(?:\Z|["{{\[\]\-0-9tfn]))'
)
"""A bracket behind which JSON may follow, or the end of the known text."""
_STRINGS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_BRACKETS: Final = re.compile(r"[{}\[\]]")


class Scanner:
    """Incremental scanner of one text.

    ``feed`` and ``end`` return the findings in the order in which they are known.
    """

    __slots__ = ("_base", "_buffer", "_document", "_fresh", "_pending", "_queue")

    def __init__(self) -> None:
        self._buffer = ""
        self._base = 0  # the place of its first character; places are counted from the start of the text
        self._document: TextDocument | None = None
        self._pending: list[_Inner] = []
        self._queue: deque[int] = deque()  # brackets before ``_fresh`` that are still to be tried
        self._fresh = 0  # from here on nothing was tried

    def copy(self) -> Scanner:
        """Return an independent scanner in the same state."""
        other = copy(self)
        other._pending, other._queue = [*self._pending], copy(self._queue)  # noqa: SLF001 - one of its own
        other._document = self._document and self._document.copy()  # noqa: SLF001
        return other

    def feed(self, text: str) -> tuple[FoundRequest, ...]:
        """Scan more text."""
        self._buffer += text
        found = [*self._read()]
        self._shorten()
        return tuple(found)

    def end(self) -> tuple[FoundRequest, ...]:
        """End the text: open documents are cut off, and may hold whole requests."""
        found: list[FoundRequest] = []
        while self._document is not None:
            found.extend(self._fail_document(self._document))
            found.extend(self._read())
        return tuple(found)

    def _read(self) -> Iterator[FoundRequest]:
        while (document := self._begin()) is not None:
            step = document.read(self._buffer, self._base)
            yield from self._report_overdue(document)
            if step is Step.WAIT:
                return
            if step is Step.CLOSED:
                yield from self._close_object(document)
            else:
                yield from (
                    self._end_document(document) if step is Step.DONE else self._fail_document(document)
                )

    def _begin(self) -> TextDocument | None:
        """Return the document that is being read, begun now if need be."""
        if self._document is None:
            start = self._queue.popleft() if self._queue else self._search()
            self._document = None if start is None else TextDocument(start)
        return self._document

    def _search(self) -> int | None:
        at = self._fresh - self._base
        while (start := _START.search(self._buffer, at)) and (
            whole := WHOLE.match(self._buffer, start.start())
        ):
            at = whole.end()
        self._fresh = self._base + (len(self._buffer) if start is None else start.start())
        return None if start is None else self._fresh

    def _shorten(self) -> None:
        """Drop text that is read to the end, when it is worth a copy."""
        needed = self._fresh if self._document is None else self._document.pos - LONGEST
        if needed - self._base > LONGEST or needed == self._base + len(self._buffer):
            self._buffer = self._buffer[needed - self._base :]
            self._base = needed

    def _take_text(self, start: int, end: int) -> str:
        return self._buffer[max(0, start - self._base) : end - self._base]

    # What a document comes to

    def _report_overdue(self, document: TextDocument) -> Iterator[FoundRequest]:
        """Requests that are longer than one may be, as soon as that is known."""
        for claim in document.find_overdue():
            yield self._refuse_overlong(claim)

    def _refuse_overlong(self, claim: Claim) -> FoundRequest:
        end = max(claim.start + LONGEST, claim.end)
        return FoundRequest(self._take_text(end - LONGEST, end), RequestRefusal.OVER_BOUND)

    def _close_object(self, document: TextDocument) -> Iterator[FoundRequest]:
        """Yield an object of the type of a request was closed: it owns the objects inside."""
        claim = document.answered
        assert claim is not None
        if document.pos - claim.start <= LONGEST:
            self._pending = [each for each in self._list_enclosed(document) if each.start < claim.start]
            raw = self._take_text(claim.start, document.pos)
            self._pending.append(_Inner(claim.start, claim.level, FoundRequest(raw, _find_fault(raw))))
        elif not claim.reported:
            yield self._refuse_overlong(claim)
        if len(self._pending) > PENDING:
            yield _quote(self._pending.pop(0).request)
        if not document.kinds:
            yield from self._end_document(document)

    def _end_document(self, document: TextDocument) -> Iterator[FoundRequest]:
        for each in self._pending:
            yield each.request if each.start == document.start else _quote(each.request)
        self._go_on(document)

    def _fail_document(self, document: TextDocument) -> Iterator[FoundRequest]:
        """Handle a document that is no JSON: whole requests inside it count, and open ones are cut off."""
        cut = [
            _Inner(
                claim.start,
                claim.level,
                FoundRequest(self._take_text(claim.start, document.pos), RequestRefusal.INVALID_JSON),
            )
            for claim in document.claims
            if not claim.reported
        ]
        yield from (
            each.request for each in sorted([*self._list_enclosed(document), *cut], key=lambda one: one.start)
        )
        self._go_on(document, self._find_inside(document))

    def _list_enclosed(self, document: TextDocument) -> list[_Inner]:
        """Return the pending requests: quoted where the value around them was closed."""
        lowest, document.lowest = document.lowest, len(document.kinds)
        return [
            each._replace(request=_quote(each.request)) if each.level > lowest else each
            for each in self._pending
        ]

    def _find_inside(self, document: TextDocument) -> Iterator[int]:
        """Brackets that it read as parts of strings, and that were not read as brackets."""
        window = max(document.pos - LONGEST, self._fresh, self._base)
        for start, end, mixed in document.strings:
            if end <= window:
                continue
            whole = ((start, end),)
            for begun, ended in self._iter_strings(start, end) if mixed else whole:
                places = _START.finditer(self._buffer, max(begun, window) - self._base, ended - self._base)
                yield from (
                    at.start() + self._base for at in places if _START.match(self._buffer, at.start())
                )

    def _iter_strings(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        for match in STRINGS.finditer(self._buffer, max(0, start - self._base), end - self._base):
            yield match.start() + self._base, match.end() + self._base

    def _go_on(self, document: TextDocument, inside: Iterator[int] | tuple[()] = ()) -> None:
        while self._queue and self._queue[0] < document.pos:
            self._queue.popleft()
        self._queue.extend(inside)
        self._fresh = max(self._fresh, document.pos)
        self._document, self._pending = None, []


def _quote(found: FoundRequest) -> FoundRequest:
    return FoundRequest(found.raw, RequestRefusal.NESTED_REQUEST)


def _find_fault(raw: str) -> RequestRefusal | None:
    """Return the reason why a whole object of the type of a request is invalid."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", raw)):
        depth += 1 if bracket in "{[" else -1
        deepest = max(deepest, depth)
    if deepest > DEPTH:
        return RequestRefusal.OVER_BOUND
    found = decode(raw)
    return None if found is not None and found.get("type") == TYPE else RequestRefusal.INVALID_JSON
