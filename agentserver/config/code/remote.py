"""Listeners whose processes are on other machines: all that such a machine reads of an organism.

Owns what is read there: one listener and the limits, no code. What the rest of the organism takes from the environment
need not be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.config.code.isolated import isolated
from agentserver.config.code.userland import Project
from agentserver.config.findings import Mistakes, Severity, did_you_mean
from agentserver.config.keys.models import IncludedFile, OrganismFile
from agentserver.config.organism import BoundListener, Organism, SourceLine, elsewhere
from agentserver.config.places import project_directory, shown_directory
from agentserver.config.validation import parse
from agentserver.config.wiring import merge_limits
from agentserver.config.yaml.secrets import Secrets
from agentserver.config.yaml.sources import Sources
from agentserver.core.blueprint import Listener
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agentserver.config.findings import ConfigMistake, Where
    from agentserver.config.validation import DeclaredListener, Parsed


def check_doors(main: Parsed, declared: Sequence[DeclaredListener], report: Mistakes) -> None:
    """Report each listener with workers on other machines when there is no door through which they could come."""
    if "http" in main.document.data:
        return
    for each in declared:
        if _is_remote(each):
            told = "its workers come through the door, and there is no http:, which says where the door is"
            report.error(ConfigCode.ISOLATION, each.where("isolation"), told, "add http: {}")


def read_part(
    path: Path, environ: Mapping[str, str], listener: str
) -> tuple[Organism | None, tuple[ConfigMistake, ...]]:
    """Read an organism with one listener alone, whose workers are on other machines; or give the mistakes in that part.

    Runs no code of the organism, and does not look for that of other listeners.

    Args:
        path: of its file.
        environ: what ``${NAME}`` refers to.
        listener: its name.
    """
    report = Mistakes()
    root = project_directory(path)
    sources = Sources(root, environ, report)
    sources.read(path)
    models: list[type[IncludedFile]] = [OrganismFile, *[IncludedFile] * len(sources.documents)]
    files = [parse(*pair, report) for pair in zip(sources.documents, models, strict=False)]
    asked = _find(files, listener, report)
    bound = None if asked is None else _bound(asked, Project(root, shown_directory(path, root)), report)
    limits = merge_limits(files, report)
    place, secrets = None if asked is None else asked.where(), Secrets.of(sources.values)
    every = report.settle([document.file for document in sources.documents], secrets)
    mistakes = tuple(each for each in every if each.severity is Severity.ERROR and _concerns(each, place))
    if mistakes or bound is None:
        return None, mistakes
    return Organism(files[0].name, root, (bound,), limits, None, secrets, tuple(sources.files)), ()


def _find(files: Sequence[Parsed], listener: str, report: Mistakes) -> DeclaredListener | None:
    """The listener that is asked for; None after a finding."""
    every = [each for file in files for each in file.listeners]
    asked = next((each for each in every if each.entry.name == listener), None)
    if asked is None:
        near = did_you_mean(listener, (each.entry.name for each in every))
        for file in files[:1]:
            where = file.document.where(("listeners",))
            report.error(ConfigCode.NAME, where, f'there is no listener "{listener}"', near)
    elif "isolation" not in asked.faulty and not _is_remote(asked):
        lacks = f'"{listener}" has no isolation: remote, so the server does not wait for its workers'
        report.error(ConfigCode.ISOLATION, asked.where("isolation", missing=True), lacks)
    return asked


def _is_remote(declared: DeclaredListener) -> bool:
    return declared.entry.isolation is not None and declared.entry.isolation.remote


def _concerns(mistake: ConfigMistake, own: Where | None) -> bool:
    """True for a mistake that matters to a worker of the listener at this place."""
    begin = mistake.path.partition(".")[0].partition("[")[0]
    if begin in ("", "name", "limits", "include") or mistake.path == "listeners":
        return True
    return own is not None and own.file == mistake.file and f"{mistake.path}.".startswith(f"{own.path}.")


def _bound(declared: DeclaredListener, home: Project, report: Mistakes) -> BoundListener | None:
    if not _is_remote(declared) or "isolation" in declared.faulty:
        return None
    isolation = isolated(declared, home, report)
    if isolation is None:
        return None
    entry, where = declared.entry, declared.where()
    facts = Listener(
        entry.name, (), entry.description, concurrency=entry.concurrency, deadline=entry.deadline
    )
    place = SourceLine(where.file, where.line)
    return BoundListener(facts, elsewhere, None, False, None, place, isolation=isolation)
