"""Filters of conversations: their matches and their errors."""

import re

import pytest

from agentserver.core.encoding.history import ListedConversation, Summary
from agentserver.history.filters import Candidate, match_conversation, parse_filter

_DAY = 1_795_824_000.0  # 2026-11-28 00:00 UTC
ONE = Summary("c1", "anna b", _DAY, _DAY + 90, None, 7, 1, 0, tokens=1200, money=500_000)
LISTED = ListedConversation(ONE, "open")


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("", True),
        ('principal="anna b"', True),
        ('principal!="anna b"', False),
        ("principal=anna", False),
        ("state=open waiting>0", True),
        ("state=open waiting>1", False),
        ("state=finished", False),
        ("opened>=2026-11-28", True),
        ("opened>=2026-11-28 opened<2026-11-28", False),
        ("opened=2026-11-28", True),
        ("opened=2026-11-27", False),
        ("opened=2026-11-29", False),
        ("opened<=2026-11-28", True),
        ("opened>2026-11-28", False),
        ("touched>2026-11-27", True),
        ("touched>2026-11-28T00:01 touched<2026-11-28T01:02+01:00", True),
        ("duration=1.5m", True),
        ("duration>90s", False),
        ("cost>=0.5 cost<=0.5", True),
        ("cost>0.5", False),
        ("tokens=1200 steps!=6", True),
    ],
)
def test_a_conversation_matches_if_it_meets_all_conditions(text, matched):
    assert match_conversation(Candidate(LISTED), parse_filter(text)) is matched


def test_a_suspended_conversation_is_not_open():
    suspended = LISTED._replace(state="suspended")
    assert match_conversation(Candidate(suspended), parse_filter("state=suspended"))
    assert not match_conversation(Candidate(suspended), parse_filter("state=open"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cost>0.5 anna", "column 10: 'anna' is not a condition"),
        ("cost > 1", "column 1: 'cost > 1' is not a condition"),
        ('principal="anna', "column 1"),
        ("colour=red", "colour: no such field; the fields are principal, state"),
        ("principal<b", "principal has no order; use = or !="),
        ("state=ended", "'ended' is not one of open, suspended, finished"),
        ("duration>10", "'10' is not a duration such as 10s or 2h"),
        ("cost>nan", "'nan' is not an amount of US dollars"),
        ("cost>much", "'much' is not an amount"),
        ("opened!=2026-11-28", "a day has no !="),
        ("opened>yesterday", "'yesterday' is not a time such as 2026-11-28"),
    ],
)
def test_a_malformed_filter_is_refused_with_the_correction(text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_filter(text)
