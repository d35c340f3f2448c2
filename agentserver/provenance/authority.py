"""The authority form of a destination: what may be compared when something is to be permitted.

Owns parsing of mail addresses, links, accounts and names, and patterns over them. Nothing here folds: the
host is lower-cased and put into its ASCII form, the local part and every other name is compared as written.
Two destinations that merely look alike are different. Refuses to know who allows or denies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final
from unicodedata import normalize
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Form(StrEnum):
    """What kind of place a destination is."""

    ADDRESS = "address"
    LINK = "link"
    ACCOUNT = "account"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Destination:
    """A parsed destination. Two are the same place exactly when equal; ``written`` is not compared."""

    form: Form
    key: str
    host: str = ""
    path: str = ""
    written: str = field(default="", compare=False)

    @property
    def external(self) -> bool:
        """Names a place by itself, outside the system that would look a bare name up."""
        return self.form is not Form.NAME


_ADDRESS: Final = re.compile(r"[^\s,;<>\"()\[\]]{1,128}@[^\s,;<>\"()\[\]]{1,255}")
_ACCOUNT: Final = re.compile(r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{1,4}){2,9}")
_HOSTED: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?[^\s/@:?#]+\.[^\s/@:?#.\d]{2,63}\.?(?::\d{1,5})?(?:[/?#]\S*)?", re.IGNORECASE
)
_CLIMBS: Final = re.compile(r"(?:^|/|%2f|\\)(?:\.|%2e){1,2}(?:/|%2f|\\|$)|\\", re.IGNORECASE)
_GLUED: Final = re.compile(r"([^A-Z]*\.[a-z]{2,24})\.[A-Z][a-z']*$")
"""A host and the first word of the next sentence, for want of a space."""

_ROUTES: Final = frozenset("@:/?%!\\")
"""Characters of a local part that can send a mail elsewhere: such an address is at no host for a pattern."""

_WORDS: Final = re.compile(r"\S+")
_TRIM: Final = "\"'`()[]{}<>,;:!?"


def destination(text: str) -> Destination:
    """The place that ``text`` names as a whole."""
    body = text.strip()
    return replace(_parsed(body), written=body)


def _parsed(body: str) -> Destination:
    if "://" in body or (_HOSTED.fullmatch(body) and "@" not in body):
        return _link(body)
    if "@" in body and not body.startswith("@"):
        local, _, host = body.removeprefix("mailto:").rpartition("@")
        ascii_host = host_key(host)
        routed = not _ROUTES.isdisjoint(local)
        return Destination(Form.ADDRESS, f"{local}@{ascii_host}", "" if routed else ascii_host)
    if _ACCOUNT.fullmatch(body) and any(map(str.isdigit, body[4:])):
        return Destination(Form.ACCOUNT, body.replace(" ", ""))
    return Destination(Form.NAME, normalize("NFC", body))


def recipients(text: str) -> tuple[Destination, ...]:
    """Every place that one argument names: ``"Bob <bob@corp.com>, eve@evil.com"`` names two.

    A display name is never a destination, so it can neither help nor hide the address behind it.
    """
    if "://" in text or "@" not in text:
        return (destination(text),) if text.strip() else ()
    found = tuple(destination(match.strip("'`.,:")) for match in _ADDRESS.findall(text))
    return found or (destination(text),)


def host_key(host: str) -> str:
    """The ASCII form of a host name. Other letters are encoded as they are, never mapped to look-alikes."""
    labels = host.strip().rstrip(".").split(".")
    return ".".join(label.lower() if label.isascii() else _ascii_label(label) for label in labels)


def named(text: str) -> Iterator[str]:
    """The tokens of a trusted text that could name a destination, without the punctuation around them."""
    for match in _WORDS.finditer(text):
        for piece in re.split(r"[,;|]", match.group()):
            token = piece.strip(_TRIM).rstrip(".").strip(_TRIM)
            if token:
                yield token
            if (glued := _GLUED.match(token)) is not None:
                yield glued[1]
    yield from (match.group() for match in _ACCOUNT.finditer(text))


def mentions(text: str, name: str) -> bool:
    """Whether ``text`` holds ``name`` as a whole token: ``bob@corp.co`` is not in ``bob@corp.com``."""
    if not name.strip():
        return False
    body = re.escape(name.strip()).replace(r"\ ", r"\s+")
    return re.search(rf"(?<![\w@./:+-]){body}(?![\w@/:+-]|\.\w)", text) is not None


@dataclass(frozen=True, slots=True)
class Pattern:
    """An entry of an allow or deny list, or of a directory.

    ``bob@corp.com`` an address · ``@corp.com`` every address at that host · ``corp.com`` every address at it
    and every link on it · ``.corp.com`` that host and those below it · ``*.corp.com`` only those below ·
    ``https://corp.com/docs`` that link and what lies below it · ``listener:name`` a listener · anything with
    ``*`` or ``?`` a glob over the authority form, whose ``*`` never crosses ``@`` or ``/`` · anything else a
    name.
    """

    text: str

    def matches(self, place: Destination) -> bool:
        """Whether ``place`` is one that this entry means."""
        body = self.text.removeprefix("listener:").strip()
        if body == "*":
            return True
        if body.startswith(("*.", ".")) and "@" not in body and "/" not in body:
            return _below(body, place)
        if "*" in body or "?" in body:
            return _glob(body, place)
        return _exactly(body, place)


def matching(patterns: Iterable[str], place: Destination) -> str | None:
    """The first entry that means ``place``."""
    return next((text for text in patterns if Pattern(text).matches(place)), None)


def _link(body: str) -> Destination:
    try:
        parts = urlsplit(body if "://" in body else f"//{body}")
        host = host_key(parts.hostname or "")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return Destination(Form.LINK, body)
    path = parts.path.rstrip("/")
    if _CLIMBS.search(path):
        return Destination(Form.LINK, body)
    owner = f"{parts.username}@" if parts.username is not None else ""
    query = f"?{parts.query}" if parts.query else ""
    return Destination(Form.LINK, f"{owner}{host}{port}{path}{query}", host if not owner else "", path)


def _ascii_label(label: str) -> str:
    return "xn--" + normalize("NFC", label).encode("punycode").decode("ascii")


def _below(body: str, place: Destination) -> bool:
    host = host_key(body.lstrip("*."))
    if not place.host:
        return False
    return place.host.endswith("." + host) or (body.startswith(".") and place.host == host)


def _glob(body: str, place: Destination) -> bool:
    """Globs compare part by part, so that ``*`` stays on its side of ``@`` and within one path step."""
    if place.external and not place.host and place.form is not Form.ACCOUNT:
        return False
    meant = f"{place.host}{place.path}" if place.form is Form.LINK else place.key
    wanted = re.split(r"([@/])", body.rpartition("://")[2])
    given = re.split(r"([@/])", meant)
    return len(wanted) == len(given) and all(map(fnmatchcase, given, wanted))


def _exactly(body: str, place: Destination) -> bool:
    if body.startswith("@"):
        return place.form is Form.ADDRESS and place.host == host_key(body[1:])
    entry = destination(body)
    if entry.form is Form.LINK and place.form is Form.ADDRESS:
        return not entry.path and "://" not in body and place.host == entry.host
    if entry.form is Form.LINK and place.form is Form.LINK and "?" not in entry.key:
        return bool(place.host) and (
            place.key == entry.key or place.key.startswith((entry.key + "/", entry.key + "?"))
        )
    return entry == place
