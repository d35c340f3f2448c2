"""Matches destinations with the entries of allow and deny lists, and finds the tokens of a request that may name one.

Allowing compares parsed values; only denying may read a text loosely.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.destinations import (
    ACCOUNT,
    Destination,
    PlaceForm,
    decode_labels,
    decode_percent,
    decode_words,
    host_key,
    loosen,
    parse_destination,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WORDS: Final = re.compile(r"\S+")
_TRIM: Final = (
    "\"'`()[]{}<>,;:!?\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f\u3001\u3002"
)
_PIECES: Final = re.compile(r"(?:[^,;|<>\]]|\](?!\())+")
"""Parts of a word without spaces: ``[page](https://x.example)`` has the label and the link."""
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WITHIN: Final = re.compile(
    rf"(?:^|(?<=[{_UNSPACED}\uff1a\uff08\u3010]))(?!^[!-~]+$)[!-~]+(?=[{_UNSPACED}\u3001\u3002\uff09\u3011]+$|$)"
)
_APART: Final = re.compile(r"[\s,;|\"'<>()\[\]{}\\/?&=#`!$*^~]+")
_PORT: Final = re.compile(r"(?<=[\w\]]):\d{1,5}(?![\w.])")
_SCHEMES: Final = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}:(?:/+|(?=[^\d/]))")


def find_tokens(text: str) -> Iterator[tuple[str, int]]:
    """Find the tokens of a trusted text that may name a destination, with their offsets, without punctuation."""
    for match in _WORDS.finditer(text):
        for piece in _PIECES.finditer(match.group()):
            token = piece.group().strip(_TRIM).rstrip(".").strip(_TRIM)
            if token:
                start = match.start() + piece.start() + piece.group().index(token)
                yield token, start
                yield from ((inner, start + at) for inner, at in _find_embedded(token))
    yield from ((match.group(), match.start()) for match in ACCOUNT.finditer(text))


def _find_embedded(token: str) -> Iterator[tuple[str, int]]:
    """Find an address or host, with its offset, between letters of a script without word spaces.

    It must end where the letters start again. Links with a path are excluded, since the letters may belong to the
    path.
    """
    for match in _WITHIN.finditer(token):
        place = parse_destination(match.group())
        if not match.group()[-1].isalnum():
            continue
        if place.form is PlaceForm.ADDRESS or (
            place.form is PlaceForm.LINK and place.host and not place.path
        ):
            yield match.group(), match.start()


def build_mention_pattern(name: str, *, any_case: bool = False, marked: bool = False) -> re.Pattern[str]:
    """Build the pattern of a name as a whole token.

    ``bob@corp.co`` is not in ``bob@corp.com``, nor ``1`` in ``1,000``. A colon before a space ends a token.
    ``marked``: the name may follow a mark, as in ``@bob``.
    """
    body = _escape_words(name)
    begin = r"(?<![\w@./:+-])"
    if marked:
        begin = rf"(?:{begin}|(?<=^@)|(?<=[^\w@./:+-]@))"
    return re.compile(
        rf"{begin}(?<!\d,){body}(?![\w@/+-]|:(?!\s|$)|\.\w|,\d)", re.IGNORECASE if any_case else re.NOFLAG
    )


def build_beginning_pattern(name: str, *, any_case: bool = False) -> re.Pattern[str]:
    """Build the pattern of the first characters of a name, which a mention of the whole name begins with."""
    return re.compile(_escape_words(name), re.IGNORECASE if any_case else re.NOFLAG)


def _escape_words(name: str) -> str:
    """Escape a name for a pattern in which any white space may be between its words."""
    return re.escape(name).replace(r"\ ", r"\s+")


def build_word_pattern(text: str, *, any_case: bool = False) -> re.Pattern[str]:
    """Build the pattern of a text that is no part of a longer word."""
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE if any_case else re.NOFLAG)


@dataclass(frozen=True, slots=True)
class DestinationPattern:
    """Entry of an allow or deny list, or of a directory.

    ``bob@corp.com`` an address · ``@corp.com`` every address at that host · ``corp.com`` every address at it and
    every https link on it · ``.corp.com`` that host and its subdomains · ``*.corp.com`` only its subdomains ·
    ``https://corp.com/docs`` that link and the links below it · ``listener:name`` a listener · anything with ``*`` or
    ``?`` a glob over the authority form, whose ``*`` never crosses ``@`` or ``/`` · anything else a name. An entry
    matches only its own scheme and port, by default https and its port. Hosts are compared by the A-labels of IDNA,
    so that entry and place may use either spelling. No entry matches a text that is no destination.
    """

    text: str

    def matches(self, place: Destination) -> bool:
        """Return whether the entry covers a place."""
        body = self.text.removeprefix("listener:").strip()
        if place.form is PlaceForm.NONE:
            return False
        if body == "*" or parse_destination(body) == place:
            return True
        if place.form in {PlaceForm.ADDRESS, PlaceForm.LINK} and not place.host:
            return False
        if body.startswith(("*.", ".")) and "@" not in body and "/" not in body:
            return _is_below(body, place)
        if "*" in body or "?" in body:
            return _matches_glob(body, place)
        return _is_at_or_under(body, place)

    @property
    def sound(self) -> bool:
        """True if the entry can match any place."""
        body = self.text.removeprefix("listener:").strip()
        if "*" in body.removeprefix("*.") or "?" in body:
            return True
        if body.startswith(("*.", ".", "@")) and "/" not in body:
            return bool(host_key(body.removeprefix("*").lstrip(".@")))
        return parse_destination(body).form is not PlaceForm.NONE


def find_entry(patterns: Iterable[str], place: Destination) -> str | None:
    """Find the first entry that matches a place."""
    return next((text for text in patterns if DestinationPattern(text).matches(place)), None)


def find_barring_entry(patterns: Iterable[str], text: str) -> str | None:
    """Find the first entry of a deny list that matches any part of a text, in the loosest reading.

    It ignores scheme, port, letter case, escapes, character width and unseen characters, as well as prefixes before
    ``@`` and before the last labels of a host. In an address, each ``@`` and ``%`` may start the host.
    """
    patterns = tuple(patterns)
    if not patterns:
        return None
    forms = (decode_percent(text), decode_words(text), text)
    loose = dict.fromkeys(loosen(decode_labels(form)) for form in forms)
    spelled = [form.strip() for each in loose for form in (_SCHEMES.sub(" ", each), each)]
    pieces = [piece for form in spelled for piece in _APART.split(form.replace("%", "@"))]
    words = [word for word in pieces if "." in word or "@" in word]
    sites = [site for word in words for site in word.split("@")[word.count("@") > 0 :]]
    hosts = [site.partition(":")[0].strip(".") for site in sites]
    variants = [other for host in hosts for other in (f"x@{host}", f"x.{host.partition('.')[2]}")]
    complete = (*spelled, *(_PORT.sub("", form) for form in spelled))
    found = dict.fromkeys(
        (*complete, *(word for each in complete for word in each.split(" ")), *words, *hosts, *variants)
    )
    places = [parse_destination(one.strip(".")) for one in found]
    crooked = parse_destination(text).form is PlaceForm.NONE
    for entry in patterns:
        body = loosen(decode_labels(entry)).rpartition("://")[2].rstrip("/")
        pattern = DestinationPattern(body.partition("/")[0] if crooked else body)
        if any(pattern.matches(place) for place in places):
            return entry
    return None


def _is_below(body: str, place: Destination) -> bool:
    host = host_key(body.lstrip("*."))
    if not host or not _is_open(place):
        return False
    return place.host.endswith("." + host) or (body.startswith(".") and place.host == host)


def _matches_glob(body: str, place: Destination) -> bool:
    """Match part by part, so that ``*`` stays on its side of ``@`` and within one path step."""
    scheme, mark, remainder = body.rpartition("://")
    key = place.key
    if place.form is PlaceForm.LINK:
        key = f"{place.host}{':' * bool(place.port)}{place.port}{place.path}"
    if place.form is PlaceForm.NAME and ("," in key or ";" in key):
        return False
    if (mark and place.form is not PlaceForm.LINK) or (scheme or "https") != (place.scheme or "https"):
        return False
    if "xn--" in remainder or not remainder.isascii():  # a label that is a glob has no A-label
        remainder, key = decode_labels(remainder), decode_labels(key)
    expected = re.split(r"([@/])", remainder)
    actual = re.split(r"([@/])", key)
    return len(expected) == len(actual) and all(map(fnmatchcase, actual, expected))


def _is_at_or_under(body: str, place: Destination) -> bool:
    """Return whether a place is at a host, or at or below a link."""
    if body.startswith("@"):
        return place.form is PlaceForm.ADDRESS and place.host == host_key(body[1:])
    entry = parse_destination(body)
    if entry.form is not PlaceForm.LINK or entry.host != place.host or not entry.host or entry.query:
        return False
    if place.form is PlaceForm.ADDRESS:
        return "://" not in body and not (entry.path or entry.port)
    if (entry.scheme, entry.port) != (place.scheme, place.port):
        return False
    return place.path == entry.path or place.path.startswith(f"{entry.path}/")


def _is_open(place: Destination) -> bool:
    """Return whether an entry without scheme and port may match a place."""
    plain = place.form is PlaceForm.ADDRESS or (place.scheme == "https" and not place.port)
    return bool(place.host) and plain
