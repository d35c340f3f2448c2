"""Patterns that are searched for fast find what their plain forms find."""

import re
import sysconfig
from pathlib import Path
from random import Random

import pytest

from agentserver.provenance.evidence import encodings, inventory, leaves, readings, shapes
from agentserver.provenance.evidence.destinations import loosen, parse_destination, parse_list
from agentserver.provenance.evidence.keys import list_evidence_keys
from agentserver.provenance.evidence.lexicon import find_words
from agentserver.provenance.evidence.readings import read_keys, read_moment
from agentserver.provenance.policy import forms

LETTER = readings.WORD
PLAIN = {
    (leaves, "_ISO"): re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})"),
    (leaves, "_LOCAL"): re.compile(r"(?<![\w.,/-])(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?![\w/-]|\.\d)"),
    (leaves, "_NUMBER"): re.compile(r"[+-]?(?:\d{1,3}(?:[, _]\d{3}){1,9}|\d{1,30})(?:\.\d{1,30})?"),
    (readings, "_ISO"): re.compile(
        r"(?<![\w/-])(?<!\d[.,])(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?![\d/-]|\.\w)"
    ),
    (readings, "_DIGITS"): re.compile(r"(?<![\w.,/-])(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?![\w/-]|\.\w)"),
    (readings, "_YEAR_FIRST"): re.compile(
        rf"(?<![\w.,/-])(\d{{4}})\.?{readings._GAP}{readings._FEW}({LETTER}{{2,}})\.?{readings._GAP}(\d{{1,2}})(?!\w)"
    ),
    (encodings, "_BASE32"): re.compile(r"\b[A-Z2-7]{16,}={0,6}"),
    (encodings, "_HEX"): re.compile(r"(?:(?:0x|\\x|%)?[0-9A-Fa-f]{2}[\s:,-]?){6,}"),
    (encodings, "_CODES"): re.compile(r"\b\d{2,3}(?:[\s,;]+\d{2,3}){5,}\b"),
    (inventory, "_LIKELY"): re.compile(r"(?<!\S)(?=\S*?(?:[@\d]|[.:/]\w))\S+(?:[ \t]{1,2}(?=\S*?\d)\S+)*"),
}
PIECES = [
    *(
        "may",
        "May",
        "MAR",
        "march",
        "of",
        "nine",
        "thousand",
        "zweihundert",
        "fünf",
        "ſeptember",
        "aprıl",
        "APRİL",
    ),
    *(
        "5",
        "12",
        "2026",
        "1,000",
        "1.234,5",
        "3rd",
        "st",
        "th",
        "-5",
        "x5",
        "5x",
        "1e5",
        "٣",
        "十二",
        "万",
        "5月3日",
    ),
    *(
        "年",
        "März",
        "mai",
        "мая",
        "пять",
        "janv.",
        "µ",
        "🎉",
        "5🎉March",
        "\u00ad",
        "\u0301",
        "’s",
        "€",
        "EUR",
        "%",
    ),
    *(
        ".",
        ",",
        "-",
        "/",
        ":",
        "+",
        "(",
        ")",
        "#",
        "=",
        "\n",
        " ",
        "  ",
        "\t",
        "\x1c",
        "\x85",
        "\u2028",
        "hello.\r\n",
    ),
    *(
        "deadbeefcafe",
        "0x41 0x42",
        "\\x41\\x42",
        "%41%42%43%44%45%46",
        "41 42 43 44 45 46",
        "99 100 101 102 103 104",
    ),
    *(
        "MFRGGZDFMZTWQ2LK",
        "Zm9vYmFyYmF6",
        "a@b.c",
        "x.y/z",
        "2026-05-12",
        "12/05/2026",
        "12.5.2026",
        "2026 May 5",
    ),
]


ASCII_PIECES = [
    *(
        "twelve",
        "hundred",
        "Monday.",
        "sentences.",
        "thousands!",
        "EUR",
        "Rs.",
        "no.",
        "USD",
        "$",
        "k",
        "m",
        "cents",
    ),
    *(
        "5",
        "7",
        "007",
        "1 234",
        "12 345 678",
        "3.5",
        "0.125",
        "1.000",
        "3.11.7",
        "1,5",
        "12 March 2026",
        "Dec. 24",
    ),
    *(
        "24 of december",
        "the 3rd of May",
        "2026 feb 3",
        "1-3 June",
        "3 to 5 April",
        "_",
        "x",
        "=",
        "\\",
        "&",
        "?",
        "'",
    ),
    *(
        "\r",
        "\n",
        "\n",
        ". ",
        "! ",
        "  ",
        "   ",
        "\x01",
        "siebenundzwanzig",
        "dreihundert",
        "one",
        "ten",
        "million",
    ),
]


def make_texts():
    """Texts of the library of Python, and random texts of pieces that touch."""
    random = Random(7)
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-f]*.py")):
        yield path.read_text("utf-8")[:4000]
    for _ in range(6000):
        yield "".join(
            random.choice(PIECES) + random.choice(("", " ")) for _ in range(random.randrange(1, 12))
        )


TEXTS = [*make_texts()]


@pytest.mark.parametrize(("module", "name"), PLAIN, ids=lambda part: getattr(part, "__name__", part))
def test_a_fast_pattern_finds_the_matches_of_its_plain_form(module, name):
    fast, plain = getattr(module, name), PLAIN[module, name]
    for text in TEXTS:
        wanted = [(match.span(), match.groups()) for match in plain.finditer(text)]
        assert [(match.span(), match.groups()) for match in fast.finditer(text)] == wanted, text


def test_spoken_dates_and_signed_numbers_are_those_of_one_scan_of_the_whole_text():
    for text in TEXTS:
        spans = [match.span() for match in leaves._SPOKEN.finditer(text)]
        assert [match.span() for match in leaves._find_spoken(text)] == spans, text
        numbers = PLAIN[leaves, "_NUMBER"].findall(text)
        assert [*map(leaves._with_sign, leaves._DIGITS.finditer(text))] == numbers, text


def list_keys_of_each_sentence(text):
    """List the keys of evidence with every check in every sentence, as the first form of the reader did."""
    strong = readings.load_lexicon().strong
    for sentence in re.split(r"\n|(?<=\w{5}[.!?])\s", text):
        amounts = []
        if re.search(r"\d", sentence):
            days = [*readings.find_written_days(sentence), *readings.find_named_days(sentence)]
            yield from (day.key for day in days)
            taken = readings.list_taken_places(days)
            amounts += [
                *readings.find_eastern_numbers(sentence, taken),
                *readings.find_numbers(sentence, taken),
            ]
        elif not sentence.isascii():
            amounts += readings.find_eastern_numbers(sentence, [])
        spoken = sentence.casefold().split()
        if not strong.isdisjoint(spoken) or any(len(word) > 5 and word[:3] in strong for word in spoken):
            amounts += readings.find_numbers_in_words(sentence, find_words(sentence))
        for amount in amounts:
            if amount.convention not in {".", ","} or amount.value % 1:
                yield f"number {amount.value.normalize():f}"


def test_one_scan_finds_the_numbers_and_days_in_each_sentence(monkeypatch):
    texts = [*TEXTS, *make_lines()]
    fast = [{*leaves.find_typed_keys(text), *list_evidence_keys(text)} for text in texts]
    monkeypatch.setattr(readings, "_may_name_month", lambda text, months: True)
    monkeypatch.setattr(readings, "_PARTED", re.compile(""))
    monkeypatch.setattr(readings, "may_have_gapped_date", lambda shape: True)
    monkeypatch.setattr(readings, "may_have_bound_date", lambda shape: True)
    monkeypatch.setattr(readings, "_begins_plainly", lambda text, start: False)
    monkeypatch.setattr(readings, "_CLOSING", frozenset())
    for text, keys in zip(texts, fast, strict=True):
        assert keys == {*leaves.find_typed_keys(text), *list_keys_of_each_sentence(text)}, text


def make_lines():
    """Random lines in ASCII of pieces that touch, and of many number words."""
    random = Random(8)
    pieces = [piece for piece in (*PIECES, *ASCII_PIECES) if piece.isascii()]
    for many in (4, 8, 16, 40) * 600:
        yield "".join(random.choice(pieces) + random.choice(("", " ")) for _ in range(random.randrange(many)))


GATES = {
    leaves._PARTED: lambda text: shapes.may_have_date(shapes.draw_shape(text)),
    readings._PARTED: lambda text: shapes.may_have_gapped_date(shapes.draw_shape(text)),
    readings._TOUCHING: lambda text: shapes.may_have_bound_date(shapes.draw_shape(text)),
    encodings._PARTED: shapes.may_be_spelled_out,
}
"""For each pattern that a text in ASCII may lack, the check that says so."""


@pytest.mark.parametrize("pattern", GATES, ids=["day", "gapped day", "bound day", "letters"])
def test_a_text_without_the_shape_has_no_match(pattern):
    spaced = ["b o b @ c", "a-b c_d\te f", "- - - - - -", "31-Aug-2027", "31Aug27", "5.may.28", "1. 2. 2027"]
    found = [*spaced, *(text for text in [*TEXTS, *make_lines()] if text.isascii())]
    wanted = [bool(pattern.search(text)) for text in found]
    assert any(wanted)
    assert [text for text, has in zip(found, wanted, strict=True) if has and not GATES[pattern](text)] == []
    assert not all(map(GATES[pattern], found))


def test_words_without_a_digit_have_the_values_of_the_whole_pattern(monkeypatch):
    words = ["deadbeef-dead-beef-dead-beefdeadbeef", "host.example/path", "ftp://x", "see a.b.example, c.txt"]
    texts = [*words, *TEXTS, *make_lines()]
    fast = [[*inventory.scan_values(text)] for text in texts]
    monkeypatch.setattr(inventory, "_PLAIN", inventory._ALL)
    assert fast == [[*inventory.scan_values(text)] for text in texts]


def test_a_text_without_a_mark_of_places_receives_nothing():
    words = {word for text in TEXTS for word in (*text.split(), text)}
    plain = [word for word in words if not forms._MARK.search(word)]
    assert len(plain) > 1000
    for word in plain:
        assert not any(
            map(forms._receives, (*parse_list(word), *parse_list(loosen(word)), parse_destination(word)))
        )
        assert "//" not in word
        assert "@" not in word


@pytest.mark.parametrize("text", ["9999-12-31 23:59 -05:00", "0001-01-01 00:00 +05:00"])
def test_a_moment_beyond_the_years_of_python_has_no_moment_in_greenwich(text):
    assert not any(key.startswith("utc ") for key in read_keys(text))
    moment = read_moment(text)
    assert moment is None or moment.utc_key == ""
