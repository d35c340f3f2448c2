"""The kinds of consequential action that people ask for in words, and that names of sinks stand for.

Owns a vocabulary of English verbs and a reading of requests that no model takes part in. Refuses to
understand more than words: negation is not read, and requests in other languages are not read at all.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from agentserver.provenance.policy.names import tokens


class Action(StrEnum):
    """A kind of consequential action."""

    SEND = "send"
    CREATE = "create"
    CHANGE = "change"
    REMOVE = "remove"
    PAY = "pay"
    RESERVE = "reserve"
    ADMIT = "admit"
    RUN = "run"


def _table(rows: dict[str, str]) -> dict[Action, frozenset[str]]:
    return {Action(action): frozenset(words.split()) for action, words in rows.items()}


ASKED: Final = _table(
    {
        "send": "send write reply respond answer forward post publish share tell notify inform tweet comment "
        "announce upload ping dm mail email message text",
        "create": "create add make write schedule book append insert put save store generate draft prepare "
        "set remind reminder log register plan record",
        "change": "update change modify edit adjust reschedule move rename set replace correct fix append "
        "add insert put postpone extend increase decrease switch revise amend mark",
        "remove": "delete remove cancel drop erase purge clear unsubscribe revoke kick archive discard",
        "pay": "pay transfer refund wire settle buy purchase donate reimburse tip charge order",
        "reserve": "reserve book reservation rent hire order",
        "admit": "invite add share grant admit include permit onboard",
        "run": "run execute start launch deploy install build trigger evaluate restart",
    }
)
"""Words of a request, in the imperative, that ask for each kind of action. A word may ask for several."""

NAMED: Final = _table(
    {
        "send": "send reply forward post publish share tell notify tweet comment upload message submit write",
        "create": "create add make new schedule book append insert put save store register write commit",
        "change": "update change modify edit reschedule move rename set replace append add insert put patch "
        "approve merge write",
        "remove": "delete remove cancel drop erase purge clear unsubscribe revoke archive",
        "pay": "pay transfer refund money transaction payment invoice buy purchase order withdraw",
        "reserve": "reserve book rent hire order",
        "admit": "invite add share grant admit",
        "run": "run execute start launch deploy install eval push",
    }
)
"""Tokens of a sink's name, mostly verbs, that stand for each kind of action."""

_NOUNS: Final = frozenset(
    [
        "mail",
        "email",
        "message",
        "text",
        "post",
        "comment",
        "log",
        "record",
        "order",
        "plan",
        "tip",
        "book",
        "rent",
    ]
)
_BEFORE_A_VERB: Final = frozenset(
    [
        "please",
        "to",
        "and",
        "then",
        "also",
        "you",
        "just",
        "or",
        "i",
        "not",
        "can",
        "could",
        "will",
        "must",
        "should",
    ]
)
_TO_ONESELF: Final = frozenset({"me", "us"})
_SPOKEN_TO: Final = frozenset({"tell", "inform", "notify", "ask"})
_PREPOSITIONS: Final = frozenset({"starting", "including"})
_WORD: Final = re.compile(r"[a-z]+|[.!?:;,\n\d]")


def actions_of(name: str) -> frozenset[Action]:
    """The kinds of action that a sink's name stands for; none when no token of it is known."""
    words = frozenset(tokens(name))
    return frozenset(action for action, known in NAMED.items() if not known.isdisjoint(words))


def actions_in(request: str) -> frozenset[Action]:
    """The kinds of action that a request asks for. ``shared with`` and ``based on the emails`` ask none."""
    words = [".", *_WORD.findall(request.lower()), "."]
    asked = {
        form
        for place in range(1, len(words) - 1)
        for form in _forms(words[place])
        if _is_asked(form, words, place)
    }
    return frozenset(action for action, known in ASKED.items() if not known.isdisjoint(asked))


def _forms(word: str) -> tuple[str, ...]:
    """The verb that a word is, or is the ``-ing`` form of."""
    if not word.endswith("ing") or word in _PREPOSITIONS:
        return (word,)
    stem = word.removesuffix("ing")
    return (word, stem, stem + "e", stem[:-1] if stem[-2:-1] == stem[-1:] else stem)


def _is_asked(word: str, words: list[str], place: int) -> bool:
    before, after = words[place - 1], words[place + 1]
    if word in _SPOKEN_TO and after in _TO_ONESELF:
        return False
    if word == "make" and after == "sure":
        return False
    return word not in _NOUNS or before in _BEFORE_A_VERB or not before.isalpha()


_DELEGATES: Final = re.compile(
    r"\b(?:do|follow|perform|carry out|execute|complete|take care of|handle|act on)\b[^.!?]{0,40}"
    r"\b(?:actions?|instructions?|tasks?|steps|to-?dos?|todo list|requests?)\b(?P<rest>[^.!?]{0,80})",
    re.IGNORECASE,
)
_WHERE: Final = re.compile(r"\b(?:in|from|on|at|specified|listed|described|given|precisely)\b", re.IGNORECASE)


def delegates(request: str) -> bool:
    """True when a request hands the choice of actions to a document: ``do the tasks on my list at ...``."""
    return any(
        _WHERE.search(match["rest"])
        for match in _DELEGATES.finditer(request)
        if "following" not in match.group().lower()
    )


_ENGLISH: Final = frozenset(
    [
        "the",
        "of",
        "and",
        "what",
        "this",
        "that",
        "is",
        "are",
        "my",
        "your",
        "please",
        "with",
        "for",
        "to",
        "from",
        "it",
        "me",
    ]
)
_OTHER: Final = frozenset(
    [
        "der",
        "das",
        "und",
        "ist",
        "ein",
        "eine",
        "den",
        "dem",
        "mit",
        "bitte",
        "von",
        "auf",
        "le",
        "les",
        "une",
        "et",
        "est",
        "pour",
        "avec",
        "dans",
        "du",
        "el",
        "los",
        "las",
        "una",
        "por",
        "con",
        "para",
        "que",
        "del",
        "il",
        "gli",
        "di",
        "che",
        "per",
        "het",
        "een",
        "van",
        "voor",
        "met",
        "en",
        "og",
        "att",
        "som",
        "och",
        "der",
        "uma",
        "com",
        "os",
    ]
)


def is_foreign(request: str) -> bool:
    """True when a request is in a language that is not read here: another script, other small words."""
    letters = [char for char in request if char.isalpha()]
    if sum(not char.isascii() for char in letters) * 3 > len(letters):
        return True
    words = re.findall(r"[^\W\d_]+", request.lower())
    return sum(word in _OTHER for word in words) > sum(word in _ENGLISH for word in words)
