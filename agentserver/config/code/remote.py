"""Listeners whose processes are on other machines: where they meet the server, and all that such a machine needs.

Owns what is read of an organism on the machine of a worker: one listener, the limits, no code. What the rest of it
takes from the environment need not be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.broker.words import LONGEST, word
from agentserver.config.code.isolated import isolated
from agentserver.config.code.userland import Project
from agentserver.config.findings import Mistakes, Severity, did_you_mean
from agentserver.config.keys.engines.reading import engine_of
from agentserver.config.keys.isolation import BrokerEntry
from agentserver.config.keys.models import IncludedFile, OrganismFile
from agentserver.config.organism import BoundListener, Organism, SourceLine, elsewhere
from agentserver.config.places import project_directory, shown_directory
from agentserver.config.validation import parse
from agentserver.config.wiring import merge_limits
from agentserver.config.yaml.secrets import Secrets
from agentserver.config.yaml.sources import Sources
from agentserver.core.blueprint import Listener

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from agentserver.broker.address import BrokerAddress
    from agentserver.config.findings import ConfigMistake, Where
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
        if broker is None and not main.faulty & {"broker", "engine"}:
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
    """The broker that is named for workers, or else the one that is the engine."""
    named = main.document.data.keys() - main.faulty
    if "broker" not in named:
        engine = engine_of(main.document, main.name, root) if "engine" in named else None
        return None if engine is None else engine.address
    entry = BrokerEntry.model_validate(main.document.data["broker"])
    return entry.address(root, entry.replicas, str(main.document.where(("broker",))))


def part(
    path: Path, environ: Mapping[str, str], listener: str
) -> tuple[Organism | None, tuple[ConfigMistake, ...]]:
    """An organism with one listener alone, whose workers are on other machines; and what is wrong with that much.

    Runs no code of the organism, and does not look for that of other listeners.

    Args:
        path: of its file.
        environ: what ``${NAME}`` refers to.
        listener: its name.
    """
    report = Mistakes()
    root, sources, files = _read(path, environ, report)
    every = [each for file in files for each in file.listeners]
    asked = next((each for each in every if each.entry.name == listener), None)
    bound = None
    if asked is None:
        near = did_you_mean(listener, (each.entry.name for each in every))
        for file in files[:1]:
            report.error(file.document.where(("listeners",)), f'there is no listener "{listener}"', near)
    elif not _is_remote(asked) and "isolation" not in asked.faulty:
        lacks = f'"{listener}" has no isolation: remote, so the server does not wait for its workers'
        report.error(asked.where("isolation", missing=True), lacks)
    elif "isolation" not in asked.faulty:
        bound = _bound(asked, Project(root, shown_directory(path, root)), report)
    limits = merge_limits(files, report)
    place = None if asked is None else asked.where()
    told = _told(sources, report, lambda each: _concerns(each, place))
    if told or bound is None:
        return None, told
    secrets, broker = Secrets.of(sources.values), _broker(files[0], root)
    return Organism(
        files[0].name, root, (bound,), limits, None, secrets, tuple(sources.files), broker=broker
    ), ()


def names(path: Path, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...], tuple[ConfigMistake, ...]]:
    """The name of an organism, its listeners on other machines, and mistakes for which they cannot be told."""
    report = Mistakes()
    _, sources, files = _read(path, environ, report)
    found = tuple(each.entry.name for file in files for each in file.listeners if _is_remote(each))
    told = _told(sources, report, _hides_a_name)
    return (files[0].name if files else ""), found, told


def _read(path: Path, environ: Mapping[str, str], report: Mistakes) -> tuple[Path, Sources, list[Parsed]]:
    root = project_directory(path)
    sources = Sources(root, environ, report)
    sources.read(path)
    models: list[type[IncludedFile]] = [OrganismFile, *[IncludedFile] * len(sources.documents)]
    return root, sources, [parse(*pair, report) for pair in zip(sources.documents, models, strict=False)]


def _told(
    sources: Sources, report: Mistakes, counts: Callable[[ConfigMistake], bool]
) -> tuple[ConfigMistake, ...]:
    every = report.settle([document.file for document in sources.documents], Secrets.of(sources.values))
    return tuple(each for each in every if each.severity is Severity.ERROR and counts(each))


def _is_remote(declared: DeclaredListener) -> bool:
    return declared.entry.isolation is not None and declared.entry.isolation.remote


def _concerns(mistake: ConfigMistake, own: Where | None) -> bool:
    """True for a mistake that a worker of the listener at this place cannot do with."""
    begin = mistake.path.partition(".")[0].partition("[")[0]
    if begin in ("", "name", "limits", "include") or mistake.path == "listeners":
        return True
    return own is not None and own.file == mistake.file and f"{mistake.path}.".startswith(f"{own.path}.")


def _hides_a_name(mistake: ConfigMistake) -> bool:
    """True for a mistake after which it is not known who has workers on other machines."""
    hides = mistake.path.endswith((".isolation", ".isolation.remote", ".name"))
    return hides or mistake.path in ("", "name", "listeners") or mistake.path.startswith("include")


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
