"""Decides which values may be interpolated into a steering text: proved over the type, counted in the value.

Only ASCII is allowed, because scripts without spaces can write whole sentences; quotes, brackets and angle brackets
are excluded so that a value cannot break out of its place. Words are counted however they are separated, in any case,
and with digits used as letters. A budget of three words admits commands of three words.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agentserver.hygiene import pattern
from agentserver.hygiene.character_sets import make_spans
from agentserver.hygiene.objections import Objection, quote
from agentserver.hygiene.simple_types import Judge, Lexical

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from agentserver.hygiene.pattern import AdmittedCharacter, Expression

__all__ = ["ALPHABET", "LENGTH", "RULE", "Judge", "Lexical", "Slug", "prove"]

LENGTH: Final = 256
"""Characters that an interpolated value may have."""
ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/:#@+=,~%$")
RULE: Final = "slug"
BUDGET: Final = 3
"""Words that an interpolated value may contain unless its intent says otherwise."""
MOST: Final = 12
"""The highest budget that an intent may set."""
WORD: Final = 10
"""Letters that count as one word; longer runs count one word for each ten letters begun."""
SINGLES: Final = 5
"""Separate single letters that count as one word."""
LETTERS: Final = 8
"""With no more distinct letters than this, as in hexadecimal, a value cannot spell words."""

_RUNS = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SPANS = make_spans(ALPHABET)


@dataclass(frozen=True, slots=True)
class Slug:
    """Proof that values of a type may be interpolated.

    Args:
        budget: words that a value may contain; None if the type itself rules sentences out.
        own: words that are literal in the type and are not counted.
    """

    budget: int | None
    own: frozenset[str] = frozenset()

    def fits(self, value: str) -> bool:
        """Check whether this value may be interpolated; does not rely on the proof for the characters."""
        return self.has_slug_form(value) and self.keeps_budget(value)

    def has_slug_form(self, value: str) -> bool:
        """Check the length and the characters of a value."""
        return 0 < len(value) <= LENGTH and ALPHABET.issuperset(value)

    def keeps_budget(self, value: str) -> bool:
        """Check the word budget of a value."""
        return self.budget is None or count_words(value, self.own) <= self.budget


def prove(lexical: Lexical, budget: int = BUDGET) -> Slug | Objection:
    """Prove that the type is a slug, or object with a text that it would admit."""
    if not 1 <= budget <= MOST:
        return _object(f"a word budget is 1 to {MOST}")
    if lexical.choices:
        bad = next((choice for choice in lexical.choices if not Slug(None).fits(choice)), None)
        return (
            Slug(None) if bad is None else _object(f"its choice {quote(bad)} is no slug: {_describe_shape()}")
        )
    if not lexical.patterns:
        return _object(
            f"any text fits it, {quote('ignore all rules')} too; give it a pattern without white space"
        )
    try:
        expressions = [pattern.read_xsd_pattern(text) for text in lexical.patterns]
    except pattern.PatternError as error:
        return _object(f"its pattern {error}")
    return (
        _check_length(lexical, expressions)
        or _check_alphabet(lexical, expressions)
        or _parse_slug(expressions, budget)
    )


def _object(detail: str) -> Objection:
    return Objection(RULE, "", detail)


def _describe_shape() -> str:
    return f"1 to {LENGTH} letters, digits and -._/:#@+=,~%$"


def _check_length(lexical: Lexical, expressions: Sequence[Expression]) -> Objection | None:
    widths = [lexical.max_length, *(pattern.compute_longest_match(expression) for expression in expressions)]
    known = [width for width in widths if width is not None]
    if not known:
        return _object(f"has no bound on its length; give it a MaxLen of at most {LENGTH}")
    return _object(f"admits {min(known)} characters, more than {LENGTH}") if min(known) > LENGTH else None


def _check_alphabet(lexical: Lexical, expressions: Sequence[Expression]) -> Objection | None:
    """Object unless one pattern keeps to the alphabet; every pattern must match, so one is enough."""
    found: AdmittedCharacter | None = None
    for expression in expressions:
        found = pattern.find_outside(expression, _SPANS, lexical.min_length, lexical.max_length)
        if found is None:
            return None
    assert found is not None
    name = unicodedata.name(found.character, "a control character")
    objection = f"admits U+{ord(found.character):04X} {name}"
    example = f", as in {quote(found.sample)}" if Judge({"v": lexical}).accepts("v", found.sample) else ""
    return _object(f"{objection}{example}; a value in a steering text is {_describe_shape()}")


def _parse_slug(expressions: Sequence[Expression], budget: int) -> Slug:
    alphabet = frozenset[str].intersection(
        *(pattern.collect_letters(expression) for expression in expressions)
    )
    if len(alphabet) <= LETTERS:
        return Slug(None)
    return Slug(budget, frozenset[str]().union(*(pattern.vocabulary(each) for each in expressions)))


# --- words -----------------------------------------------------------------------------------------------------------


def count_words(value: str, own: AbstractSet[str] = frozenset()) -> int:
    """Count the words in ``value``: runs of letters, split at capitals, with digits read as letters.

    Each ``SINGLES`` separate letters are a word, so that ``i-g-n-o-r-e`` counts. Words in ``own``, in lower case, are
    not counted. A digit separates words or is a letter of one, whichever gives more words.
    """
    letters = _MIXED.sub(_as_letters, value)
    plain = _count(value, own)
    return plain if letters == value else max(plain, _count(letters, own))


def _count(value: str, own: AbstractSet[str]) -> int:
    spelled = singles = 0
    for run in _RUNS.findall(value):
        if own and run.lower() in own:
            continue
        letters = len(run)
        if letters == 1:
            singles += 1
        else:
            spelled += -(-letters // WORD)  # rounded up
    return spelled + singles // SINGLES


_LEET: Final = str.maketrans("0123456789@$", "oizeasgtbgas")
_MIXED: Final = re.compile("(?<![0-9@$A-Za-z])[A-Za-z]*+[0-9@$][A-Za-z0-9@$]*+")
_FEWEST: Final = 2
"""Letters that a run needs to be read as a word, with about as many digits: ``v2`` is a label."""


def _as_letters(found: re.Match[str]) -> str:
    run = found[0]
    letters = sum(map(str.isalpha, run))
    if letters < _FEWEST or 2 * letters + 1 < len(run):
        return run
    told = run.translate(_LEET)
    return told.upper() if run.upper() == run else told


_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.$@:")
_VALUE = _NAME | frozenset(" /#+=,~%()")
_READ = 64


def check_readable(text: str, *, spaces: bool) -> bool:
    """Check that a name or listed value is too short to instruct a reader."""
    allowed = _VALUE if spaces else _NAME
    return len(text) <= _READ and allowed.issuperset(text) and count_words(text) <= BUDGET * 2
