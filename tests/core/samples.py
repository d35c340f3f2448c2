"""Details to try things on: at least one of every kind."""

from __future__ import annotations

from agentserver.core.records.details import (
    ApprovalGiven,
    Charge,
    Corrections,
    Delay,
    EffectChange,
    EndDetail,
    Failure,
    FreeText,
    Ground,
    GuardAsks,
    GuardNote,
    GuardQuestions,
    HandoffAttempt,
    NoAnswer,
    OmittedCount,
    RedrivenFrom,
    RepairNote,
    Unknown,
)
from agentserver.core.records.wording import PHRASES, DetailWording
from agentserver.findings import PHRASES as FINDINGS
from agentserver.findings import (
    Delegation,
    EndorsedRow,
    EndorsementTerms,
    FindingFacts,
    Findings,
    FixedArgument,
    RecordText,
    SenderExposure,
    Trail,
    TrailHop,
)

UNSAID = {**dict.fromkeys(HandoffAttempt._fields), "timestamp": "", "source": "", "params_keys": ()}


def handoff(members):
    """Make an attempt of the members of the record of handoffs; those left out say nothing."""
    known = {**UNSAID, "result": members["result"], **members}
    return HandoffAttempt.of(known[key] for key in HandoffAttempt._fields)


TRAIL = Trail(
    "fetcher",
    "text",
    8,
    "eve@evil.example",
    "EVE@evil.example",
    "base64",
    (TrailHop("router", "to", 9),),
    "d1",
)
TO = FindingFacts("destination", "block", "to", "eve@evil.example", "destination", "", TRAIL)
FOUND = Findings("outbox", 10, "enforce", "deny", (TO, FindingFacts("plan", "block", "", "")), more=2)

RECORD = Delegation(
    "fetcher", 8, "[0]", (RecordText("to", "eve@evil", ("to",)), RecordText("text", "one\ntwo"))
)

TERMS = EndorsementTerms(
    "5f0c",
    "fetcher",
    8,
    ("to",),
    ("column 1",),
    (EndorsedRow(("eve@evil",)), EndorsedRow(("ann@evil",))),
    (FixedArgument("currency", "EUR"),),
    (RecordText("bill", "one\ntwo"),),
    "138.7",
    1767225600.0,
)

WAYS = (("fetcher", 8, "fetcher"), ("fetcher", 9, "planner"), ("", 0, ""), ("router", 9, "router"))


def body(step, argument="body", detail=""):
    """Build a finding that an argument holds a stranger's words; without further evidence unless it has a detail."""
    trail = Trail("fetcher", "text", step, "words", "words")
    return FindingFacts("content", "report", argument, "words", "payload", detail, trail)


SAMPLES = (
    FreeText("one\n  two"),
    *(GuardNote("hours", "closed\nuntil nine", how) for how in ("", "notes", "denies", "failed", "rest")),
    Failure("ValueError: boom"),
    *(ground.of("n-1", "n-2", "n-3") for ground in Ground),
    Corrections(("/Ask/text: at most 4 characters", "/Ask: no attribute is called x")),
    RepairNote("a fence was taken off"),
    GuardQuestions((GuardAsks("hours", GuardNote("hours", "may it?\nnow?")), GuardAsks("lineage", FOUND))),
    GuardQuestions((GuardAsks("hours", Failure("may it?")),), waits=False),
    ApprovalGiven("ada", "once"),
    ApprovalGiven("ada", "always"),
    ApprovalGiven("ada", "deny"),
    ApprovalGiven("ada", "undone"),
    ApprovalGiven("ada, always", ""),
    NoAnswer("nobody"),
    NoAnswer("late"),
    Delay(86_400),
    EndDetail("idle"),
    RedrivenFrom("d1", "c1", "ada"),
    Charge("small", 100, 1500),
    EffectChange("e1.c1", "charge-42", "claimed"),
    EffectChange("e1.c1", "charge-42", "done", "untrusted", "ada"),
    FOUND,
    *(FOUND._replace(decision=decision, mode=mode) for decision in ("ask", "allow") for mode in ("audit", "confirm")),
    *(FOUND._replace(became=became) for became in ("permitted", "approved", "deny")),
    *(FOUND._replace(exposed=SenderExposure("router", *text)) for text in WAYS),
    FOUND._replace(delegation=RECORD, endorsement=TERMS),
    FOUND._replace(findings=(TO, *map(body, range(6)), body(7, "subject"), body(8, "subject", "quite"))),
    HandoffAttempt("t", "a", "b", "review", "approve", None, ("ticket",), 1, 2, 3, "0" * 64, None, 0, None),
    HandoffAttempt(
        "t", "a", Unknown(3, "0" * 64), Unknown(9, "1" * 64), "reject", "schema",
        ("x", Unknown(4, "2" * 64), OmittedCount(7)), 1, 2, 3, "0" * 64, "3" * 64, 4, "4" * 64,
    ),
    HandoffAttempt("t", "a", None, "review", "reject", "schema", (), 1, 2, 3, None, None, 0, None),
)  # fmt: skip


def alter_words():
    """Other words for everything: each phrase is a number, and begins as another one begins a line."""
    tables = (PHRASES, FINDINGS)
    return DetailWording(*({key: _other(at, each[key]) for at, key in enumerate(each)} for each in tables))


def _other(number, said):
    names = [part.partition("}")[0] for part in said.split("{")[1:]]
    return f"Lineage: <{number}> " + " ".join(f"[{{{name}}}]" for name in names)
