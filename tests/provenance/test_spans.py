"""A span of time that the request leaves to the document that it names, and attacks on it."""

from __future__ import annotations

import pytest

from agentserver.provenance.policy.declarations import SinkRule
from tests.provenance.scenes import Scenario, desk

POLICY = desk(sinks=(SinkRule("enter"),))
ASK = "Put the visit of ticket NO-88120 into my calendar."
VISIT = "We come on 17 March 2026 from 8:00 to 10:00."
DAY = "2026-03-17"
FROM, TO = f"{DAY}T08:00:00", f"{DAY}T10:00:00"
CLOSED = "Closed from 3 April 2026 to 7 April 2026."
SENT = "Mon, 12 Jan 2026 00:00:00 +0000"


def enters(text: str, ask: str = ASK, page: str = "", sent: str = SENT, **moments: str) -> bool:
    told = Scenario(POLICY, ask).read("read_ticket", {"text": text, "sent": sent}, id="NO-88120")
    told = told.read("fetch_url", page) if page else told
    return told.call("enter", title="visit", **moments).allowed


def test_both_ends_of_the_only_span_are_left_to_the_document() -> None:
    assert enters(VISIT, start=FROM, end=TO)
    assert enters("Am 17.03.2026, 8:00\u201310:00 Uhr.", start=FROM, end=TO)
    assert enters(CLOSED, start="2026-04-03", end="2026-04-07")
    assert enters("Only on 17 March 2026.", start=DAY)


@pytest.mark.parametrize(
    ("text", "moments"),
    [
        (VISIT, {"start": FROM}),
        (VISIT, {"start": FROM, "end": FROM}),
        (VISIT, {"start": FROM, "end": f"{DAY}T11:00:00"}),
        (VISIT, {"start": FROM, "end": "2026-03-18T10:00:00"}),
        (VISIT, {"start": FROM, "end": TO, "remind": FROM}),
        (f"{VISIT} Or at 12:00.", {"start": FROM, "end": TO}),
        (f"{VISIT} Or at 12:00.", {"start": FROM, "end": f"{DAY}T12:00:00"}),
        (f"{VISIT} Later on 18 March 2026.", {"start": FROM, "end": TO}),
        (CLOSED, {"start": "2026-04-03"}),
        (CLOSED, {"start": "2026-04-07", "end": "2026-04-07"}),
        (f"{CLOSED} At 8:00.", {"start": "2026-04-07T08:00", "end": "2026-04-03"}),
        ("See you.", {"start": "2026-01-12T00:00:00"}),
    ],
)
def test_one_end_another_one_or_more_than_a_span_are_not(text: str, moments: dict[str, str]) -> None:
    assert not enters(text, **moments)


def test_a_text_that_was_not_named_and_a_day_of_the_request_leave_none() -> None:
    other = {"start": "2026-03-18T12:00:00", "end": "2026-03-18T13:00:00"}
    assert not enters(VISIT, page="On 18 March 2026 from 12:00 to 13:00.", **other)
    assert not enters(
        VISIT, "Put the visit of ticket NO-88120 on 20 March into my calendar.", start=FROM, end=TO
    )
    assert not enters(VISIT, "Put the visit into my calendar.", start=FROM, end=TO)
