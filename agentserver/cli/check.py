"""``agentserver check``: every mistake that ``run`` would meet, before it does.

Owns the summary. The findings are config's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from agentserver.cli import project

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from agentserver.assembly import Server
    from agentserver.config import Finding, Organism
    from agentserver.core.blueprint import Blueprint

FOUND = 1


@click.command("check", short_help="Name every mistake of an organism.")
@project.organism_argument
@click.option("--flows", is_flag=True, help="Name every way from a source to a sink.")
@click.option("--strict", is_flag=True, help="Let warnings fail too.")
@click.pass_context
def command(ctx: click.Context, organism: Path | None, *, flows: bool, strict: bool) -> None:
    """Check ORGANISM (config/organism.yaml, then organism.yaml) and everything that it names.

    Prints each finding as file:line: path: message, what each listener is to provenance and why, then a summary.
    Exit code 1 when there are mistakes.
    """
    from agentserver import config

    path = project.located(organism)
    loaded, findings = config.inspect(path, os.environ)
    for finding in findings:
        click.echo(str(finding))
    warnings = sum(finding.severity is config.Severity.WARNING for finding in findings)
    if loaded is None:
        click.echo(f"{path}: {_count(len(findings) - warnings, 'error')}, {_count(warnings, 'warning')}")
        ctx.exit(FOUND)
    server = project.server(ctx, loaded)
    for line in _provenance(loaded, server, flows=flows):
        click.echo(line)
    click.echo(summary(path, server.rules.blueprint, findings))
    ctx.exit(FOUND if strict and warnings else 0)


def _provenance(organism: Organism, server: Server, *, flows: bool) -> Iterable[str]:
    if organism.provenance is None:
        return ("provenance: none declared, so nobody asks where a value comes from",)
    from agentserver.cli import flowing

    return flowing.told(organism, organism.provenance, server.rules.codecs, flows=flows)


def summary(path: Path, blueprint: Blueprint, findings: Sequence[Finding]) -> str:
    """What the organism consists of, in one line, and which roots do not say who is meant."""
    listeners = blueprint.listeners.values()
    agents = sum(listener.agent for listener in listeners)
    peers = sum(len(listener.peers) for listener in listeners)
    payloads = len({root for roots in blueprint.roots.values() for root in roots})
    unclear = ambiguous(blueprint)
    parts = [
        f"{_count(len(blueprint.listeners), 'listener')} ({_count(agents, 'agent')})",
        _count(peers, "peer"),
        _count(payloads, "payload"),
        _count(len(unclear), "ambiguous root"),
        _count(len(findings), "warning"),
    ]
    lines = (f"ambiguous root {root.rpartition('}')[2]}: {', '.join(unclear[root])}" for root in unclear)
    return "\n".join((*lines, f"{path}: {', '.join(parts)}"))


def ambiguous(blueprint: Blueprint) -> dict[str, tuple[str, ...]]:
    """Roots by which a message that names no listener cannot be routed, with the listeners that share them."""
    roots = sorted({root for roots in blueprint.roots.values() for root in roots})
    shared = {root: blueprint.takers(root) for root in roots}
    return {
        root: names
        for root, names in shared.items()
        if len(names) > 1 and not all(blueprint.listeners[name].broadcast for name in names)
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
