"""Listeners whose processes are on other machines: where they meet the server, and all that such a machine needs.

Owns what is read of an organism on the machine of a worker: one listener, the limits, no code. What the rest of it
takes from the environment need not be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.broker.address import BrokerAddress
from agentserver.broker.words import LONGEST, word
from agentserver.config.code.isolated import isolated
from agentserver.config.code.userland import Project
from agentserver.config.findings import Mistakes, Severity, did_you_mean
from agentserver.config.keys.broker import BrokerEntry
from agentserver.config.keys.models import IncludedFile, OrganismFile
from agentserver.config.organism import BoundListener, Organism, SourceLine, elsewhere
from agentserver.config.validation import parse
from agentserver.config.wiring import merge_limits
from agentserver.config.yaml.secrets import Secrets
from agentserver.config.yaml.sources import Sources
from agentserver.core.blueprint import Listener

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agentserver.config.findings import ConfigMistake
    from agentserver.config.validation import DeclaredListener, Parsed


def read_broker(
    main: Parsed, root: Path, declared: Sequence[DeclaredListener], report: Mistakes
) -> BrokerAddress | None:
    """The broker of an organism; a listener on other machines without one, or with too long a name, is a mistake."""
    broker = _broker(main, root)
    for each in declared:
        if each.entry.isolation is None or not each.entry.isolation.remote:
            continue
        where = each.where("isolation")
        if broker is None and "broker" not in main.faulty:
            told = "its workers are on other machines, and there is no broker to meet them"
            report.error(where, told, "add broker: {url: nats://127.0.0.1:4222}")
        for name in (main.name, each.entry.name):
            if _length(name) > LONGEST:
                report.error(where, f'"{name[:20]}..." is too long for a broker; . and _ count twice')
    return broker


def _length(name: str) -> int:
    try:
        return len(word(name))
    except ValueError:  # a mistake that is told elsewhere
        return 0


def _broker(main: Parsed, root: Path) -> BrokerAddress | None:
    if "broker" not in main.document.data.keys() - main.faulty:
        return None
    entry = BrokerEntry.model_validate(main.document.data["broker"])
    file = None if entry.credentials is None else root / entry.credentials
    return BrokerAddress(entry.url, file, entry.replicas)


def part(
    path: Path, environ: Mapping[str, str], listener: str | None
) -> tuple[Organism | None, tuple[ConfigMistake, ...]]:
    """An organism with one of its listeners on other machines alone, or with all of them; and its mistakes.

    Runs no code of the organism, and does not look for that of other listeners.

    Args:
        path: of its file.
        environ: what ``${NAME}`` refers to.
        listener: its name; None for all of them.
    """
    from agentserver.config.loading import (
        project_directory,
        shown_directory,
    )  # which reads the broker by this module

    report, root = Mistakes(), project_directory(path)
    sources = Sources(root, environ, report)
    sources.read(path)
    secrets, files = Secrets.of(sources.values), [document.file for document in sources.documents]
    if not sources.documents:
        return None, report.settle(files, secrets)
    models: list[type[IncludedFile]] = [OrganismFile, *[IncludedFile] * (len(sources.documents) - 1)]
    parsed = [parse(*pair, report) for pair in zip(sources.documents, models, strict=True)]
    every = [each for file in parsed for each in file.listeners]
    asked = [each for each in every if listener in (None, each.entry.name)]
    limits, home = merge_limits(parsed, report), Project(root, shown_directory(path, root))
    distant = [each for each in asked if each.entry.isolation is not None and each.entry.isolation.remote]
    if listener is not None and not asked:
        near = did_you_mean(listener, (each.entry.name for each in every))
        report.error(parsed[0].document.where(("listeners",)), f'there is no listener "{listener}"', near)
    elif listener is not None and not distant and "isolation" not in asked[0].faulty:
        lacks = f'"{listener}" has no isolation: remote, so the server does not wait for its workers'
        report.error(asked[0].where("isolation", missing=True), lacks)
    bound = [found for each in distant if (found := _bound(each, home, report)) is not None]
    mine = [(each.where().file, each.where().path) for each in asked]
    told = tuple(
        each
        for each in report.settle(files, secrets)
        if each.severity is Severity.ERROR and _concerns(each, mine)
    )
    name, broker = parsed[0].name, _broker(parsed[0], root)
    made = Organism(name, root, tuple(bound), limits, None, secrets, tuple(sources.files), broker=broker)
    return (None if told else made), told


def _concerns(mistake: ConfigMistake, mine: Sequence[tuple[Path, str]]) -> bool:
    """True for a mistake that a worker of these listeners cannot do with."""
    begin = mistake.path.partition(".")[0].partition("[")[0]
    if begin in ("", "name", "limits", "include", "broker") or mistake.path == "listeners":
        return True
    return any(file == mistake.file and f"{mistake.path}.".startswith(f"{own}.") for file, own in mine)


def _bound(declared: DeclaredListener, home: Project, report: Mistakes) -> BoundListener | None:
    entry, where = declared.entry, declared.where()
    isolation = isolated(declared, home, report)
    if isolation is None:
        return None
    facts = Listener(
        entry.name, (), entry.description, concurrency=entry.concurrency, deadline=entry.deadline
    )
    place = SourceLine(where.file, where.line)
    return BoundListener(facts, elsewhere, None, False, None, place, isolation=isolation)
