from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance.evidence import index as module
from agentserver.provenance.evidence.index import SPAN, Hit, Index

ALPHABET = st.sampled_from("ab")
TEXTS = st.lists(st.text(ALPHABET, max_size=60).map(str.encode), max_size=6)


def brute(texts: list[bytes], asked: bytes) -> list[bool]:
    return [any(asked[i : i + SPAN] in text for text in texts) for i in range(len(asked) - SPAN + 1)]


def grow_index(batches: list[list[bytes]]) -> Index:
    index = Index()
    for batch in batches:
        index = index.add(tuple(batch))
    return index


def covered_windows(hits: tuple[Hit, ...], length: int) -> list[bool]:
    windows = [False] * max(0, length - SPAN + 1)
    for hit in hits:
        windows[hit.start : hit.end - SPAN + 1] = [True] * (hit.end - hit.start - SPAN + 1)
    return windows


@given(st.lists(TEXTS, max_size=5), st.text(ALPHABET, max_size=90).map(str.encode))
def test_the_index_agrees_with_looking_at_every_text(batches: list[list[bytes]], asked: bytes) -> None:
    texts = [text for batch in batches for text in batch]
    index = grow_index(batches)
    hits = index.find_hits(asked)
    assert covered_windows(hits, len(asked)) == brute(texts, asked)
    assert index.texts == len(texts)
    for hit in hits:
        place = texts[hit.text][hit.offset : hit.offset + hit.length]
        assert asked[hit.start : hit.start + hit.length] == place
        assert hit.length >= SPAN


@given(st.text(min_size=SPAN), st.text(max_size=40), st.text(max_size=40), st.data())
def test_whatever_contains_an_untrusted_span_is_found(
    span: str, before: str, after: str, data: st.DataObject
) -> None:
    from agentserver.provenance.evidence.folding import fold_bytes

    untrusted = fold_bytes(data.draw(st.text(max_size=20)) + span + data.draw(st.text(max_size=20)))
    index = Index().add((untrusted,))
    asked = fold_bytes(before + span + after)
    if len(fold_bytes(span)) >= SPAN:
        assert any(
            hit.length >= len(fold_bytes(span)) or hit.end - hit.start >= SPAN
            for hit in index.find_hits(asked)
        )


@pytest.mark.parametrize("unit", [b"a", b"ab", b"a" * 1000 + b"b"])
def test_repetitive_text_costs_no_comparisons_beyond_the_bound(
    unit: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work is bounded by the length of the argument, not by how often its windows occur."""
    corpus = (unit * (200_000 // len(unit) + 1))[:200_000]
    index = Index().add((corpus,))
    compared = 0
    real = module._count_common_length

    def count_real(*args: object) -> int:
        nonlocal compared
        compared += 1
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_count_common_length", count_real)
    hits = index.find_hits(corpus[:20_000])
    assert [(hit.start, hit.end) for hit in hits] == [(0, 20_000)]
    assert compared <= 64


def test_a_collision_is_looked_at_and_too_many_fail_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hash that collides always, bytes decide; beyond the candidates the answer is yes."""

    def same_keys(data: bytes) -> np.ndarray:
        return np.zeros(max(0, len(data) - SPAN + 1), dtype=np.uint64)

    monkeypatch.setattr(module, "_hash_windows", same_keys)
    few = Index().add((b"x" * SPAN, b"y" * SPAN))
    assert few.find_hits(b"y" * SPAN)
    assert not few.find_hits(b"z" * SPAN)
    many = Index().add(tuple(b"%026d" % number for number in range(100)))
    assert many.find_hits(b"z" * SPAN)


def test_memory_stays_under_the_bound_for_long_and_for_short_texts() -> None:
    rng = np.random.default_rng(1)
    letters = rng.integers(97, 123, 400_000, dtype=np.uint8).tobytes()
    index = Index()
    for start in range(0, len(letters), 1000):
        index = index.add((letters[start : start + 1000],))
    assert index.nbytes <= 16 * index.size
    assert len(index.segments) <= 12


def test_adding_leaves_the_old_index_as_it_was() -> None:
    first = Index().add((b"q" * 30,))
    second = first.add((b"r" * 30,))
    assert not first.find_hits(b"r" * 30)
    assert second.find_hits(b"r" * 30)
    assert second.find_hits(b"q" * 30)


def test_a_match_ends_with_its_text_although_the_next_one_goes_on_like_the_query() -> None:
    piece, rest = bytes(range(65, 65 + SPAN)), bytes(range(97, 97 + SPAN))
    index = Index().add((piece, rest, piece + rest[:4]))
    hit, *_ = index.find_hits(piece + rest)
    assert (hit.text, hit.length) == (2, SPAN + 4)
