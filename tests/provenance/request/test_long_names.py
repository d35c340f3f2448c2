"""A name as long as a message is looked up in the principal's words like any other, and its pattern is made once."""

from __future__ import annotations

from random import Random

import pytest

from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.index import SPAN
from agentserver.provenance.request import trusted_words
from agentserver.provenance.request.trusted_words import LONGEST, TrustedWords

PIECES = ["pay", "Pay", "the", "bill", "a.b", "@bob", " ", "  ", "\n", ",1", "1,000", "ſo", "Zoë", "x" * 40]


def write_text(chosen, length):
    return "".join(f"{chosen.choice(PIECES)}{chosen.choice([' ', ' ', ''])}" for _ in range(length))


def vary(chosen, text):
    """Return a piece of a text, changed at some place or not at all."""
    start = chosen.randrange(len(text) // 4)
    name = text[start : start + chosen.randrange(LONGEST, len(text))]
    at = chosen.randrange(len(name))
    return chosen.choice([name, name.swapcase(), name[:at] + chosen.choice(PIECES) + name[at:], name.strip()])


@pytest.mark.parametrize("seed", range(20))
def test_a_long_name_is_mentioned_where_a_short_one_would_be(seed, monkeypatch):
    chosen, found = Random(seed), []
    for _ in range(30):
        text = write_text(chosen, 200)
        asked = [
            (name, any_case)
            for name in (text, *(vary(chosen, text) for _ in range(6)))
            for any_case in (False, True)
        ]
        answers = []
        for longest in (LONGEST, len(text) * 2):
            monkeypatch.setattr(trusted_words, "LONGEST", longest)
            words = TrustedWords().add("something else", text)
            answers.append([words.mentions(name, any_case=any_case) for name, any_case in asked * 2])
        assert answers[0] == answers[1]
        found += answers[0]
    assert len(set(found)) == 2


@pytest.mark.parametrize("seed", range(20))
def test_words_say_what_one_of_their_texts_has_in_one_piece(seed):
    chosen = Random(seed)
    texts = [write_text(chosen, chosen.randrange(40)) for _ in range(5)]
    words, forms = TrustedWords().add(*texts), [*map(fold_bytes, texts)]
    joined = b"".join(forms)
    for _ in range(100):
        start = chosen.randrange(max(1, len(joined) - SPAN))
        form = joined[start : start + chosen.randrange(SPAN, 120)]
        if len(form) >= SPAN:
            assert words.says(form) is any(form in one for one in forms)


def test_the_pattern_of_a_long_name_is_made_once(monkeypatch):
    made = []
    build = trusted_words.build_mention_pattern
    monkeypatch.setattr(
        trusted_words, "build_mention_pattern", lambda *args, **how: made.append(args) or build(*args, **how)
    )
    request = "read the page and mail it " * 20
    words = TrustedWords().add(request)
    assert [words.mentions(request, any_case=True) for _ in range(3)] == [True] * 3
    assert not words.mentions("read the page and mail nothing " * 20)
    assert len(made) == 1


def test_what_follows_from_the_words_alone_is_derived_once() -> None:
    asked, read = TrustedWords().add("not more than 40 euros"), list[tuple[str, ...]]()

    def derive(texts: tuple[str, ...]) -> None:
        read.append(texts)

    assert asked.derive_once(derive) is asked.derive_once(derive) is None
    assert read == [asked.audible]
    asked.add("by train").derive_once(derive)
    assert len(read) == 2
