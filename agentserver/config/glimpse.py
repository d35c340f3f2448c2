"""The journal, the secrets and the MCP servers of an organism, read without loading it, though it may be broken.

Owns how much of it was read. Runs no code of the organism, and refuses to know the rest of it.
"""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from agentserver.config.findings import Mistakes, Severity
from agentserver.config.keys.engine import sound_engine
from agentserver.config.keys.models import JournalEntry, OrganismFile, unjournalled
from agentserver.config.places import JOURNAL, astray, misplaced, project_directory, shown_directory
from agentserver.config.validation import parse
from agentserver.config.yaml.secrets import Secrets
from agentserver.config.yaml.sources import Sources
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.config.findings import ConfigMistake
    from agentserver.config.organism import PostgresKeys
    from agentserver.config.yaml.document import Document
    from agentserver.payload.foreign.servers import McpServer


class Glimpse(NamedTuple):
    """The readable parts of an organism.

    Args:
        secrets: every value that it takes from the environment or a file, as far as they could be read.
        unread: why there may be more, a mistake a line; empty when there are no others.
        journal: the file of its journal; None when it keeps none or it cannot be told.
        unkept: whether it says that it keeps none.
        engine: the database that it has in place of a journal; None when there is none or it cannot be told.
        limit: bytes that its journal may hold; None when it keeps none or it cannot be told.
        astray: why the file that it names for its journal is not taken: it is out of the project.
        mistakes: why it cannot be told where conversations are kept, a mistake a line.
    """

    secrets: Secrets
    unread: str = ""
    journal: Path | None = None
    unkept: bool = False
    engine: PostgresKeys | None = None
    limit: int | None = None
    astray: str = ""
    mistakes: str = ""


def glimpse(path: Path, environ: Mapping[str, str]) -> Glimpse:
    """Read as much as possible of the organism in this file, even when it is broken."""
    report, project = Mistakes(), project_directory(path)
    sources = Sources(project, environ, report)
    sources.read(path)
    secrets = Secrets.of(sources.values)
    faults = report.settle([document.file for document in sources.documents], secrets)
    unread = "\n".join(str(fault) for fault in faults if fault.severity is Severity.ERROR)
    found = Glimpse(secrets, unread)
    # Without the main file the first document is an included one.
    if not sources.documents or sources.documents[0].directory != Path(os.path.realpath(path.parent)):
        return found
    try:
        return _kept(found, sources.documents[0], path)
    except ValidationError:
        report = Mistakes()
        parse(sources.documents[0], OrganismFile, report)
        settled = report.settle([document.file for document in sources.documents], secrets)
        return found._replace(mistakes="\n".join(each.coded() for each in settled))


def _kept(found: Glimpse, main: Document, path: Path) -> Glimpse:
    """The known facts, with the place where conversations are kept. Raises ValidationError when that cannot be told."""
    project = project_directory(path)
    if "engine" in main.data:
        return found._replace(engine=sound_engine(main))
    said = unjournalled(main.data.get("journal"))
    if said is None:
        return found._replace(unkept=True)
    journal = JournalEntry.model_validate(said)
    real = astray(project, journal.path)
    if real is None:
        return found._replace(journal=project / journal.path, limit=journal.limit)
    where = main.where(JOURNAL)
    lost = Mistakes()
    lost.error(
        ConfigCode.FILE, where, *misplaced(JOURNAL, journal.path, real, shown_directory(path, project))
    )
    return found._replace(astray=lost.settle([where.file], found.secrets)[0].coded())


def servers(
    path: Path, environ: Mapping[str, str]
) -> tuple[tuple[McpServer, ...], Path, tuple[ConfigMistake, ...]]:
    """The MCP servers of an organism, without their tools; the project directory; mistakes in what is said of servers.

    Locks are not read: this is what they are written with.
    """
    from agentserver.config.code.tools import ToolReader

    project, report = project_directory(path), Mistakes()
    found: tuple[McpServer, ...] = ()
    sources = Sources(project, environ, report)
    sources.read(path)
    if sources.documents:
        main = parse(sources.documents[0], OrganismFile, report)
        found = ToolReader(main, project, environ, report).connections()
    mistakes = report.settle([each.file for each in sources.documents], Secrets.of(sources.values))
    return (
        found,
        project,
        tuple(each for each in mistakes if each.path.startswith("mcp") or not sources.documents),
    )
