"""Reads the storage, the secrets and the MCP servers of an organism that may be broken. Runs no code of it."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from agentserver.config.findings import Mistakes, Severity
from agentserver.config.keys.intents import HandoffsEntry
from agentserver.config.keys.models import Journal, OrganismFile, expand_journal, read_sound_engine
from agentserver.config.validation import parse
from agentserver.config.yaml.secrets import Secrets
from agentserver.config.yaml.sources import (
    Sources,
    describe_outside,
    find_project_directory,
    find_shown_directory,
    resolve_outside,
)
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.config.code.userland import Project
    from agentserver.config.findings import ConfigMistake, Loc
    from agentserver.config.keys.models import Postgres
    from agentserver.config.validation import ParsedDocument
    from agentserver.config.yaml.document import Document
    from agentserver.payload.foreign.lock import McpServer


class OrganismPreview(NamedTuple):
    """Readable parts of an organism.

    Args:
        secrets: the values from the environment and files, as far as they could be read.
        unread: mistakes that may hide more secrets, one per line; empty without any.
        journal: the file of its journal; None without one, or when it is unknown.
        unkept: whether ``journal: none`` is set.
        engine: the database; None without one, or when it is unknown.
        limit: greatest size of the journal in bytes; None if unset or unknown.
        astray: the mistake of a journal outside the project; empty without one.
        mistakes: mistakes that hide the storage, one per line.
    """

    secrets: Secrets
    unread: str = ""
    journal: Path | None = None
    unkept: bool = False
    engine: Postgres | None = None
    limit: int | None = None
    astray: str = ""
    mistakes: str = ""


def read_glimpse(path: Path, environ: Mapping[str, str]) -> OrganismPreview:
    """Read as much as possible of the organism in this file, even when it is broken."""
    report, project = Mistakes(), find_project_directory(path)
    sources = Sources(project, environ, report)
    sources.read(path)
    secrets = Secrets.of(sources.values)
    faults = report.settle([document.file for document in sources.documents], secrets)
    unread = "\n".join(str(fault) for fault in faults if fault.severity is Severity.ERROR)
    found = OrganismPreview(secrets, unread)
    # Without the main file the first document is an included one.
    if not sources.documents or sources.documents[0].directory != Path(os.path.realpath(path.parent)):
        return found
    try:
        return _read_storage(found, sources.documents[0], path)
    except ValidationError:
        report = Mistakes()
        parse(sources.documents[0], OrganismFile, report)
        settled = report.settle([document.file for document in sources.documents], secrets)
        return found._replace(mistakes="\n".join(each.format_with_code() for each in settled))


def _read_storage(found: OrganismPreview, main: Document, path: Path) -> OrganismPreview:
    """Add the storage to the known facts. Raises ValidationError when it is invalid."""
    project = find_project_directory(path)
    if "engine" in main.data:
        return found._replace(engine=read_sound_engine(main))
    declared = expand_journal(main.data.get("journal"))
    if declared is None:
        return found._replace(unkept=True)
    journal = Journal.model_validate(declared)
    real = resolve_outside(project, journal.path)
    if real is None:
        return found._replace(journal=project / journal.path, limit=journal.limit)
    span = main.locate(JOURNAL)
    lost = Mistakes()
    lost.add_error(
        ConfigCode.FILE,
        span,
        *describe_outside(JOURNAL, journal.path, real, find_shown_directory(path, project)),
    )
    return found._replace(astray=lost.settle([span.file], found.secrets)[0].format_with_code())


def read_servers(
    path: Path, environ: Mapping[str, str]
) -> tuple[tuple[McpServer, ...], Path, tuple[ConfigMistake, ...]]:
    """Read the MCP servers without their tools; returns them, the project directory and the mistakes.

    Locks are not read: the caller writes them.
    """
    from agentserver.config.code.tools import ToolReader

    project, report = find_project_directory(path), Mistakes()
    found: tuple[McpServer, ...] = ()
    sources = Sources(project, environ, report)
    sources.read(path)
    if sources.documents:
        main = parse(sources.documents[0], OrganismFile, report)
        found = ToolReader(main, project, environ, report).describe_connections()
    mistakes = report.settle([each.file for each in sources.documents], Secrets.of(sources.values))
    return (
        found,
        project,
        tuple(each for each in mistakes if each.path.startswith("mcp") or not sources.documents),
    )


JOURNAL: Loc = ("journal", "path")
AUDIT: Loc = ("handoffs", "audit")


def check_places(main: ParsedDocument, home: Project, report: Mistakes) -> None:
    """Refuse a relative path that leads out of the project, through ``..`` or a symbolic link."""
    handoffs = _find_value_at(main.document.data, AUDIT, HandoffsEntry().audit)
    journal = None if main.journal is None else main.journal.path
    inboxes = () if "inbox" in main.faulty else main.document.data.get("inbox", ())
    folders = [(("inbox", number, "folder"), each["folder"]) for number, each in enumerate(inboxes)]
    for loc, declared in ((JOURNAL, journal), (AUDIT, handoffs), *folders):
        place = resolve_outside(home.root, declared) if isinstance(declared, str) else None
        if place is not None:
            report.add_error(
                ConfigCode.FILE,
                main.document.locate(loc),
                *describe_outside(loc, str(declared), place, home.shown),
            )


def _find_value_at(data: object, loc: Loc, default: str) -> object:
    for key in loc:
        data = data.get(key, default) if isinstance(data, dict) else default
    return data
