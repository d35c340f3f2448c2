"""Pattern facets: which of them libxml2 judges rightly, and a text that matches.

Owns the search for texts that libxml2 misjudges. Refuses to know fields and facets other than a length. The portable
profile and the reading of expressions are :mod:`agentserver.hygiene.regex`'s.
"""

from __future__ import annotations

import re
from itertools import chain, islice, product
from sys import maxunicode
from typing import TYPE_CHECKING, Any
from unicodedata import category

from agentserver.hygiene import regex
from agentserver.hygiene.regex import LONGEST, characters, overlap
from agentserver.hygiene.simple_types import Judge, Lexical
from agentserver.hygiene.syntax import UNBOUNDED, Op
from agentserver.payload.fields.lexical import carried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentserver.hygiene.regex import Expression, Spans

_TRIES = 256
_WORDS = 1200
_WORD_LENGTH = 7
_VARIED = 60
_PUMPED = 100
_SHOWN = 40
_LONG = 1 << 20
_KINDS = 8
_RANGES = 12
_FLAT = re.compile(
    r"(?:[^\\\[\](|]|\\[^a-zA-Z]|\\[dDnrt]|\[(?:[^\\\[\]]|\\[^a-zA-Z]|\\[dDnrt])+\])*", re.DOTALL
)
"""No group, no alternative, no category but the decimal digits, no class within a class."""
_CATEGORY = re.compile(r"\\(?P<sign>[pP])\{(?P<kind>[LMNPSZC])\}(?P<turns>[?*+]?)")
"""One general category of which a search finds no error of libxml2: of ``\\p{Lo}`` it does."""
_PREFERRED = "a0A-_. "


def objection(text: str) -> str:
    """The reason why ``text`` cannot be a pattern facet, with what would work; empty when it can."""
    if not text or len(text) > LONGEST or not carried(text):
        return f"must hold 1 to {LONGEST} characters that XML can carry"
    return regex.find_unportable(text) or misjudged(text)


def misjudged(text: str) -> str:
    """The reason why libxml2 cannot be the judge of an expression; empty when it can."""
    try:
        word = misread(text)
    except (ValueError, RecursionError):
        return "is not a regular expression of XSD 1.0"
    if word is None:
        return ""
    return f"libxml2 gets wrong, as for {word[:_SHOWN]!r}; avoid parts that can match the same text"


def misread(text: str) -> str | None:
    """A text that libxml2 misjudges or gives up on, among some thousand that such errors show in.

    libxml2's automaton accepts ``xab`` for ``(ab)*|x*``, and misjudges overlapping counts and classes. Nothing
    bounds where it can go wrong, so this finds errors and proves none absent: every short text over one
    character of each kind that the expression tells apart, then texts that match, cut, doubled and altered.
    On long repetitions it may give up, after half a second that a sender could make it spend. An expression in which
    each character can be taken in one way only is not searched: there the automaton has no choice to get wrong.
    Nor is a general category: the table of it takes a tenth of a second to import.

    Raises ValueError for a bad expression.
    """
    judge = acceptor((text,))
    if _CATEGORY.fullmatch(text):
        return None
    expression = regex.xsd(text)
    return None if _settled(expression) else next(misjudgements(expression, judge), None)


def misjudgements(expression: Expression, judge: Callable[[str], bool | None]) -> Iterator[str]:
    """Texts that a judge is wrong about, or gives up on."""
    tree = expression.tree
    matches = _Matcher(tree).matches
    alphabet = _alphabet(tree)
    words = chain(islice(_words(alphabet), _WORDS), islice(_variants(tree, alphabet), _WORDS))
    yield from (word for word in words if judge(word) is not matches(word))
    yield from (word for word in _pumped(alphabet) if judge(word) is None)


def _settled(expression: Expression) -> bool:
    r"""Each next character says which part takes it.

    Parts are single characters, repeated or not, and one that varies in length shares no character with those that
    may follow it. The text is asked as well: the parser makes one class of ``(a|[a-c])``, which libxml2 does not, and
    the two may differ on the members of ``\p{L}`` and of a class within a class.
    """
    if not _FLAT.fullmatch(expression.text):
        return False
    parts = [_part(op, value) for op, value in expression.tree if op in _STEPS]
    if None in parts:
        return False
    known = [part for part in parts if part is not None]
    for at, (low, high, spans) in enumerate(known):
        if low == high:
            continue
        for least, _, others in known[at + 1 :]:
            if overlap(spans, others):
                return False
            if least:
                break
    return True


def _part(op: Any, value: Any) -> tuple[int, int, Spans] | None:
    """The least and the most occurrences of a part, and its characters; None when it is not of single characters."""
    low, high, body = value if op is Op.GREEDY else (1, 1, [(op, value)])
    if len(body) != 1 or body[0][0] not in {Op.LITERAL, Op.NOT_LITERAL, Op.IN}:
        return None
    return low, high, characters(*body[0])


_END = 0
"""The state in which nothing has to come."""


class _Matcher:
    """An expression as an automaton whose states are made when a text comes to them.

    A state says what may still come: the rest of a sequence, or a repetition with the turns that it has left, and the
    state behind it. All ways through a text are followed at once.
    """

    def __init__(self, tree: Any) -> None:
        self._states: list[tuple[Any, int, int, int]] = [((), 0, 0, _END)]
        self._numbers: dict[tuple[int, int, int, int], int] = {}
        self._opened: dict[int, tuple[list[tuple[Any, Any, int]], bool]] = {}
        self._held: dict[tuple[Any, int, str], bool] = {}
        self._known: dict[frozenset[int], int] = {}
        self._sets: list[tuple[frozenset[int], dict[str, int], bool]] = []
        self._set(frozenset({self._state(tree, 0, 0, _END)}))

    def matches(self, text: str) -> bool:
        at, sets = 0, self._sets
        for char in text:
            after = sets[at][1].get(char)
            at = self._step(at, char) if after is None else after
        return sets[at][2]

    def _set(self, states: frozenset[int]) -> int:
        """The number of a set of states, which knows the sets after it and whether a text may end in it."""
        if states not in self._known:
            self._known[states] = len(self._sets)
            self._sets.append((states, {}, any(self._open(state)[1] for state in states)))
        return self._known[states]

    def _step(self, at: int, char: str) -> int:
        states, after, _ = self._sets[at]
        begun = (each for state in states for each in self._open(state)[0])
        after[char] = self._set(frozenset(then for op, value, then in begun if self._holds(op, value, char)))
        return after[char]

    def _state(self, what: Any, least: int, most: int, then: int) -> int:
        """The number of a state: a repetition with least and most turns left, or a sequence from place ``least`` on."""
        key = id(what), least, most, then
        if key not in self._numbers:
            self._numbers[key] = len(self._states)
            self._states.append((what, least, most, then))
        return self._numbers[key]

    def _open(self, state: int) -> tuple[list[tuple[Any, Any, int]], bool]:
        """The single characters that a state can begin with, each with the state after it; and whether it can end."""
        if state not in self._opened:
            atoms: list[tuple[Any, Any, int]] = []
            waiting: list[int] = [state]
            seen: set[object] = set()
            while waiting:
                at = waiting.pop()
                what, least, most, then = self._states[at]
                # A turn that took no character leaves fewer turns to the same end, and nothing else.
                place = (id(what), then) if most and not least else at
                if place not in seen:
                    seen.add(place)
                    waiting += () if at == _END else self._inside(what, least, most, then, atoms)
            self._opened[state] = atoms, _END in seen
        return self._opened[state]

    def _inside(
        self, what: Any, least: int, most: int, then: int, atoms: list[tuple[Any, Any, int]]
    ) -> Iterator[int]:
        """The states that a state is at once, without a character; notes the character that it begins with."""
        if isinstance(what, tuple):
            if least == 0:
                yield then
            if most:
                left = most if most == UNBOUNDED else most - 1
                yield self._state(what[2], 0, 0, self._state(what, max(least - 1, 0), left, then))
        elif least == len(what):
            yield then
        else:
            op, value = what[least]
            after = self._state(what, least + 1, 0, then)
            if op is Op.GREEDY:
                low, high, body = value
                _, nothing = self._open(self._state(body, 0, 0, _END))
                yield self._state(value, 0 if nothing else low, high, after)
            elif op is Op.BRANCH:
                yield from (self._state(each, 0, 0, after) for each in value)
            elif op in _STEPS:
                atoms.append((op, value, after))
            else:  # an anchor of the translation
                yield after

    def _holds(self, op: Any, value: Any, char: str) -> bool:
        """True when one atom matches one character; a class may have hundreds of ranges, so answers are kept."""
        key = op, id(value), char
        if key not in self._held:
            self._held[key] = _holds(op, value, ord(char))
        return self._held[key]


def _holds(op: Any, value: Any, code: int) -> bool:
    if op is Op.IN:
        negated = value[0][0] is Op.NEGATE
        return any(_holds(kind, item, code) for kind, item in value if kind is not Op.NEGATE) is not negated
    if op is Op.CATEGORY:
        return chr(code).isdecimal() is (value == "d")
    low, high = _range(op, value)
    return (low <= code <= high) is not (op is Op.NOT_LITERAL)


def _words(alphabet: Sequence[str]) -> Iterator[str]:
    for length in range(_WORD_LENGTH + 1):
        yield from map("".join, product(alphabet, repeat=length))


def _pumped(alphabet: Sequence[str]) -> Iterator[str]:
    """Long repetitions of one and of two characters."""
    for pair in product(alphabet, repeat=2):
        yield "".join(pair) * _PUMPED


def _variants(tree: Any, alphabet: Sequence[str]) -> Iterator[str]:
    """Texts that match, at several repeats, and their neighbours; long ones are left to the short texts."""
    texts = [text for extra in range(4) if len(text := _expand(tree, extra)) <= _VARIED]
    for text in texts:
        yield text
        for other in texts:
            yield text + other
        for at in range(len(text) + 1):
            yield text[:at] + text[at + 1 :]
            for char in alphabet:
                yield text[:at] + char + text[at:]
                yield text[:at] + char + text[at + 1 :]


def _alphabet(tree: Any) -> list[str]:
    """One character of each kind that the classes of an expression tell apart."""
    classes = list(_classes(tree))
    codes = [ord(char) for char in _PREFERRED]
    few = chain.from_iterable(ranges[:_RANGES] for ranges in classes)  # categories have hundreds
    codes += [edge for low, high in few for edge in (low, low - 1, high + 1)]
    kinds: dict[tuple[bool, ...], str] = {}
    for code in codes:
        if 0 < code <= maxunicode and carried(chr(code)):
            kind = tuple(any(low <= code <= high for low, high in ranges) for ranges in classes)
            kinds.setdefault(kind, chr(code))
    return list(kinds.values())[:_KINDS]


def _classes(tree: Any) -> Iterator[list[tuple[int, int]]]:
    """The character ranges of every atom, however deep."""
    for op, value in tree:
        if op in {Op.LITERAL, Op.NOT_LITERAL}:
            yield [(value, value)]
        elif op is Op.IN:
            yield [_range(kind, item) for kind, item in value if kind is not Op.NEGATE]
        elif op is Op.GREEDY:
            yield from _classes(value[2])
        elif op is Op.BRANCH:
            for branch in value:
                yield from _classes(branch)


def acceptor(patterns: Sequence[str]) -> Callable[[str], bool | None]:
    """The word of libxml2, the judge at run time, about a text; None when it gives up. Raises ValueError."""
    judge = Judge({"v": Lexical(tuple(patterns))})
    return lambda text: judge.verdict("v", text)


def sample(patterns: Sequence[str], least: int = 0, most: int | None = None) -> str | None:
    """A short text that fits every expression and the length, the same each time; None when not found."""
    accepts = acceptor(patterns)
    for text in patterns:
        tree = regex.xsd(_common(text)).tree
        for extra in (1, 0, *range(2, min(least, _TRIES) + 1)):
            word = _expand(tree, extra)
            fits = least <= len(word) and (most is None or len(word) <= most)
            if fits and carried(word) and accepts(word):
                return word
    return None


def _common(text: str) -> str:
    """An expression with the same samples: of a category, what is preferred and belongs to it, if anything does."""
    found = _CATEGORY.fullmatch(text)
    if found is None:
        return text
    wanted = found["sign"] == "p"
    kept = [char for char in _PREFERRED if (category(char)[0] == found["kind"]) is wanted]
    return f"[{''.join(kept)}]{found['turns']}".replace("-", r"\-") if kept else text


def _expand(tree: Any, extra: int) -> str:
    """A text that matches, with ``extra`` more turns than needed; cut where it would be longer than any message."""
    text = ""
    for op, value in tree:
        if op in _STEPS and len(text) < _LONG:
            text += _STEPS[op](value, extra)
    return text


def _repeat(value: Any, extra: int) -> str:
    low, high, body = value
    text = _expand(body, extra)
    return text * min(int(min(low + extra, high)), _LONG // max(len(text), 1) + 1)


def _one_of(items: Any, extra: int) -> str:
    del extra
    negated = items[0][0] is Op.NEGATE
    ranges = [_range(op, value) for op, value in items if op is not Op.NEGATE]
    candidates = [ord(char) for char in _PREFERRED]
    candidates += [
        edge for low, high in ranges for edge in (low, low - 1, high + 1) if 0 < edge <= maxunicode
    ]
    inside = (code for code in candidates if any(low <= code <= high for low, high in ranges) is not negated)
    return next((chr(code) for code in inside if carried(chr(code))), "")


def _range(op: Any, value: Any) -> tuple[int, int]:
    if op in {Op.LITERAL, Op.NOT_LITERAL}:
        return value, value
    if op is Op.RANGE:
        low, high = value
        return low, high
    return ord("0"), ord("9")  # the categories of the profile are \\d and \\D


_STEPS: dict[Any, Callable[[Any, int], str]] = {
    Op.LITERAL: lambda value, _: chr(value),
    Op.NOT_LITERAL: lambda value, _: next(char for char in _PREFERRED if ord(char) != value),
    Op.IN: _one_of,
    Op.GREEDY: _repeat,
    Op.BRANCH: lambda value, extra: _expand(value[0], extra),
}
