"""Negating words by language: a destination next to one is not requested.

They only take authority away. In a language that is missing here, a negation has no effect and the destination counts
as named.
"""

from __future__ import annotations

from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_BEHIND: Final = {
    "en": "not, never, no, don't, dont, cannot, without, except, excluding, neither, nor, avoid, avoiding, refrain, "
    "instead of, rather than, other than, apart from",
    "de": "ohne, außer, ausser, statt, anstatt",
    "fr": "ne, n', pas, jamais, aucun, aucune, sans, sauf, excepté, hormis, ni, au lieu de",
    "es": "no, nunca, jamás, ningún, ninguno, ninguna, sin, salvo, excepto, menos, tampoco, en lugar de, en vez de",
    "pt": "não, nao, nunca, jamais, nenhum, nenhuma, sem, exceto, salvo, nem, menos, em vez de",
    "it": "non, mai, nessun, nessuno, nessuna, senza, tranne, eccetto, né, invece di",
    "nl": "zonder, behalve, in plaats van",
    "sv": "inte, aldrig, utan, utom, ej",
    "da": "ikke, aldrig, uden, undtagen",
    "no": "ikke, aldri, uten, unntatt",
    "pl": "nie, nigdy, bez, oprócz",
    "cs": "ne, nikdy, bez, kromě",
    "sk": "nie, nikdy, bez, okrem",
    "hr": "ne, nikada, nikad, bez, osim",
    "ca": "no, mai, sense, excepte, tret, ni",
    "gl": "non, nunca, sen, agás, excepto, nin",
    "ro": "nu, niciodată, fără, exceptând, nici",
    "hu": "ne, nem, soha, nélkül, kivéve",
    "fi": "ei, älä, älkää, koskaan, ilman, paitsi",
    "el": "μη, μην, δεν, όχι, ποτέ, χωρίς, εκτός",
    "bg": "не, никога, без, освен",
    "ru": "не, ни, никогда, без, кроме",
    "uk": "не, ні, ніколи, без, крім",
    "tr": "asla",
    "ar": "لا, ليس, بدون, إلا",
    "he": "לא, אל, בלי, חוץ",
    "hi": "बिना, सिवाय",
    "vi": "không, đừng, chớ, trừ",
    "id": "jangan, tidak, bukan, tanpa, kecuali",
}
"""Words that negate the text after them in their clause."""

_AROUND: Final = {
    "de": "nicht, nie, niemals, kein, keine, keinen, keinem, keiner",
    "nl": "niet, nooit, geen",
    "tr": "hariç, dışında, değil",
    "hi": "नहीं, मत, न",
}
"""Words that also negate the text before them, which may be their object."""

_UNSPACED: Final = {
    "ja": "ないで, ません(?!か), 以外, 除い, 禁止, しない",
    "ko": "말고, 마세요, 제외, 않",
    "zh": "不要, 不得, 别, 別, 勿, 除了, 以外, 禁止",
    "th": "ไม่, อย่า, ยกเว้น",
}
"""Patterns that negate their whole clause, for scripts without spaces or with suffixes."""

_ANSWERS: Final = {
    "en": "no",
    "es": "no",
    "fr": "non",
    "it": "no, non",
    "pt": "não, nao",
    "pl": "nie",
    "cs": "ne",
    "sk": "nie",
    "hr": "ne",
    "ca": "no",
    "gl": "non",
    "ro": "nu",
    "hu": "nem",
    "fi": "ei",
    "el": "όχι",
    "ru": "нет",
}
"""Words that are an answer if they begin a sentence and a comma follows."""


def _split_words(lists: Mapping[str, str]) -> frozenset[str]:
    return frozenset(word for words in lists.values() for word in words.split(", "))


def _index_languages(*lists: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    found = defaultdict[str, set[str]](set)
    for one in lists:
        for language, words in one.items():
            for word in words.split(", "):
                found[word].add(language)
    return MappingProxyType({word: frozenset(languages) for word, languages in found.items()})


LANGUAGES: Final = _index_languages(_BEHIND, _AROUND)
"""Negating words that are separate words, with their languages."""
AROUND: Final = _split_words(_AROUND)
UNSPACED: Final = _split_words(_UNSPACED)
ANSWERS: Final = _split_words(_ANSWERS)
