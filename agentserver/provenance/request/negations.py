"""Words that except what is said with them, by language: a destination beside one is not asked for.

Owns the lists. They only take authority away: in a language that is missing here, what is excepted counts as named, as
in a request without the word. Refuses to know grammar.
"""

from __future__ import annotations

from typing import Final

_BEFOREHAND: Final = {
    "en": "not never no don't dont doesn't won't mustn't cannot can't without except excluding neither nor",
    "de": "nicht nie niemals kein keine keinen keinem keiner ohne außer ausser",
    "fr": "ne n'en pas jamais aucun aucune sans sauf excepté hormis",
    "es": "no nunca jamás sin salvo excepto menos tampoco",
    "pt": "não nao nunca jamais sem exceto salvo nem",
    "it": "non senza tranne eccetto né",
    "nl": "niet nooit geen zonder behalve",
    "sv": "inte aldrig utan utom ej",
    "da": "ikke aldrig uden undtagen",
    "no": "ikke aldri uten unntatt",
    "pl": "nie nigdy bez oprócz",
    "cs": "ne nikdy bez kromě",
    "ru": "не ни никогда без кроме",
    "uk": "не ні ніколи без крім",
    "tr": "hariç dışında asla",
    "ar": "لا ليس بدون إلا",
    "he": "לא אל בלי חוץ",
    "hi": "नहीं मत बिना सिवाय",
    "vi": "không đừng chớ trừ",
    "id": "jangan tidak bukan tanpa kecuali",
    "th": "ไม่ อย่า ยกเว้น",
}
BEFOREHAND: Final = frozenset(word for words in _BEFOREHAND.values() for word in words.split())
"""Words that except what comes behind them in their clause."""

_AFTERWARDS: Final = {
    "ja": "ないで ません 以外 除い 禁止 しない",
    "ko": "말고 마세요 제외 않",
    "zh": "不要 不得 别 勿 除了 以外 禁止",
}
AFTERWARDS: Final = tuple(word for words in _AFTERWARDS.values() for word in words.split())
"""Pieces that except the whole clause in which they stand, where words are not parted by spaces."""
