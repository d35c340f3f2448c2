"""Reads moments and amounts in texts: dates, times of day and numbers in the spellings of CLDR's locales.

Evidence takes each reading that a text allows. A request authorises only what its spelling means in one way, or in the
way of the declared locale; a number authorises an amount only where it is not part of a date, a time or an id.

Keys: ``date 2027-05-12``, ``day 05-12``, ``in 3`` (days from now) and ``weekday 4`` name a day. ``clock 15:00 KEY``
is a time of that day, and ``clocked KEY`` says that it has one. ``amount 9000`` is a number that may be an amount. A
key that holds in one convention only ends with ``@`` and that convention: the mark of decimals, the order of day and
month, or a language. Every pattern is linear in the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple
from unicodedata import category, numeric

from agentserver.provenance.evidence.lexicon import LETTER, find_words, fold_word
from agentserver.provenance.evidence.shapes import draw_shape, may_have_bound_date, may_have_gapped_date

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from agentserver.provenance.evidence.labels import Scalar
    from agentserver.provenance.evidence.lexicon import Lexicon, Word

WORD: Final = LETTER
_GAP: Final = r"[ \t\u00a0\u202f]{1,3}"
_FEW: Final = rf"(?:{WORD}{{1,5}}\.?{_GAP}){{0,2}}?"
_ORDINAL: Final = rf"(?:\.|º|ª|{WORD}{{1,3}})?"
_RANGE: Final = rf"(?:(\d{{1,2}}){_ORDINAL}[ \u00a0]?([-–—]|(?<=[ \u00a0]){WORD}{{1,5}})[ \u00a0]?)?"
_HOUR: Final = r"[ \u00a0]?[aApP]\.?[mM]\b"
"""Pattern behind a number that is the hour of a time."""
_ISO: Final = re.compile(r"(\d(?<![\w/-]\d)(?<!\d[.,]\d)\d{3})([-/.])(\d{1,2})\2(\d{1,2})(?![\d/-]|\.\w)")
_EAST: Final = re.compile(r"(?:(\d{4})[ ]?[年년][ ]?)?(?<!\d)(\d{1,2})[ ]?[月월][ ]?(\d{1,2})[ ]?[日일号號]")
_DIGITS: Final = re.compile(r"(\d(?<![\w.,/-]\d)\d?)([./-])(\d{1,2})\2(\d{4})(?![\w/-]|\.\w)")
_SHORT_YEAR: Final = re.compile(
    r"(\d(?<![\w.,:/-]\d)\d?)([./-])(\d{1,2})\2(\d{2})(?![\w/-]|[.,]\w)", re.ASCII
)
_GAPPED: Final = re.compile(
    r"(\d(?<![\w.,/-]\d)\d{0,3})\.[ \u00a0](\d{1,2})\.[ \u00a0](\d{4}|\d{1,2})(?!\w|[.,]\d)", re.ASCII
)
_COMPACT: Final = re.compile(
    r"(\d(?<![\w.,/-]\d)\d{3})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(?:\d\d)?(Z)?)?(?![\w/-]|[.,]\d)", re.ASCII
)
"""Day in eight digits, as calendars exchange it, with a time or without."""
_BOUND: Final = re.compile(
    rf"(\d(?<![\w.,/-]\d)\d?)([./-]?)({WORD}{{3,12}})\.?\2(\d{{4}}|\d{{2}})(?![\d/-]|\.\d)"
)
"""Day whose month is a word, bound to it with marks or with nothing, as ``31-Aug-2027``."""
_TOUCHING: Final = re.compile(rf"\d(?:\d{{7}}|[./-]?{WORD}{{3,12}}\.?[./-]?\d\d)")
"""Pattern within each day of eight digits, and each whose month is bound to it."""
_PARTED: Final = re.compile(r"\d([-/.])[ \u00a0]?\d{1,2}\1[ \u00a0]?\d")
"""Pattern within each date in digits."""
_DAY_FIRST: Final = tuple(
    re.compile(
        rf"(?<![\w.,:/-]){_RANGE}(?<!\d)(\d{{1,2}})(?!{_HOUR}){_ORDINAL}{_GAP}"
        rf"(?:{WORD}{{1,3}}\.?{_GAP}){{{between}}}({WORD}{{2,}})\.?"
        rf"(?:,?{_GAP}{_FEW}(\d{{4}})(?!\d))?"
    )
    for between in range(3)
)
"""Patterns of a day before its month, by the number of words between them."""
_MONTH_FIRST: Final = re.compile(
    rf"(?<!\w)({WORD}{{2,}})\.?{_GAP}{_RANGE}(?<!\d)(\d{{1,2}})(?!\d|[.,:]\d|{_HOUR}){_ORDINAL}(?:,?{_GAP}{_FEW}(\d{{4}})(?!\d))?(?!\w)"
)
_YEAR_FIRST: Final = re.compile(
    rf"(\d(?<![\w.,/-]\d)\d{{3}})\.?{_GAP}{_FEW}({WORD}{{2,}})\.?{_GAP}(\d{{1,2}})(?!\w)"
)
_ZONE: Final = r"(?:[ ]?(Z|UTC|GMT)?[ ]?([+-]\d{2}:?\d{2})?(?!\w))?"
_HALF: Final = r"([aApP]\.?[ ]?[mM]\b\.?)"
_CLOCK: Final = re.compile(
    rf"(\d{{1,2}})(?:[:hH](\d{{2}})(?::\d{{2}}(?:\.\d{{1,6}})?)?(?![\d:])[ ]?{_HALF}?{_ZONE}"
    rf"|(?:\.(\d{{2}}))?[ ]?(?:{_HALF}|(?:[Uu][hu]r|[Hh])(?!\w)))"
)
_EAST_CLOCK: Final = re.compile(
    r"(午前|午後|上午|下午|오전|오후)?[ ]?(\d{1,2})[ ]?[時时點点시](?:[ ]?(\d{1,2})[ ]?[分분]|(半))?"
)
_BREAK: Final = re.compile(r"[.!?;](?=\s|$)|\n|[。！？]")
_AHEAD: Final = re.compile(
    rf"(?:(?<!\w)({WORD}{{1,12}}){_GAP})?(?<![\w.,])(\d{{1,3}})[ \u00a0]?({WORD}{{1,14}})"
)
_CONNECTORS: Final = frozenset(
    ["to", "till", "until", "through", "bis", "au", "à", "al", "a", "até", "до", "по", "do", "tot", "til"]
)
_LONGEST_RANGE: Final = 31
_YEAR_DIGITS: Final = 4
_CENTURY: Final = 2000
"""Century that a year of two digits lacks."""
COMPACT: Final = "compact"
"""Convention of a day without marks, which is a number as well: no locale has it, so that a request never means it."""
_MONTHS: Final = 12
_SHORT: Final = 3
_NOON: Final = 12


def load_lexicon() -> Lexicon:
    """Load the table of words, which takes some time, when a text is first read."""
    from agentserver.provenance.evidence.lexicon import LEXICON

    return LEXICON


class DayReading(NamedTuple):
    """Day of a text, by key, with its place and the convention in which it holds."""

    key: str
    start: int
    end: int
    convention: str = ""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Time of day in a text: minutes since midnight, and minutes east of Greenwich if a zone is given."""

    minutes: int
    start: int
    end: int
    zone: int | None = None

    @property
    def shown(self) -> str:
        """Hours and minutes."""
        return f"{self.minutes // 60:02}:{self.minutes % 60:02}"

    def list_spellings(self) -> tuple[str, ...]:
        """List the spellings in which a text is looked up for the time of day."""
        hour, minute = divmod(self.minutes, 60)
        half = f"{(hour + _NOON - 1) % _NOON + 1}", "am" if hour < _NOON else "pm"
        full = (f"{hour}:{minute:02}", f"{hour:02}:{minute:02}", f"{half[0]}:{minute:02} {half[1]}")
        even = (f"{half[0]} {half[1]}", f"{hour} Uhr", f"{hour} h", f"{hour}時", f"{hour}时", f"{hour}点")
        return (*full, *(() if minute else even))


def find_days(text: str, words: list[Word]) -> list[DayReading]:
    """Find the days of a text, in order of place and without overlaps, except two readings of one place."""
    found = [*find_written_days(text), *find_named_days(text), *_find_relative(text, words)]
    found.sort(key=lambda each: (each.start, -each.end))
    accepted: list[DayReading] = []
    for each in found:
        if (
            not accepted
            or each.start >= accepted[-1].end
            or (each.start, each.end) == (accepted[-1].start, accepted[-1].end)
        ):
            accepted.append(each)
    return accepted


def find_written_days(text: str) -> Iterator[DayReading]:
    """Find the days that are written in digits, or as one word with the month."""
    if text.isascii():
        shape = draw_shape(text)
        parted, bound = may_have_gapped_date(shape), may_have_bound_date(shape)
    else:
        parted, bound = _PARTED.search(text) is not None, _TOUCHING.search(text) is not None
    for match in _ISO.finditer(text) if parted else ():
        yield from _make_day(match, int(match[1]), int(match[3]), int(match[4]))
    for match in () if text.isascii() else _EAST.finditer(text):
        yield from _make_day(match, int(match[1] or 0), int(match[2]), int(match[3]))
    for match in _DIGITS.finditer(text) if parted else ():
        first, second, year = int(match[1]), int(match[3]), int(match[4])
        sure = match[2] == "." or first == second or max(first, second) > _MONTHS
        if first == second or first <= _MONTHS < second:
            yield from _make_day(match, year, first, second)
        else:
            yield from _make_day(match, year, second, first, "" if sure else "dm")
            if not sure:
                yield from _make_day(match, year, first, second, "md")
    yield from _find_parted_days(text) if parted else ()
    yield from _find_bound_days(text) if bound else ()


def _find_parted_days(text: str) -> Iterator[DayReading]:
    """Find the days whose year has two digits, or whose points have spaces behind them."""
    for match in _SHORT_YEAR.finditer(text):
        yield from _read_short_year(match)
    for match in _GAPPED.finditer(text):
        first, second, third = int(match[1]), int(match[2]), int(match[3])
        if len(match[1]) == _YEAR_DIGITS:
            yield from _make_day(match, first, second, third)
        elif len(match[3]) == _YEAR_DIGITS:
            yield from _make_day(match, third, second, first)


def _find_bound_days(text: str) -> Iterator[DayReading]:
    """Find the days of eight digits, and those whose month is a word that is bound to the digits."""
    for match in _COMPACT.finditer(text):
        how = "" if match[4] else COMPACT
        yield from _make_day(match, int(match[1]), int(match[2]), int(match[3]), how)
    for match in _BOUND.finditer(text):
        year = int(match[4]) if len(match[4]) == _YEAR_DIGITS else _CENTURY + int(match[4])
        for month, language in load_lexicon().months.get(fold_word(match[3]), ()):
            yield from _make_day(match, year, month, int(match[1]), language if match[2] else COMPACT)


def _read_short_year(match: re.Match[str]) -> Iterator[DayReading]:
    """Read a day whose year has two digits. With points the day is first, with other marks anything may be."""
    first, second, third = int(match[1]), int(match[3]), int(match[4])
    yield from _make_day(match, _CENTURY + third, second, first, "" if match[2] == "." else "dm")
    if match[2] != ".":
        yield from _make_day(match, _CENTURY + third, first, second, "md")
        yield from _make_day(match, _CENTURY + first, second, third, "ymd")


def _make_day(
    match: re.Match[str], year: int, month: int, day: int, convention: str = ""
) -> Iterator[DayReading]:
    try:
        key = f"date {date(year, month, day)}" if year else f"day {date(2000, month, day):%m-%d}"
    except ValueError:
        return
    yield DayReading(key, *match.span(), convention)


def find_named_days(text: str) -> Iterator[DayReading]:
    """Find the days whose month is a word."""
    months = load_lexicon().months
    if not _may_name_month(text, months):
        return
    for match in _YEAR_FIRST.finditer(text):
        for month, language in months.get(fold_word(match[2]), ()):
            yield from _make_day(match, int(match[1]), month, int(match[3]), language)
    before = {
        match.start(1): match
        for match in _MONTH_FIRST.finditer(text)
        if match[1].casefold() in months or fold_word(match[1]) in months
    }
    for between, pattern in enumerate(_DAY_FIRST):
        for match in pattern.finditer(text):
            known = match[4].casefold() in months or fold_word(match[4]) in months
            if known and not (between and match.start(4) in before):  # "2 for August 31" is one day
                yield from _read_named(match, match[4], match[1], match[2], match[3], match[5])
    for match in before.values():
        yield from _read_named(match, match[1], match[2], match[3], match[4], match[5])


def _may_name_month(text: str, months: Mapping[str, object]) -> bool:
    """Check whether a word of a text is a month. A word that a mark divides may contain another, and always counts."""
    if text.isascii():
        return not months.keys().isdisjoint(_PLAIN_WORD.findall(text.lower()))
    words = _LETTERS.findall(text)
    return any(word.casefold() in months or fold_word(word) in months or not word.isalnum() for word in words)


_PLAIN_WORD: Final = re.compile(r"[a-z]{2,}")
_LETTERS: Final = re.compile(rf"{WORD}{{2,}}")


def _read_named(
    match: re.Match[str], word: str, first: str | None, mark: str | None, last: str, year: str | None
) -> Iterator[DayReading]:
    """Read a named day, or a range of days of one month. Without a year, a short word counts in English only."""
    lexicon = load_lexicon()
    mark = fold_word(mark or "")
    joined = first and (mark in {"-", "–", "—"} or mark in _CONNECTORS)
    begin = int(first) if first and joined else int(last)
    days = [*range(begin, int(last) + 1)][:_LONGEST_RANGE] or [int(last)]
    if first and not joined and mark in lexicon.joining:
        days.append(int(first))
    for month, language in lexicon.months.get(fold_word(word), ()):
        if year or len(word) > _SHORT or language == "en" or not match[0].startswith(word):
            for day in days:
                yield from _make_day(match, int(year or 0), month, day, language)


_APOSTROPHE: Final = re.compile("['’]")


def _find_relative(text: str, words: list[Word]) -> Iterator[DayReading]:
    lexicon = load_lexicon()
    for number, (word, start, end) in enumerate(words):
        phrases = (
            [(word, end)] if word.isascii() else [(word, end), (word[:2], start + 2), (word[:3], start + 3)]
        )
        if word in lexicon.heads:
            for many in (2, 3):
                *_, (_, _, last) = words[number : number + many]
                phrases.insert(0, (fold_word(text[start:last]), last))
        for part in _APOSTROPHE.finditer(word) if not word.isalpha() else ():
            phrases += [(word[: part.start()], end), (word[part.end() :], end)]  # *Friday's*, *dell'oggi*
        for phrase, stop in phrases:
            if keys := lexicon.days.get(phrase):
                yield from (DayReading(key, start, stop, "" if len(keys) == 1 else "?") for key in keys)
                break
    for match in _AHEAD.finditer(text):
        before, after = fold_word(match[1] or ""), fold_word(match[3])
        days = lexicon.lengths.get((before, after)) or lexicon.lengths.get(("", after))
        if days:
            yield DayReading(f"in {int(match[2]) * days}", *match.span())


def find_clocks(text: str) -> list[ClockReading]:
    """Find the times of day in a text."""
    found = []
    for match in _CLOCK.finditer(text):
        before, beyond = (
            text[match.start() - 1 : match.start()],
            text[max(0, match.start() - 2) : match.start() - 1],
        )
        if before and (before.isalnum() or before in "_:.,/+-") and not (beyond.isdigit() and before in "T-"):
            continue
        hour, minute = int(match[1]), int(match[2] or match[6] or 0)
        half = (match[3] or match[7] or "")[:1].lower()
        zone = _parse_offset(match[4], match[5])
        found += _make_clock(match, hour, minute, half, zone)
    for match in _COMPACT.finditer(text):
        if match[4]:
            found += _make_clock(match, int(match[4]), int(match[5]), "", 0 if match[6] else None)
    for match in _EAST_CLOCK.finditer(text):
        half = {"午前": "a", "上午": "a", "오전": "a", None: ""}.get(match[1], "p")
        found += _make_clock(match, int(match[2]), 30 if match[4] else int(match[3] or 0), half, None)
    return found


def _make_clock(
    match: re.Match[str], hour: int, minute: int, half: str, zone: int | None
) -> list[ClockReading]:
    if half and 0 < hour <= _NOON:
        hour = hour % _NOON + (_NOON if half == "p" else 0)
    if hour > 24 or minute > 59 or (half and not hour):  # noqa: PLR2004
        return []
    return [ClockReading(hour % 24 * 60 + minute, *match.span(), zone)]


def _parse_offset(name: str | None, shift: str | None) -> int | None:
    if shift:
        digits = shift.replace(":", "")
        return (-1 if digits[0] == "-" else 1) * (int(digits[1:3]) * 60 + int(digits[3:5]))
    return 0 if name else None


def list_moment_keys(text: str, days: list[DayReading], clocks: list[ClockReading]) -> Iterator[str]:
    """List the keys of days, each with the times that belong to it.

    A time belongs to the nearest day of its sentence. In a sentence without a day it belongs to each day of the text
    whose own sentence has no time.
    """
    for each in days:
        yield _format_tag(each.key, each)
    for clock in clocks:
        yield f"clock {clock.shown}"
    bound = _bind(text, days, clocks)
    for day, clock in bound:
        yield _format_tag(f"clocked {day.key}", day)
        yield _format_tag(f"wall {clock.shown} {day.key}", day)
        if clock.zone is None:
            yield _format_tag(f"clock {clock.shown} {day.key}", day)
        elif day.key.startswith("date ") and (key := _build_utc_key(date.fromisoformat(day.key[5:]), clock)):
            yield _format_tag(key, day)


def _build_utc_key(day: date, clock: ClockReading) -> str:
    """Build the key of a moment in Greenwich; empty without a zone, or beyond the years that Python counts."""
    if clock.zone is None:
        return ""
    try:
        at = datetime.combine(day, time()) + timedelta(minutes=clock.minutes - clock.zone)
    except OverflowError:
        return ""
    return f"utc {at:%Y-%m-%dT%H:%M}"


def _format_tag(key: str, day: DayReading) -> str:
    return f"{key}@{day.convention}" if day.convention else key


PAIRS: Final = 256
"""Pairs of a day and a time in one text at most."""


def _bind(
    text: str, days: list[DayReading], clocks: list[ClockReading]
) -> list[tuple[DayReading, ClockReading]]:
    ends = [match.start() for match in _BREAK.finditer(text)] if days and clocks else []
    sentence = _sentence_of(ends)
    pairs: list[tuple[DayReading, ClockReading]] = []
    loose: list[ClockReading] = []
    for clock in clocks[:PAIRS]:
        same_sentence = [day for day in days[:PAIRS] if sentence(day.start) == sentence(clock.start)]
        near = min((_compute_distance(day, clock) for day in same_sentence), default=None)
        pairs += [(day, clock) for day in same_sentence if _compute_distance(day, clock) == near]
        loose += [clock] if near is None else []
    bound = {sentence(day.start) for day, _ in pairs}
    pairs += [(day, clock) for clock in loose for day in days[:PAIRS] if sentence(day.start) not in bound]
    return pairs[: PAIRS * 4]


def _sentence_of(ends: list[int]) -> Callable[[int], int]:
    return lambda place: bisect_left(ends, place)


def _compute_distance(day: DayReading, clock: ClockReading) -> int:
    return max(day.start - clock.end, clock.start - day.end, 0)


_NUMBER: Final = re.compile(r"\d++(?:[.,'’٫٬_．，]\d++|[ \u00a0\u202f\u2009]\d{3}(?!\d))*+")
_EAST_NUMBER: Final = re.compile(
    r"(?<!\d)\d{0,30}+[〇一二三四五六七八九十百千万萬億亿兆两兩][〇一二三四五六七八九十百千万萬億亿兆两兩\d]*+"
)
_TAIL: Final = re.compile(
    rf"[ \u00a0\u202f]?([%€£¥₹₽$]|{WORD}{{1,14}}\.?)?(?:[ \u00a0\u202f]({WORD}{{1,14}}|[€£¥₹₽$]))?"
)
_HEAD: Final = re.compile(rf"([^\s\w]|(?<!\w){WORD}{{1,4}}\.?)?[ \u00a0\u202f]?$")
_MINOR: Final = frozenset(
    [
        "cent",
        "cents",
        "pence",
        "penny",
        "centime",
        "centimes",
        "centavo",
        "centavos",
        "céntimo",
        "céntimos",
        "grosz",
        "groszy",
        "копеек",
        "øre",
        "öre",
    ]
)
CUT: Final = "\ufffd"
"""Mark of words that a text is read without; a number behind it is no amount."""
_LABELS: Final = frozenset((CUT, "#", "№", "no.", "nr.", "n°", "nº", "num."))
_ATTACHED: Final = frozenset("@/:#_=&+.-\\?")
_LONG_ID: Final = 4
_GROUP: Final = 3
_PERCENT: Final = 2


class AmountReading(NamedTuple):
    """Number in a text that may be an amount. ``money``: a currency is next to it. ``bare``: nothing is."""

    value: Decimal
    start: int
    end: int
    convention: str = ""
    money: bool = False
    bare: bool = False


def read_number(text: str) -> list[tuple[Decimal, str]]:
    """Read digits with marks in every way that they allow, each with its convention; empty if there is none."""
    if text.isdecimal() or (len(text.rpartition(".")[2]) != _GROUP and _POINTED.fullmatch(text)):
        return [(Decimal(text), "")]
    body = text.translate(_PLAIN)
    groups = re.split(r"[.,' ]", body)
    marks = re.sub(r"\d", "", body)
    grouped = _is_grouped(groups, marks)
    last = marks[-1]
    decimal = (
        last in ".," and marks.count(last) == 1 and (len(marks) == 1 or _is_grouped(groups[:-1], marks[:-1]))
    )
    fraction = Decimal("".join(groups[:-1]) + "." + groups[-1]) if decimal else None
    if grouped and fraction is not None and len({*marks}) == 1:
        other = "," if last == "." else "."
        return [(Decimal("".join(groups)), f"whole{other}"), (fraction, last)]
    if fraction is not None and not (grouped and len({*marks}) == 1):
        return [(fraction, "")]
    return [(Decimal("".join(groups)), "")] if grouped and len({*marks}) == 1 else []


_POINTED: Final = re.compile(r"\d+\.\d+")
_PLAIN: Final = {
    **{ord(each): "'" for each in "’٬_"},
    **{ord(each): " " for each in "\u00a0\u202f\u2009"},
    ord("٫"): ".",
    ord("．"): ".",
    ord("，"): ",",
}
"""Marks that stand for others. Only the Arabic mark of decimals is certain, and never of groups."""


def _is_grouped(groups: list[str], marks: str) -> bool:
    """Check whether digits are in groups of three, or in the groups of India, of one mark and not after a zero."""
    if len({*marks}) > 1 or (len(groups) > 1 and groups[0].startswith("0")):
        return False
    first, *following = groups
    if not following or len(following[-1]) != _GROUP or not 0 < len(first) <= _GROUP:
        return not following
    return all(len(each) == _GROUP for each in following) or all(len(each) == 2 for each in following[:-1])  # noqa: PLR2004


def find_amounts(text: str, words: list[Word], occupied: list[tuple[int, int]]) -> list[AmountReading]:
    """Find the numbers that are said as amounts: not in a day, a time, a link or an id."""
    eastern = [*find_eastern_numbers(text, occupied)]
    occupied = sorted([*occupied, *((each.start, each.end) for each in eastern)])
    found = [*eastern, *find_numbers(text, occupied), *find_numbers_in_words(text, words)]
    if any(each.money for each in found):
        found = [each for each in found if each.money or not each.bare]
    return found


def find_numbers(text: str, occupied: list[tuple[int, int]]) -> Iterator[AmountReading]:
    """Find the numbers in digits that are said as amounts."""
    for match in _NUMBER.finditer(text):
        yield from _read_digits(match, occupied)


def find_marked_numbers(text: str, occupied: list[tuple[int, int]]) -> Iterator[AmountReading]:
    """Find the numbers in digits of a text in ASCII that may be said as another amount than their digits alone."""
    end, lexicon = 0, load_lexicon()
    idle: set[str | None] = set()  # words that change nothing: a table has the same ones in each row
    for mark in _MARKED.finditer(text):
        at, word = mark.start(), mark[1]
        if at < end or word in idle:
            continue
        if _changes_nothing(word, lexicon):
            idle.add(word)
            continue
        while text[at - 1 : at].isdecimal():
            at -= 1
        match = _NUMBER.match(text, at)
        assert match is not None
        end = match.end()
        if not _is_decimal_alone(match, lexicon):
            yield from _read_digits(match, occupied)


def _changes_nothing(word: str | None, lexicon: Lexicon) -> bool:
    """Check for a word behind a number, such as a unit or an exponent, that makes it no other amount."""
    return word is not None and word.lower() not in lexicon.scaling and word.lower() not in _MINOR


def _is_decimal_alone(match: re.Match[str], lexicon: Lexicon) -> bool:
    """Check for digits with a point and a fraction, which are no groups, and with nothing behind that changes them."""
    number = match[0]
    if len(number.rpartition(".")[2]) == _GROUP or not _POINTED.fullmatch(number):
        return False
    behind = _BEHIND.match(match.string, match.end())
    return behind is None or _changes_nothing(behind[1], lexicon)


_BEHIND: Final = re.compile(r"[ ]?(?:%|([A-Za-z\x00-\x08\x0e-\x1b]{1,14}))")
_MARKED: Final = re.compile(rf"\d(?:[.,'_]\d|[ ]\d{{3}}(?!\d)|{_BEHIND.pattern})")
"""Pattern of the last digit before a mark within a number, or before a word."""


def _read_digits(match: re.Match[str], occupied: list[tuple[int, int]]) -> Iterator[AmountReading]:
    start, end = match.span()
    text, lexicon = match.string, load_lexicon()
    after, beyond = text[end : end + 1], text[end + 1 : end + 2]
    if (
        text[start - 1 : start] in _JOINING
        or after in _JOINED
        or (after in _DIVIDING and (beyond.isdigit() if after == " " else beyond.isalnum()))
        or _is_near(text, start)
        or (occupied and _overlaps(occupied, start, end))
    ):
        return
    code = False
    if not _begins_plainly(text, start):
        head = _HEAD.search(text[max(0, start - 8) : start])
        mark = (head[1] or "").casefold() if head else ""
        code = bool(mark) and (fold_word(mark) in lexicon.currencies or mark in "$€£¥₹₽")
        if not _may_begin(text, start, code=code) or mark in _LABELS:
            return
    if after in _CLOSING or (after == " " and beyond in _CLOSING):
        yield from _apply_scale(match, "", "", lexicon, code=code, attached=False)
        return
    tail = _TAIL.match(text, end)
    attached = bool(WORD_START.match(after))
    first, second = map(fold_word, tail.groups("")) if tail else ("", "")
    yield from _apply_scale(match, first, second, lexicon, code=code, attached=attached)


def _is_near(text: str, start: int) -> bool:
    """Check whether only a sign, a space or a bracket, or two of them, are between a number and the last one."""
    if text[start - 1 : start] not in _NEAR or start < 2:  # noqa: PLR2004
        return False
    return text[start - 2].isdecimal() or (text[start - 2] in _NEAR and text[max(0, start - 3)].isdecimal())


_NEAR: Final = frozenset("- ()")
_JOINING: Final = frozenset("@/:#_=&+\\?")
"""Marks that make a number behind them a part of something else."""
_JOINED: Final = frozenset("@/:")
"""Marks that make a number before them a part of something else."""
_DIVIDING: Final = frozenset("-. ")
"""Marks that do so if a letter or digit follows, the space if a digit does."""
_OPENING: Final = frozenset({"", *"\r([{<>}])\"'`,;|*!~^%"})
"""Marks before a number that are neither a currency nor a label. The empty text is the beginning."""
_SPACED: Final = _OPENING | frozenset(" \t=&+/\\?:-")
"""Those before a space and a number."""
_CLOSING: Final = frozenset({"", *"\t\r\n([{<>}])\"'`,;|*!~^.-=&+?#\\"})
"""Marks behind a number that say nothing about it. The empty text is the end."""


def _begins_plainly(text: str, start: int) -> bool:
    """Check whether no currency and no label is before a number, and nothing that it is part of."""
    before = text[start - 1 : start]
    return before in _OPENING or (before == " " and text[start - 2 : start - 1] in _SPACED)


WORD_START: Final = re.compile(r"\w")


def _may_begin(text: str, start: int, *, code: bool) -> bool:
    """Check whether the character before a number makes it no part of something else."""
    before = text[start - 1 : start]
    if before == "-":
        return not text[start - 2 : start - 1].strip()
    return code or not (before.isalnum() or before in _ATTACHED) if before else True


def _overlaps(occupied: list[tuple[int, int]], start: int, end: int) -> bool:
    at = bisect_left(occupied, (end, 0))
    return bool(at) and occupied[at - 1][1] > start


def _apply_scale(
    match: re.Match[str], first: str, second: str, lexicon: Lexicon, *, code: bool, attached: bool
) -> Iterator[AmountReading]:
    """Apply the word behind a number: a scale, a smaller unit or a percentage."""
    start, end = match.span()
    text, written = match.string, match[0]
    if len(written) > _LONGEST:
        return
    sign = (
        -1 if text[start - 1 : start] in {"-", "−"} and not text[max(0, start - 2) : start - 1].strip() else 1
    )
    if not (first or code or attached) and sign == 1:
        for value, convention in read_number(written):
            bare = not convention and len(written) >= _LONG_ID and written.isdigit()
            yield AmountReading(value, start, end, convention, money=False, bare=bare)
        return
    scales = () if first in _MINOR else lexicon.scales.get(first, ())
    if first and not scales and first not in _MINOR:
        scales = tuple({-value for value in lexicon.numbers.get(first, {}).values() if value < 0})
    money = code or (
        first in lexicon.currencies or first in _MONEY or (bool(scales) and second in lexicon.currencies)
    )
    if not scales and attached and not money and not (first and len(first) < _LONG_ID):
        return
    for value, convention in read_number(written):
        for scale in scales or (1,):
            sure = "" if len(scales) < 2 and (first != "m" or money) else "?"  # noqa: PLR2004
            bare = (
                not scales and not money and not convention and written.isdigit() and len(written) >= _LONG_ID
            )
            yield AmountReading(sign * value * scale, start, end, convention or sure, money, bare)
        if first in _MINOR:
            yield AmountReading(sign * value.scaleb(-2), start, end, convention, money=True)
        if first == "%" or text[end : end + 1] == "%":
            yield AmountReading(sign * value.scaleb(-2), start, end, convention)


_MONEY: Final = frozenset("€£¥₹₽$") | _MINOR
_LONGEST: Final = 28


def find_numbers_in_words(text: str, words: list[Word]) -> Iterator[AmountReading]:
    """Find numbers in words: the longest run in each language that begins at a place."""
    lexicon = load_lexicon()
    at = 0
    while at < len(words):
        word, start, _ = words[at]
        languages = lexicon.numbers.get(word)
        if languages is None and not (
            len(word) > GLUED and word[:3] in lexicon.stems and len(word) <= _LONGEST
        ):
            at += 1
            continue
        if text[max(0, start - 2) : start].strip()[-1:].isdigit():
            at += 1
            continue
        runs: dict[Decimal, int] = {}
        for language in languages or _begin_with(word):
            value, many = _read_run(text, words, at, language)
            if many and value and (language == "en" or many > 1 or len(word) > 3 or not word.isascii()):  # noqa: PLR2004
                runs[value] = max(many, runs.get(value, 0))
        longest = max(runs.values(), default=0)
        best = [value for value, many in runs.items() if many == longest]
        for value in best:
            if value > 1:
                yield AmountReading(value, start, words[at + longest - 1][2], "" if len(best) == 1 else "?")
        at += longest or 1


GLUED: Final = 5


def _begin_with(word: str) -> list[str]:
    """List the languages with a number word that a longer word begins with."""
    numbers = load_lexicon().numbers
    return [
        *dict.fromkeys(language for end in range(3, len(word)) for language in numbers.get(word[:end], ()))
    ]


def _read_run(text: str, words: list[Word], at: int, language: str) -> tuple[Decimal, int]:
    """Read the number that begins at a word, and count its words."""
    lexicon = load_lexicon()
    total, current, many, pending = 0, 0, 0, 0
    while at + many + pending < len(words):
        word, start, _ = words[at + many + pending]
        if many and text[words[at + many + pending - 1][2] : start].strip("-‐ \u00a0\u00ad"):
            break
        values = _split_values(word, language)
        if values is None:
            if many and not pending and word in lexicon.joining:
                pending = 1
                continue
            break
        added = _add_values(total, current, values, fresh=not many)
        if added is None:
            break
        total, current = added
        many, pending = many + pending + 1, 0
    return Decimal(total + current), many


def _split_values(word: str, language: str) -> list[int] | None:
    """Take a word apart into the number words of one language; None if it is no number."""
    numbers = load_lexicon().numbers
    if language in numbers.get(word, {}):
        return [numbers[word][language]]
    if len(word) <= GLUED or len(word) > _LONGEST:
        return None
    values: list[int] = []
    at = 0
    while at < len(word):
        end = next(
            (
                end
                for end in range(min(len(word), at + 20), at + 1, -1)
                if language in numbers.get(word[at:end], {})
            ),
            0,
        )
        if not end:
            return None
        value = numbers[word[at:end]][language]
        if values and 0 < values[-1] < value < 100:  # noqa: PLR2004  the table leaves out sums: vierzehn is vier and zehn
            values[-1] += value
        else:
            values.append(value)
        at = end
    return values


def _add_values(total: int, current: int, values: list[int], *, fresh: bool) -> tuple[int, int] | None:
    """Add values to a number, where a negative one multiplies; None if they begin another number."""
    for value in values:
        if value == -100:  # noqa: PLR2004
            current = (current or 1) * 100
        elif value < 0:
            if total and total % (-value * 10):
                return None
            total, current = total + (current or 1) * -value, 0
        elif (current and current % 10 ** len(str(value))) or (
            not current and total % 10 ** len(str(value)) and not fresh
        ):
            return None
        else:
            current += value
        fresh = False
    return total, current


def list_number_values(word: str) -> dict[str, Decimal]:
    """List the value of a folded word that is a number by language; a word that multiplies has none."""
    known = load_lexicon().numbers.get(word, {})
    return {language: Decimal(value) for language, value in known.items() if value > 0}


def find_eastern_numbers(text: str, occupied: list[tuple[int, int]]) -> Iterator[AmountReading]:
    """Find numbers in Chinese characters, also after digits."""
    if text.isascii():
        return
    for match in _EAST_NUMBER.finditer(text):
        if len(match[0]) > 1 and not _overlaps(occupied, *match.span()) and len(match[0]) <= _LONGEST:
            yield AmountReading(_read_eastern(match[0]), *match.span())


def _read_eastern(body: str) -> Decimal:
    total = part = Decimal(0)
    digits = ""
    for char in body:
        if char.isdigit() or char in "〇一二三四五六七八九两兩":
            digits += str(2 if char in "两兩" else int(numeric(char)))
        else:
            size = {"萬": 10_000, "亿": 10**8, "億": 10**8, "兆": 10**12}.get(char) or int(numeric(char))
            if size < 10_000:  # noqa: PLR2004
                part += Decimal(digits or 1) * size
            else:
                total, part = total + (part + Decimal(digits or 0) or 1) * size, Decimal(0)
            digits = ""
    return total + part + Decimal(digits or 0)


DAYS: Final = ("date ", "day ", "in ", "weekday ")
"""Beginnings of the keys of days."""
MOMENTS: Final = (*DAYS, "clock ")
"""Beginnings of the keys of days and times of day."""
AMOUNT: Final = "amount "
"""Beginning of the keys of amounts."""


def read_keys(text: str) -> Iterator[str]:
    """List the keys of the days, times and amounts of a text, each with the mark of its convention if it has one."""
    words = find_words(text)
    days, clocks = find_days(text, words), find_clocks(text)
    yield from list_moment_keys(text, days, clocks)
    for amount in find_amounts(text, words, _list_taken(days, clocks)):
        yield _format_tag_amount(amount)


def drop_weekdays(keys: Collection[str]) -> frozenset[str]:
    """Drop the weekday that a date among the keys is on: *Tuesday, 14.07.2026* gives one day."""
    dates = (key[5:15] for key in keys if key.startswith("date "))
    return frozenset(keys) - {f"weekday {date.fromisoformat(each).weekday()}" for each in dates}


def read_amount_places(text: str, *, money: bool) -> frozenset[frozenset[str]]:
    """Read the amounts of a text, each in all its readings; if ``money``, those with a currency alone, if any."""
    found = find_free_amounts(text)
    leading = [each for each in found if each.money and money]
    places: dict[int, set[str]] = {}
    for each in leading or found:
        places.setdefault(each.start, set()).add(build_amount_key(each.value))
    return frozenset(map(frozenset, places.values()))


def read_money(text: str) -> frozenset[str]:
    """List the keys of the amounts with a currency in a text."""
    return frozenset(_format_tag_amount(each) for each in find_free_amounts(text) if each.money)


def find_free_amounts(text: str) -> list[AmountReading]:
    """Find the numbers of a text that are said as amounts, in no day or time, in each way that they may be read."""
    words = find_words(text)
    return find_amounts(text, words, _list_taken(find_days(text, words), find_clocks(text)))


def _list_taken(days: list[DayReading], clocks: list[ClockReading]) -> list[tuple[int, int]]:
    return sorted([*list_taken_places(days), *((clock.start, clock.end) for clock in clocks)])


def list_taken_places(days: list[DayReading]) -> list[tuple[int, int]]:
    """List the places of days whose digits are no number."""
    return sorted([(day.start, day.end) for day in days if day.convention != COMPACT])


def build_amount_key(amount: Decimal) -> str:
    """Build the key of an amount, in which neither zeros at its end nor its currency count."""
    return f"{AMOUNT}{amount.normalize():f}"


def read_amount_key(key: str) -> Decimal:
    """Read the amount of a key."""
    return Decimal(key.removeprefix(AMOUNT))


def _format_tag_amount(amount: AmountReading) -> str:
    key = build_amount_key(amount.value)
    return f"{key}@{amount.convention}" if amount.convention else key


class SaidDay(NamedTuple):
    """Day, or several days that belong together, in one place of a text.

    Args:
        readings: the sets of keys that the place may mean, with more than one where conventions differ.
        clocks: the times of day that belong to it, as ``15:00``.
    """

    readings: frozenset[frozenset[str]]
    clocks: frozenset[str]


class SaidDays(NamedTuple):
    """Days of a text, in order of place.

    Args:
        days: the places with a day.
        free: the times of day that belong to none of them, as ``15:00``.
        whole: True if the text is one day, with a time or without, and nothing else.
    """

    days: tuple[SaidDay, ...]
    free: frozenset[str]
    whole: bool


def find_said_days(text: str, conventions: Collection[str]) -> SaidDays:
    """Find the days of a text, and the times of day that belong to no day.

    A place is read in the known conventions, or else as in most of those that have it.
    """
    days, clocks = find_days(text, find_words(text)), find_clocks(text)
    bound = _bind(text, days, clocks)
    places: dict[tuple[int, int], dict[str, set[str]]] = {}
    for day in days:
        places.setdefault((day.start, day.end), {}).setdefault(day.convention, set()).add(day.key)
    found = (
        SaidDay(
            _choose_readings(sets, conventions),
            frozenset(clock.shown for day, clock in bound if (day.start, day.end) == place),
        )
        for place, sets in places.items()
    )
    taken = {clock for _, clock in bound}
    free = frozenset(clock.shown for clock in clocks if clock not in taken)
    return SaidDays(tuple(found), free, bool(days) and is_moment(text.strip()))


def _choose_readings(sets: Mapping[str, set[str]], conventions: Collection[str]) -> frozenset[frozenset[str]]:
    known = [frozenset(keys) for convention, keys in sets.items() if convention in conventions]
    counts = Counter(known or map(frozenset, sets.values()))
    return frozenset(keys for keys, count in counts.items() if count == max(counts.values()))


@dataclass(frozen=True, slots=True)
class MomentValue:
    """Day, time of day or both that an argument gives."""

    day: date | None
    clock: ClockReading | None

    def is_said(self, keys: frozenset[str], now: float) -> bool:
        """Check whether a request with these keys gives the moment. A day without a time there allows any time."""
        if self.day is None:
            return self.clock is not None and f"clock {self.clock.shown}" in keys
        if self.utc_key and self.utc_key in keys:
            return True
        return any(self._fits(keys, anchor) for anchor in self._list_anchors(now) if anchor in keys)

    def bounds_said_day(self, keys: frozenset[str], now: float) -> bool:
        """Check whether a request with these keys gives the moment, or the day that ends with it, at midnight."""
        if self.is_said(keys, now):
            return True
        if self.day is None or self.clock is None or self.clock.minutes or self.day == date.min:
            return False
        return MomentValue(self.day - timedelta(days=1), self.clock).is_said(keys, now)

    def is_at_other_time(self, keys: frozenset[str], now: float) -> bool:
        """Check whether a request with these keys gives the day with a time, but not with this one."""
        if self.day is None or self.clock is None or self.is_said(keys, now):
            return False
        return any(f"clocked {anchor}" in keys for anchor in self._list_anchors(now))

    def _list_anchors(self, now: float) -> Iterator[str]:
        assert self.day is not None
        yield f"date {self.day}"
        yield f"day {self.day:%m-%d}"
        if now:
            distance = (self.day - datetime.fromtimestamp(now, UTC).date()).days
            yield f"in {distance}"
            if 1 <= distance <= _WEEK:
                yield f"weekday {self.day.weekday()}"

    def _fits(self, keys: frozenset[str], anchor: str) -> bool:
        clock = self.clock
        if clock is None or f"clocked {anchor}" not in keys:
            return True
        if clock.zone is None:
            return f"wall {clock.shown} {anchor}" in keys
        return f"clock {clock.shown} {anchor}" in keys

    @property
    def utc_key(self) -> str:
        """Key of the moment in Greenwich; empty without a zone."""
        return "" if self.day is None or self.clock is None else _build_utc_key(self.day, self.clock)


_WEEK: Final = 7
_LONGEST_MOMENT: Final = 64


def read_moment(value: Scalar) -> MomentValue | None:
    """Read an argument as one moment; None if it is no moment, or several."""
    if isinstance(value, datetime):
        shift = value.utcoffset()
        zone = None if shift is None else int(shift.total_seconds() // 60)
        return MomentValue(value.date(), ClockReading(value.hour * 60 + value.minute, 0, 0, zone))
    if isinstance(value, date):
        return MomentValue(value, None)
    if isinstance(value, time):
        return MomentValue(None, ClockReading(value.hour * 60 + value.minute, 0, 0))
    if not isinstance(value, str) or len(value) > _LONGEST_MOMENT:
        return None
    return _join_moment(value, find_days(value, find_words(value)), find_clocks(value))


def _join_moment(text: str, days: list[DayReading], clocks: list[ClockReading]) -> MomentValue | None:
    """Join the days and times of a text to one moment; None for no moment, for several, and for other digits."""
    keys = {day.key for day in days if day.convention in {"", "en", COMPACT}}
    dates = {key for key in keys if key.startswith("date ")}
    if dates and all(key in dates or key.startswith("weekday ") for key in keys):
        keys = dates  # the weekday of a date says nothing else
    taken = [*((day.start, day.end) for day in days), *((clock.start, clock.end) for clock in clocks)]
    if (
        len(keys) > 1
        or len(clocks) > 1
        or not (keys or clocks)
        or not all(day.startswith("date ") for day in keys)
        or _has_other_digit(text, taken)
    ):
        return None
    [key] = keys or [""]
    return MomentValue(date.fromisoformat(key[5:]) if key else None, clocks[0] if clocks else None)


def read_dated(value: Scalar) -> MomentValue | None:
    """Read an argument that begins with its year as one moment with a day; None for others."""
    moment = None if isinstance(value, str) and not value[:4].isdecimal() else read_moment(value)
    return moment if moment is not None and moment.day is not None else None


def is_moment(text: str) -> bool:
    """Check whether a text is a day, a time or both as a whole, with a weekday or a short word between the two."""
    if len(text) > _LONGEST_MOMENT:
        return False
    days, clocks = find_days(text, find_words(text)), find_clocks(text)
    if _join_moment(text, days, clocks) is None:
        return False
    spans = sorted([*((day.start, day.end) for day in days), *((at.start, at.end) for at in clocks)])
    rest = list(text)
    for start, end in spans:
        rest[start:end] = " " * (end - start)
    between = range(spans[0][1], spans[-1][0]) if days and clocks else range(0)
    joins = (len(word) <= _SHORT and at in between for word, at, _ in find_words("".join(rest)))
    return all(joins) and set("".join(rest)) <= {*" ,.()"}.union(filter(str.isalpha, rest))


def _has_other_digit(text: str, taken: list[tuple[int, int]]) -> bool:
    """Check whether a text has a digit outside of some parts."""
    return any(char.isdigit() and not _overlaps(taken, at, at + 1) for at, char in enumerate(text))


_NO_AMOUNTS: Final = (bool, date, time)
_EXACT: Final = 10**15
"""Whole numbers below it are keys as they are."""


def read_amounts(value: Scalar) -> frozenset[str]:
    """List the keys of an argument that is an amount as a whole, in every reading; empty for other values."""
    if value is None or isinstance(value, _NO_AMOUNTS):
        return frozenset()
    if type(value) is int and abs(value) < _EXACT:
        return frozenset({f"{AMOUNT}{value}"})
    if not isinstance(value, str):
        number = Decimal(str(value)) if not isinstance(value, Decimal) else value
        return (
            frozenset({build_amount_key(number)})
            if number.is_finite() and abs(number.adjusted()) < _LONGEST
            else frozenset()
        )
    body = value.strip()
    if not body or len(body) > _LONGEST or not any(map(str.isdigit, body)):
        return frozenset()
    sign, digits = ("-", body[1:]) if body[0] in "+-−" else ("", body)
    sign = "" if body[0] == "+" else sign
    if _NUMBER.fullmatch(digits):
        return frozenset(f"{AMOUNT}{sign}{number.normalize():f}" for number, _ in read_number(digits))
    found = find_amounts(body, find_words(body), [])
    starts = {each.start for each in found}
    complete = len(starts) == 1 and not _REST.sub("", body) and _is_currency(body[: min(starts)])
    return frozenset(build_amount_key(each.value) for each in found) if complete else frozenset()


_CURRENCY: Final = re.compile(r"(?<!\w)[A-Z]{3}(?!\w)")
_ASCII_SIGNS: Final = frozenset("$")
"""The signs of currencies in ASCII."""


def list_currencies(text: str) -> frozenset[str]:
    """List the codes of the currencies that a text names by a word, a sign or the code in capitals."""
    lexicon = load_lexicon()
    named = (code for unit in _list_units(text) for code in lexicon.codes.get(unit, ()))
    return frozenset(named) | lexicon.currencies.intersection(map(str.casefold, _CURRENCY.findall(text)))


def list_codes(values: Iterable[str]) -> frozenset[str]:
    """List the values that are codes of currencies, in any letter case."""
    return load_lexicon().currencies.intersection(
        value.strip().casefold() for value in values if len(value) <= _LONGEST
    )


def is_in_other_currency(value: Scalar, currencies: frozenset[str]) -> bool:
    """Check whether an amount has a unit and none of it names one of some currencies, if there are any."""
    units = _list_units(value) if isinstance(value, str) and currencies else ()
    codes = load_lexicon().codes
    return bool(units) and all(currencies.isdisjoint((unit, *codes.get(unit, ()))) for unit in units)


def _list_units(text: str) -> frozenset[str]:
    """List the words of a text, and its signs of currencies."""
    signs = _ASCII_SIGNS.intersection(text) if text.isascii() else [c for c in text if category(c) == "Sc"]
    return frozenset((*[word for word, _, _ in find_words(text)], *signs))


def _is_currency(lead: str) -> bool:
    """Check whether what comes before a number is a currency, a sign or nothing: *order 1042* is no amount."""
    word = lead.strip(" \u00a0+-−$€£¥₹₽")
    return not word or fold_word(word) in load_lexicon().currencies


_REST: Final = re.compile(rf"[\d.,'’٫٬_\s€$£¥₹₽%+-]|{WORD}{{1,9}}")


def list_value_keys(body: str) -> list[str]:
    """List the keys of an argument that is a number or a day as a whole, in every reading."""
    if len(body) > _LONGEST_MOMENT or not any(map(str.isdigit, body)):
        return []
    moment = read_moment(body)
    days = [f"date {moment.day}"] if moment is not None and moment.day is not None else []
    return [*days, *(f"number {key.removeprefix(AMOUNT)}" for key in sorted(read_amounts(body)))]
