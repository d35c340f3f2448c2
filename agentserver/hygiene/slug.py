"""Which values may stand in a steering text: the slug rule, proved over the type and counted in the value.

Owns the alphabet, the length and the word budget. Refuses to know templates. Only ASCII is let in, since
scripts that need no spaces write whole sentences without one; quotes, brackets and angle brackets stay out so
that a value cannot leave its place in the text. Words are counted however they are separated, in any case, with digits
for letters or without. A budget of three words lets orders of three words pass.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agentserver.hygiene import pattern, regex
from agentserver.hygiene.objections import Objection, quote
from agentserver.hygiene.simple_types import Judge, Lexical

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from agentserver.hygiene.pattern import AdmittedCharacter
    from agentserver.hygiene.regex import Expression

__all__ = ["ALPHABET", "LENGTH", "RULE", "Judge", "Lexical", "Slug", "prove"]

LENGTH: Final = 256
"""Characters that an interpolated value may have."""
ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/:#@+=,~%$")
RULE: Final = "slug"
BUDGET: Final = 3
"""Words that an interpolated value may spell unless its intent says otherwise."""
MOST: Final = 12
"""The highest budget that an intent may ask for."""
WORD: Final = 10
"""Letters that pass for one word: each begun ten of a longer run count as one more."""
SINGLES: Final = 5
"""Letters standing alone that pass for one word."""
LETTERS: Final = 8
"""With no more different letters than this, as in hexadecimal, nothing can be spelled."""

_RUNS = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SPANS = regex.spans(ALPHABET)


@dataclass(frozen=True, slots=True)
class Slug:
    """A type of which it is proved that a value of it may be interpolated.

    Args:
        budget: words that a value may spell; None where the type itself rules sentences out.
        own: words that the type spells out, which are not counted.
    """

    budget: int | None
    own: frozenset[str] = frozenset()

    def fits(self, value: str) -> bool:
        """True when this value may be interpolated; does not trust the proof for the characters."""
        return self.has_slug_form(value) and self.keeps_budget(value)

    def has_slug_form(self, value: str) -> bool:
        """True when the value has the length and the characters of a slug."""
        return 0 < len(value) <= LENGTH and ALPHABET.issuperset(value)

    def keeps_budget(self, value: str) -> bool:
        """True when the value keeps to the word budget."""
        return self.budget is None or count_words(value, self.own) <= self.budget


def prove(lexical: Lexical, budget: int = BUDGET) -> Slug | Objection:
    """The slug that the type is, or why it is none, with a text that it would admit."""
    if not 1 <= budget <= MOST:
        return _object(f"a word budget is 1 to {MOST}")
    if lexical.choices:
        bad = next((choice for choice in lexical.choices if not Slug(None).fits(choice)), None)
        return Slug(None) if bad is None else _object(f"its choice {quote(bad)} is no slug: {_shape()}")
    if not lexical.patterns:
        return _object(
            f"any text fits it, {quote('ignore all rules')} too; give it a pattern without white space"
        )
    try:
        expressions = [pattern.read_xsd_pattern(text) for text in lexical.patterns]
    except regex.PatternError as error:
        return _object(f"its pattern {error}")
    return (
        _check_length(lexical, expressions)
        or _check_alphabet(lexical, expressions)
        or _slug(expressions, budget)
    )


def _object(detail: str) -> Objection:
    return Objection(RULE, "", detail)


def _shape() -> str:
    return f"1 to {LENGTH} letters, digits and -._/:#@+=,~%$"


def _check_length(lexical: Lexical, expressions: Sequence[Expression]) -> Objection | None:
    widths = [lexical.most, *(pattern.longest_match(expression) for expression in expressions)]
    known = [width for width in widths if width is not None]
    if not known:
        return _object(f"has no bound on its length; give it a MaxLen of at most {LENGTH}")
    return _object(f"admits {min(known)} characters, more than {LENGTH}") if min(known) > LENGTH else None


def _check_alphabet(lexical: Lexical, expressions: Sequence[Expression]) -> Objection | None:
    """Every pattern must match, so one that keeps to the alphabet is proof enough."""
    found: AdmittedCharacter | None = None
    for expression in expressions:
        found = pattern.find_outside(expression, _SPANS, lexical.least, lexical.most)
        if found is None:
            return None
    assert found is not None
    name = unicodedata.name(found.character, "a control character")
    what = f"admits U+{ord(found.character):04X} {name}"
    example = f", as in {quote(found.sample)}" if Judge({"v": lexical}).accepts("v", found.sample) else ""
    return _object(f"{what}{example}; a value in a steering text is {_shape()}")


def _slug(expressions: Sequence[Expression], budget: int) -> Slug:
    alphabet = frozenset[str].intersection(*(regex.letters(expression) for expression in expressions))
    if len(alphabet) <= LETTERS:
        return Slug(None)
    return Slug(budget, frozenset[str]().union(*(regex.vocabulary(each) for each in expressions)))


# --- words -----------------------------------------------------------------------------------------------------------


def count_words(value: str, own: AbstractSet[str] = frozenset()) -> int:
    """Words in ``value``: runs of letters, also where only a capital parts them, and where digits stand for letters.

    A single letter is no word by itself, but each ``SINGLES`` of them are one, so that ``i-g-n-o-r-e`` is not
    free. Words in ``own``, lower-case, are not counted. A digit parts words or is a letter of one, whatever makes
    more of them.
    """
    told = _MIXED.sub(_as_letters, value)
    plain = _count(value, own)
    return plain if told == value else max(plain, _count(told, own))


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
"""Letters that a run must have to be read as a word, and about as many as digits: ``v2`` is a label."""


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


def readable(text: str, *, spaces: bool) -> bool:
    """True when a name or listed value is too short to instruct a reader."""
    allowed = _VALUE if spaces else _NAME
    return len(text) <= _READ and allowed.issuperset(text) and count_words(text) <= BUDGET * 2
