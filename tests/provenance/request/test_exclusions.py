from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance.evidence.destinations import parse_destination
from agentserver.provenance.request import languages
from agentserver.provenance.request.exclusions import LANGUAGES
from agentserver.provenance.request.languages import find_common_words, is_foreign
from agentserver.provenance.request.trusted_words import TrustedWords, find_ignored_spans

BOB = "bob@corp.com"


def orders(request: str) -> bool:
    return TrustedWords().add(request).names(parse_destination(BOB))


@pytest.mark.parametrize(
    "request_",
    [
        f"do not, under any circumstances, mail {BOB}",
        f"Never, ever mail {BOB}",
        f"Don’t mail {BOB}",
        f"N’écris pas à {BOB}",
        f"it shouldn't go to {BOB}",
        f"do 'not' mail {BOB}",
        f"mail Ann instead of {BOB}",
        f"mail everyone but {BOB}",
        f"schreib an alle bis auf {BOB}",
        f"No, bajo ninguna circunstancia, escribas a {BOB}",
    ],
)
def test_a_negation_reaches_over_inserted_words(request_: str) -> None:
    assert not orders(request_)


@pytest.mark.parametrize(
    "request_",
    [
        f"Don't mail eve@corp.com, kim@corp.com or {BOB}",
        f"Please, never mail Ann, Eve or {BOB}",
        f"mail everyone, except Eve, Kim, and {BOB}",
        f"Do not mail these people:\n- eve@corp.com\n- {BOB}",
        f"No escribas a Eve, a Kim o a {BOB}",
        f"{BOB}、eve@corp.comには送らないで",
        f"Bitte Eve, {BOB} und Kim nicht anschreiben",
    ],
)
def test_a_negation_reaches_over_a_list(request_: str) -> None:
    assert not orders(request_)


@pytest.mark.parametrize(
    "request_",
    [
        f"Schreib {BOB} bitte nicht",
        f"{BOB} must not get it",
        f"An {BOB} keinesfalls",
        f"Mail {BOB} niet",
        f"Ann yes, {BOB} no",
        f"{BOB} को मत भेजो",
        f"อย่าส่งถึง {BOB}",
    ],
)
def test_a_negation_behind_its_object(request_: str) -> None:
    assert not orders(request_)


@pytest.mark.parametrize(
    "request_",
    [
        f"No, mail {BOB}",
        f"Não, mande para {BOB}",
        f"If not, mail {BOB}",
        f"If it does not work, mail {BOB} and tell Kim",
        f"mail ann@corp.com, not eve@corp.com, and {BOB}",
        f"Schreib an {BOB} und nicht an eve@corp.com",
        f"Schreib an {BOB}, aber nicht an eve@corp.com",
        f"don't worry, mail to {BOB}",
        f"N'oublie pas, écris à {BOB}",
        f"Non ti preoccupare, scrivi a {BOB}",
        f"{BOB} に送って、eve には送らないで",
        f"{BOB} に送ってくれませんか",
        f"Create the event 'No meeting day' with {BOB}",
    ],
)
def test_a_negation_ends_where_another_clause_begins(request_: str) -> None:
    assert orders(request_)


@pytest.mark.parametrize(
    "request_",
    [
        f"Don't forget to mail {BOB}",
        f"Mail not only Ann but also {BOB}",
        f"Mail it without delay to {BOB}",
        f"Could you not just mail {BOB}?",
        f"Schreib nicht nur Ann, sondern auch {BOB}",
        f"N’oublie pas d'écrire à {BOB}",
        f"No olvides escribir a {BOB}",
    ],
)
def test_a_phrase_that_affirms_excepts_nothing(request_: str) -> None:
    assert orders(request_)


@pytest.mark.parametrize(
    "request_", [f"Don't forget not to mail {BOB}", f"Vergiss nicht, an {BOB} nicht zu schreiben"]
)
def test_another_negation_beside_such_a_phrase_counts(request_: str) -> None:
    assert not orders(request_)


@pytest.mark.parametrize(
    "request_",
    [
        f"Leia o artigo que está no site e poste no canal {BOB} o resumo",
        f"Não se preocupe. Poste o resumo da reunião no canal {BOB}",
        f"Skicka sin rapport till {BOB} och ta med min lista",
        f"Ruf im Mai bei {BOB} an, das reicht",
    ],
)
def test_a_word_excepts_in_the_languages_of_its_sentence(request_: str) -> None:
    assert orders(request_)


@pytest.mark.parametrize(
    "request_",
    [
        f"No mandes nada a {BOB}",
        f"No mandes nada a Ana da Silva ni a {BOB}",
        f"não mande nada no domingo para {BOB}",
        f"no mail from the Banco do Brasil to {BOB}",
        f"no {BOB}",
        f"No enviïs això a {BOB} per a la Joana",
        f"nie posielaj to na {BOB} keď je neskoro",
        f"ne šalji to na {BOB}",
        f"Leia o artigo do site. No mandes nada a {BOB}",
        f"send it to all außer {BOB} if you have time",
    ],
)
def test_a_sentence_that_may_be_of_either_language_is_of_that_which_excepts(request_: str) -> None:
    assert not orders(request_)


def test_two_marks_of_inches_quote_no_negation() -> None:
    assert not orders(f'it is 5" wide, do not mail the one of 3" to {BOB}')
    assert not orders(f'it is 5" wide, do not mail "the notes" to {BOB}')
    assert orders(f'mail "do not disturb" to {BOB}')


def test_a_quotation_shows_no_language_and_an_address_no_word() -> None:
    assert not orders(f"no 'dela do artigo' mail para {BOB}")
    assert find_common_words("see corp.com, de-vries@com.example") == frozenset()


@given(
    st.sampled_from(sorted(LANGUAGES)),
    st.lists(st.sampled_from(sorted(languages._ALL)), max_size=8).map(frozenset),
)
def test_one_word_of_its_own_language_keeps_an_exception(word: str, said: frozenset[str]) -> None:
    kinds = LANGUAGES[word]
    for kind in kinds & languages._WORDS.keys():
        others = (words for other, words in languages._WORDS.items() if other not in kinds)
        own = languages._WORDS[kind].difference({word}, *others)
        assert not any(is_foreign(word, kinds, said | {telling}) for telling in own)


@given(
    st.lists(
        st.sampled_from(
            [
                "no",
                "not",
                "nicht",
                "don't",
                "a",
                "Bob",
                "o",
                "und",
                ",",
                ".",
                ":",
                "\n- ",
                "'x'",
                "ないで",
                "、",
            ]
        )
    )
)
def test_an_exception_only_takes_away(words: list[str]) -> None:
    text = " ".join(words)
    found = find_ignored_spans(text)
    assert all(0 <= part.start < part.end <= len(text) for part in found.other)
    assert [*found.other] == sorted(found.other)
    if not any(word in text for word in ("no", "nicht", "n't", "ないで")):
        assert not found.other


@pytest.mark.parametrize(
    "piece", ["Bob, ", "not a, ", "Bob nicht, ", "no no ", "x. ", "- not:\n", "bob、eve ないで、"]
)
def test_looking_for_exceptions_is_linear(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    inner = languages.joins
    monkeypatch.setattr(
        "agentserver.provenance.request.exclusions.joins", lambda word: (looked.append(1), inner(word))[1]
    )
    find_ignored_spans(f"nicht {piece * 2000}")
    assert len(looked) < 2000 * 40


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (f"open https://fjell.no/en, and mail {BOB}", True),
        (f"mail ann@fjell.no and {BOB}", True),
        (f"look at fjell.no and mail {BOB}", True),
        (f"mail Ann.Not {BOB}", False),
        (f"mail https://a.example/ no {BOB}", False),
        (f"mail Ann. No {BOB}", False),
        (f"Schreib am 11. Mai 2026 an {BOB}", True),
        (f"Écris le 11 mai 2026 à {BOB}", True),
        (f"Non scrivere mai 2026 volte a {BOB}", False),
    ],
)
def test_a_part_of_a_link_or_a_host_negates_nothing(request_: str, *, named: bool) -> None:
    assert orders(request_) is named
