"""``agentserver check``: every mistake that ``run`` would meet, before it does.

Owns the summary, which schemas are held to the rules of hygiene, and how provenance is told. The findings are config's,
the rules hygiene's, the ways from source to sink those of the provenance package.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from math import inf
from typing import TYPE_CHECKING

import click

from agentserver.characters.printing import format_amount
from agentserver.cli import project
from agentserver.cli.walls import unwalled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from agentserver.config import Organism
    from agentserver.config.findings import ConfigMistake, Severity
    from agentserver.config.organism import BoundListener, Provenance, SourceLine
    from agentserver.core.blueprint import Blueprint
    from agentserver.core.guard import Rules
    from agentserver.payload.codec import Codec, Codecs
    from agentserver.provenance.flows import FlowReport
    from agentserver.provenance.policy.quarantine import Channel

FOUND = 1


@click.command("check", short_help="Name every mistake of an organism.")
@project.organism_argument
@click.option("--flows", is_flag=True, help="Name every way from a source to a sink.")
@click.option("--engine", is_flag=True, help="Look at the database of engine: as well.")
@click.option("--strict", is_flag=True, help="Let warnings fail too.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings alone, one JSON object a line.")
@click.pass_context
def command(
    ctx: click.Context, organism: Path | None, *, flows: bool, engine: bool, strict: bool, as_json: bool
) -> None:
    """Check ORGANISM (config/organism.yaml, then organism.yaml) and everything that it names.

    Prints each finding as file:line: path: message [code], what each listener is to provenance and why, then a summary.
    "agentserver explain CODE" explains a code. Exit code 1 when there are mistakes.
    """
    from agentserver.config.findings import Severity
    from agentserver.config.loading import inspect

    path = project.located(organism)
    loaded, findings = inspect(path, os.environ)
    decided_by = None if loaded is None else project.rules(ctx, loaded)
    if loaded is not None and decided_by is not None:
        findings = (*findings, *_objections(loaded, decided_by), *(unsafe(loaded) if engine else ()))
    for finding in findings:
        project.say(_as_json(finding) if as_json else finding.coded())
    if not as_json:
        for line in _rest(path, loaded, decided_by, findings, flows=flows):
            project.say(line)
    hard = any(finding.severity is Severity.ERROR for finding in findings)
    ctx.exit(FOUND if hard or (strict and findings) else 0)


def _as_json(finding: ConfigMistake) -> str:
    told = {**asdict(finding), "file": str(finding.file), "code": str(finding.code)}
    return json.dumps(told, ensure_ascii=False)


def _objections(loaded: Organism, decided_by: Rules) -> tuple[ConfigMistake, ...]:
    """The findings about an organism that loads."""
    return (
        *hygiene(loaded, decided_by.codecs),
        *withheld(loaded, decided_by.codecs),
        *unwalled(loaded),
        *unserved(loaded, decided_by),
    )


def _rest(
    path: Path,
    loaded: Organism | None,
    decided_by: Rules | None,
    findings: Sequence[ConfigMistake],
    *,
    flows: bool,
) -> Iterator[str]:
    """The lines after the findings."""
    if loaded is None or decided_by is None:
        errors = sum(finding.severity == "error" for finding in findings)
        yield f"{path}: {format_amount(errors, 'error')}, {format_amount(len(findings) - errors, 'warning')}"
        return
    yield from _provenance(loaded, decided_by.codecs, flows=flows)
    if loaded.guards:
        yield f"guards, in this order: {', '.join(guard.name for guard in decided_by.guards)}"
    yield from summary(path, decided_by.blueprint, findings)


def hygiene(organism: Organism, codecs: Codecs) -> Iterator[ConfigMistake]:
    """Mistakes in the payload schemas of listeners that give or take handoffs, and in hand-written ones.

    For the former it is an error, for others a warning.
    """
    looked_at = tuple(_looked_at(organism))
    if not looked_at:
        return
    from agentserver.config.findings import ConfigMistake
    from agentserver.hygiene.objections import Objection, SchemaLanguage
    from agentserver.hygiene.rules import inspect, read_schema
    from agentserver.remedies import remedy_of
    from agentserver.remedies.configuration import ConfigCode

    told: set[type] = set()
    for severity, payload, whose, place in looked_at:
        if payload in told:
            continue
        told.add(payload)
        schema = read_schema(SchemaLanguage.XSD, codecs.of(payload).xsd(documented=True).encode())
        for found in (schema,) if isinstance(schema, Objection) else inspect(schema):
            message = f"the schema of {payload.__qualname__}, {whose}: {found}"
            code = remedy_of("hygiene", found.rule) or ConfigCode.PAYLOAD.value
            yield ConfigMistake(code, severity, place.file, place.line, "", message)


def _looked_at(organism: Organism) -> Iterator[tuple[Severity, type, str, SourceLine]]:
    """Each payload whose schema is looked at: how weighty that is, whose it is, and where that is declared."""
    from agentserver.config.findings import Severity

    handoffs, taking_part = organism.handoffs, parties(organism)
    if handoffs is not None and handoffs.source is not None:
        for payload in handoffs.payloads:
            yield Severity.ERROR, payload, "which means an intent", handoffs.source
    for bound in organism.listeners:
        name = bound.listener.name
        if name in taking_part or bound.schema is not None:
            severity = Severity.ERROR if name in taking_part else Severity.WARNING
            for payload in bound.listener.payloads:
                yield severity, payload, f"which {name} takes", bound.source


def unsafe(organism: Organism) -> Iterator[ConfigMistake]:
    """Connect to the database of an organism; gives each promise that it does not keep."""
    if organism.engine is None or organism.engine_source is None:
        return
    import anyio

    from agentserver.assembly import postgres_options
    from agentserver.config.findings import ConfigMistake, Severity
    from agentserver.ports import EngineError
    from agentserver.remedies.configuration import ConfigCode

    options, place = postgres_options(organism.engine), organism.engine_source
    from agentserver.engines.postgres.status import find_weaknesses  # with an extra that most do without

    severity = Severity.WARNING
    try:
        found = anyio.run(find_weaknesses, options)
    except EngineError as error:
        found, severity = (organism.secrets.redact(str(error)),), Severity.ERROR
    for line in found:
        yield ConfigMistake(
            ConfigCode.ENGINE.value, severity, place.file, place.line, "engine.postgres", line
        )


def unserved(organism: Organism, rules: Rules) -> Iterator[ConfigMistake]:
    """The mistake of exposing to MCP hosts what cannot be a tool, at the first listener that cannot."""
    if organism.serving is None:
        return
    from agentserver.config.findings import ConfigMistake, Severity
    from agentserver.mcp.serving.calls import tools_of
    from agentserver.remedies.configuration import ConfigCode

    try:
        tools_of(rules, organism.serving.expose)
    except ValueError as error:
        named = (bound for bound in organism.listeners if bound.listener.name in str(error).split())
        place = next(named, organism.listeners[0]).source
        yield ConfigMistake(
            ConfigCode.MCP.value, Severity.ERROR, place.file, place.line, "mcp_server.expose", str(error)
        )


def withheld(organism: Organism, codecs: Codecs) -> Iterator[ConfigMistake]:
    """Warnings about fields that take no reference, of payloads that listeners which are shown references may be sent.

    Each stands at the listener that is shown references. What is never hidden is left out: closed types, and fields of
    a source with a better standing than prose.
    """
    from agentserver.config.findings import ConfigMistake, Severity
    from agentserver.remedies.configuration import ConfigCode

    for viewer, sender, payload in _doubtful(organism):
        from agentserver.guards.lineage.view.viewer import refusing  # and numpy with it

        codec = codecs.of(payload)
        for path, required in refusing(codec):
            if _vouched(organism, sender, codec, path):
                continue
            end = "must be there, so that it is refused" if required else "is left out"
            said = f"of what {sender} sends {viewer.listener.name}, it {end}"
            told = f"{payload.__qualname__}.{path} takes no reference: {said}"
            place = viewer.source
            code = ConfigCode.PROVENANCE.value
            yield ConfigMistake(code, Severity.WARNING, place.file, place.line, "view", told, _LOOSEN)


_LOOSEN = "make it text, give it bounds, or declare what it is worth under provenance: fields"


def _doubtful(organism: Organism) -> Iterator[tuple[BoundListener, str, type]]:
    """Each listener that is shown references, with who may say a stranger's words to it in which payload."""
    from agentserver.contract import SYSTEM_PAYLOADS

    provenance = organism.provenance
    if provenance is None or not provenance.viewers:
        return
    for viewer in organism.listeners:
        for other in organism.listeners if viewer.listener.name in provenance.viewers else ():
            name, found = other.listener.name, provenance.policy.classify(other.listener.name)
            if name in {*provenance.quarantined, *provenance.viewers} or not (found.source or found.relay):
                continue
            asked = viewer.listener.payloads if viewer.listener.name in other.listener.peers else ()
            own = (*other.listener.payloads, *SYSTEM_PAYLOADS)
            answers = other.discovered if name in viewer.listener.peers else ()
            for payload in dict.fromkeys((*asked, *(each for each in answers if each not in own))):
                yield viewer, name, payload


def _vouched(organism: Organism, sender: str, codec: Codec, path: str) -> bool:
    """True when a field of a source is declared to be more than prose."""
    from agentserver.provenance.evidence.labels import Leaf, Standing
    from agentserver.provenance.policy.declared import declared

    provenance = organism.provenance
    assert provenance is not None
    marked = declared(codec.payload).standing(path)
    worth = provenance.policy.worth(sender, Leaf(path, "", marked))
    told = worth is not None and worth.standing is not Standing.PROSE
    return told and provenance.policy.classify(sender).source


def parties(organism: Organism) -> frozenset[str]:
    """The listeners that may be handed work, and those that may hand it to them."""
    if organism.handoffs is None:
        return frozenset()
    targets = organism.handoffs.vocabulary.targets
    givers = {bound.listener.name for bound in organism.listeners if bound.listener.peers & targets}
    return targets | givers


def _provenance(organism: Organism, codecs: Codecs, *, flows: bool) -> Iterable[str]:
    if organism.provenance is None:
        return ("provenance: none declared, so nobody asks where a value comes from",)
    return _told(organism, organism.provenance, codecs, flows=flows)


def _told(organism: Organism, provenance: Provenance, codecs: Codecs, *, flows: bool) -> Iterator[str]:
    """Lines about provenance."""
    report = flow_report(organism, provenance, codecs)
    yield f"provenance: {provenance.policy.mode}"
    yield from (f"  {line}" for line in report.told())
    yield from _memories(organism, provenance)
    for name in sorted(provenance.quarantined):
        for payload, found in _channels(organism, codecs, name):
            refused = "" if found.closed else ", so it may not be sent"
            yield f"  {name} is quarantined: {payload} tells {found}{refused}"
    for name in sorted(provenance.viewers):
        yield f"  {name} is shown references in place of untrusted values"
    if flows:
        yield "flows:"
        yield from (f"  {flow}" for flow in report.flows)
        if not report.flows:
            yield "  none"


def flow_report(organism: Organism, provenance: Provenance, codecs: Codecs) -> FlowReport:
    """The classes of an organism's listeners to provenance, and the ways from source to sink."""
    from agentserver.provenance.flows import flows

    capacities = {}
    for name in provenance.quarantined:
        bits = [found.bits for _, found in _channels(organism, codecs, name) if found.bits < inf]
        capacities[name] = max(bits, default=0.0)
    return flows(provenance.policy, _peers(organism), capacities)


def _peers(organism: Organism) -> dict[str, list[str]]:
    """For each listener whom it may send to."""
    names = {bound.listener.name for bound in organism.listeners}
    return {bound.listener.name: sorted(bound.listener.peers & names) for bound in organism.listeners}


def _memories(organism: Organism, provenance: Provenance) -> Iterator[str]:
    """The memory of each listener that untrusted text can reach; a source's own words are untrusted anyway."""
    from agentserver.guards.lineage.exposure import Recall
    from agentserver.guards.lineage.trusted import carriers
    from agentserver.provenance.flows import entered

    policy, peers = provenance.policy, _peers(organism)
    reached = entered(policy, peers, organism.addressed)
    carrying = carriers(policy, provenance.memory, peers, organism.addressed)
    matters = [name for name in peers if name in reached | carrying and not policy.classify(name).source]
    for recall in Recall:
        names = [name for name in matters if provenance.memory.get(name, Recall.LISTENER) is recall]
        if names:
            start = ", exposed from the start" if recall is Recall.SERVER else ""
            yield f"  memory: {recall}{start}: {', '.join(names)}"


def _channels(organism: Organism, codecs: Codecs, name: str) -> Iterator[tuple[str, Channel]]:
    """The answers that a listener may give, as far as its code can name them, and the amount that each can tell."""
    from agentserver.contract import SYSTEM_PAYLOADS
    from agentserver.guards.lineage.reading import channel

    bound = next(each for each in organism.listeners if each.listener.name == name)
    for payload in bound.discovered:
        if payload not in (*bound.listener.payloads, *SYSTEM_PAYLOADS):
            yield payload.__name__, channel(codecs.of(payload))


def summary(path: Path, blueprint: Blueprint, findings: Sequence[ConfigMistake]) -> tuple[str, ...]:
    """The parts of the organism, in its last line, and the roots that do not say who is meant."""
    from agentserver.payload.names import local

    listeners = blueprint.listeners.values()
    agents = sum(listener.agent for listener in listeners)
    peers = sum(len(listener.peers) for listener in listeners)
    payloads = len({root for roots in blueprint.roots.values() for root in roots})
    unclear = ambiguous(blueprint)
    errors = sum(finding.severity == "error" for finding in findings)
    parts = [
        f"{format_amount(len(blueprint.listeners), 'listener')} ({format_amount(agents, 'agent')})",
        format_amount(peers, "peer"),
        format_amount(payloads, "payload"),
        format_amount(len(unclear), "ambiguous root"),
        *([format_amount(errors, "error")] if errors else []),
        format_amount(len(findings) - errors, "warning"),
    ]
    lines = (f"ambiguous root {local(root)}: {', '.join(unclear[root])}" for root in unclear)
    asking = [listener.name for listener in listeners if listener.approval]
    waits = [f"every message to {', '.join(asking)} waits for a person's approval"] if asking else []
    return (*lines, *waits, f"{path}: {', '.join(parts)}")


def ambiguous(blueprint: Blueprint) -> dict[str, tuple[str, ...]]:
    """Roots by which a message that names no listener cannot be routed, with the listeners that share them.

    Tasks are none: no listener sends one.
    """
    from agentserver.core.handoffs import TASK

    roots = sorted({root for roots in blueprint.roots.values() for root in roots} - {TASK})
    shared = {root: blueprint.takers(root) for root in roots}
    return {
        root: names
        for root, names in shared.items()
        if len(names) > 1 and not all(blueprint.listeners[name].broadcast for name in names)
    }
