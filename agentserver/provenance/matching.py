"""Finds evidence: the untrusted texts that an argument repeats, and the text that a value came from.

Queries a ledger's indexes, decodes the argument, and maps each match back to the original spelling. Roles and policies
decide whether the evidence matters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, Final

from agentserver.characters.printing import CUT, truncate
from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.encodings import apply_involutions, unwrap
from agentserver.provenance.evidence.folding import fold_bytes, unfold
from agentserver.provenance.evidence.index import SPAN
from agentserver.provenance.evidence.inventory import (
    SCHEME,
    ValueKind,
    estimate_values,
    find_values,
    hash_whole,
)
from agentserver.provenance.evidence.words import HEAD
from agentserver.provenance.observations.occurrences import (
    PLACES,
    TooManyValues,
    find_beginnings,
    find_number_occurrence,
    find_occurrence,
)
from agentserver.provenance.verdict import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.index import Hit
    from agentserver.provenance.evidence.inventory import Value
    from agentserver.provenance.evidence.labels import Hop, Text
    from agentserver.provenance.evidence.words import WordIndex
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.observations.occurrences import Occurrence

READ: Final = 1 << 14
"""Characters of a text that are searched for commands."""

WORDS: Final = 64
"""Words of a command that are compared; a text with the whole command has these as well."""

_PARTS: Final = re.compile(r"[;|&\n(){}`<>]+")
_QUOTED: Final = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_TOKEN: Final = re.compile(
    rf"(?P<mark>{_PARTS.pattern})|(?P<word>(?:{_QUOTED.pattern}|[^\s;|&(){{}}`<>'\"\\])+)|(?P<open>['\"\\])",
    re.DOTALL,
)
"""Separator, word with its quotes, or unterminated quote."""
_PARTED: Final = re.compile(r";|\||&&|\n|\$\(|`")
"""Separators that do not occur in prose."""
_RUNS: Final = re.compile(r"[a-z]*sh|eval|su")
_HANDS_ON: Final = frozenset(
    {
        "sudo",
        "doas",
        "env",
        "nice",
        "nohup",
        "time",
        "timeout",
        "xargs",
        "exec",
        "command",
        "busybox",
        "setsid",
    }
)
"""Commands whose arguments form a command."""
_SET: Final = re.compile(r"\w+=\S*")
_NAME: Final = re.compile(r"[^\W\d_][\w+.-]*")
_OPERAND: Final = re.compile(r"[/.:=*~$\d]")
"""Character of a path, an address or a version, which words of prose do not have."""
_LEAST: Final = 3
"""Words from which a command counts even if its operands are words of prose."""


def find_commands(text: str, limit: int) -> tuple[str, ...]:
    """Find the simple commands of a shell text, up to a number. Quoted text counts only if a shell receives it.

    The decoded text of an encoded word counts, since a shell may decode it.
    """
    text = text[:READ]
    decoded = (_split_commands(each.body, inside=True) for each in unwrap(text))
    commands = chain(_split_commands(text, inside=False), chain.from_iterable(decoded))
    return tuple(islice(_drop_repeats(commands), limit))


def _drop_repeats(commands: Iterator[str]) -> Iterator[str]:
    """Drop repeated commands, so that they do not use up the limit."""
    seen: set[str] = set()
    for command in commands:
        if command not in seen:
            seen.add(command)
            yield command


def _split_commands(text: str, *, inside: bool) -> Iterator[str]:
    pieces = [*_split_words(text)]
    parted = inside or bool(_PARTED.search(text))
    for words in pieces:
        while words and _SET.fullmatch(words[0]):
            words = words[1:]  # noqa: PLW2901  skips the command's environment
        if parted or len(pieces) > 1:
            yield from _format_command(words[:WORDS], parted=parted)
        for at in range(1, len(words)):
            after = words[at - 1].rpartition("/")[2] in _HANDS_ON
            if after or (words[at + 1 : at + 2] and words[at + 1].startswith("-")):
                yield from _format_command(words[at : at + WORDS], parted=after)
        if not inside:
            yield from _find_shell_arguments(words)


def _find_shell_arguments(words: list[str]) -> Iterator[str]:
    """Find the commands in arguments that a shell runs, and in command substitutions."""
    runs = any(_RUNS.fullmatch(word.rpartition("/")[2]) for word in words)
    for word in words:
        if (runs and " " in word) or "$(" in word or "`" in word:
            yield from _split_commands(word, inside=True)


def _format_command(words: list[str], *, parted: bool) -> Iterator[str]:
    """Format a command in full and up to its first operand, unless it may be prose."""
    name = words[0].rpartition("/")[2] if words else ""
    if len(words) < 2 or not _NAME.fullmatch(name):  # noqa: PLR2004  a name and an operand
        return
    operands = [word for word in words[1:] if not word.startswith("-")]
    reads_as_prose = len(words) >= _LEAST and (parted or len(operands) < len(words) - 1)
    if operands and (reads_as_prose or any(map(_OPERAND.search, operands))):
        yield " ".join((name, *words[1:]))
        if words[1].startswith("-") and len(words) > _LEAST:
            yield " ".join((name, *words[1:_LEAST]))


def _split_words(text: str) -> Iterator[list[str]]:
    """Split text into words between unquoted separators. An unterminated quote does not quote."""
    tokens = [*_TOKEN.finditer(text)]
    if any(token["open"] for token in tokens):
        yield from (piece.split() for piece in _PARTS.split(text))
        return
    words: list[str] = []
    for token in tokens:
        if token["mark"]:
            yield words
            words = []
        else:
            words.append(_QUOTED.sub(_unquote, token["word"]))
    yield words


def _unquote(quoted: re.Match[str]) -> str:
    """Return text without its quotes or backslash."""
    return quoted[0][1:] if quoted[0].startswith("\\") else quoted[0][1:-1]


VALUES: Final = 512
"""Maximum values of one argument that are looked up. More of them count as evidence that cannot be checked."""

SEAM: Final = 512
"""Characters on each side of the boundary between two arguments that are read as one text."""

LOOKED_UP: Final = 8
"""Maximum words of an excerpt that are looked up to locate it."""

NEWEST: Final = 8
"""Latest untrusted texts that are compared with an argument as a whole."""

HOPS: Final = 64
"""Maximum hops of one text that are reported."""

_WORD: Final = re.compile(r"[^\W_]+")

EXCERPT: Final = 160
"""Longest quotation in a piece of evidence, in characters."""


@dataclass(frozen=True, slots=True)
class Match:
    """Piece of evidence that may be a link."""

    evidence: Evidence
    link: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """Position of untrusted words: in a text itself, or in one that was decoded from it."""

    text: Text
    number: int
    inner: bool
    words: WordIndex

    def find_offsets(self, form: bytes) -> Iterator[int]:
        """Find the offsets in this text at which words begin with an evidence form."""
        return (offset for number, offset in self.words.find_words(form, PLACES) if number == self.number)


def find_content(ledger: Ledger, body: str) -> Iterator[Match]:
    """Find every stretch of ``body``, decoded if necessary, that untrusted texts hold and the query does not.

    Raises:
        TooManyValues: ``body`` holds more values than are looked up, or untrusted texts more than are tracked.
    """
    plain = ((body, ""), *((decoded.body, decoded.via) for decoded in unwrap(body)))
    readings = (*plain, *((decoded.body, decoded.via) for decoded in apply_involutions(body)))
    forms = [fold_bytes(text) for text, _ in readings]
    for number, hit, inner in _find_hits(ledger, forms):
        text, via = readings[number]
        yield from _match_span(ledger, text, hit, via, inner=inner)
    yield from _match_values(ledger, plain)


def find_said_last(ledger: Ledger, body: str, room: int | None = None) -> Text | None:
    """Find ``body`` among the last untrusted texts, if it is none of the query's words: then ``find_content`` finds it.

    Nothing is looked up in their indexes. A listener whose words are untrusted is judged with its message among them,
    before there is an index of it. With ``room`` that many of its first characters are none of the query's words, so
    that ``find_verbatim`` finds them.
    """
    same = [text for text in ledger.texts.list_latest(NEWEST) if text.body == body]
    found = same[0] if same else None
    if found is None or (room is not None and len(body) > room and not body.isascii()):
        return None
    form = fold_bytes(body[:room])
    said = any(form in segment.blob for segment in ledger.asked.index.segments)
    return found if len(form) >= SPAN and not said else None


def find_verbatim(ledger: Ledger, body: str) -> Iterator[Match]:
    """Find the stretches and values of ``body`` that untrusted texts hold verbatim, without decoding.

    Text that the principal said as one piece yields none.
    """
    form = fold_bytes(body)
    if ledger.asked.says(form):
        return
    for hit in ledger.index.find_hits(form):
        yield from _match_span(ledger, body, hit, "", inner=False)
    found = [*islice(find_values(body), VALUES)]
    numbers = ledger.table.find([value.key for value in found]) if found else ()
    for value, number in zip(found, numbers, strict=True):
        yield from (
            () if number is None else _match_value(ledger, value, _locate(ledger, number, inner=False), "")
        )


def has_too_many_values(body: str) -> bool:
    """Check whether a text holds more values than are looked up, counting them only if it may."""
    return (
        len(body) > VALUES
        and estimate_values(body) > VALUES
        and next(islice(find_values(body), VALUES, None), None) is not None
    )


def _find_hits(ledger: Ledger, forms: list[bytes]) -> Iterator[tuple[int, Hit, bool]]:
    """Find the hits in several texts with one query, joined by a byte that occurs in no text."""
    starts = list(accumulate((len(form) + 1 for form in forms), initial=0))
    query = b"\xff".join(forms)
    known: list[Hit] = []
    for index, inner in ((ledger.index, False), (ledger.untrusted.wrapped.index, True)):
        for hit in index.find_hits(query):
            if any(one.start <= hit.start and hit.end <= one.end for one in known):
                continue
            number = bisect_right(starts, hit.start) - 1
            begin = hit.start - starts[number]
            yield number, replace(hit, start=begin, end=begin + hit.end - hit.start), inner
            if not inner:
                known.append(hit)


def _match_values(ledger: Ledger, texts: tuple[tuple[str, str], ...]) -> Iterator[Match]:
    """Match the values of several texts with untrusted texts, in one look-up."""
    found = [(value, via) for text, via in texts for value in islice(find_values(text), VALUES + 1)]
    if len(found) > VALUES:
        raise TooManyValues
    if not found:
        return
    lookups = [
        (value, key, via_key or via) for value, via in found for key, via_key in _hash_lookup_keys(value)
    ]
    keys = [key for _, key, _ in lookups]
    numbers = zip(ledger.table.find(keys), ledger.untrusted.wrapped.values.table.find(keys), strict=True)
    for (value, _, via), (number, wrapped) in zip(lookups, numbers, strict=True):
        index = number if number is not None else wrapped
        if index is not None:
            yield from _match_value(ledger, value, _locate(ledger, index, inner=number is None), via)


def _match_value(ledger: Ledger, value: Value, place: _Place, via: str) -> Iterator[Match]:
    if ledger.asked.says(fold_bytes(SCHEME.sub("", value.text))) and not _only_looks_said(ledger, value):
        return
    quote, hops = _shorten(value.text), _collect_hops(ledger, place, fold_bytes(value.text))
    evidence = Evidence(quote, place.text, quote, _join_via(via, place.text), hops)
    yield Match(evidence, value.kind is ValueKind.LINK)


def _only_looks_said(ledger: Ledger, value: Value) -> bool:
    """Check whether a link or address merely looks like one of the principal's, as ``c0rp.example`` does."""
    if value.kind not in {ValueKind.LINK, ValueKind.ADDRESS}:
        return False
    plain = SCHEME.sub("", value.text).casefold()
    return not any(plain in words.casefold() for words in ledger.asked.queries)


def _hash_lookup_keys(value: Value) -> Iterator[tuple[int, str]]:
    """Hash a value for look-up: as it is, and decoded, with and without a link's scheme."""
    yield value.key, ""
    for text in dict.fromkeys((value.text, SCHEME.sub("", value.text))):
        yield from ((hash_whole(decoded.body), decoded.via) for decoded in apply_involutions(text))


def find_across(ledger: Ledger, left: str, right: str) -> Iterator[Evidence]:
    """Find untrusted spans that begin in one argument and end in the next."""
    left, right = left[-SEAM:], right[:SEAM]
    form = fold_bytes(left)
    for _, hit, inner in _find_hits(ledger, [form + fold_bytes(right)]):
        if hit.start < len(form) < hit.end:
            found = _match_span(ledger, f"{left} {right}", hit, "", inner=inner)
            yield from (match.evidence for match in found)


def find_origin(ledger: Ledger, body: str) -> Evidence | None:
    """Find one untrusted text that holds the value ``body`` as a whole, in any spelling or encoding.

    Numbers and dates are compared by value: ``10.0`` is not ``100``, and ``1,000`` is ``1000``.

    Raises:
        TooManyValues: no text is known, and untrusted texts hold more than is tracked.
    """
    return _show_occurrence(ledger, find_occurrence(ledger.untrusted, body))


def find_command(ledger: Ledger, body: str, listed: tuple[str, ...] = ()) -> Evidence | None:
    """Find one untrusted text that holds a command of a composed text, however short the command.

    Commands that the principal said, or that are in a list of values, are skipped.

    Raises:
        TooManyValues: there are more commands than are looked up, or untrusted texts hold more than is tracked.
    """
    commands = find_commands(body, VALUES + 1)
    if len(commands) > VALUES:
        raise TooManyValues
    unsaid = (each for each in commands if each not in listed and not ledger.asked.says(fold_bytes(each)))
    return next(filter(None, (find_origin(ledger, each) for each in unsaid)), None)


def find_number(ledger: Ledger, body: str, kind: str) -> Evidence | None:
    """Find one untrusted text that holds a number or a date, in any spelling."""
    return _show_occurrence(ledger, find_number_occurrence(ledger.untrusted, body, kind))


def _show_occurrence(ledger: Ledger, found: Occurrence | None) -> Evidence | None:
    if found is None:
        return None
    place = _locate(ledger, found.number, inner=found.inner)
    return _make_evidence(ledger, place, found.offset, found.body, found.via)


def find_tracked_origin(ledger: Ledger, body: str) -> Evidence | None:
    """Find the origin of a value; ``None`` also if untrusted texts hold more than is tracked."""
    try:
        return find_origin(ledger, body)
    except TooManyValues:
        return None


def is_absent(ledger: Ledger, body: str) -> bool:
    """Check that no untrusted text holds a value, and that all their values are tracked."""
    try:
        return find_origin(ledger, body) is None
    except TooManyValues:
        return False


def occurs_in_longer_text(
    ledger: Ledger, body: str, homes: frozenset[tuple[str, int, str]] | None = frozenset()
) -> bool:
    """Check whether an untrusted text holds ``body``, or a piece of it, among other words.

    A single word of a record in ``homes``, such as the link of a thing with its id in it, does not count; with ``None``
    that of any record.
    """
    form = fold_bytes(body)
    for source in (ledger.untrusted, ledger.untrusted.wrapped):
        numbers = (
            source.index.find_owners(form)
            if len(form) >= SPAN
            else {number for number, _ in find_beginnings(source, form)}
        )
        found = (number for number in numbers if fold_bytes(source.body(number)) != form)
        if any(source is not ledger.untrusted or not _is_at_home(ledger, number, homes) for number in found):
            return True
    return False


def _is_at_home(ledger: Ledger, number: int, homes: frozenset[tuple[str, int, str]] | None) -> bool:
    text = ledger.texts[number]
    return (homes is None or record_of(text.origin) in homes) and len(text.body.split()) == 1


def _locate(ledger: Ledger, number: int, *, inner: bool) -> _Place:
    untrusted = ledger.untrusted
    if not inner:
        return _Place(untrusted.texts[number], number, inner, untrusted.words)
    return _Place(untrusted.unwrap_text(number), number, inner, untrusted.wrapped.words)


def _match_span(ledger: Ledger, text: str, hit: Hit, via: str, *, inner: bool) -> Iterator[Match]:
    form = fold_bytes(text)[hit.start : hit.end]
    if hit.text < 0 or ledger.asked.says(form):
        return
    place = _locate(ledger, hit.text, inner=inner)
    excerpt = unfold(text, hit.start, hit.end)
    hops = _collect_hops(ledger, place, form)
    yield Match(
        Evidence(_shorten(excerpt), place.text, _quote(place, excerpt), _join_via(via, place.text), hops),
        link=False,
    )


def _make_evidence(ledger: Ledger, place: _Place, offset: int | None, body: str, via: str = "") -> Evidence:
    source = place.text
    quoted = _quote(place, body) if offset is None else _quote_around(source.body, offset, len(body))
    return Evidence(
        _shorten(body), source, quoted, _join_via(via, source), _collect_hops(ledger, place, fold_bytes(body))
    )


def _quote(place: _Place, excerpt: str) -> str:
    """Quote the part of a text that holds an excerpt, located by the excerpt's words without scanning the text."""
    body = place.text.body
    for word in islice(_WORD.finditer(excerpt[: 4 * EXCERPT]), LOOKED_UP):
        form = fold_bytes(excerpt[word.start() : word.start() + 8 * HEAD])[:HEAD]
        for offset in place.find_offsets(form) if len(form) == HEAD else ():
            return _quote_around(body, max(0, offset - word.start()), len(excerpt))
    return _shorten(body[: 2 * EXCERPT])


def _quote_around(text: str, offset: int, length: int) -> str:
    """Quote the words around a value, so that a reader sees its context."""
    start = max(0, offset - 40)
    return (CUT if start else "") + _shorten(text[start : offset + min(length, 2 * EXCERPT) + 40].strip())


def _collect_hops(ledger: Ledger, place: _Place, piece: bytes) -> tuple[Hop, ...]:
    """Collect the listeners that relayed a piece of a text."""
    number = ledger.untrusted.wrapped.outer[place.number] if place.inner else place.number
    return tuple(ledger.relays.find_hops(piece, number))[:HOPS]


def _join_via(via: str, source: Text) -> str:
    return " then ".join(part for part in (source.origin.via, via) if part)


def _shorten(text: str) -> str:
    return truncate(" ".join(text.split()), EXCERPT)
