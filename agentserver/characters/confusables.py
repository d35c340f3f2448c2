"""Characters that look like ASCII letters and digits.

Owns one table: the entries of Unicode's ``confusables.txt`` (UTS 39; Unicode License v3) for one character that
looks like one or more ASCII letters or digits, as confusable-homoglyphs 3.3.1 (MIT) has them. Left out is what
compatibility decomposition gives anyway. Added are the other cases of those letters, so that a text in capitals has the
form of the same text in small letters, and 38 letters whose small form looks like a Latin small capital.
Refuses to know what the table is for.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "15.1"
"""Of the Unicode data."""

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
