r"""Reads the one dialect of patterns that every engine matches alike and in linear time.

The dialect is the same for payloads and for the schemas of handoffs. Its rules are of the syntax alone:

=============  ======================================================================================================
characters     a literal, ``.``, ``\d``, ``\D``, an escape such as ``\.`` or ``\n``, a general category ``\p{L}``
classes        ``[A-Za-z0-9_]``, ``[^,]``, ``[a-z-[aeiou]]``
groups         ``(...)``, with alternatives ``(jan|jun|jul)``
repetitions    ``?``, ``*``, ``+``, ``{2}``, ``{2,}``, ``{2,5}``
one reading    where a part may end or be left out, the next character says whether it continues:``[a-z]+(-[a-z]+)*``,
               and not ``[a-z]*[a-z0-9]*``; alternatives may begin alike, if they differ at a later single character
an ending      behind the last repeated class may come its own characters, in a fixed length: ``[a-z.]+\.(md|json)``
=============  ======================================================================================================

An engine that backtracks has one way to take each character, so it never takes more than a pass over the value. An
automaton has no choice to get wrong. libxml2 errs on a repeated group at an end of an alternative or of a repeated
part as well, as in ``(ab)+|x+``, so those are refused. JSON Schema writes patterns
between ``^`` and ``$``, and may also use ``\w``, ``\s``, ``(?:...)`` and ``\uXXXX``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from agentserver.hygiene.character_sets import (
    DIGITS,
    Spans,
    complement,
    complement_estimate,
    estimate_category,
    holds,
    make_spans,
    meet,
    overlap,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LONGEST: Final = 1000
"""Characters of an expression."""
NESTING: Final = 16
"""Groups within groups."""
REPEATED: Final = 10_000
"""Product of the finite repetitions around one character."""
ALTERNATIVES: Final = 128
"""Alternatives in one place."""


class PatternError(ValueError):
    """Error for text that is not a pattern of the dialect, with a correction."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A part that matches one character.

    Args:
        admits: the characters; with a category, more than those.
        source: as its author wrote it.
    """

    admits: Spans
    source: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeated sequence.

    Args:
        maximum: None if unbounded.
        grouped: whether its author put it in parentheses.
    """

    minimum: int
    maximum: int | None
    body: Parts
    grouped: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternative sequences."""

    branches: tuple[Parts, ...]


Parts: TypeAlias = "tuple[Atom | Repeat | Choice, ...]"
"""A sequence of parts."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A pattern of the dialect.

    Args:
        text: as its author wrote it.
        parts: its parts, in text order.
        portable: for JSON Schema and Python's ``re``, anchored; empty if it has a category, which neither knows.
    """

    text: str
    parts: Parts
    portable: str


def read_xsd_pattern(text: str) -> Expression:
    """Read a pattern facet. Raises PatternError with the reason and a correction."""
    return _read(text, text, json=False)


def read_json_pattern(text: str) -> Expression:
    """Read the ``pattern`` of a JSON Schema, which must match whole values. Raises PatternError."""
    if text and not (len(text) > 1 and text.startswith("^") and text.endswith("$")):
        raise PatternError(_ANCHORS)
    return _read(text, text[1:-1], json=True)


_NUMERALS: Final = re.compile(
    r"\[\+\\-\]\?(\[0-9\]\*|\((\[0-9\]\*)?(0\{[0-9]{1,4}\}|[0-9|()*])*\))(\(\\\.0\*\)\?)?"
)
r"""Numerals by their last digits, as ``[+\-]?([0-9]*(00|25|50|75)|0)``: the form of multiples in XSD 1.0."""
_ANCHORS: Final = "must match the whole value: one ^ at the start, one $ at the end"


def _read(text: str, body: str, *, json: bool) -> Expression:
    if not text or len(text) > LONGEST:
        raise PatternError(f"must hold 1 to {LONGEST} characters")
    parser = _Parser(body, json=json)
    parts = parser.parse()
    _check_repeats(parts, 1)
    if not _NUMERALS.fullmatch(text):
        _check_reading(_without_ending(parts), ())
    return Expression(text, parts, "" if parser.xsd_only else f"^(?:{''.join(parser.portable)})$")


# --- the grammar -----------------------------------------------------------------------------------------------------

_CHARACTERS: Final[Mapping[str, str]] = {"n": "\n", "r": "\r", "t": "\t"}
_JSON_CHARACTERS: Final[Mapping[str, str]] = {"f": "\f", "v": "\v", **_CHARACTERS}
_ESCAPABLE: Final = frozenset("\\|.-^?*+{}()[]")
_META: Final = frozenset("\\|.?*+{}()[]")
_COUNT: Final = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{0,9}))?\}")
_SIGNS: Final[Mapping[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_CATEGORY: Final = re.compile(r"\{(L[ultm]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfo]?)\}")
"""Every general category but ``Lo`` and ``Cn``, where libxml2 has other members."""
_WORD: Final = make_spans("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_SPACE: Final = make_spans(" \t\n\r\f\v")
_HERE: Final = "a pattern always matches the whole value"
_UNPORTABLE: Final[Mapping[str, str]] = {
    **dict.fromkeys("wWsS", "name the characters in a class such as [A-Za-z0-9_]"),
    **dict.fromkeys("iIcC", "name the characters in a class such as [A-Za-z_]"),
}


class _Parser:
    """Recursive-descent parser that writes the portable spelling as it goes."""

    def __init__(self, text: str, *, json: bool) -> None:
        self.text, self.json, self.at, self.depth = text, json, 0, 0
        self.portable: list[str] = []
        self.xsd_only = False

    def parse(self) -> Parts:
        """Parse the whole text."""
        parts, alternatives = self.parse_alternatives()
        if self.at < len(self.text):
            raise self.make_fault()
        if alternatives and self.json:
            raise PatternError("must put alternatives in a group: ^(a|b)$, for ^a|b$ is not anchored")
        return parts

    def make_fault(self) -> PatternError:
        language = "" if self.json else " of XSD 1.0"
        return PatternError(f"is not a regular expression{language}, from character {self.at + 1} on")

    def takes(self, text: str) -> bool:
        """Consume this text if it comes next."""
        found = self.text.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def take(self) -> str:
        """Consume one character."""
        if self.at >= len(self.text):
            raise self.make_fault()
        self.at += 1
        return self.text[self.at - 1]

    def parse_alternatives(self) -> tuple[Parts, bool]:
        """Parse the text up to the end of a group; also whether it has alternatives."""
        branches = [self.parse_sequence()]
        while self.takes("|"):
            self.portable.append("|")
            branches.append(self.parse_sequence())
        if len(branches) > ALTERNATIVES:
            raise PatternError(
                f"must not have more than {ALTERNATIVES} alternatives in one place; use an enumeration"
            )
        return (branches[0], False) if len(branches) == 1 else ((Choice(tuple(branches)),), True)

    def parse_sequence(self) -> Parts:
        parts: list[Atom | Repeat | Choice] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            grouped = self.text[self.at] == "("
            body = self.parse_part()
            count = self.count()
            if count is None:
                parts.extend(body)
            elif body:
                parts.append(Repeat(*count, body, grouped))
        return tuple(parts)

    def parse_part(self) -> Parts:
        start = self.at
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            admits = self.parse_character_class(start)
        elif char == "\\":
            admits, _ = self.escape()
            source = self.text[start : self.at]
            self.portable.append("-" if source == "\\-" else source)
        elif char == ".":
            admits = complement(make_spans("\n\r"))
            self.portable.append("[^\\n\\r]")
        elif char in "^$":
            escaped = "\\^" if char == "^" else "[$]"
            raise PatternError(
                _ANCHORS if self.json else f"must not use {char}: {_HERE}; write {escaped} for the character"
            )
        elif char in _META:
            self.at = start
            raise self.make_fault()
        else:
            admits = make_spans(char)
            self.portable.append(char)
        return (Atom(admits, self.text[start : self.at]),)

    def group(self) -> Parts:
        self.depth += 1
        if self.depth > NESTING:
            raise PatternError(f"must not nest more than {NESTING} deep")
        if self.text.startswith("?", self.at) and not (self.json and self.takes("?:")):
            if self.json:
                raise PatternError("must not use look-around, back references or inline flags")
            raise self.make_fault()
        self.portable.append("(")
        parts, _ = self.parse_alternatives()
        if not self.takes(")"):
            raise self.make_fault()
        self.portable.append(")")
        self.depth -= 1
        return parts

    def count(self) -> tuple[int, int | None] | None:
        """Parse the repetition after a part, if there is one."""
        start = self.at
        sign = self.text[start : start + 1]
        if sign in _SIGNS:
            self.at += 1
            minimum, maximum = _SIGNS[sign]
        elif found := _COUNT.match(self.text, start):
            self.at = found.end()
            minimum = int(found[1])
            maximum = (int(found[3]) if found[3] else None) if found[2] else minimum
            if maximum is not None and not minimum <= maximum > 0:
                raise PatternError(
                    f"must not repeat {found[0]}; the second number is the larger one, and not 0"
                )
        else:
            return None
        self.portable.append(self.text[start : self.at])
        if self.json:
            self.takes("?")  # a lazy repetition takes the same, where there is one reading
        return minimum, maximum

    def escape(self) -> tuple[Spans, bool]:
        """Parse what follows a backslash; also whether the set is an estimate."""
        char = self.take()
        if char in "dD":
            return (DIGITS if char == "d" else complement_estimate(DIGITS)), True
        if char in "pP" and not self.json:
            return self.parse_category(char), True
        if char in "wWsS" and self.json:
            base = _WORD if char in "wW" else _SPACE
            return (complement(base) if char.isupper() else union((*base, (0x80, 0x10FFFF)))), True
        if char in _UNPORTABLE:
            raise PatternError(f"must not use \\{char}: {_UNPORTABLE[char]}")
        if char == "u" and self.json:
            return make_spans(self.parse_hexadecimal()), False
        known = (_JSON_CHARACTERS if self.json else _CHARACTERS).get(char)
        if known is None and char not in _ESCAPABLE and (not self.json or char.isalnum()):
            if self.json:
                raise PatternError("must not use look-around, back references or named characters")
            raise self.make_fault()
        return make_spans(known or char), False

    def parse_category(self, sign: str) -> Spans:
        found = _CATEGORY.match(self.text, self.at)
        if found is None:
            raise PatternError(
                f"must not use \\{sign}{self.text[self.at : self.at + 5]}: XSD 1.0 has general categories such as "
                "\\p{L} and \\p{Lu}, and engines agree on all but Lo and Cn; is not a regular expression here"
            )
        self.at, self.xsd_only = found.end(), True
        members = estimate_category(found[1])
        return complement_estimate(members) if sign == "P" else members

    def parse_hexadecimal(self) -> str:
        digits = self.text[self.at : self.at + 4]
        if not re.fullmatch("[0-9A-Fa-f]{4}", digits):
            raise self.make_fault()
        self.at += 4
        return chr(int(digits, 16))

    def parse_character_class(self, start: int) -> Spans:
        """Parse a class behind its bracket, and write it out where it subtracts another."""
        negated = self.takes("^")
        ranges: list[tuple[int, int]] = []
        estimated = False
        subtracted: Spans | None = None
        while not self.takes("]"):
            if self.text.startswith("-[", self.at) and ranges and not self.json:
                self.at += 2
                subtracted = self.parse_character_class(self.at - 1)
                if not self.takes("]"):
                    raise self.make_fault()
                break
            low, rough = self.parse_member(first=not ranges)
            estimated = estimated or rough
            if re.compile(r"-[^][]", re.DOTALL).match(self.text, self.at):
                self.at += 1
                high, open_end = self.parse_member(first=False)
                if rough or open_end or high[0][0] < low[0][0]:
                    raise self.make_fault()
                ranges.append((low[0][0], high[0][0]))
            else:
                ranges.extend(low)
        if not ranges:
            raise self.make_fault()
        members = union(ranges)
        if negated:
            members = complement_estimate(members) if estimated else complement(members)
        if subtracted is None:
            self.portable.append(self.text[start : self.at])
            return members
        self.portable.pop()
        members = meet(members, complement(subtracted))
        if estimated or not members:
            raise PatternError(
                "must not subtract a class from a category or digits, nor all of a class; name the rest"
            )
        self.portable.append(f"[{''.join(map(_write_range, members))}]")
        return members

    def parse_member(self, *, first: bool) -> tuple[Spans, bool]:
        """Parse one character of a class, or a category."""
        char = self.take()
        if char == "\\":
            return self.escape()
        if char == "[" or (char == "-" and not (first or self.text.startswith("]", self.at))):
            raise PatternError(f"must write \\{char} for the character {char} in a class")
        return make_spans(char), False


def _write_range(codes: tuple[int, int]) -> str:
    first, last = (f"\\{chr(code)}" if chr(code) in _ESCAPABLE else chr(code) for code in codes)
    return first if codes[0] == codes[1] else f"{first}-{last}"


# --- one reading -----------------------------------------------------------------------------------------------------


def _check_repeats(parts: Parts, times: int) -> None:
    """Refuse repetitions that multiply to too many, and repetitions of a part that may be empty."""
    for part in parts:
        if isinstance(part, Choice):
            for branch in part.branches:
                _check_repeats(branch, times)
        elif isinstance(part, Repeat):
            inner = times * max(part.minimum, part.maximum or 1)
            if inner > REPEATED:
                raise PatternError(f"must not repeat more than {REPEATED} times")
            if _is_nullable(part.body):
                raise PatternError(
                    "must not repeat what may be empty: write (a+)? for (a*)?, and a* for (a?)*"
                )
            _check_repeats(part.body, inner)


def _check_reading(parts: Parts, follow: Spans) -> Spans:
    """Check that each next character says which part takes it; returns the characters that may come first.

    Args:
        parts: a sequence.
        follow: the characters that may come behind it.
    """
    for part in reversed(parts):
        first = _compute_first((part,))
        if isinstance(part, Repeat):
            if part.minimum != part.maximum:
                _check_disjoint(first, follow)
            if (part.minimum, part.maximum) != (0, 1) and _has_group_at_end(part.body, -1):
                raise PatternError(
                    "must not end a repeated part with a repeated group, in which libxml2 errs: put a character behind "
                    "the inner group, as in (a(,b)*;)*"
                )
            _check_reading(part.body, follow if part.maximum == 1 else union((*first, *follow)))
        elif isinstance(part, Choice):
            _check_choice(part, follow)
        follow = union((*first, *follow)) if _is_nullable((part,)) else first
    return follow


def _check_choice(choice: Choice, follow: Spans) -> None:
    """Check that each next character says which branch takes it."""
    for at, branch in enumerate(choice.branches):
        if _has_group_at_end(branch, 1) or _has_group_at_end(branch, -1):
            raise PatternError(
                "must not begin or end an alternative with a repeated group, in which libxml2 errs: put the "
                "alternatives in parts of their own, or a character around the group"
            )
        _check_reading(branch, follow)
        for other in choice.branches[at + 1 :]:
            _check_branches(branch, other, follow)


def _without_ending(parts: Parts) -> Parts:
    r"""Leave out an ending of fixed length behind a repeated class with its characters, as ``[a-z.]+\.(md|json)`` has.

    A matcher tries the ending from the last character on, so that it takes no more than the ending's length.
    """
    for at in range(len(parts) - 1, -1, -1):
        part = parts[at]
        if isinstance(part, Repeat):
            ending = parts[at + 1 :]
            inside = part.body[0].admits if isinstance(part.body[0], Atom) else ()
            if part.maximum is None and not part.grouped and ending and _is_ending(ending, inside):
                _check_reading(ending, ())
                return parts[: at + 1]
            break
    return parts


def _is_ending(parts: Parts, inside: Spans) -> bool:
    """Check that a sequence is of single characters or alternatives, each of them within a set or outside of it."""
    return all(
        not overlap(part.admits, inside) or not overlap(part.admits, complement(inside))
        if isinstance(part, Atom)
        else isinstance(part, Choice) and all(_is_ending(branch, inside) for branch in part.branches)
        for part in parts
    )


def _has_group_at_end(parts: Parts, step: int) -> bool:
    """Check whether a repeated group may come first, or last with a step of -1."""
    for part in parts[::step]:
        if isinstance(part, Repeat) and (
            (part.maximum != 1 and part.grouped) or _has_group_at_end(part.body, step)
        ):
            return True
        if isinstance(part, Choice) and any(_has_group_at_end(branch, step) for branch in part.branches):
            return True
        if not _is_nullable((part,)):
            break
    return False


def _check_branches(left: Parts, right: Parts, follow: Spans) -> None:
    """Check that two alternatives differ at a single character, behind single characters that they share."""
    at = 0
    while at < min(len(left), len(right)) and left[at] == right[at] and isinstance(left[at], Atom):
        at += 1
    one, other = left[at:], right[at:]
    if not (one or other):
        raise PatternError("must not have the same alternative twice")
    nullable = _is_nullable(one), _is_nullable(other)
    if all(nullable):
        raise PatternError("must not have two alternatives that may be empty")
    behind_one = union((*_compute_first(one), *follow)) if nullable[0] else _compute_first(one)
    behind_other = union((*_compute_first(other), *follow)) if nullable[1] else _compute_first(other)
    _check_disjoint(behind_one, behind_other)


def _check_disjoint(left: Spans, right: Spans) -> None:
    if not overlap(left, right):
        return
    shared = _pick(meet(left, right))
    raise PatternError(
        f"must not be read in two ways: two parts may take the same character {shared!r} there, as in a*a*, (a+)+ and "
        "(a|[a-c]), which engines read differently or in exponential time; make the parts begin with other characters"
    )


def _compute_first(parts: Parts) -> Spans:
    """Compute the characters that a sequence can begin with."""
    found: list[tuple[int, int]] = []
    for part in parts:
        if isinstance(part, Atom):
            found.extend(part.admits)
        elif isinstance(part, Repeat):
            found.extend(_compute_first(part.body))
        else:
            for branch in part.branches:
                found.extend(_compute_first(branch))
        if not _is_nullable((part,)):
            break
    return union(found)


def _is_nullable(parts: Parts) -> bool:
    """Check whether a sequence can match the empty text."""
    return all(
        not isinstance(part, Atom)
        and (part.minimum == 0 if isinstance(part, Repeat) else any(map(_is_nullable, part.branches)))
        for part in parts
    )


# --- what an expression admits ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdmittedCharacter:
    """A character outside the allowed set that a pattern admits, with a matching text that contains it."""

    character: str
    sample: str


def find_outside(
    expression: Expression, allowed: Spans, minimum: int = 0, maximum: int | None = None
) -> AdmittedCharacter | None:
    """Find a character outside ``allowed`` that the expression admits; None proves that there is no such character.

    The sample text respects the lengths if such a sample is found.
    """
    shortest: AdmittedCharacter | None = None
    for stretch in (3, 1, 0, 2, *range(4, min(minimum, 64) + 1)):
        _, bad = _spell(expression.parts, allowed, stretch)
        if bad is None:
            return None
        if minimum <= len(bad.sample) and (maximum is None or len(bad.sample) <= maximum):
            return bad
        if shortest is None or len(bad.sample) < len(shortest.sample):
            shortest = bad
    return shortest


_Spelling: TypeAlias = "tuple[str, AdmittedCharacter | None]"
"""A matching text and, if there is one, a text that contains a character outside the allowed set."""


def _spell(parts: Parts, allowed: Spans, stretch: int) -> _Spelling:
    spelled = [_spell_part(part, allowed, stretch) for part in parts]
    plain = [text for text, _ in spelled]
    for at, (_, bad) in enumerate(spelled):
        if bad is not None:
            sample = "".join((*plain[:at], bad.sample, *plain[at + 1 :]))
            return "".join(plain), AdmittedCharacter(bad.character, sample)
    return "".join(plain), None


def _spell_part(part: Atom | Repeat | Choice, allowed: Spans, stretch: int) -> _Spelling:
    if isinstance(part, Atom):
        bad = _pick(meet(part.admits, complement(allowed)))
        return _pick(meet(part.admits, allowed)) or bad, AdmittedCharacter(bad, bad) if bad else None
    if isinstance(part, Choice):
        branches = [_spell(branch, allowed, stretch) for branch in part.branches]
        return branches[0][0], next((found for _, found in branches if found is not None), None)
    plain, inner = _spell(part.body, allowed, stretch)
    if inner is None:
        return plain * part.minimum, None
    count = max(part.minimum, stretch if part.maximum is None else min(part.maximum, stretch), 1)
    before = count // 2
    sample = plain * before + inner.sample + plain * (count - 1 - before)
    return plain * part.minimum, AdmittedCharacter(inner.character, sample)


_PREFERRED: Final = " \n\t\u00a0<&\"'aA0-_."


def _pick(of: Spans) -> str:
    if not of:
        return ""
    return next((char for char in _PREFERRED if holds(of, ord(char))), chr(of[0][0]))


def compute_longest_match(expression: Expression) -> int | None:
    """Compute the length of the longest match; None if unbounded."""
    return _compute_width(expression.parts)


def _compute_width(parts: Parts) -> int | None:
    total = 0
    for part in parts:
        if isinstance(part, Atom):
            wide: int | None = 1
        elif isinstance(part, Repeat):
            inner = _compute_width(part.body)
            wide = None if inner is None or part.maximum is None else inner * part.maximum
        else:
            widths = [_compute_width(branch) for branch in part.branches]
            known = [each for each in widths if each is not None]
            wide = max(known) if len(known) == len(widths) else None
        if wide is None:
            return None
        total += wide
    return total


def collect_letters(expression: Expression) -> frozenset[str]:
    """Collect the ASCII letters, in lower case, that the expression can admit."""
    admitted = union(span for atom in _iter_atoms(expression.parts) for span in atom.admits)
    return frozenset(chr(code).lower() for code in _ASCII_LETTERS if holds(admitted, code))


def vocabulary(expression: Expression) -> frozenset[str]:
    """Collect words of two or more letters that occur literally in the expression, in lower case."""
    return frozenset(
        word.lower() for text in _iter_literals(expression.parts) for word in _LITERAL.findall(text)
    )


_ASCII_LETTERS: Final = (*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1))
_LITERAL: Final = re.compile("[A-Za-z]{2,}")


def _list_inner(part: Repeat | Choice) -> tuple[Parts, ...]:
    return (part.body,) if isinstance(part, Repeat) else part.branches


def _iter_atoms(parts: Parts) -> Iterator[Atom]:
    for part in parts:
        if isinstance(part, Atom):
            yield part
        else:
            for each in _list_inner(part):
                yield from _iter_atoms(each)


def _iter_literals(parts: Parts) -> Iterator[str]:
    """Yield the runs of literal characters in every branch."""
    run: list[str] = []
    for part in parts:
        if isinstance(part, Atom):
            one = len(part.admits) == 1 and part.admits[0][0] == part.admits[0][1]
            run.append(chr(part.admits[0][0]) if one else " ")
            continue
        yield "".join(run)
        run = []
        for each in _list_inner(part):
            yield from _iter_literals(each)
    yield "".join(run)


# --- samples ---------------------------------------------------------------------------------------------------------

_SAMPLED: Final = "a0A-_. "
_LONG: Final = 1 << 20


def write_sample(expression: Expression, extra: int) -> str:
    """Write a text that matches, with ``extra`` more turns than needed; cut where it would exceed any message."""
    return _write_sample(expression.parts, extra)


def _write_sample(parts: Parts, extra: int) -> str:
    text = ""
    for part in parts:
        if len(text) >= _LONG:
            break
        if isinstance(part, Atom):
            text += next(
                (char for char in _SAMPLED if holds(part.admits, ord(char))), ""
            ) or _find_first_carried(part.admits)
        elif isinstance(part, Choice):
            text += _write_sample(part.branches[0], extra)
        else:
            turn = _write_sample(part.body, extra)
            turns = part.minimum + extra if part.maximum is None else min(part.minimum + extra, part.maximum)
            text += turn * min(turns, _LONG // max(len(turn), 1) + 1)
    return text


_CARRIED: Final = ((0x9, 0xA), (0xD, 0xD), (0x20, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF))
"""The characters of XML 1.0."""


def _find_first_carried(of: Spans) -> str:
    carried = meet(of, _CARRIED)
    return chr(carried[0][0]) if carried else ""
