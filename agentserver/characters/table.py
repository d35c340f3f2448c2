"""Characters that a reader does not see, or takes for others: the one table of the package.

Owns which characters are unseen, which look like ASCII ones, and of which script a letter is. What Unicode's database
says comes from Python's ``unicodedata``; added is what that leaves out. Refuses to know what is done about a character:
printers escape it, evidence drops it, names with it are refused. Pure, and imports nothing.

The look-alikes are the entries of Unicode's ``confusables.txt`` (UTS 39, Unicode 15.1; Unicode License v3) for one
character that looks like one or more ASCII letters or digits, as confusable-homoglyphs 3.3.1 (MIT) has them. Left out
is what compatibility decomposition gives anyway. Added are the other cases of those letters, so that a text in capitals
has the form of the same text in small letters, and 38 letters whose small form looks like a Latin small capital.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_IGNORED: Final = (
    *(
        (0x034F, 0x034F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x2065, 0x2065),
        (0x3164, 0x3164),
    ),
    *((0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
)
"""``Default_Ignorable_Code_Point`` of Unicode 16.0 without those of the category Cf, which are unseen by that."""

_BLANK: Final = (0x2800, 0xFFFC, 0x13441, 0x13442, 0x16FE4, 0x1D159)
"""Symbols and letters whose glyph is empty, or stands for an object that is not there."""

_UNSEEN: Final = frozenset(
    {chr(code) for first, last in _IGNORED for code in range(first, last + 1)} | set(map(chr, _BLANK))
)

_SIGNS: Final = frozenset("᜵⁁⁄∕╱⟋⧸〳／․｡。﹒．ꓸ꘎։⁚∶꞉˸ː：∖⧵⧹＼﹫＠？＃")
"""Characters that look like a sign which parts an address or a path."""

LATIN: Final = "LATIN"
CJK: Final = "CJK"

_NAMED: Final = dict.fromkeys("\u00aa\u00b5\u00ba\u2126\u212a\u212b", LATIN)
"""Letters whose names do not begin with their script: ordinals, and signs of units, which stand beside Latin ones."""

_SCRIPTS: Final = {
    **dict.fromkeys(
        ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "BOPOMOFO", "HANGUL", "IDEOGRAPHIC"), CJK
    ),
    **dict.fromkeys(
        ("MATHEMATICAL", "DOUBLE-STRUCK", "SCRIPT", "BLACK-LETTER", "FULLWIDTH", "HALFWIDTH"), ""
    ),
    **dict.fromkeys(("MODIFIER", "SUPERSCRIPT", "SUBSCRIPT", "CIRCLED", "SQUARED"), ""),
    **dict.fromkeys(("ARABIC-INDIC", "EXTENDED"), "ARABIC"),
}
"""Scripts that people mix within a word, and first words of names that name no script: those letters are common."""


LOOKS_LIKE: Final[dict[str, str]] = {
    "2": "ƨϩᒿꙅꛯꝛ",
    "3": "ȝɜʒзӡⳍꝫ𑣊𖼻𝈆",
    "4": "Ꮞ𑣏",
    "5": "Ƽ𑣛",
    "6": "бᏮⳓ𑣕",
    "7": "𐓺𑣆𝈒",
    "8": "ȣ৪੪\u0b03𐌚",
    "9": "৭੧୨൭ⳋꝯ𑣌𑣖",
    "a": "ɑαаᎪᗅ⍺ꓮ𐊠𖽀",
    "b": "ƅβвьᏏᏴᑲᖯᗷꓐꞵ𐊂𐊡𐌁",
    "c": "ϲϹсᏟᴄⲥꓚ𐊢𐌂𐐽𐔜𑣩𑣲🝌",
    "d": "ԁᎠᏧᑯᗞᗪꓒꓓ",
    "e": "εеҽᎬ℮⋿ⴹꓰꬲ𐊆𑢦𑣎",
    "f": "ſϝքᖴẝꓝꞙꬵ𐊇𐊥𐔥𑣂𝈓",
    "g": "ƍɡԍցᏀᏳᶃꓖ",
    "h": "ΗнһհᎻᏂᕼⲏꓧ𐋏",
    "i": "ıɩɪ˛ͺιіӏᎥ⍳ꙇ𑣃",
    "j": "ʝϳјᎫᒍꓙ",
    "k": "κкᏦᛕⲕꓗ𐔘",
    "l": "ǀ۱Ꮮᒪᛁ∣⏽ⲓⳑⵏꓡꓲ￨𐊊𐌉𐌠𐑃𐔦𑣒𖼖𖼨𝈪",
    "m": "μϻмᎷᗰᛖⲙꓟ𐊰𐌑",
    "n": "Νηոռⲛꓠ𐔓",
    "o": "οσоօ۵०০੦૦ଠ୦௦\u0c02౦\u0c82೦\u0d02ഠ൦\u0d82๐໐ဝ၀ჿዐᴏᴑⲟⵔ〇ꓳꬽ𐊒𐊫𐐬𐓪𐔖𑓐𑢵𑣈𑣗𑣠",
    "p": "ρрᏢᑭ⍴ⲣꓑ𐊕",
    "q": "ԛգզⵕ",
    "r": "ʀгᎡᎱᏒᖇᴦⲅꓣꭇꭈ𐓜𖼵𝈖",
    "s": "ƽѕտᏕᏚꓢꜱ𐊖𐑈𑣁𖼺",
    "t": "τтᎢ⊤⟙ⲧꓔ𐊗𐊱𐌕𑢼𖼊🝨",
    "u": "ʋυսሀᑌᴜ∪⋃ꓴꞟꭎꭒ𐓶𑣘𖽂",
    "v": "νѵ۷Ꮩᐯᴠ∨⋁ⴸꓦꛟ𐔝𑜆𑣀𖼈𝈍",
    "w": "ɯѡԝաᎳᏔᴡꓪ𑜊𑜎𑜏𑣦𑣯",
    "x": "×χхᕁᕽ᙭\u166eᚷ╳⤫⤬⨯ⲭⵝꓫꭓ𐊐𐊴𐌗𐌢𐔧𑣬",
    "y": "ɣʏΥγуүყᎩᎽᶌỿⲩꓬꭚ𐊲𑢤𑣜𖽃",
    "z": "ζᏃᴢꓜ𐋵𑣄𑣉𑣥",
    "aa": "ꜳ",
    "ae": "æӕ",
    "ao": "ꜵ",
    "ar": "🜇",
    "au": "ꜷ",
    "av": "ꜹꜻ",
    "ay": "ꜽ",
    "bl": "ы",
    "dz": "ʣ",
    "ll": "ǁ\u2016∥",
    "lo": "ю",
    "ls": "ʪ",
    "lt": "₶",
    "lz": "ʫ",
    "mb": "🝫",
    "oe": "œ",
    "oo": "∞ꚙꝏ",
    "qe": "🜀",
    "rn": "𑜀𑣣",
    "t3": "ꜩ",
    "tf": "ꝷ",
    "ts": "ʦ",
    "ue": "ᵫ",
    "uo": "ꭣ",
    "vb": "🝬",
    "sss": "🝜",
}
"""ASCII texts in small letters, and the characters that look like each."""

TABLE: Final[dict[int, str]] = {ord(char): to for to, chars in LOOKS_LIKE.items() for char in chars}


def unseen(char: str) -> bool:
    """True when a reader sees nothing of a character, or only the effect that it has on a terminal.

    So are controls, formats (zero-width, bidirectional, tags), surrogates, private and unassigned code points, every
    white space but U+0020, fillers, blanks and variation selectors.
    """
    return not char.isprintable() or char in _UNSEEN


def seen(text: str) -> bool:
    """True when a reader sees every character of a text."""
    return text.isprintable() and (text.isascii() or _UNSEEN.isdisjoint(text))


def stacks(char: str) -> bool:
    """True when a character is put on top of the one before it (categories Mn and Me)."""
    return unicodedata.category(char) in {"Mn", "Me"}


def looks_like(char: str) -> str:
    """The ASCII letters or digits, in small letters, for which a character is taken; empty when for none."""
    return TABLE.get(ord(char), "")


def parts(char: str) -> bool:
    """True when a character looks like an ASCII sign that parts addresses and paths, and is another."""
    return char in _SIGNS


def script(char: str) -> str:
    """The script of a letter or a digit, by the first word of its name; empty for what belongs to none or to several.

    The scripts of Chinese, Japanese and Korean, which people mix, count as one. A Latin letter that looks like another
    one, as those of phonetic alphabets do, counts as of a script of its own; the Turkish dotless i does not.
    """
    if char.isascii():
        return LATIN if char.isalpha() else ""
    if not (char.isalpha() or char.isdecimal()):
        return ""
    first = _NAMED.get(char) or unicodedata.name(char, "UNKNOWN").partition(" ")[0]
    if first == LATIN and char != "\u0131" and len(looks_like(char)) == 1:
        return "PHONETIC"
    return _SCRIPTS.get(first, first)


def skeleton(text: str) -> str:
    """The look of a name: two names with one skeleton are taken for each other (UTS 39, with case folded last)."""
    pieces = unicodedata.normalize("NFKD", text.translate(TABLE)).translate(TABLE)
    shown = "".join(char for char in pieces if not (unseen(char) or stacks(char)))
    return shown.casefold().translate(TABLE).translate(ALIKE)


ALIKE: Final = str.maketrans("i10", "llo")
"""Digits and letters that look like each other, by one of them."""
