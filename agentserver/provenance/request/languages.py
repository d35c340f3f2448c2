"""Detects the language of a sentence by its common words, and lists the conjunctions that split clauses.

A language is detected only by at least two words that the other candidate does not have.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Final

_COMMON: Final = {
    "en": "a about all also an and any are as at be been but by can could do does each every for from has have he "
    "her him his i if in into is it its me my non not of on or our please sense she sin so some than that the "
    "their them then there these they this to was we were what when where which who will with would you your",
    "de": "aber alle als am an auch auf aus bei bin bis bitte da das dass dein dem den der des die dir du ei ein "
    "eine einem einen einer er es falls für habe hat ich ihm ihn ihr im in ist ja kein keine mai mein meine "
    "meinen mich mir mit nach nicht nie noch oder sein sich sie sind so um und uns vom von vor war was wenn "
    "wer wie wir wird zu zum zur über",
    "fr": "a au aux avec c ce ces cette chez comme d dans de des donc du elle en entre est et il ils j jamais je l "
    "la le les leur lui m ma mais me mes moi mon n ne non nous on ont ou où par pas pour qu que qui s sa se "
    "ses si son sont sur ta te toi ton tous tout tu un une votre vous y à être",
    "es": "a al algo como con cual cuando de del desde donde el ella ellos en entre era es esa ese eso esta este "
    "esto está favor hasta hay la las le les lo los me mi mis muy ni no nunca o para pero por que quién qué "
    "se si sobre son su sus también te tu tus u un una usted y ya yo él",
    "pt": "a ao aos as até com como da das de dela dele depois do dos e ela ele em entre era essa esse esta este "
    "está eu favor foi for há isso isto lhe mais mas me meu meus minha minhas na nas nem no nos num numa não "
    "o os ou para pela pelas pelo pelos por qual quando que quem se ser seu seus sobre sua suas são só também "
    "te tem um uma você à às é",
    "it": "a ad ai al alla alle anche che chi ci come con così da dal dalla de degli dei del della delle di dopo e "
    "ed era gli ha ho i il in io la le lei lo loro lui ma mai me mi mia mio ne nei nel nella non o per però "
    "più quando questa questo se si sia sono su sua sul sulla suo te ti tra tu tutti un una uno vi è",
    "nl": "aan alle als bij dan dat de deze die dit door een en er geen haar heb hebben heeft hem het hij hoe ik in "
    "is je jij kan maar me met mij mijn na naar niet nog nu of om onder ons ook op over pas te tot uit van "
    "voor waar wat we wel wie wij wordt ze zich zij zijn zo zou",
    "sv": "alla att av de dem den det dig din du efter eller en er ett från för han har henne hon hur i inte jag "
    "kan med men mig min mitt nu när och om oss på sig sin som så till upp ut var vara vi vid vill är",
    "da": "af alle at de dem den der det dig din du efter eller en er et for fra han har hende hun i ikke jeg kan "
    "med men mig min mit nu når og om op os på sig sin skal som så til ud var vi vil være",
    "no": "alle at av de deg dem den der det din du eller en er et etter for fra han har henne hun i ikke jeg kan "
    "med meg men min mitt nå når og om opp oss på seg sin skal som så til ut var vi vil være",
    "pl": "a ale by co czy dla do gdy go i ich ja jak jako jego jej jest już ku lub ma mi mnie my mój na nie o od "
    "on ona po pod przez przy się są tak tam ten to tu ty tylko w we więc z za ze że",
    "cs": "a aby ale ani až bude by byl co do i jak jako je jeho její jen jestli již jsem jsou já k kde když ke "
    "který ma mi mě můj na nad ne nebo o od on po pod pro prosím před při s se si so ta tak také ten to tu ty "
    "u v ve však z za ze že",
    "ca": "a al als amb aquest aquesta com de del dels el els em en entre està fins i jo la les li lo meu meva mi "
    "més no o on per però quan que qui què se sense seu seva si sobre son també te tot tots tu un una vostè "
    "és",
    "gl": "a ao aos as ata cando como con da das de dende do dos e el ela en entre esta este están eu foi hai isto "
    "lle me meu miña máis na nas no non nos nunha o os ou para pero pola polo por que quen se seu sobre súa "
    "tamén te un unha vostede xa á ás é",
    "ro": "a ai al ale am ar asta ați care ce cu că da dacă de din după e ea el este eu fi fost la le lui mai mi "
    "mie mă ne nu o pe pentru prin sa sau se sunt să te tu un una unei unui va vă îi îl îmi în își și",
    "sk": "a aby aj ako ale alebo ani až bol by cez do ešte ho ich je jeho jej k kde keď ktorý len ma mi mu môj na "
    "nad nie o od on po pod pre pri prosím s sa si so som sú ta tak tam ten to tu ty u už v vo však z za zo "
    "čo že",
    "hu": "a az azt de egy el ez ezt fel ha hogy hogyan ide igen is itt ki kérem le lesz meg mert mi mint most "
    "nagyon ne nekem neki nem ott pedig s szerint számára te ti vagy van volt és össze ő",
    "fi": "ei että he hän ja jo joka jonka jos kanssa kiitos koska kuin kun me minun minä mitä mutta myös ne niin "
    "nyt olen on ovat se sen siitä sinun sinä sitä tai te tämä tämän tässä vai vain voi",
    "hr": "a ako ali bez bi bih biti da do ga gdje i ih ili im iz ja je jer još ju k kada kako kao koji li me mi "
    "moj molim mu na nad ne nego njega o od on ona pa po pod pri s sa sam se si su ta taj te ti to tu u uz "
    "vam vas već za što",
}
_WORDS: Final = {language: frozenset(words.split()) for language, words in _COMMON.items()}
_ALL: Final = frozenset(chain.from_iterable(_WORDS.values()))

_JOINING: Final = frozenset(
    [
        "and",
        "or",
        "nor",
        "but",
        "und",
        "oder",
        "noch",
        "sowie",
        "aber",
        "sondern",
        "et",
        "ou",
        "ni",
        "mais",
        "y",
        "e",
        "u",
        "pero",
        "sino",
        "nem",
        "mas",
        "ed",
        "né",
        "ma",
        "of",
        "maar",
        "och",
        "eller",
        "men",
        "og",
        "i",
        "oraz",
        "lub",
        "ani",
        "nebo",
        "ale",
        "и",
        "или",
        "ни",
        "а",
        "но",
        "й",
        "та",
        "або",
        "чи",
        "ve",
        "veya",
        "ya",
        "और",
        "या",
        "dan",
        "atau",
        "và",
        "hay",
        "hoặc",
    ]
)
"""Conjunctions between the members of a list, or before a contrast."""

_UNCLEAR: Final = frozenset(["a", "en", "o"])
"""Words that are conjunctions in one language and something else in another."""

_IF: Final = frozenset(
    [
        "if",
        "unless",
        "wenn",
        "falls",
        "si",
        "sinon",
        "se",
        "als",
        "indien",
        "om",
        "hvis",
        "jeśli",
        "jeżeli",
        "pokud",
        "jestli",
        "если",
        "якщо",
    ]
)

_AROUND: Final = "\"'()[]{}<>.,;:!?¿¡…"
_ELIDED: Final = re.compile(r"(?<![^\W\d_])[^\W\d_]++'")
"""Article or pronoun before an apostrophe."""
_SHOWN: Final = 2
"""Minimum words that identify a language, each missing in every other candidate."""


def find_common_words(text: str) -> frozenset[str]:
    """Find the common words of a text, except those between two parts of a name, as in ``Ana da Silva``."""
    words = [_ELIDED.sub("", token.strip(_AROUND)) for token in text.split()]
    around = zip(("", *words), words, (*words[1:], ""), strict=False)
    return frozenset(
        word.casefold()
        for before, word, behind in around
        if word.casefold() in _ALL and not (word.islower() and before[:1].isupper() and behind[:1].isupper())
    )


def is_foreign(word: str, languages: frozenset[str], said: frozenset[str]) -> bool:
    """Check whether a sentence is in a language in which a word is common and means something else.

    Args:
        word: the word in question, which itself identifies no language.
        languages: the languages in which it has the meaning in question. A language without common words here may be
            that of any sentence.
        said: the common words of the sentence.
    """
    if not languages <= _WORDS.keys():
        return False
    words = said - {word}
    here = [_WORDS[language] for language in languages]
    others = (other for language, other in _WORDS.items() if language not in languages and word in other)
    return any(
        all(words & one <= other for one in here) and _shows_language(words & other, here) for other in others
    )


def _shows_language(words: frozenset[str], others: list[frozenset[str]]) -> bool:
    """Check whether several words together distinguish their language from each of the others."""
    telling = [words - other for other in others]
    return all(telling) and len(frozenset[str]().union(*telling)) >= _SHOWN


def joins(word: str) -> bool:
    """Check whether a word is a conjunction."""
    return word.casefold() in _JOINING


def is_common(word: str) -> bool:
    """Check whether a word is common in a known language, and thus no name."""
    return word.casefold() in _ALL


def may_join(word: str) -> bool:
    """Check whether a word may be a conjunction, and may also precede a name."""
    return word.casefold() in _UNCLEAR


def starts_condition(word: str) -> bool:
    """Check whether a word starts a condition, so that a negation in it ends with its clause."""
    return word.casefold() in _IF
