"""The meaning of a name by convention: source or sink, destination or selector, and the worth of a field.

Owns the defaults that make a configuration of three lines work, all of them by whole tokens of a name, so
that ``thread`` is no ``read`` and ``budget`` no ``get``. Refuses to decide: a declaration always wins.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from agentserver.provenance.evidence.labels import Role, Standing

_TOKEN: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


SOURCE_TOKENS: Final = _words(
    "read fetch search get browse retrieve load list find query lookup download receive scrape crawl "
    "open view check"
)
SINK_TOKENS: Final = _words(
    "send write delete post update create execute run share reply forward publish upload pay "
    "transfer schedule reschedule cancel remove add invite append move rename set put insert replace "
    "book reserve buy order purchase submit approve grant revoke modify edit change install deploy "
    "save store tweet comment notify message email withdraw refund subscribe unsubscribe register "
    "archive drop purge commit push merge"
)

_NOUNS: Final = _words(
    "email mail message comment order set store share post change register archive tweet schedule transfer "
    "book refund purchase"
)
_JOINS: Final = _words("and or then")
_OPEN_WORLD: Final = _words(
    "url uri web webpage page pages http https browse browser site website fetch download scrape crawl "
    "internet rss feed google bing news review reviews"
)

_OPENS: Final = _words("read open load parse extract cat view download fetch")
_DOCUMENTS: Final = _words("file document doc pdf attachment letter note notes")

DESTINATION_TOKENS: Final = _words(
    "to cc bcc recipient recipients email emails mail address url uri link href endpoint webhook "
    "host domain channel account iban payee beneficiary participants participant attendees attendee "
    "invitees invitee guests phone number receiver target destination webpage site website repo "
    "repository topic room server remote group chat"
)
SELECTOR_TOKENS: Final = _words(
    "id ids uuid key user users username member file filename path folder directory table bucket "
    "record event message name password secret token credential pin role permission command script "
    "code sql statement query method"
)
PAYLOAD_TOKENS: Final = _words(
    "body content contents text message subject title description note notes comment comments "
    "summary caption memo reason data html markdown attachments attachment location details feedback "
    "review"
)
INERT_TOKENS: Final = _words(
    "date time start end day days from until when deadline due duration amount quantity count limit "
    "size n recurring status state priority type kind category label labels tag tags severity level "
    "enabled flag format language timezone priority color page offset sort order"
)
SECRETS: Final = _words("password secret token credential credentials pin passcode permission role")

_RECORD_TOKENS: Final = _words(
    "id ids uuid date time day created modified updated timestamp start end status state type size "
    "count number amount price rating permission recurring read version etag"
)
_DIRECTORY_TOKENS: Final = _words(
    "participants attendees contacts contact members invitees guests owner user users channel "
    "channels email phone iban account recipient recipients"
)
_AUTHORED_TOKENS: Final = _words("sender from author reply")
_SHORT: Final = 40
_HANDLE: Final = re.compile(r"[\w-]{1,64}")
_ADDRESS: Final = re.compile(r"[^\s@]{1,64}@[^\s@]{1,255}")


def tokens(name: str) -> tuple[str, ...]:
    """The words of a name: ``sendMail_to.url-2`` is ``send mail to url 2``."""
    return tuple(token.lower() for token in _TOKEN.findall(name))


def field_of(path: str) -> str:
    """The last named step of a path: ``[3].contact.email`` is ``email``, ``to[0]`` is ``to``."""
    return re.sub(r"\[\d+\]|\{\}", "", path).rpartition(".")[2]


def is_source(name: str) -> bool:
    """True when a name says that something is read."""
    return not SOURCE_TOKENS.isdisjoint(tokens(name))


def is_sink(name: str) -> bool:
    """True when a name says that something is done. A name may be both: ``read_and_delete``, ``get_or_create``.

    Words that are nouns as often as verbs count only in front: ``email_bob`` sends, ``get_email`` does not.
    """
    words = tokens(name)
    if words[:1] and words[0] in SOURCE_TOKENS:
        joined = (after for before, after in pairwise(words) if before in _JOINS)
        return any(word in SINK_TOKENS for word in joined)
    return any(word in SINK_TOKENS and (place == 0 or word not in _NOUNS) for place, word in enumerate(words))


def is_open_world(name: str) -> bool:
    """True when a source reads what anybody may have written as a whole: a page, a document, a feed.

    Nothing in such an output is the system's own, however it is structured.
    """
    words = tokens(name)
    opened = words[:1] and words[0] in _OPENS and not _DOCUMENTS.isdisjoint(words)
    return bool(opened) or not _OPEN_WORLD.isdisjoint(words)


def role_of(argument: str) -> Role | None:
    """The role that an argument's name suggests: the last telling token of its last step decides."""
    words = tokens(field_of(argument))
    for word in reversed(words):
        for role, known in _ROLES:
            if word in known:
                return role
    return None


_ROLES: Final = (
    (Role.SELECTOR, _words("id ids uuid")),
    (Role.DESTINATION, DESTINATION_TOKENS),
    (Role.PAYLOAD, PAYLOAD_TOKENS),
    (Role.INERT, INERT_TOKENS),
    (Role.SELECTOR, SELECTOR_TOKENS),
)


def standing_of(path: str, value: object) -> Standing:
    """The worth of a field of an untrusted source that is not declared.

    A value that fills a field of the record's own kind is the record's; what is cut from running text is its
    author's. The sender's address is the author's too: anyone may write.
    """
    if _in_prose(path):
        return Standing.PROSE
    if not isinstance(value, str):
        return Standing.RECORD
    words = frozenset(tokens(field_of(path)))
    if path and _HANDLE.fullmatch(value):
        return _of_handle(words)
    if _ADDRESS.fullmatch(value) and not words.isdisjoint(_DIRECTORY_TOKENS):
        return Standing.DIRECTORY if words.isdisjoint(_AUTHORED_TOKENS) else Standing.PROSE
    dated = value[:1].isdigit() and len(value) <= _SHORT
    return Standing.RECORD if dated and not (path and words.isdisjoint(_RECORD_TOKENS)) else Standing.PROSE


def _of_handle(words: frozenset[str]) -> Standing:
    """One word that fills a field: a name where the field names a person, bookkeeping elsewhere."""
    if not words.isdisjoint(PAYLOAD_TOKENS - {"message"}):
        return Standing.PROSE
    return Standing.DIRECTORY if not words or not words.isdisjoint(_NAMING) else Standing.RECORD


def _in_prose(path: str) -> bool:
    """True when a value lies inside a field of running text: structure that an author wrote into a body."""
    above = re.sub(r"\[\d+\]|\{\}", "", path).split(".")[:-1]
    return any(not (PAYLOAD_TOKENS - _CONTAINERS).isdisjoint(tokens(step)) for step in above)


_CONTAINERS: Final = _words("message data attachments attachment content contents details location")
_NAMING: Final = _DIRECTORY_TOKENS | _AUTHORED_TOKENS | {"name", "username", "handle"}
