"""The table of characters that readers cannot see or take for others. Pure, and imports nothing.

Extends ``unicodedata``: which characters are invisible, which look like ASCII, and the script of a letter. Callers
decide what to do with them: printers escape, provenance drops, names are refused.

The look-alikes are the single-character entries of Unicode's ``confusables.txt`` (UTS 39, Unicode 15.1; Unicode
License v3) that look like ASCII letters or digits, as confusable-homoglyphs 3.3.1 (MIT) lists them, without those
that compatibility decomposition already maps. Added are the other cases of those letters, so that upper-case and
lower-case texts fold alike, and 38 letters whose lower case looks like a Latin small capital.
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
"""``Default_Ignorable_Code_Point`` of Unicode 16.0 without category Cf, which is invisible anyway."""

_BLANK: Final = (0x2800, 0xFFFC, 0x13441, 0x13442, 0x16FE4, 0x1D159)
"""Symbols and letters with an empty glyph, or with one that marks a missing object."""

_UNSEEN: Final = frozenset(
    {chr(code) for first, last in _IGNORED for code in range(first, last + 1)} | set(map(chr, _BLANK))
)

_SIGNS: Final = frozenset("᜵⁁⁄∕╱⟋⧸〳／․｡。﹒．ꓸ꘎։⁚∶꞉˸ː：∖⧵⧹＼﹫＠？＃")
"""Characters that look like a separator of addresses or paths."""

LATIN: Final = "LATIN"
CJK: Final = "CJK"

_NAMED: Final = dict.fromkeys("\u00aa\u00b5\u00ba\u2126\u212a\u212b", LATIN)
"""Letters whose names do not begin with their script: ordinals and unit signs, used with Latin letters."""

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
"""Scripts that people mix within a word, and first words of names that name no script: these letters are common."""


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
"""Lower-case ASCII texts, and the characters that look like each."""

TABLE: Final[dict[int, str]] = {ord(char): to for to, chars in LOOKS_LIKE.items() for char in chars}


def is_unseen(char: str) -> bool:
    """Check whether a character is invisible, or visible only by its effect on a terminal.

    True for controls, formats (zero-width, bidirectional, tags), surrogates, private and unassigned code points, all
    white space except U+0020, fillers, blanks and variation selectors.
    """
    return not char.isprintable() or char in _UNSEEN


def is_all_visible(text: str) -> bool:
    """Check whether a reader sees every character of a text."""
    return text.isprintable() and (text.isascii() or _UNSEEN.isdisjoint(text))


def is_combining(char: str) -> bool:
    """Check whether a character combines with the one before it (categories Mn and Me)."""
    return unicodedata.category(char) in {"Mn", "Me"}


def looks_like(char: str) -> str:
    """Look up the lower-case ASCII text that a character is taken for, or an empty string."""
    return TABLE.get(ord(char), "")


def is_fake_separator(char: str) -> bool:
    """Check whether a non-ASCII character looks like an ASCII separator of addresses or paths."""
    return char in _SIGNS


def name_script(char: str) -> str:
    """Name the script of a letter or digit, by the first word of its Unicode name; empty if common to several.

    Chinese, Japanese and Korean scripts count as one, because people mix them. A Latin letter that looks like another
    one, such as a phonetic letter, counts as a script of its own, except for the Turkish dotless i.
    """
    if char.isascii():
        return LATIN if char.isalpha() else ""
    if not (char.isalpha() or char.isdecimal()):
        return ""
    first = _NAMED.get(char) or unicodedata.name(char, "UNKNOWN").partition(" ")[0]
    if first == LATIN and char != "\u0131" and len(looks_like(char)) == 1:
        return "PHONETIC"
    return _SCRIPTS.get(first, first)


def compute_skeleton(text: str) -> str:
    """Compute the skeleton of a name (UTS 39, casefolded last): names with equal skeletons look alike."""
    pieces = unicodedata.normalize("NFKD", text.translate(TABLE)).translate(TABLE)
    visible = "".join(char for char in pieces if not (is_unseen(char) or is_combining(char)))
    return visible.casefold().translate(TABLE).translate(ALIKE)


ALIKE: Final = str.maketrans("i10", "llo")
"""Maps digits and letters that look alike to one of them."""
