"""No text makes provenance raise: anybody may write the texts that it observes, judges, explains and asks about."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.guards.lineage.guard import digest_call
from agentserver.provenance.evidence.labels import Call, Mode, Observation, Role
from agentserver.provenance.evidence.leaves import find_typed_keys, leaves
from agentserver.provenance.judgement import judge
from agentserver.provenance.ledger import Ledger
from agentserver.provenance.policy.declarations import ArgumentRule, Policy, SinkRule
from agentserver.provenance.verdict import explain

ARGUMENTS = (ArgumentRule("to", Role.DESTINATION), ArgumentRule("id", Role.SELECTOR))
POLICY = Policy(
    mode=Mode.ENFORCE,
    sources=("src",),
    sinks=(SinkRule("snk", ARGUMENTS),),
    allow=("corp.com", "*@x.org", "https://a.b/c"),
    deny=("evil.com",),
    limit=1_000_000,
)
PIECES = (
    "ſeptember 5", "5 of auguſt 2020", "a at b daſh c dot com", "a at b ſlash c dot com", "underſcore dot com at", "\u212aolon dot at",
    "http://[", "http://[::1", "https://a:99999999/", "https://a:b@c", "//[x]@", "\\ud800", "\\udfff\\x00", "%ff%00%ud800",
    "&#xD800;&#1114112;&#99999999999999;", "[" * 900 + "]" * 900, '{"a":' * 500 + "1" + "}" * 500, '["\\ud800"]',
    '{"\\ud800x":"\\udc00 at b"}', '["1e999",1e999,-1e999,NaN]', f"[{'9' * 4299}]", f"[{'9' * 4400}]", "9" * 5000, "1," * 50,
    "xn--", "xn--a@xn--\u00df.com", "@", "a@", "@b", f"bob@{'a' * 70}.com", f"bob@{'a.' * 200}com", "0000-00-00", "9999-99-99",
    "2020-02-30", "\u0663\u0664\u0665 \u0663", "\u00b2\u00b3", "\u0967,\u0968\u0969\u096a", "\u0130\u0131\u212a", "\ufeff", "\u202e",
    "12 34 56 78 90 255", "AAAA" * 10, "======", "//////", "MFRGG" * 8, "0x" * 9, "%%%%%%", "mailto:", "javascript:", "file://",
    "http://%00/", "http://a%5b/", "http://\u2100/", "http://\uff41\uff0f\uff42", "http://a\u2488b/", "a@b\u2488", "tel:+" + "1" * 40,
    "\x85\x1c\u2028", "b o b @ c o r p . c o m", "://", "a://b://c", "@[1.2.3.4]", "a@[", "..", "/..;/", "\\\\host\\share",
)  # fmt: skip
LETTERS = "abſ\u0130@.:/[]%\\{}\"'0123456789 ,-_\n\t&#;x=+u\u200b\u3164\u00e9"


def text(dice: random.Random) -> str:
    """Draw a text near a parsed form, the same for the same dice."""
    found = list(" ".join(dice.choice(PIECES) for _ in range(dice.choice((1, 1, 2, 3)))))
    for _ in range(dice.choice((0, 0, 1, 3))):
        found.insert(dice.randrange(len(found) + 1), dice.choice(LETTERS))
    return "".join(found)


def gone_through(query: str, body: str, title: str, link: str) -> None:
    ledger = Ledger().ask(query)
    ledger = ledger.observe(POLICY, Observation("src", leaves({"body": body, "title": title}), 1))
    call = Call("snk", leaves({"to": body, "id": title, "url": link, "body": query}), 2)
    verdict = judge(ledger, POLICY, call)
    explain(verdict)
    digest_call(verdict.call)
    Ledger.load(json.loads(json.dumps({**ledger.additions_since(Ledger()), **ledger.state()})))


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: ascii(piece)[:24])
def test_no_piece_makes_it_raise(piece: str) -> None:
    gone_through(piece, piece, piece, piece)


@settings(max_examples=settings().max_examples if settings().max_examples > 100 else 40)
@given(seed=st.integers(0, 2**64))
def test_no_text_makes_it_raise(seed: int) -> None:
    dice = random.Random(seed)
    gone_through(text(dice), text(dice), text(dice), text(dice))


def test_a_long_s_is_an_s() -> None:
    assert next(find_typed_keys("ſeptember 5, 2020")) == "date 2020-09-05"
