"""Rules of an organism's conversations, built from its configuration.

It needs no engine, pump or server, so that tools can ask what an organism would allow.
"""

from __future__ import annotations

import os.path
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from agentserver.characters.printing import clean_line, escape_markup
from agentserver.config.organism import Handoffs
from agentserver.contract import TodoComplete, TodoUntil
from agentserver.core.blueprint import Blueprint, map_services
from agentserver.core.guard import Rules
from agentserver.core.handoffs import Handoff, Task
from agentserver.core.messages import TODO
from agentserver.guards.builtin import OrganismFacts, make_builtin_guards
from agentserver.guards.hosting import host_guards, merge_guards
from agentserver.guards.intents import IntentRewriter
from agentserver.handoff.intents import Vocabulary, describe_offers
from agentserver.payload.codec import Codecs
from agentserver.payload.fields.field_table import PayloadError
from agentserver.spending import NO_BUDGETS
from agentserver.wire import envelope
from agentserver.wire.envelope import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from agentserver.config.organism import Organism, Provenance
    from agentserver.core.blueprint import Listener
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import CoreGuard, Verdict
    from agentserver.guards.base import Guard
    from agentserver.guards.lineage.trust import TrustSettings
    from agentserver.history.backtest import TriedPolicy
    from agentserver.payload.codec import Codec
    from agentserver.payload.xsd_codec import Binding
    from agentserver.provenance.evidence.labels import Mode


NO_GUARDS: Mapping[str, Guard] = MappingProxyType({})


def build_blueprint(organism: Organism, codecs: Codecs, explain: Callable[[Listener], str]) -> Blueprint:
    """Build the blueprint of an organism; ``explain`` describes a listener's peers."""
    listeners = {bound.listener.name: bound.listener for bound in organism.listeners}
    roots = {
        name: frozenset(codecs.of(payload).name for payload in listener.payloads)
        for name, listener in listeners.items()
    }
    services = map_services(codecs)
    usage = {name: explain(listener) for name, listener in listeners.items()}
    budgets = NO_BUDGETS if organism.models is None else organism.models.budgets
    return Blueprint(listeners, organism.limits, roots, services, usage, budgets)


def make_explainer(organism: Organism, codecs: Codecs) -> Callable[[Listener], str]:
    """Return a function that describes a listener's peers and its intents."""
    handoffs = organism.handoffs
    listeners = {bound.listener.name: _as_asked(bound.listener, handoffs) for bound in organism.listeners}

    def explain(listener: Listener) -> str:
        offers = "" if handoffs is None else describe_offers(handoffs.vocabulary, listener.peers)
        return "\n\n".join(filter(None, (write_usage_instructions(listener, listeners, codecs), offers)))

    return explain


def _as_asked(listener: Listener, handoffs: Handoffs | None) -> Listener:
    """Return a listener with the payloads that peers can send it: a handoff in place of a task."""
    if handoffs is None or Task not in listener.payloads:
        return listener
    others = [payload for payload in listener.payloads if payload is not Task]
    bound = [payload for payload, targets in handoffs.payloads.items() if listener.name in targets]
    return replace(listener, payloads=(*others, Handoff, *bound))


def list_guards(
    organism: Organism,
    codecs: Codecs,
    listeners: Mapping[str, Listener],
    added: Mapping[str, Guard] = NO_GUARDS,
) -> tuple[CoreGuard, ...]:
    """List the guards in the order in which they are asked: the server's, the organism's, the program's.

    Lineage is included only if the organism configures it. All read the facts of ``listeners``.
    """
    trusted, declared = None, organism.provenance
    if declared is not None:
        trusted = _lineage_settings(declared, build_handed_over(organism), listeners, organism.addressed)
    own = make_builtin_guards(OrganismFacts(listeners, codecs, trusted, organism.secrets.redact))
    return (*own, *host_guards(merge_guards(organism.guards.items(), added.items()), codecs, listeners))


def _lineage_settings(
    declared: Provenance,
    handoffs: Handoffs | None,
    listeners: Mapping[str, Listener],
    addressed: frozenset[str],
) -> TrustSettings:
    """Return the settings of lineage, completed for these listeners."""
    from agentserver.guards.lineage.trust import TrustSettings, count_intent_bits, find_carriers

    peers = {name: sorted(one.peers & listeners.keys()) for name, one in listeners.items()}
    bits = {} if handoffs is None else count_intent_bits(handoffs.vocabulary)
    carrying = find_carriers(declared.policy, declared.memory, peers, addressed)
    return TrustSettings(
        declared.policy,
        declared.quarantined,
        declared.planners,
        declared.memory,
        carrying,
        bits,
        declared.viewers,
        declared.keepers,
    )


def build_rules(organism: Organism, guards: Mapping[str, Guard] = NO_GUARDS) -> Rules:
    """Build the rules of the organism's conversations.

    Args:
        organism: the checked configuration.
        guards: those of the program, by name, asked in this order after all others.

    Raises:
        PayloadError: payload classes cannot be used together, or one does not fit the schema that its listener names.
        TypeError: an object is not a guard.
        ValueError: a name of a guard is taken, or its settings do not fit the listeners.
    """
    discovered = [
        payload for bound in organism.listeners for payload in (*bound.listener.payloads, *bound.discovered)
    ]
    handoffs = build_handed_over(organism)
    if handoffs is not None:
        discovered += [Handoff, Task, *handoffs.payloads]
    if any(bound.agent for bound in organism.listeners):
        from agentserver.llm.agent.loop import KEPT  # most organisms have none

        discovered += KEPT
    codecs = Codecs([*make_schema_codecs(organism), *dict.fromkeys(discovered)], closed=True)
    known = envelope.collect_names([envelope.SCHEMA, *(codec.xsd() for codec in codecs)])
    bounds = Bounds(bytes=organism.limits.payload, names=known)
    rewriter = None if handoffs is None else intents(handoffs, codecs, bounds)
    explain = make_explainer(organism, codecs)
    facts = build_blueprint(organism, codecs, explain)
    return Rules(
        facts,
        codecs,
        list_guards(organism, codecs, facts.listeners, guards),
        bounds,
        rewriter,
        explain,
        organism.secrets.redact,
    )


def build_rules_on_trial(
    organism: Organism, mode: Mode, guards: Mapping[str, Guard] = NO_GUARDS
) -> TriedPolicy:
    """Build the rules of an organism with its provenance policy in a mode, and record the verdicts of that policy.

    Raises ValueError for an organism without provenance, and what ``build_rules`` raises.
    """
    from agentserver.guards.lineage.guard import LineageGuard, RecordingGuard
    from agentserver.history.backtest import TriedPolicy

    if organism.provenance is None:
        raise ValueError("it has no provenance: to try")
    tried = replace(organism.provenance.policy, mode=mode)
    found = build_rules(replace(organism, provenance=replace(organism.provenance, policy=tried)), guards)
    rulings: list[tuple[Proposal, Verdict]] = []
    recording = tuple(
        RecordingGuard(guard, rulings) if isinstance(guard, LineageGuard) else guard for guard in found.guards
    )
    return TriedPolicy(replace(found, guards=recording), rulings)


def build_handed_over(organism: Organism) -> Handoffs | None:
    """Build the handoff rules. Tasks without declared intents are all refused."""
    taken = any(Task in bound.listener.payloads for bound in organism.listeners)
    return organism.handoffs or (Handoffs(Vocabulary({}, frozenset())) if taken else None)


def intents(handoffs: Handoffs, codecs: Codecs, bounds: Bounds) -> IntentRewriter:
    """Return the rewriter that turns handoffs into tasks."""
    bound = {codecs.of(payload).name: by_target for payload, by_target in handoffs.payloads.items()}
    return IntentRewriter(handoffs.vocabulary, bound, codecs, bounds, handoffs.scrub)


def make_schema_codecs(organism: Organism) -> list[Codec]:
    """Make the codecs for the ``schema:`` of listeners; it overrides the schema of the class.

    Raises PayloadError for a class that does not fit the schema, and for a class with two schemas.
    """
    codecs: dict[type, Codec] = {}
    for bound in organism.listeners:
        if bound.schema is None:
            continue
        path = os.path.relpath(bound.schema, organism.project)
        place = f"{bound.source}: listener {bound.listener.name}: {path}"
        for payload in bound.listener.payloads:
            try:
                codec = _bind_schema(payload, bound.schema).codec()
            except (PayloadError, OSError) as error:
                raise PayloadError(f"{place}: {error}") from None
            known = codecs.setdefault(payload, codec)
            if known.xsd() != codec.xsd():
                raise PayloadError(f"{place}: {payload.__qualname__} has another schema at another listener")
    return list(codecs.values())


def _bind_schema(payload: type, schema: Path) -> Binding:
    """Bind the class to the schema and the schemas in its folder; links out of the folder are skipped."""
    # Slow to import, and few schemas are written by hand.
    from agentserver.payload.xsd_codec import Binding

    carried = payload.__dict__.get("__payload__")
    example = carried.example if isinstance(carried, Binding) else None
    others = (each for each in sorted(schema.parent.glob("*.xsd")) if each != schema)
    folder = {each.name: each.read_bytes() for each in others if each.resolve().parent == schema.parent}
    return Binding(payload, schema.read_bytes(), folder, example)


SCHEMA_LIMIT = 6_000
"""Characters of one schema; a longer one is left out, its example stays."""

DESCRIPTION_LIMIT = 500
"""Characters of one description."""

TEXT_LIMIT = 60_000
"""Characters of the whole text; peers beyond it are shown without their schemas, then only counted."""

BREAK = "\n\n"

INTRODUCTION = "You can send messages to these listeners. A payload must look exactly as its schema says."

SEMANTICS = """\
## Responding
- Responding to your caller ends your present task. Every listener that you called meanwhile is stopped.
- Their state is lost (memory, scratch space), and what they still send is discarded.
- You cannot call them again in the same context once you have responded.
So finish all sub-tasks first. If you need a listener's result, wait for its answer before you respond."""


def write_usage_instructions(listener: Listener, listeners: Mapping[str, Listener], codecs: Codecs) -> str:
    """Describe the payloads that a listener's peers accept, for a model's prompt, in up to TEXT_LIMIT characters.

    Empty without peers. Others' text is data in it: the structure of schemas, one line of descriptions. Each such line
    begins with our word or tag, so that no author can add a heading, end a code fence or pose as the server.
    """
    entries = list(_iter_entries(listener, listeners))
    if not entries:
        return ""
    parts, left_out = [INTRODUCTION], 0
    room = (
        TEXT_LIMIT
        - len(INTRODUCTION)
        - len(SEMANTICS)
        - len(_format_not_shown(len(entries)))
        - 2 * len(BREAK)
    )
    for name, description, payloads in entries:
        head = (
            f"## {clean_line(name, DESCRIPTION_LIMIT)}\nPurpose: {clean_line(description, DESCRIPTION_LIMIT)}"
        )
        body = "\n".join([head, *(line for payload in payloads for line in _iter_payload(payload, codecs))])
        part = next((form for form in (body, head) if len(BREAK) + len(form) <= room), "")
        if part:
            parts.append(part)
            room -= len(BREAK) + len(part)
        else:
            left_out += 1
    return BREAK.join([*parts, *([_format_not_shown(left_out)] if left_out else []), SEMANTICS])


def _iter_entries(
    listener: Listener, listeners: Mapping[str, Listener]
) -> Iterator[tuple[str, str, tuple[type, ...]]]:
    for name in sorted(listener.peers):
        if name in listeners:
            yield name, listeners[name].description, listeners[name].payloads
    if TODO in listener.peers:
        yield TODO, "Reminds you of replies you wait for.", (TodoUntil, TodoComplete)


def _format_not_shown(count: int) -> str:
    return f"{count} more listeners are not shown."


def _iter_payload(payload: type, codecs: Codecs) -> Iterator[str]:
    codec = codecs.of(payload)
    schema = "\n".join(_split_lines(codec.xsd()))
    if len(schema) <= SCHEMA_LIMIT:
        yield f"Schema:\n```xsd\n{schema}\n```"
    yield f"Example:\n```xml\n{escape_markup(codec.example())}\n```"


def _split_lines(schema: str) -> list[str]:
    """Split a schema into lines that each begin with a tag."""
    lines: list[str] = []
    for line in schema.expandtabs(2).split("\n"):
        escaped = escape_markup(line)
        if escaped.lstrip().startswith("<"):
            lines.append(escaped)
        elif escaped.strip():
            lines[-1:] = [" ".join([*lines[-1:], escaped.strip()])]
    return lines
