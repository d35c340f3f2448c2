from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance.evidence.folding import fold, fold_bytes, fold_map


@given(st.text())
def test_folding_is_idempotent(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text(), st.text())
def test_folding_is_a_homomorphism_across_a_separator(a: str, b: str) -> None:
    assert fold(a + " " + b) == fold(a) + fold(b)


@given(st.text())
def test_the_map_agrees_with_the_form(text: str) -> None:
    form, offsets = fold_map(text)
    assert form == fold_bytes(text)
    assert len(form) == len(offsets)
    assert offsets == sorted(offsets)
    assert all(0 <= offset < len(text) for offset in offsets)


@pytest.mark.parametrize(
    "other",
    [
        "Attacker@Evil.com",
        "a t t a c k e r @ e v i l . c o m",
        "att\u200back\u2060er@evil.com",
        "аttасker@еvil.соm",
        "ａｔｔａｃｋｅｒ＠ｅｖｉｌ．ｃｏｍ",
        "𝐚𝐭𝐭𝐚𝐜𝐤𝐞𝐫@𝐞𝐯𝐢𝐥.𝐜𝐨𝐦",
        "att\u00e4cker@evil.com",
        "attacker@\u202eevil.com",
        "attacker@evi1.c0m",
    ],
)
def test_spellings_of_one_address_fold_together(other: str) -> None:
    assert fold(other) == fold("attacker@evil.com")


def test_symbols_alone_are_no_evidence() -> None:
    assert fold("----=====  \n\t***") == ""


def test_no_character_swells() -> None:
    assert len(fold("\ufdfa" * 10)) <= 40
    assert fold("Ⅷ") == fold("viii")
