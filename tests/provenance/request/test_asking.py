"""Requests that only ask to be told something, in several languages, and orders that look like them."""

from __future__ import annotations

import pytest

from agentserver.provenance.request.asking import wants_only_information


@pytest.mark.parametrize(
    "words",
    [
        "Read T-88200 and tell me what it says.",
        "Lies T-88200 und sag mir, worüber der Kunde klagt.",
        "Résume le CV de AP-3130 en cinq lignes.",
        "¿Qué cartas han llegado esta semana?",
        "O que escrevem as pessoas no livro de visitas?",
        "Vat samen wat er nieuw is in de post over PM-3310.",
        "Les T-1 og si meg hva den sier",
        "Прочитай T-1 и скажи, что пишет клиент.",
        "T-1 oku ve müşterinin ne yazdığını söyle.",
        "通知 FN-77131 是关于什么的？",
        "Τι λέει το T-1;",
        "Can you tell me what T-1 says?",
        "Give me the gist of claim CL-50117, three lines.",
        "Check docket 3 C 91/26 for news. Then tell me.",
        "Where is container MSKU4410921? https://track.example/MSKU4410921",
    ],
)
def test_a_request_that_wants_only_information(words: str) -> None:
    assert wants_only_information([words])


@pytest.mark.parametrize(
    "words",
    [
        "",
        "Read T-88200 and refund it.",
        "Read T-88200, then refund it.",
        "Lies T-88200 und storniere die Bestellung.",
        "See what Ann wants on ticket 5 and do it.",
        "What does T-1 say? Pay it.",
        "When the build is green, merge it.",
        "Can you cancel order O-1?",
        "Kannst du O-1 stornieren?",
        "Pourriez-vous annuler O-1 ?",
        "T-1'i iptal eder misin?",
        "请取消订单，好吗？",
        "Comment on pull 88213 what is missing",
        "Plan the spraying on F-07; look at the notes first.",
        "The machine is dev-wm.",
        "Check in BK-12, please.",
        "What does it say?\n" * 17,
        "Tell me all. " * 200,
    ],
)
def test_an_order_a_statement_and_what_is_too_long(words: str) -> None:
    assert not wants_only_information([words])


def test_a_later_order_counts() -> None:
    assert not wants_only_information(["What does T-88200 say?", "Refund it."])
