"""Letters of other scripts that look like an ASCII letter.

Owns one table, derived from the single-character entries of Unicode's ``confusables.txt`` (UTS 39; Unicode
License v3) after compatibility decomposition and case folding. Refuses to know what folding is for.
Entries with several readings took the commonest; ``i``, ``l`` and ``1``, and ``o`` and ``0``, fold together.
"""

from __future__ import annotations

from typing import Final

LOOKS_LIKE: Final[dict[str, str]] = {
    "a": "ɑαаᎪᗅꓮ𐊠𖽀",
    "b": "ƅβвьᏏᏴᑲᖯᗷꓐꞵ𐊂𐊡𐌁",
    "c": "сᏟᴄⲥꓚ𐊢𐌂𐐽𐔜",
    "d": "ԁᎠᏧᑯᗞᗪꓒꓓ",
    "e": "εеҽᎬⴹꓰꬲ𐊆𑣆𑣎",
    "f": "ϝքᖴẝꓝꞙꬵ𐊇𐊥𐔥𑣂",
    "g": "ƍɡԍցᏀᏳᶃꓖ",
    "h": "нһհᎻᏂᕼⲏꓧ𐋏",
    "j": "ʝϳјᎫᒍꓙ",
    "k": "κкᏦᛕⲕꓗ𐔘",
    "l": "ıǀɩɪιіӏᎥᏞᒪᛁⲓⳑⵏꓡꓲꙇ𐊊𐌉𐑃𐔦𑣃𑣒𖼖𖼨",
    "m": "μϻмᎷᗰᛖⲙꓟ𐊰𐌑",
    "n": "ηոռⲛꓠ𐔓",
    "o": "οσоօଠഠဝჿዐᴏᴑⲟⵔꓳꬽ𐊒𐊫𐐬𐓪𐔖𑣈𑣕𑣗",
    "p": "ρрᏢᑭⲣꓑ𐊕",
    "q": "ԛգզⵕ",
    "r": "ʀгᎡᎱᏒᖇᴦⲅꓣꭇꭈ𐓜𖼵",
    "s": "ƽѕտᏕᏚꓢꜱ𐊖𐑈𑣁𖼺",
    "t": "τтᎢⲧꓔ𐊗𐊱𐌕𑣜𖼊",
    "u": "ʋυսሀᑌᴜꓴꞟꭎꭒ𐓶𑣘𖽂",
    "v": "νѵᏙᐯᴠⴸꓦꛟ𐔝𑜆𑣀𖼈",
    "w": "ɯѡԝաᎳᏔᴡꓪ𑜊𑜎𑜏",
    "x": "χхᕁᕽᚷⲭⵝꓫꭓ𐊐𐊴𐌗𐔧",
    "y": "ɣʏγуүყᎩᎽᶌỿⲩꓬꭚ𐊲𑣄𖽃",
    "z": "ζᏃᴢꓜ𑣉",
}

TABLE: Final[dict[int, str]] = {ord(char): to for to, chars in LOOKS_LIKE.items() for char in chars} | {
    ord("i"): "l",
    ord("1"): "l",
    ord("0"): "o",
}
