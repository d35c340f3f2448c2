"""Remedies for what a SystemError says, and for the grounds, guards and approvals behind it."""

from __future__ import annotations

from typing import Final

from agentserver.remedies.remedy import Remedy

REMEDIES: Final = (
    Remedy(
        "code",
        "routing",
        "The message reached nobody: the target does not exist, is no peer, or takes no such payload.",
        (
            "`agentserver trace CONVERSATION`: the line of the refusal tells its ground; `agentserver graph` "
            "shows who may talk to whom."
        ),
        "Correct the target, add it to the sender's `peers`, or add the payload to its `payload_class`.",
    ),
    Remedy(
        "code",
        "validation",
        "The payload does not satisfy its XSD.",
        "The corrections in the message; `agentserver schemas` writes the XSD and an example.",
        (
            "Send what the schema declares. For a model, the corrections are written so that it can mend its "
            "call."
        ),
    ),
    Remedy(
        "code",
        "denied",
        "A rule refused the message: a guard, provenance, or a person who was asked.",
        (
            "`agentserver trace CONVERSATION`: the line of the refusal tells its ground and the remedy; the "
            "sender is told nothing more, on purpose."
        ),
        "Follow the remedy of that ground; sending the same again is refused again.",
    ),
    Remedy(
        "code",
        "timeout",
        "No answer came before the listener's deadline.",
        (
            "`agentserver trace CONVERSATION` for the time each step took; the log for what the handler "
            "waited on."
        ),
        (
            "Raise `deadline` of the listener, make the handler faster, or set `retries` where the work may "
            "be repeated."
        ),
    ),
    Remedy(
        "code",
        "internal",
        "The listener failed: it raised, or returned something that is no response.",
        "The log has the traceback; `agentserver dead show DELIVERY` has the message.",
        "Mend the handler, reload, then `agentserver dead requeue DELIVERY`.",
    ),
    Remedy(
        "code",
        "budget",
        "A limit of the request or of the conversation is spent.",
        (
            "`agentserver trace CONVERSATION`: the line of the refusal tells its ground; a listener that "
            "calls another in a circle is the usual reason."
        ),
        "Break the circle, or raise `limits.hops`, `limits.messages` or `llm.budget`.",
    ),
    Remedy(
        "code",
        "busy",
        "The server, the listener or the principal has too much in hand. Nothing was begun.",
        "`agentserver conversations` and the metrics: queues and running handlers.",
        "Send it again later; raise `concurrency` or `limits` where the machine has room.",
    ),
    Remedy(
        "ground",
        "approval",
        "A message waits for a person.",
        "`agentserver approvals`.",
        "`agentserver approve` or `deny`; remove `approval: required` where nobody has to be asked.",
    ),
    Remedy(
        "ground",
        "busy",
        "Abandoned invocations of the listener still run, as many as its `concurrency`.",
        "The log: a handler ignored the cancellation at its deadline.",
        (
            "Let the handler end when it is cancelled; a handler that cannot belongs behind `isolation: "
            "process`."
        ),
    ),
    Remedy(
        "ground",
        "bytes",
        "One result was larger than may be kept.",
        "The size of the handler's messages.",
        "Send less, send a reference to it, or raise `limits.principal_bytes`.",
    ),
    Remedy(
        "ground",
        "given up",
        "An operator gave the delivery up.",
        "`agentserver dead list`.",
        "Queue it again with `agentserver dead requeue` when its listener can take it.",
    ),
    Remedy(
        "ground",
        "gone",
        "The listener of a kept message is not in the organism any more.",
        "The names in `organism.yaml` against those in the trace.",
        "Declare the listener again under its old name, or let the message stay a dead letter.",
    ),
    Remedy(
        "ground",
        "handoff",
        "A handoff was refused.",
        "The token after it, such as `not_a_peer`.",
        "`agentserver explain handoff:TOKEN`.",
    ),
    Remedy(
        "ground",
        "hops",
        "A causal chain is longer than `limits.hops`.",
        "The trace: listeners that answer one another by calls.",
        "Answer with `.respond()` in place of a new message, or raise `limits.hops`.",
    ),
    Remedy(
        "ground",
        "invalid",
        "A kept payload does not satisfy the schema that its class has now.",
        "The change of the payload class since the message was accepted.",
        (
            'Keep the old class beside the new version until nothing of the old is kept; see "Migrating a '
            'schema".'
        ),
    ),
    Remedy(
        "ground",
        "kills",
        "The process ended each time while this message was worked on alone.",
        "The system's log: a crash of native code, or the memory killer.",
        "Mend the handler or put it behind `isolation: process`, then requeue the dead letter.",
    ),
    Remedy(
        "ground",
        "late",
        "The handler gave no result before its deadline.",
        "The time of the step in the trace.",
        "Raise `deadline`, or make the handler faster.",
    ),
    Remedy(
        "ground",
        "messages",
        "One result had more messages than the request has left.",
        "The sequence that the handler returned.",
        "Send in several steps, or raise `limits.messages`.",
    ),
    Remedy(
        "ground",
        "no payload",
        "No payload class has the root element of the message.",
        "`agentserver schemas`: the names and namespaces.",
        "Correct the element's name, or declare its class as `payload_class` of a listener.",
    ),
    Remedy(
        "ground",
        "no peer",
        "The target is not among the sender's `peers`.",
        "`agentserver graph`.",
        (
            "Add it to `peers` if the sender is meant to reach it. An agent under attack runs into this too: "
            "read the trace first."
        ),
    ),
    Remedy(
        "ground",
        "no receiver",
        "Under the rules that were asked, the message has no receiver, or a limit is spent.",
        "`agentserver replay --policy`: the decision beside the recorded one.",
        "Correct the rules that were asked.",
    ),
    Remedy(
        "ground",
        "no response",
        "The handler returned something that is no HandlerResponse.",
        "The type in the message.",
        "Return a `HandlerResponse`, a sequence of them, or `None`.",
    ),
    Remedy(
        "ground",
        "no responses",
        "One entry of the returned sequence is no HandlerResponse.",
        "The type in the message.",
        "Return `HandlerResponse` values only.",
    ),
    Remedy(
        "ground",
        "no taker",
        "The target exists and takes no such payload.",
        "`payload_class` of the target.",
        "Send a payload that it takes, or add the class.",
    ),
    Remedy(
        "ground",
        "no target",
        "`to` of a response is not the name of a listener.",
        "The type in the message.",
        "Give the listener's name as text.",
    ),
    Remedy(
        "ground",
        "payloads",
        "A returned text held more payloads than the request has left.",
        "The text that the handler returned.",
        "Return fewer, or raise `limits.messages`.",
    ),
    Remedy(
        "ground",
        "quarantined",
        "A quarantined listener may tell only what closed types can carry, and this can carry more.",
        "The channel in bits that the message names.",
        "Give its answer booleans, enumerations and bounded numbers, or take `trust: quarantined` off.",
    ),
    Remedy(
        "ground",
        "refusals",
        "A thread had too many refusals in a row and was given up.",
        "The refusals before it in the trace.",
        (
            "Follow their remedies; an agent that repeats a refused call needs the correction in its prompt, "
            "or `limits.refusals`."
        ),
    ),
    Remedy(
        "ground",
        "reserved",
        "The payload is the system's own.",
        "The payload's name.",
        "Name your class otherwise; only the system sends a SystemError.",
    ),
    Remedy(
        "ground",
        "result",
        "A result has more messages than the request has left.",
        "The numbers in the message.",
        "Send fewer at once, or raise `limits.messages`.",
    ),
    Remedy(
        "ground",
        "spent",
        "The request has no messages left.",
        "The length of its trace.",
        "Raise `limits.messages`, or look for a circle.",
    ),
    Remedy(
        "ground",
        "todos",
        "A thread keeps no more todos.",
        "The todos that the listener has opened.",
        "Close some with `TodoComplete` first.",
    ),
    Remedy(
        "ground",
        "unreadable",
        "A kept payload cannot be read any more.",
        "The change of the payload class since it was kept.",
        "Put the old class back until the message is done with.",
    ),
    Remedy(
        "ground",
        "waiting",
        "Too many messages of the conversation would wait for a person.",
        "`agentserver approvals`.",
        "Answer some of them first.",
    ),
    Remedy(
        "guard",
        "note",
        "A guard of the organism said so.",
        "The guard's name and words in the trace, then its file.",
        "Change the message or the guard's settings; a guard can only make the rules stricter.",
    ),
    Remedy(
        "guard",
        "failed",
        "A guard raised, and what it could not judge was refused.",
        "The traceback in the log.",
        "Mend the guard, then reload.",
    ),
    Remedy(
        "approval",
        "deny",
        "A person denied the message.",
        "`agentserver trace CONVERSATION`: who answered.",
        "Ask that person; the denial stands for this message.",
    ),
    Remedy(
        "approval",
        "undone",
        "A person agreed, and the answer could not be carried out.",
        "The record before it in the trace.",
        "Send the message again.",
    ),
    Remedy(
        "approval",
        "nobody",
        "A message needed an approval and nobody was there to ask.",
        "`run` asks at the console; `serve` needs a principal with the role approver or operator.",
        "Give somebody that role, or take the need for approval off.",
        said="nobody is there to ask",
    ),
    Remedy(
        "approval",
        "late",
        "No person answered before `limits.approval`.",
        "`agentserver approvals` shows what waits.",
        "Answer earlier, or raise the time.",
        said="no answer in time",
    ),
)
"""Entries of the families code, ground, guard and approval."""
