"""Writes the words for months, days and numbers in every locale of CLDR, which provenance reads in texts.

.ci/spellings.py FOLDER   FOLDER holds the unpacked npm packages cldr-rbnf and cldr-dates-full as rbnf/ and dates/
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from babel import Locale, localedata

from agentserver.provenance.evidence.lexicon import LETTER

TARGET: Final = (
    Path(__file__).resolve().parent.parent / "agentserver" / "provenance" / "evidence" / "spellings.txt"
)
HEAD: Final = """\
# Words for months, days and numbers by CLDR 48 (Unicode License v3). Written by .ci/spellings.py; do not edit.
# Kind, value and words, separated by tabs. The kind of number words ends with their language.
"""
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
NUMBERS: Final = (*range(1, 100), *range(200, 1000, 100))
MULTIPLIERS: Final = (100, 1000, 10_000, 100_000, 10**6, 10**7, 10**8, 10**9, 10**12)
_SUBSTITUTION: Final = re.compile(r"(←[^←]*←|→→→|→[^→]*→|=[^=]*=)")
_PLURAL: Final = re.compile(r"\$\(\w+,(.*?)\)\$")

DEEPEST: Final = 12
PAIR: Final = 2

Words = dict[tuple[str, str], set[str]]


def fold(word: str) -> str:
    """Fold a word to the form in which texts are read."""
    return re.sub(r"[\u00ad\u200c\u200d.]", "", word.casefold()).strip(" \u00a0\u202f'’")


def from_babel(words: Words) -> None:  # noqa: C901, PLR0912  one field of CLDR after the other
    """Collect months, weekdays, halves of the day, scales, currencies, joining words of dates and of lists."""
    for name in localedata.locale_identifiers():
        locale = Locale.parse(name)
        mark, short = (
            locale.number_symbols.get("latn", {}).get("decimal"),
            str(locale.date_formats["short"].pattern),
        )
        if mark in {".", ","}:
            words["mark", mark].add(name.replace("_", "-").casefold())
        words["order", "dm" if short.find("d") < short.find("M") else "md"].add(
            name.replace("_", "-").casefold()
        )
        for widths in (*locale.months.values(), {"wide": {}}):
            for width in ("wide", "abbreviated"):
                for number, word in widths.get(width, {}).items():
                    last = fold(word).split()[-1:]
                    if (
                        last
                        and re.fullmatch(rf"{LETTER}+", last[0])
                        and (len(last[0]) > PAIR or not word.isascii())
                    ):
                        words[f"month {locale.language}", str(number)].add(last[0])
        for context in locale.days.values():
            for number, word in context.get("wide", {}).items():
                words["weekday", str(number)].add(fold(word))
        for context in locale.day_periods.values():
            for width in ("wide", "abbreviated"):
                for half in ("am", "pm"):
                    word = fold(context.get(width, {}).get(half, ""))
                    if word and not word.isdigit():
                        words["half", half].add(
                            word.replace("\u00a0", "").replace("\u202f", "").replace(" ", "")
                        )
        for width in ("short", "long"):
            for sizes in locale.compact_decimal_formats.get(width, {}).values():
                for size, pattern in sizes.items():
                    shown = str(pattern.pattern).replace("'", "").split(";")[0]
                    word = fold(shown.replace("0", ""))
                    cryptic = word.isascii() and len(word) < 3 and name != "en"  # noqa: PLR2004
                    if word and not cryptic and shown.count("0") and re.fullmatch(rf"{LETTER}+", word):
                        words["scale", str(int(size) // 10 ** (shown.count("0") - 1))].add(word)
        for width in ("long", "full"):
            rest = re.sub(
                r"[yMdELGc]+", " ", re.sub(r"'([^']*)'", r" \1 ", str(locale.date_formats[width].pattern))
            )
            for literal in re.findall(r"'([^']*)'", str(locale.date_formats[width].pattern)):
                rest += f" {literal}"
            words["glue", ""].update(filter(None, map(fold, re.findall(r"[^\W\d_]+", rest))))
        joined = str(locale.list_patterns.get("standard", {}).get("2", ""))
        words["and", ""].update(map(fold, re.findall(r"[^\W\d_]+", re.sub(r"\{\d\}", " ", joined))))
    english = Locale("en")
    for code in english.currencies:
        words["currency", ""].add(str(code).casefold())
    for name in localedata.locale_identifiers():
        for symbol in Locale.parse(name).currency_symbols.values():
            if (sign := fold(str(symbol))) and not sign.isascii() and len(sign) == 1:
                words["currency", ""].add(sign)
        for code in ("EUR", "USD", "GBP", "JPY", "CHF", "RUB", "CNY", "INR"):
            shown = Locale.parse(name)._data["currency_names_plural"].get(code, {})  # noqa: SLF001  # noqa: SLF001
            words["currency", code.casefold()].update(
                word.split()[-1] for each in shown.values() if (word := fold(each)) and word.split()
            )
            sign = fold(str(Locale.parse(name).currency_symbols.get(code, "")))
            if len(sign) == 1 and not sign.isalnum():
                words["currency", code.casefold()].add(sign)


def from_dates(folder: Path, words: Words) -> None:
    """Collect the words for today, tomorrow, in 3 days and next Friday."""
    for place in sorted((folder / "main").glob("*/dateFields.json")):
        [data] = json.loads(place.read_text("utf-8"))["main"].values()
        fields = data["dates"]["fields"]
        for offset in range(-2, 4):
            if word := fields["day"].get(f"relative-type-{offset}"):
                words["day", str(offset)].add(fold(word))
        for number, day in enumerate(WEEKDAYS):
            for width in (day, f"{day}-short"):
                for offset in (0, 1):
                    if word := fields.get(width, {}).get(f"relative-type-{offset}"):
                        words["weekday", str(number)].add(fold(word))
        for unit, days in (("day", 1), ("week", 7)):
            for pattern in fields[unit].get("relativeTime-type-future", {}).values():
                words["in", str(days)].add(fold(pattern))


class Speller:
    """Speller of numbers by the rules of one locale."""

    def __init__(self, rules: dict[str, Any]) -> None:
        self.rules = {
            name: [
                (int(base.split("/")[0]), text.rstrip(";"))
                for base, text in (pair for pair in found if len(pair) == PAIR)
                if base.split("/")[0].isdigit()
            ]
            for name, found in rules.items()
            if isinstance(found, list)
        }

    def spell(self, number: int, name: str, depth: int = 0) -> str:
        """Spell a number by a set of rules."""
        rules = self.rules.get(name)
        if not rules or depth > DEEPEST:
            raise ValueError(name)
        base, text = [rule for rule in rules if rule[0] <= number][-1]
        power = 1
        while power * 10 <= base:
            power *= 10
        upper, lower = divmod(number, power)
        text = text.removeprefix("'")
        text = re.sub(r"\[([^\]]*)\]", (lambda match: match[1]) if lower else "", text)
        text = _PLURAL.sub(lambda match: re.findall(r"\{([^}]*)\}", match[1])[-1], text)

        def put(match: re.Match[str]) -> str:
            inner = match[0][1:-1]
            value = {"←": upper, "→": lower, "=": number}[match[0][0]]
            if inner.startswith(("#", "0")):
                raise ValueError(inner)
            return self.spell(value, inner or name, depth + 1)

        return _SUBSTITUTION.sub(put, text)


def from_rbnf(folder: Path, words: Words) -> None:  # noqa: C901  one rule of CLDR after the other
    """Collect the cardinal words of each language up to 99, hundreds, and the words for larger powers of ten."""
    for place in sorted((folder / "rbnf").glob("*.json")):
        rules = json.loads(place.read_text("utf-8"))["rbnf"]["rbnf"].get("SpelloutRules", {})
        speller, language = Speller(rules), place.stem.split("-")[0]
        for name in speller.rules:
            if not name.startswith(("%spellout-cardinal", "%spellout-numbering")) or "year" in name:
                continue
            for number in (*NUMBERS,):
                try:
                    word = speller.spell(number, name)
                except (ValueError, IndexError):
                    continue
                if re.fullmatch(r"[^\d#=]+", word):
                    words[f"number {language}", str(number)].add(re.sub(r"[\s\-‐]+", "", fold(word)))
            for base, text in speller.rules[name]:
                bare = _SUBSTITUTION.sub(" ", re.sub(r"\[[^\]]*\]", "", text))
                for shown in [
                    part for each in _PLURAL.findall(bare) for part in re.findall(r"\{([^}]*)\}", each)
                ] or [bare]:
                    token = re.sub(r"[\s\-‐]+", " ", fold(shown)).split()
                    scale = max(
                        (each for each in MULTIPLIERS if base % each == 0 and base < each * 10), default=0
                    )
                    if token and scale >= 100 and re.fullmatch(rf"{LETTER}+", token[-1]):  # noqa: PLR2004, SIM102
                        if base == scale or "←" in text:
                            words[f"number {language}", f"x{scale}"].add(token[-1])


def shorten(words: Words) -> None:
    """Drop number words that follow from the shorter ones of their language, and scales that repeat a smaller one."""
    for language in {kind for kind, _ in words if kind.startswith("number ")}:
        known: dict[str, int] = {}
        for number in NUMBERS:
            kept = set()
            for word in words.pop((language, str(number)), set()):
                if word not in known and not _follows(word, number, known):
                    known[word] = number
                    kept.add(word)
            words[language, str(number)] = kept
        seen = set(known)
        for scale in MULTIPLIERS:
            words[language, f"x{scale}"] = words.get((language, f"x{scale}"), set()) - seen
            seen |= words[language, f"x{scale}"]


def share_months(words: Words) -> None:
    """Drop the language of a month's word with one meaning; an ambiguous word keeps its English meaning."""
    meanings: dict[str, set[str]] = defaultdict(set)
    for (kind, value), found in words.items():
        if kind.startswith("month "):
            for word in found:
                meanings[word].add(value)
    english = {word: value for (kind, value), found in words.items() if kind == "month en" for word in found}
    for kind, value in [key for key in words if key[0].startswith("month ") and key[0] != "month en"]:
        alone = {word for word in words[kind, value] if len(meanings[word]) == 1}
        words[kind, value] = {word for word in words[kind, value] - alone if english.get(word) != value}
        words["month", value] |= alone - english.keys()


def _follows(word: str, number: int, known: dict[str, int]) -> bool:
    return any(
        known.get(word[:at], 0) + known.get(word[at:], 0) == number
        and word[:at] in known
        and word[at:] in known
        for at in range(1, len(word))
    )


def main(folder: Path) -> None:
    """Write the table."""
    words: Words = defaultdict(set)
    from_babel(words)
    from_dates(folder / "dates", words)
    from_rbnf(folder / "rbnf", words)
    shorten(words)
    share_months(words)
    lines = ["\t".join((kind, value, *sorted(found))) for (kind, value), found in words.items() if found]
    TARGET.write_text(HEAD + "\n".join(sorted(lines)) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
