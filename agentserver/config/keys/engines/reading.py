"""The engine of an organism that has no journal of its own.

Owns that an organism has one of the two, and what stands for the journal where it has an engine. Refuses to connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

from agentserver.config.keys.engines.nats import EngineEntry, NatsEntry
from agentserver.config.organism import BrokerEngine, Journal
from agentserver.config.places import astray, misplaced
from agentserver.extras import installed, installing

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.config.code.userland import Project
    from agentserver.config.findings import Loc, Mistakes
    from agentserver.config.validation import Parsed
    from agentserver.config.yaml.document import Document

REPLICA: Final = "replica.db"
"""The file of the first server in the directory of replicas."""

_DIRECTORY: Final[Loc] = ("engine", "nats", "replica")


class KeptFields(TypedDict):
    """The fields of an organism that say where conversations are kept."""

    journal: Journal | None
    engine: BrokerEngine | None


def read_kept(main: Parsed, home: Project, report: Mistakes) -> KeptFields:
    """The journal of an organism, or its engine with the replica as a journal."""
    engine = _read_engine(main, home, report)
    return {"journal": main.journal if engine is None else replica_journal(engine), "engine": engine}


def _read_engine(main: Parsed, home: Project, report: Mistakes) -> BrokerEngine | None:
    """The engine; None where there is none. One beside a journal, or out of the project, is a mistake."""
    data = main.document.data
    if "engine" not in data.keys() - main.faulty:
        return None
    if "journal" in data:
        told = "journal: and engine: are both there, and conversations are kept in one place"
        report.error(main.document.where(("journal",)), told, "remove journal:, or else engine:")
    if not installed("nats"):
        where = main.document.where(("engine",))
        report.error(where, f"engine: nats needs the extra nats: {installing('nats')}")
    entry = EngineEntry.model_validate(data["engine"]).nats
    real = astray(home.root, entry.replica)
    if real is not None:
        report.error(main.document.where(_DIRECTORY), *misplaced(_DIRECTORY, entry.replica, real, home.shown))
    return _engine(main.name, entry, home.root, main.document)


def _engine(organism: str, nats: NatsEntry, root: Path, document: Document) -> BrokerEngine:
    return BrokerEngine(
        nats.name or organism,
        nats.address(root, nats.replicas, str(document.where(("engine", "nats")))),
        nats.replica,
        nats.lease,
        tuple(nats.monitoring),
        nats.durability == "relaxed",
        nats.retention,
    )


def engine_of(main: Document, name: str, root: Path) -> BrokerEngine | None:
    """The engine of a main file. Raises ValidationError for one that is not sound."""
    said = main.data.get("engine")
    return None if said is None else _engine(name, EngineEntry.model_validate(said).nats, root, main)


def replica_journal(engine: BrokerEngine) -> Journal:
    """The journal that verbs and others read where there is an engine: the replica of this machine's first server."""
    return Journal(f"{engine.directory}/{REPLICA}", engine.retention, sync="normal")
