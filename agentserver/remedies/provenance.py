"""Remedies for the rules of provenance."""

from __future__ import annotations

from typing import Final

from agentserver.remedies.remedy import Remedy

_WAY = "The lineage in the trace: source, field, step, and each listener that passed the words on."

REMEDIES: Final = (
    Remedy(
        "rule",
        "denied",
        "The destination is on the deny list.",
        "`provenance.deny`.",
        "Nothing else overrides it: take the entry off, or send elsewhere.",
        said="denied destination",
    ),
    Remedy(
        "rule",
        "destination",
        "A stranger's text named who receives it.",
        _WAY,
        (
            "If the receiver is wanted: name it in the request, put it under `provenance.allow`, or declare "
            "the field that it comes from a directory. If not, this was an attack that failed."
        ),
        said="destination from untrusted text",
    ),
    Remedy(
        "rule",
        "unknown_destination",
        "Nothing trusted names the receiver, and the sender had read untrusted text.",
        'The line "Presumed" in the trace: what the sender was given.',
        "Name the receiver in the request or under `provenance.allow`.",
        said="destination of unknown origin",
    ),
    Remedy(
        "rule",
        "selector",
        "A stranger's text chose what is acted on.",
        _WAY,
        (
            "Name the field under `accepts` of the argument, or declare the field a record, where that source"
            " may choose."
        ),
        said="choice from untrusted text",
    ),
    Remedy(
        "rule",
        "unknown_selector",
        "No record and no request holds the value that chooses.",
        "The argument in the finding.",
        "Look the value up first, or name it in the request.",
        said="choice of unknown origin",
    ),
    Remedy(
        "rule",
        "content",
        (
            "Untrusted words go to an authorised recipient. It is reported, not refused, unless a sink says "
            "otherwise."
        ),
        _WAY,
        "Nothing, or `effects: {content: ask}` at the sink.",
        said="untrusted content to an authorised recipient",
    ),
    Remedy(
        "rule",
        "link",
        "A link out of untrusted text goes to an authorised recipient.",
        _WAY,
        "Nothing, or `effects: {link: ask}` at the sink.",
        said="untrusted link to an authorised recipient",
    ),
    Remedy(
        "rule",
        "prose",
        "Only the prose of the request authorises the receiver, and the call carries untrusted words.",
        "The request that opened the conversation.",
        "Approve it, or put the receiver under `provenance.allow`; `query_authorises: no` refuses it always.",
        said="destination authorised by the request alone",
    ),
    Remedy(
        "rule",
        "exit",
        "The address of a fetch was put together, and nobody wrote it.",
        "The argument in the finding.",
        "Fetch links that a text, a record or the request holds.",
        said="constructed link",
    ),
    Remedy(
        "rule",
        "unfounded",
        "Nothing trusted stands behind the call.",
        "The request: does it name what is acted on?",
        "Name in the request what it is to act on, or the listener.",
        said="call that nothing trusted stands behind",
    ),
    Remedy(
        "rule",
        "plan",
        "The plan of the conversation has no such action.",
        "The plan in the trace, at its first record.",
        "Put the action into the plan, or plan again in a new conversation.",
        said="action outside the plan",
    ),
    Remedy(
        "rule",
        "strict",
        "Untrusted text was read, and `strict` then refuses every sink.",
        "The first untrusted source of the conversation.",
        "Open a new conversation, or turn `provenance.strict` off.",
        said="tainted run",
    ),
    Remedy(
        "rule",
        "budget",
        "A quarantined listener has told as many bits as it may.",
        "The bits of each of its answers in the trace.",
        "Raise `provenance.budget`, or give it a closer type.",
        said="quarantine channel exhausted",
    ),
    Remedy(
        "rule",
        "bound",
        "More was read than is tracked.",
        "`provenance.limit`.",
        "Raise it, or split the conversation.",
        said="beyond what is tracked",
    ),
    Remedy(
        "rule",
        "readers",
        "The receiver may not read this content.",
        "The field's `readers`.",
        "Declare the receiver a reader of the field, or leave the field out.",
        said="content that the receiver may not read",
    ),
    Remedy(
        "rule",
        "choices",
        "A choice among links tells something to whoever serves them. It is counted and reported.",
        "The bits in the finding.",
        "Nothing, until the budget of exits is spent.",
        said="choices at an exit",
    ),
    Remedy(
        "rule",
        "exit_budget",
        "The choices at exits have told as many bits as they may.",
        "The bits of each fetch in the trace.",
        "Name the links in the request, allow their hosts, or raise `provenance.exit_budget`.",
        said="budget of exits exhausted",
    ),
)
"""Entries of the family rule."""
