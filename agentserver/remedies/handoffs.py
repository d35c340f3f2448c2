"""Remedies for refused handoffs and for steps of plans."""

from __future__ import annotations

from typing import Final

from agentserver.remedies.remedy import Remedy

_RECORD = "The record of handoffs: lengths and hashes of what was asked, never its words."

REMEDIES: Final = (
    Remedy(
        "handoff",
        "invalid_json",
        "The request is no JSON object, or has a member twice.",
        _RECORD,
        "Let the agent write one object; show it the tool definition.",
    ),
    Remedy(
        "handoff",
        "over_bound",
        "The request is larger or deeper than a request may be.",
        "`raw_len` in the record.",
        "Hand over identifiers in place of contents.",
    ),
    Remedy(
        "handoff",
        "nested_request",
        "The request stands inside another document: quoted, not asked.",
        "The text of the agent.",
        "Nothing: quoted requests are not orders.",
    ),
    Remedy(
        "handoff",
        "target_not_allowlisted",
        "No listener of that name takes handoffs.",
        "`intents:` of the organism.",
        "Correct the target, or give it an intent.",
    ),
    Remedy(
        "handoff",
        "not_a_peer",
        "The sender may not reach the target.",
        "`peers` of the sender.",
        "Add the target to `peers` if that is meant.",
    ),
    Remedy(
        "handoff",
        "schema",
        "The object has not the form of a request.",
        "`agentserver schemas` for the form.",
        "Send target, intent and params, nothing else.",
    ),
    Remedy(
        "handoff",
        "legacy_payload",
        "The request has the older form, without an intent.",
        "The agent's prompt.",
        "Give it an intent, or name the intent for them under `handoffs.legacy`.",
    ),
    Remedy(
        "handoff",
        "unknown_intent",
        "The vocabulary has no such intent.",
        "`intents:` of the organism.",
        "Use one that is there, or declare it.",
    ),
    Remedy(
        "handoff",
        "target_not_of_intent",
        "The target takes handoffs, and not for this intent.",
        "`target` of the intent.",
        "Choose another target, or add it to the intent.",
    ),
    Remedy(
        "handoff",
        "params_schema",
        "A parameter is missing, unknown, or not of its type.",
        "`params` of the intent.",
        "Send the parameters with their types.",
    ),
    Remedy(
        "handoff",
        "word_budget",
        "A parameter that is to be a name spells a sentence.",
        "The number of words that the type allows.",
        "Send a name; put free text into the note.",
    ),
    Remedy(
        "handoff",
        "no_deployed_agent_id",
        "No agent is deployed for the target.",
        "`AGENT_IDS` of `agentserver orchestrate`.",
        "Add the target's id.",
    ),
    Remedy(
        "handoff",
        "forged_task",
        "The task was not written by the server.",
        "The sender in the trace.",
        "Hand work over by a request; only the server writes a task.",
    ),
    Remedy(
        "handoff",
        "superseded",
        "The caller takes one handoff, and another came first.",
        "The order in the trace.",
        "Ask for one at a time.",
    ),
    Remedy(
        "handoff",
        "delivery_failed",
        "The handoff was accepted, and its target could not be reached.",
        "The log of the target's side.",
        "Send it again when the target is there.",
    ),
    Remedy(
        "step",
        "PAYLOAD_UNTYPED",
        "Between two steps of a plan no schema is named.",
        "`payload_schema_out` and `payload_schema_in` of both rows.",
        "Name a schema on both sides.",
    ),
    Remedy(
        "step",
        "PAYLOAD_MISMATCH",
        "A step hands over another schema than the next one takes.",
        "The two `$id`s in the finding.",
        "Make them agree, version included.",
    ),
    Remedy(
        "step",
        "PAYLOAD_REJECTED",
        "A schema that a step names is not admitted.",
        "The rule of hygiene in the finding.",
        "`agentserver explain hygiene:RULE`.",
    ),
)
"""Entries of the families handoff and step."""
