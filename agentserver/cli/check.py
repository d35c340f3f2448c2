"""``agentserver check`` and ``graph``: the mistakes of an organism, and its peers as a drawing."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentserver.characters.printing import format_amount
from agentserver.cli import project, reading
from agentserver.cli.process import ExitCode
from agentserver.config.findings import ConfigMistake, Severity
from agentserver.payload.names import local
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentserver.config import Organism
    from agentserver.config.organism import BoundListener, Provenance, SourceLine
    from agentserver.core.blueprint import Blueprint
    from agentserver.core.guard import Rules
    from agentserver.graph import Graph
    from agentserver.payload.codec import Codec, Codecs
    from agentserver.provenance.flows import FlowReport
    from agentserver.provenance.policy.quarantine import Channel
    from agentserver.remedies import Remedy


@click.command("check", short_help="Report every mistake of an organism.")
@project.add_organism_argument
@click.option("--flows", is_flag=True, help="Also list every path from a source to a sink.")
@click.option("--engine", is_flag=True, help="Also check the database of engine:.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="JOURNAL",
    help="Also find the waiting flows and messages of a journal that could not continue. Runs the flows' code.",
)
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@click.option("--json", "as_json", is_flag=True, help="Print only the findings, one JSON object per line.")
def check_command(
    organism: Path | None, *, flows: bool, engine: bool, against: Path | None, strict: bool, as_json: bool
) -> None:
    """Check ORGANISM (config/organism.yaml, then organism.yaml) and everything that it names.

    Prints each finding as file:line: path: message [code], the provenance class of each listener and its
    reason, then a summary. "agentserver explain CODE" explains a code. Exit code 1 when there are errors.
    """
    from agentserver.config.loading import inspect

    path = project.find_organism_or_raise(organism)
    loaded, findings = inspect(path, os.environ)
    decided_by = None if loaded is None else project.build_rules(loaded)
    pending = ""
    if loaded is not None and decided_by is not None:
        broken, pending = ((), "") if against is None else find_pending_breaks(loaded, decided_by, against)
        findings = (
            *findings,
            *_find_mistakes(loaded, decided_by),
            *(find_database_risks(loaded) if engine else ()),
            *broken,
        )
    for finding in findings:
        project.say(_format_json(finding) if as_json else finding.format_with_code())
    if not as_json:
        project.say(
            *filter(None, [pending]), *_iter_summary_lines(path, loaded, decided_by, findings, flows=flows)
        )
    hard = any(finding.severity is Severity.ERROR for finding in findings)
    project.exit_command(ExitCode.FOUND if hard or (strict and findings) else 0)


def _format_json(finding: ConfigMistake) -> str:
    fields = {**asdict(finding), "file": str(finding.file), "code": str(finding.code)}
    return json.dumps(fields, ensure_ascii=False)


def _find_mistakes(loaded: Organism, decided_by: Rules) -> tuple[ConfigMistake, ...]:
    """Find the mistakes of an organism that loads."""
    return (
        *find_schema_mistakes(loaded, decided_by.codecs),
        *find_unreferable(loaded, decided_by.codecs),
        *project.find_missing_walls(loaded),
        *find_unservable(loaded, decided_by),
        *find_unrepeatable(loaded),
    )


def _iter_summary_lines(
    path: Path,
    loaded: Organism | None,
    decided_by: Rules | None,
    findings: Sequence[ConfigMistake],
    *,
    flows: bool,
) -> Iterator[str]:
    """Yield the lines after the findings."""
    if loaded is None or decided_by is None:
        errors = sum(finding.severity == "error" for finding in findings)
        yield f"{path}: {format_amount(errors, 'error')}, {format_amount(len(findings) - errors, 'warning')}"
        return
    yield from _describe_provenance(loaded, decided_by.codecs, flows=flows)
    if loaded.guards:
        yield f"guards, in this order: {', '.join(guard.name for guard in decided_by.guards)}"
    yield from iter_summary_lines(path, decided_by.blueprint, findings)


def find_schema_mistakes(organism: Organism, codecs: Codecs) -> Iterator[ConfigMistake]:
    """Find mistakes in hand-written payload schemas, and in those of listeners that give or take handoffs.

    The latter are errors, others are warnings.
    """
    looked_at = tuple(_iter_inspected_payloads(organism))
    if not looked_at:
        return
    from agentserver.hygiene.objections import Objection, SchemaLanguage
    from agentserver.hygiene.rules import inspect, read_schema
    from agentserver.remedies import find_remedy

    inspected: set[type] = set()
    for severity, payload, role, place in looked_at:
        if payload in inspected:
            continue
        inspected.add(payload)
        schema = read_schema(SchemaLanguage.XSD, codecs.of(payload).xsd(documented=True).encode())
        for found in (schema,) if isinstance(schema, Objection) else inspect(schema):
            message = f"the schema of {payload.__qualname__}, {role}: {found}"
            code = find_remedy("hygiene", found.rule) or ConfigCode.PAYLOAD.value
            yield _make_mistake(code, severity, place, "", message)


def _make_mistake(
    code: Remedy, severity: Severity, place: SourceLine, path: str, message: str, suggestion: str = ""
) -> ConfigMistake:
    """Make a finding about the line of a listener or a key."""
    return ConfigMistake(code, severity, place.file, place.line, path, message, suggestion)


def _iter_inspected_payloads(organism: Organism) -> Iterator[tuple[Severity, type, str, SourceLine]]:
    """Yield each payload whose schema is inspected: severity, payload, owner and place of declaration."""
    handoffs, taking_part = organism.handoffs, list_handoff_parties(organism)
    if handoffs is not None and handoffs.source is not None:
        for payload in handoffs.payloads:
            yield Severity.ERROR, payload, "of an intent", handoffs.source
    for bound in organism.listeners:
        name = bound.listener.name
        if name in taking_part or bound.schema is not None:
            severity = Severity.ERROR if name in taking_part else Severity.WARNING
            for payload in bound.listener.payloads:
                yield severity, payload, f"which {name} takes", bound.source


def find_database_risks(organism: Organism) -> Iterator[ConfigMistake]:
    """Connect to the database of an organism and report each promise that it cannot keep."""
    if organism.engine is None or organism.engine_source is None:
        return
    import anyio

    from agentserver.assembly import describe_postgres_options
    from agentserver.ports import EngineError

    options, place = describe_postgres_options(organism.engine), organism.engine_source
    from agentserver.engines.postgres.operations import find_weaknesses  # needs an extra

    severity = Severity.WARNING
    try:
        found = anyio.run(find_weaknesses, options)
    except EngineError as error:
        found, severity = (organism.secrets.redact(str(error)),), Severity.ERROR
    yield from (
        _make_mistake(ConfigCode.ENGINE.value, severity, place, "engine.postgres", line) for line in found
    )


def find_pending_breaks(
    organism: Organism, rules: Rules, journal: Path
) -> tuple[tuple[ConfigMistake, ...], str]:
    """Find the waiting flows and messages of a journal that the organism could not continue, and count the checked."""
    from agentserver.flow.handler import FlowHandler
    from agentserver.history.flows import find_breaks

    by_name = {bound.listener.name: bound for bound in organism.listeners}
    flows = {name: bound.handler for name, bound in by_name.items() if isinstance(bound.handler, FlowHandler)}
    with reading.Storage(journal=journal).open(rules.guards) as reader:
        breaks = tuple(find_breaks(reader, rules, flows))
        count = sum(each.closed is None for each in reader.conversations())
    mistakes = (
        _make_mistake(
            ConfigCode.PENDING.value,
            Severity.ERROR,
            by_name.get(found.listener, organism.listeners[0]).source,
            found.listener,
            f"conversation {found.conversation}: {found.reason}",
        )
        for found in breaks
    )
    broken = len({found.conversation for found in breaks})
    return tuple(
        mistakes
    ), f"{journal}: {broken} of {format_amount(count, 'open conversation')} could not continue"


def find_unrepeatable(organism: Organism) -> Iterator[ConfigMistake]:
    """Report what a flow does that may differ when it is run again."""
    from agentserver.config.code.flow_lint import find_faults
    from agentserver.config.organism import SourceLine
    from agentserver.flow.handler import FlowHandler

    for bound in organism.listeners:
        if isinstance(bound.handler, FlowHandler):
            for found in find_faults(bound.handler.function):
                place = SourceLine(Path(os.path.relpath(found.file)), found.line)
                yield _make_mistake(
                    ConfigCode.FLOW.value,
                    Severity.WARNING,
                    place,
                    bound.listener.name,
                    found.text,
                    found.help,
                )


def find_unservable(organism: Organism, rules: Rules) -> Iterator[ConfigMistake]:
    """Report the first listener exposed to MCP hosts that cannot be a tool."""
    if organism.serving is None:
        return
    from agentserver.mcp.serving.calls import build_tools

    try:
        build_tools(rules, organism.serving.expose)
    except ValueError as error:
        matching = (bound for bound in organism.listeners if bound.listener.name in str(error).split())
        place = next(matching, organism.listeners[0]).source
        yield _make_mistake(ConfigCode.MCP.value, Severity.ERROR, place, "mcp_server.expose", str(error))


def find_unreferable(organism: Organism, codecs: Codecs) -> Iterator[ConfigMistake]:
    """Warn about payload fields that cannot hold a reference, where a listener sees references.

    Each warning names the listener that sees them. Fields that are never hidden are left out: closed types, and
    fields of a source that rank above prose.
    """
    for viewer, sender, payload in _iter_reference_viewers(organism):
        from agentserver.guards.lineage.viewer import find_refusing_fields  # imports numpy

        codec = codecs.of(payload)
        for path, required in find_refusing_fields(codec):
            if _is_declared_better(organism, sender, codec, path):
                continue
            end = "is required, so the message is refused" if required else "is left out"
            location = f"in messages from {sender} to {viewer.listener.name}, it {end}"
            message = f"{payload.__qualname__}.{path} cannot hold a reference: {location}"
            yield _make_mistake(
                ConfigCode.PROVENANCE.value, Severity.WARNING, viewer.source, "view", message, _LOOSEN
            )


_LOOSEN = "make it text, give it bounds, or declare its rank under provenance: fields"


def _iter_reference_viewers(organism: Organism) -> Iterator[tuple[BoundListener, str, type]]:
    """Yield each listener that sees references, with a possible sender of foreign text and the payload."""
    from agentserver.contract import SYSTEM_PAYLOADS

    provenance = organism.provenance
    if provenance is None or not provenance.viewers:
        return
    for viewer in organism.listeners:
        for other in organism.listeners if viewer.listener.name in provenance.viewers else ():
            name, found = other.listener.name, provenance.policy.classify(other.listener.name)
            if name in {*provenance.quarantined, *provenance.viewers} or not (found.source or found.relay):
                continue
            requests = viewer.listener.payloads if viewer.listener.name in other.listener.peers else ()
            own = (*other.listener.payloads, *SYSTEM_PAYLOADS)
            answers = other.discovered if name in viewer.listener.peers else ()
            for payload in dict.fromkeys((*requests, *(each for each in answers if each not in own))):
                yield viewer, name, payload


def _is_declared_better(organism: Organism, sender: str, codec: Codec, path: str) -> bool:
    """Tell whether a field of a source is declared to rank above prose."""
    from agentserver.provenance.evidence.labels import Leaf, Standing
    from agentserver.provenance.policy.marks import read_marks

    provenance = organism.provenance
    assert provenance is not None
    marked = read_marks(codec.payload).find_standing(path)
    worth = provenance.policy.field_rule(sender, Leaf(path, "", marked))
    better = worth is not None and worth.standing is not Standing.PROSE
    return better and provenance.policy.classify(sender).source


def list_handoff_parties(organism: Organism) -> frozenset[str]:
    """List the listeners that may take handoffs or give them."""
    if organism.handoffs is None:
        return frozenset()
    targets = organism.handoffs.vocabulary.targets
    givers = {bound.listener.name for bound in organism.listeners if bound.listener.peers & targets}
    return targets | givers


def _describe_provenance(organism: Organism, codecs: Codecs, *, flows: bool) -> Iterable[str]:
    if organism.provenance is None:
        return ("provenance: none declared, so the origin of values is not checked",)
    return _iter_provenance_lines(organism, organism.provenance, codecs, flows=flows)


def _iter_provenance_lines(
    organism: Organism, provenance: Provenance, codecs: Codecs, *, flows: bool
) -> Iterator[str]:
    """Yield the lines about provenance."""
    report = build_flow_report(organism, provenance, codecs)
    yield f"provenance: {provenance.policy.mode}"
    yield from (f"  {line}" for line in report.format_listener_lines())
    yield from _iter_memory_lines(organism, provenance)
    for name in sorted(provenance.quarantined):
        for payload, found in _iter_channels(organism, codecs, name):
            refused = "" if found.closed else ", so it may not be sent"
            yield f"  {name} is quarantined: {payload} carries {found}{refused}"
    for name in sorted(provenance.viewers):
        yield f"  {name} sees references in place of untrusted values"
    if flows:
        yield "flows:"
        yield from (f"  {flow}" for flow in report.flows)
        if not report.flows:
            yield "  none"


def build_flow_report(organism: Organism, provenance: Provenance, codecs: Codecs) -> FlowReport:
    """Classify the organism's listeners and find the paths from source to sink."""
    from agentserver.provenance.flows import find_flows

    capacities = {}
    for name in provenance.quarantined:
        bits = [found.bits for _, found in _iter_channels(organism, codecs, name) if found.bits < inf]
        capacities[name] = max(bits, default=0.0)
    return find_flows(provenance.policy, _map_peers(organism), capacities)


def _map_peers(organism: Organism) -> dict[str, list[str]]:
    """Map each listener to its peers."""
    names = {bound.listener.name for bound in organism.listeners}
    return {bound.listener.name: sorted(bound.listener.peers & names) for bound in organism.listeners}


def _iter_memory_lines(organism: Organism, provenance: Provenance) -> Iterator[str]:
    """Yield a line for each kind of memory that untrusted text can reach; a source's own is untrusted anyway."""
    from agentserver.guards.lineage.exposure import Recall
    from agentserver.guards.lineage.trust import find_carriers
    from agentserver.provenance.flows import find_reachable

    policy, peers = provenance.policy, _map_peers(organism)
    reached = find_reachable(policy, peers, organism.addressed)
    carrying = find_carriers(policy, provenance.memory, peers, organism.addressed)
    matters = [name for name in peers if name in reached | carrying and not policy.classify(name).source]
    for recall in Recall:
        names = [name for name in matters if provenance.memory.get(name, Recall.LISTENER) is recall]
        if names:
            start = ", exposed from the start" if recall is Recall.SERVER else ""
            yield f"  memory: {recall}{start}: {', '.join(names)}"


def _iter_channels(organism: Organism, codecs: Codecs, name: str) -> Iterator[tuple[str, Channel]]:
    """Yield the answers that a listener's code can give, and how much each can carry."""
    from agentserver.contract import SYSTEM_PAYLOADS
    from agentserver.guards.lineage.reading import measure_channel

    bound = next(each for each in organism.listeners if each.listener.name == name)
    for payload in bound.discovered:
        if payload not in (*bound.listener.payloads, *SYSTEM_PAYLOADS):
            yield payload.__name__, measure_channel(codecs.of(payload))


def iter_summary_lines(
    path: Path, blueprint: Blueprint, findings: Sequence[ConfigMistake]
) -> tuple[str, ...]:
    """Yield the roots that need a named recipient, and the summary of the organism's parts."""
    listeners = blueprint.listeners.values()
    agents = sum(listener.agent for listener in listeners)
    peers = sum(len(listener.peers) for listener in listeners)
    payloads = len({root for roots in blueprint.roots.values() for root in roots})
    unclear = find_ambiguous_roots(blueprint)
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
    waits = [
        f"{listener.name} waits for a person's approval: {listener.approval}"
        for listener in listeners
        if listener.approval is not None
    ]
    return (*lines, *waits, f"{path}: {', '.join(parts)}")


def find_ambiguous_roots(blueprint: Blueprint) -> dict[str, tuple[str, ...]]:
    """Map each root that several listeners accept, and that thus needs a named recipient, to these listeners.

    Tasks are exempt: no listener sends one.
    """
    from agentserver.core.handoffs import TASK

    roots = sorted({root for roots in blueprint.roots.values() for root in roots} - {TASK})
    shared = {root: blueprint.list_takers(root) for root in roots}
    return {
        root: names
        for root, names in shared.items()
        if len(names) > 1 and not all(blueprint.listeners[name].broadcast for name in names)
    }


class DrawingFormat(StrEnum):
    """Language of a drawing."""

    MERMAID = "mermaid"
    DOT = "dot"


@click.command("graph", short_help="Draw which listeners may send to each other.")
@project.add_organism_argument
@click.option(
    "--format",
    "form",
    type=click.Choice([*map(str, DrawingFormat)]),
    default=str(DrawingFormat.MERMAID),
    show_default=True,
)
@click.option("--flows", is_flag=True, help="Draw which untrusted sources can influence which actions.")
@project.output_option
def graph_command(organism: Path | None, form: str, output: Path | None, *, flows: bool) -> None:
    """Draw which listeners of ORGANISM (config/organism.yaml, then organism.yaml) may send to each other.

    The same organism gives the same drawing. GitHub and most editors show Mermaid. With --flows, an arrow is part
    of a path from an untrusted source to an action, and the notes list the checks on it.
    """
    from agentserver.graph import Graph, to_dot, to_mermaid

    loaded = project.load(organism)
    graph = Graph(loaded.name, tuple(bound.listener for bound in loaded.listeners))
    if flows:
        graph = _draw_flow_graph(loaded, project.build_server(loaded).rules.codecs)
    if loaded.guards:
        graph = replace(
            graph, notes=(*graph.notes, f"denials by the guards {', '.join(loaded.guards)} are not shown")
        )
    draw = {
        DrawingFormat.MERMAID: to_mermaid,
        DrawingFormat.DOT: to_dot,
    }[DrawingFormat(form)]
    project.write(output, draw(graph))


def _draw_flow_graph(organism: Organism, codecs: Codecs) -> Graph:
    """Draw the paths from sources to sinks, with the checks between them as notes."""
    from agentserver.graph import Graph
    from agentserver.provenance.flows import describe_class

    about = "untrusted sources and the actions they can influence"
    if organism.provenance is None:
        return _make_empty_graph(
            organism.name, about, "no provenance is declared, so the origin of values is not checked"
        )
    report = build_flow_report(organism, organism.provenance, codecs)
    classes = dict(report.classes)
    steps = {pair for flow in report.flows for pair in zip(flow.path, flow.path[1:], strict=False)}
    part = {name: f"{name} ({describe_class(classes[name])})" for pair in steps for name in pair}
    drawn = tuple(
        replace(
            bound.listener,
            name=part[bound.listener.name],
            peers=frozenset(part[to] for sender, to in steps if sender == bound.listener.name),
        )
        for bound in organism.listeners
        if bound.listener.name in part
    )
    if not drawn:
        return _make_empty_graph(organism.name, about, "no path leads from a source to a sink")
    return Graph(organism.name, drawn, about, tuple(map(str, report.flows)))


def _make_empty_graph(name: str, about: str, reason: str) -> Graph:
    from agentserver.core.blueprint import Listener
    from agentserver.graph import Graph

    return Graph(name, (Listener("none", (), reason),), about, (reason,))
