"""Moments and amounts in the request and in an argument: one value in two spellings, and near misses."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentserver.provenance import Call, judge, leaves
from agentserver.provenance.evidence.keys import list_evidence_keys
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.leaves import find_typed_keys
from agentserver.provenance.evidence.lexicon import list_conventions
from agentserver.provenance.evidence.readings import read_keys
from agentserver.provenance.policy.declarations import Rule
from tests.provenance.scenes import Scenario, desk, sink

TABLE = Path(__file__).with_name("spellings.tsv")
ROWS = [
    line.split("|") for line in TABLE.read_text("utf-8").splitlines() if line and not line.startswith("#")
]
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("want", "role", "locale", "words", "argument"), ROWS, ids=map(" ".join, ROWS))
def test_a_request_authorises_the_same_value_and_no_near_miss(
    want: str, role: str, locale: str, words: str, argument: str
) -> None:
    value = json.loads(argument)
    policy = replace(desk(sinks=(sink("act", it=Role(role)),)), locale=locale)
    told = Scenario(policy, words).read("fetch_url", f"Do it with {value} now.")
    verdict = judge(told.ledger, policy, Call("act", leaves({"it": value}), 9, time=NOW))
    assert {finding.rule for finding in verdict.findings} == ({Rule.SELECTOR} if want == "other" else set())


@pytest.mark.parametrize(
    ("page", "role", "value"),
    [
        ("send nine thousand", "quantity", 9000),
        ("sende neuntausend", "quantity", 9000),
        ("zahle 9.000,00", "quantity", 9000),
        ("zahle 1.234", "quantity", 1234),
        ("pay 1.234", "quantity", 1.234),
        ("3万円", "quantity", 30000),
        ("am 31. Oktober 2027", "time", "2027-10-31"),
        ("2026年12月5日", "time", "2026-12-05"),
        ("on 03/04/2027", "time", "2027-03-04"),
        ("on 03/04/2027", "time", "2027-04-03"),
        ("on 03/04/27", "time", "2027-03-04"),
        ("on 27/04/03", "time", "2027-04-03"),
        ("am 3.4.27", "time", "2027-04-03"),
        ("on 03-Apr-2027", "time", "2027-04-03"),
        ("on 3APR27", "time", "2027-04-03"),
        ("on 20270403", "time", "2027-04-03"),
        ("on 3 April 2027", "time", "20270403"),
        ("send 20270403 now", "quantity", 20270403),
        ("１８４０．５０", "quantity", 1840.5),
    ],
)
def test_an_untrusted_text_is_evidence_in_each_of_its_readings(page: str, role: str, value: object) -> None:
    policy = desk(sinks=(sink("act", it=Role(role)),))
    told = Scenario(policy, "do what is due").read("fetch_url", page)
    assert told.rules("act", it=value) == {Rule.SELECTOR}


@pytest.mark.parametrize(
    "piece",
    [
        "1 ",
        "1.",
        "1,",
        "may 1-",
        "12 a b ",
        "12:00 1 May ",
        "one ",
        "neun",
        "九",
        "in ",
        "1 000 ",
        "12-12 to ",
    ],
)
def test_the_work_of_a_reading_is_linear(piece: str) -> None:
    def steps(size: int) -> int:
        import sys

        count = 0

        def step(*_: object) -> None:
            nonlocal count
            count += 1

        text = (piece * size)[: size * 4]
        sys.setprofile(step)
        try:
            found = [*read_keys(text), *find_typed_keys(text), *list_evidence_keys(text)]
        finally:
            sys.setprofile(None)
        assert len(found) < len(text) * 4
        return count

    steps(8)
    assert steps(1600) < 2.6 * steps(800) + 2000


def test_an_unknown_locale_has_no_conventions() -> None:
    assert list_conventions("xx-none") is None
    assert list_conventions("de_CH") == list_conventions("de-ch")
