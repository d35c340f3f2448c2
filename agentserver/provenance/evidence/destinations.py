"""Parses destinations strictly into their authority form: mail addresses, links, accounts and names.

A text that two readers could take for two places is no destination. Nothing is folded or repaired: hosts compare in
ASCII form, everything else as written.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, a2b_qp
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final
from unicodedata import normalize
from urllib.parse import unquote

import idna

from agentserver.characters.table import is_unseen

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST: Final = 253
"""Characters of a host name at most."""
LABEL: Final = 63
"""Characters of a host's label at most; longer ones are refused before any work on them."""
LONGEST: Final = 4096
"""Characters of a single destination at most."""
LISTED: Final = 1 << 15
"""Characters of a list of destinations at most."""
PLACES: Final = 1000
"""Addresses in one text at most."""
MARKS: Final = frozenset("#@")
"""Marks before the name of a channel or person."""
# fmt: off
NETWORK_SCHEMES: Final = frozenset((
    "abfs", "abfss", "amqp", "amqps", "az", "blob", "data", "dav", "davs", "ethereum", "file",
    "ftp", "ftps", "git", "gopher", "grpc", "gs", "hdfs", "http", "https", "imap", "imaps",
    "intent", "ipfs", "ipns", "irc", "ircs", "jdbc", "kafka", "ldap", "ldaps", "magnet", "mailto",
    "mongodb", "mqtt", "mqtts", "msteams", "mysql", "nats", "nfs", "odbc", "oci", "pop3",
    "postgres", "postgresql", "redis", "rediss", "rsync", "rtmp", "rtsp", "s3", "s3a", "sftp",
    "sip", "sips", "skype", "slack", "smb", "sms", "smtp", "smtps", "snowflake", "ssh", "svn",
    "tcp", "tel", "telegram", "telnet", "tg", "udp", "unix", "viber", "vnc", "wasb", "wasbs",
    "webcal", "whatsapp", "ws", "wss", "xmpp", "zoommtg",
))
# fmt: on
"""Schemes that reach a place over a network or an application that sends."""


class PlaceForm(StrEnum):
    """Kinds of places."""

    ADDRESS = "address"
    LINK = "link"
    ACCOUNT = "account"
    NAME = "name"
    NONE = "none"
    """No destination; only a person can approve it."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Parsed destination. Two are the same place exactly if form and key are equal.

    ``host`` is empty if only an identical entry may match: for links without a host, addresses whose local part some
    mail servers read as a route, and non-ASCII letters outside the host. ``scheme``, ``port``, ``path`` and ``query``
    belong to links; a link without a scheme is an https link.
    """

    form: PlaceForm
    key: str
    host: str = field(default="", compare=False)
    scheme: str = field(default="", compare=False)
    port: str = field(default="", compare=False)
    path: str = field(default="", compare=False)
    query: str = field(default="", compare=False)
    written: str = field(default="", compare=False)

    @property
    def external(self) -> bool:
        """True if it names a place by itself, unlike a name that this system looks up."""
        return self.form in {PlaceForm.ADDRESS, PlaceForm.LINK, PlaceForm.ACCOUNT}

    @property
    def alike(self) -> tuple[str, ...]:
        """Keys that this system may store for the place: its own key and the key of its plain spelling.

        The plain spelling ignores letter case in a mailbox and in a name without digits, and a mark before a name.
        Non-ASCII letters and the case of identifiers always count.
        """
        plain = self.key
        if self.form is PlaceForm.ADDRESS:
            plain = fold_mailbox(self.key)
        elif self.form is PlaceForm.NAME:
            plain = fold_handle(strip_mark(self.key))
        return (self.key,) if plain == self.key else (self.key, plain)


_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{0,30}):(?=\S)", re.IGNORECASE)
_BARE: Final = re.compile(
    r"(?:\[[0-9a-f:.]+\]|\d{1,3}(?:\.\d{1,3}){3}|[^\s/@:?#\[\]]+\.(?:[^\W\d_]{2,}|xn--[a-z0-9-]+))(?::\d+)?(?:[/?#].*)?",
    re.IGNORECASE | re.DOTALL,
)
"""Host without a scheme, with optional port and path."""
_PLAIN_HOST: Final = re.compile(
    r"(?:(?!xn--)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+(?!xn--)[a-z]{2,63}", re.IGNORECASE | re.ASCII
)
"""Host in ASCII with nothing to encode and nothing around it, as most names with a point are."""
_SITE: Final = re.compile(r"(\[[^\[\]]*\]|[^\[\]:@%]+)(?::([1-9]\d{0,4}))?")
_NO_LINK: Final = re.compile(r"[\s,;|\"'<>\\^`{}]")
_NO_NAME: Final = re.compile(r"[|\"<>\\@]|//")
_PARTS: Final = frozenset("/?#&=%.@:\\")
"""Characters that a part of a link may have."""
_BETWEEN: Final = re.compile(r"[\s,;|]+")
_BEGINS: Final = re.compile(r"[a-z][a-z0-9+.-]{0,30}:\S|[/\\]{2}", re.IGNORECASE)
_SLASHED: Final = re.compile(r"(?:[a-z][a-z0-9+.-]{0,30}:)?[/\\]{2}", re.IGNORECASE)
_ENDINGS: Final = str.maketrans("", "", "\t\r\n")
_HEXED: Final = re.compile(r"(?=.*0x)(?:0x[0-9a-f]{1,8}|\d{1,10})(?:\.(?:0x[0-9a-f]{1,8}|\d{1,10})){0,3}")
_HANDLE: Final = re.compile(r"@[\w.-]{1,64}")
_LOCAL: Final = re.compile(r"[^\s@,;:<>()\[\]\"\\|.]+(?:\.[^\s@,;:<>()\[\]\"\\|.]+)*")
_ROUTES: Final = frozenset("%!/?'`")
"""Characters of a local part that can reroute a mail or end a quotation."""
_LDH: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?")
_ENCODED: Final = re.compile(rf"(?<![^\W_])xn--[a-z0-9-]{{1,{LABEL}}}(?![^\W_])", re.IGNORECASE)
"""Label in ASCII form."""
_NUMERIC: Final = re.compile(r"\d+|0x[0-9a-f]*")
ACCOUNT: Final = re.compile(r"(?=(?:[A-Z0-9] ?){15})[A-Z]{2}\d{2}(?: ?[A-Z0-9]{1,4}){3,9}")
"""Form of an IBAN: the shortest, of Norway, has 15 characters. A flight or an order has fewer."""
_DISPLAY: Final = re.compile(r"(?:\"[^\"\\]*\"|[^\"\\<>|]*) ?<([^<>]*)>")
_COMMENTED: Final = re.compile(r"([^\s()][^\s()@]*+@[^\s()]++) ?\([^()<>\"\\]*\)")  # looks at each @ once
"""Address followed by its name, as old mail programs write it."""
_TWISTED: Final = re.compile(
    r"%(?:[01]|2[35ef]|3[abf]|40|5c|7f|2d|3\d|[46][1-9a-f]|[57][\da]|5f|7e)", re.IGNORECASE
)
"""Escapes that a path does not need: of plain characters, path separators, controls, or the escape itself."""
_ROUTED: Final = frozenset("/!")
"""Marks that begin a fragment which says where a page leads, such as a room, unlike one that names a section."""
_MALFORMED: Final = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE)
_RUN: Final = re.compile(r"[^\s,;:<>\"()\[\]|\\/?&=#@]+")
_ENDS: Final = ".'!*"
"""Punctuation around an address in a sentence."""
_DOTS: Final = str.maketrans(dict.fromkeys("\u3002\uff0e\uff61", "."))
_HOSTED: Final = re.compile(r"(?<![\w./-])[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}(?![\w-])")
"""Host-like part of a name."""


def parse_destination(text: str) -> Destination:
    """Parse the place that a whole text names; its form is ``NONE`` for other texts."""
    body = text.strip(" ")
    sound = 0 < len(body) <= LONGEST and body.isprintable()
    found = _parse(body) if sound else None
    if found is None:
        return _make_no_destination(body)
    return found if found.written else replace(found, written=body)


def parse_key(text: str) -> str:
    """Parse the key of the place that a whole text names; the text itself if it names none."""
    body = text.strip(" ")
    if len(body) <= HOST and _PLAIN_HOST.fullmatch(body):
        return f"https://{body.lower()}"
    found = _parse(body) if 0 < len(body) <= LONGEST and body.isprintable() else None
    return body if found is None else found.key


def find_recipients(text: str) -> tuple[Destination, ...]:
    """Find every place that an argument names; each place needs its own authority.

    ``Bob <bob@corp.com>, eve@evil.com`` names two. Every address in the text counts, also in display names, link
    parameters, percent-encoding and encoded words. A link must be the whole text: a list with a link names no place.
    """
    own = parse_list(text)
    known = {place.key for place in own}
    return (*own, *(place for place in _find_addresses(text) if place.key not in known))


def parse_list(text: str) -> tuple[Destination, ...]:
    """Parse the place that a text names, or a list of addresses and names; a single ``NONE`` for other texts."""
    if not text.strip():
        return ()
    single = parse_destination(text)
    if single.form is not PlaceForm.NONE or "@" not in text or "://" in text or len(text) > LISTED:
        return (single,)
    found = tuple(map(_parse_element, _split_list(single.written))) if single.written.isprintable() else ()
    return (single,) if not found or any(one.form is PlaceForm.NONE for one in found) else found


def fold_mailbox(address: str) -> str:
    """Lower-case an ASCII address, so that all spellings of a mailbox are equal."""
    return address.lower() if address.isascii() else address


def fold_handle(name: str) -> str:
    """Lower-case an ASCII name without digits; with a digit it is an identifier."""
    return name.lower() if name.isascii() and not any(map(str.isdigit, name)) else name


def strip_mark(name: str) -> str:
    """Strip the mark of a channel or person from a name, as in ``#general``."""
    return name[1:] if name[:1] in MARKS and name[1:2].isalnum() else name


def host_key(host: str) -> str:
    """Return the ASCII form of a host; empty for other texts. Nothing is mapped or cut to make it valid.

    A number is a host only as an IPv4 address of four decimal parts; an IPv6 address needs brackets.
    """
    if not 0 < len(host) <= HOST:
        return ""
    if host[0] == "[":
        return _format_ipv6(host)
    labels = host.split(".")
    if any(not 0 < len(label) <= LABEL for label in labels):
        return ""
    if _NUMERIC.fullmatch(labels[-1].lower()):
        return _format_ipv4(host)
    encoded = [_encode_ascii_label(label) for label in labels]
    joined = ".".join(encoded)
    return joined if all(encoded) and len(joined) <= HOST else ""


def leads_out(text: str) -> bool:
    """Return whether a text is, or starts as, a link or a host, so that fetching it leaves the system.

    It is also read without tabs and line ends, as link readers do.
    """
    if _leads_out(text):
        return True
    glued = text.strip().translate(_ENDINGS)
    return glued != text.strip() and bool(_SLASHED.match(glued) or parse_destination(glued).host)


def _leads_out(text: str) -> bool:
    body = text.strip()
    body = (
        body if body.startswith("[") and parse_destination(body).external else body.strip("<>\"'()[]").strip()
    )
    place = parse_destination(body)
    if place.form is not PlaceForm.NONE:
        return place.form is PlaceForm.LINK or _is_numeric_host(body)
    if _BEGINS.match(body):
        return True
    first, *following = _BETWEEN.split(body[:LONGEST])
    if not following:
        return not {*"./:"}.isdisjoint(loosen(first))
    beginning = parse_destination(first)
    return beginning.form is PlaceForm.LINK and (
        bool(beginning.path or beginning.query)
        or all(parse_destination(other).form is PlaceForm.LINK for other in following if other)
    )


def _is_numeric_host(body: str) -> bool:
    """Return whether a text is an IPv6 address without brackets, or an IPv4 address with hexadecimal parts."""
    return bool(_format_ipv6(f"[{body}]") or _HEXED.fullmatch(body.lower()))


def join_link(place: Destination, piece: str) -> tuple[Destination, ...]:
    """List the places that a link and another text form together, as host and path do. Prose forms none."""
    piece = piece.strip()
    prose = piece[:1].isalnum() and len(piece.split(maxsplit=1)) > 1 and {*"/\\%"}.isdisjoint(piece)
    if prose or _PARTS.isdisjoint(piece):
        return ()
    tail = re.sub(r"[\s,;|\"'<>^`{}]", "%20", piece)
    seamless = not tail[:1].isalnum() or not {*".:@"}.isdisjoint(tail.partition("/")[0])
    keys = [place.key + tail] * seamless + [f"{place.key}/{tail}"] * tail[:1].isalnum()
    return tuple(map(parse_destination, keys))


def decode_percent(text: str) -> str:
    """Decode percent-encoding in up to four rounds; what remains encoded is judged as such."""
    for _ in range(4):
        if "%" not in text:
            break
        text = unquote(text)
    return text


def decode_words(text: str) -> str:
    """Decode the encoded words of a mail header (RFC 2047), as mail programs do that parse an address afterwards."""
    return _ENCODED_WORD.sub(_decode_word, text) if "=?" in text else text


_ENCODED_WORD: Final = re.compile(r"=\?[\w*-]{1,40}\?([qQbB])\?([^?\s]*)\?=", re.ASCII)


def _decode_word(word: re.Match[str]) -> str:
    data = word[2].encode("ascii", "ignore")
    try:
        plain = a2b_base64(data) if word[1] in "bB" else a2b_qp(data, header=True)
    except ValueError:
        return word[0]
    return plain.decode("utf-8", "replace")


def loosen(text: str) -> str:
    """Normalize a text as a lenient reader would. Use it for refusing only, never for allowing."""
    if text.isascii():
        return text.lower()
    shown = "".join(char for char in text if not is_unseen(char) or char.isspace())
    return normalize("NFKC", shown).casefold().translate(_DOTS)


def decode_labels(text: str) -> str:
    """Decode the A-labels of a text, so that both sides of a comparison have one spelling."""
    return _ENCODED.sub(_decode_label, text) if "xn--" in text.lower() else text


def _decode_label(label: re.Match[str]) -> str:
    try:
        return idna.ulabel(label[0].lower())
    except UnicodeError:
        return label[0]


def _make_no_destination(body: str) -> Destination:
    return Destination(PlaceForm.NONE, body, written=body)


def _parse(body: str) -> Destination | None:
    """Parse the place that a printable text names; None for other texts."""
    if _BARE.fullmatch(body) and "://" not in body.partition("/")[0]:
        return _parse_link("https", body)
    scheme = _SCHEME.match(body)
    if scheme is not None:
        return _parse_scheme(scheme[1].lower(), body[scheme.end() :])
    if "@" in body and not _HANDLE.fullmatch(body):
        return _parse_address(body)
    if ACCOUNT.fullmatch(body) and any(map(str.isdigit, body[4:])):
        return Destination(PlaceForm.ACCOUNT, body.replace(" ", ""))
    unclear = _NO_NAME.search(body.removeprefix("@")) or _HOSTED.search(loosen(body))
    return None if unclear else Destination(PlaceForm.NAME, body, written=body)


def _parse_scheme(scheme: str, body: str) -> Destination | None:
    """Parse a scheme and its rest. Without a host only an identical entry matches."""
    if scheme == "mailto":
        return _parse_address(body)
    if body.startswith("//"):
        return _parse_link(scheme, body[2:])
    unclear = "@" in body or "//" in body or _NO_LINK.search(body)
    return None if unclear else Destination(PlaceForm.LINK, f"{scheme}:{body}", scheme=scheme)


def _parse_address(body: str) -> Destination | None:
    local, _, host = body.rpartition("@")
    key = host_key(host)
    if not key or key[0] == "[" or len(local) > LABEL + 1 or not _LOCAL.fullmatch(local):
        return None
    plain = local.isascii() and _ROUTES.isdisjoint(local)
    # Mail systems compare mailboxes composed (RFC 6532): a keyboard that writes an accent by itself names no other one.
    return Destination(PlaceForm.ADDRESS, f"{normalize('NFC', local)}@{key}", key if plain else "")


def _parse_link(scheme: str, body: str) -> Destination | None:
    if _NO_LINK.search(body):
        return None
    cut = re.search(r"[/?#]", body)
    site, tail = (body[: cut.start()], body[cut.start() :]) if cut else (body, "")
    before, _, fragment = tail.partition("#")
    path, mark, query = before.partition("?")
    if (not path and "@" in tail) or not _is_straight(path, tail):  # old readers end a host at a slash alone
        return None
    path = path.removesuffix("/")
    if not site and scheme == "file":
        return Destination(PlaceForm.LINK, f"file://{path}{mark}{query}", scheme=scheme)
    parts = _SITE.fullmatch(site)
    host = host_key(parts[1]) if parts else ""
    port = (parts[2] or "") if parts else ""
    if not host or int(port or 0) > 0xFFFF:  # noqa: PLR2004  the last port
        return None
    port = "" if port == _PORTS.get(scheme) else port
    route = f"#{fragment}" if fragment[:1] in _ROUTED and fragment[1:] else ""
    key = f"{scheme}://{host}{':' * bool(port)}{port}{path}{mark}{query}{route}"
    if not before.isascii():
        return Destination(PlaceForm.LINK, key, scheme=scheme)
    return Destination(PlaceForm.LINK, key, host, scheme, port, path, f"{mark}{query}")


def _is_straight(path: str, tail: str) -> bool:
    """Return whether a link is unambiguous: no climbing, no second authority, nothing hidden in escapes."""
    if _MALFORMED.search(tail) or _TWISTED.search(path):
        return False
    plain = decode_percent(tail)
    if "%" in plain and re.search(r"%[0-9a-f]{2}", plain, re.IGNORECASE):
        return False
    if not plain.isprintable() or "\ufffd" in plain or "\\" in plain or "//" in plain:
        return False
    return not any(step.strip() in {".", ".."} for step in decode_percent(path).split("/"))


def _encode_ascii_label(label: str) -> str:
    """Encode a label in ASCII; empty if IDNA would have to map it first, as browsers do."""
    if label.isascii() and label[:4].lower() != "xn--":
        lower = label.lower()
        return lower if _LDH.fullmatch(lower) else ""
    try:
        return idna.alabel(label.lower() if label.isascii() else label).decode("ascii")
    except UnicodeError:
        return ""


def _format_ipv4(host: str) -> str:
    try:
        return str(IPv4Address(host)) if host.isascii() else ""
    except AddressValueError:
        return ""


def _format_ipv6(host: str) -> str:
    try:
        return f"[{IPv6Address(host[1:-1])}]" if host[-1] == "]" and "%" not in host else ""
    except AddressValueError:
        return ""


def _split_list(body: str) -> Iterator[str]:
    """Split a list at commas and semicolons outside of quotation marks."""
    begin, quoted = 0, False
    for at, char in enumerate(body):
        if char == '"':
            quoted = not quoted
        elif char in ",;" and not quoted:
            yield body[begin:at]
            begin = at + 1
    yield body[begin:]


def _parse_element(text: str) -> Destination:
    """Parse an element of a list. A display name is no destination, so it cannot vouch for its address."""
    body = text.strip(" ")
    shown = _DISPLAY.fullmatch(body) or _COMMENTED.fullmatch(body)
    if shown is None:
        return parse_destination(text)
    return replace(_parse_address(shown[1]) or _make_no_destination(text), written=shown[1])


def _find_addresses(text: str) -> Iterator[Destination]:
    """Find every address in a text; one that cannot be parsed has the form ``NONE``."""
    plain = decode_percent(decode_words(text[:LISTED]))
    around = pairwise(plain.split("@"))
    for left, right in islice(around, PLACES):
        local, host = _RUN.match(left[:-129:-1]), _RUN.match(right[: HOST + 2])
        if local is None or host is None:
            continue
        before, behind = local[0][::-1].lstrip(_ENDS), host[0].rstrip(_ENDS)
        labels = loosen(behind).split(".")
        if len(labels) > 1 and any(map(str.isalpha, labels[-1])):
            address = f"{before}@{behind}"
            yield replace(_parse_address(address) or _make_no_destination(address), written=address)
