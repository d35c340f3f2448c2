"""The way from a path to an organism.

Owns the order of the steps and the project directory. Refuses to know any step.
"""

from __future__ import annotations

import os.path
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from agentserver.config.code.agents import Around, check_keys, equipped
from agentserver.config.code.binding import Binder
from agentserver.config.code.editions import Survey, loaded, split, staged
from agentserver.config.code.namespace import Namespace
from agentserver.config.code.otel import proofs, read_otel
from agentserver.config.code.remote import check_doors
from agentserver.config.code.userland import Importer, Project
from agentserver.config.findings import ConfigError, ConfigMistake, Mistakes, Severity, Where, did_you_mean
from agentserver.config.handoffs import read_handoffs
from agentserver.config.keys.engine import read_engine
from agentserver.config.keys.http import read_http
from agentserver.config.keys.models import IncludedFile, OrganismFile
from agentserver.config.keys.serving import McpServerEntry
from agentserver.config.organism import McpServing, Organism
from agentserver.config.places import check_places, project_directory, shown_directory
from agentserver.config.validation import parse
from agentserver.config.wiring import (
    check_names,
    check_peers,
    check_roots,
    check_trust,
    check_xml_names,
    merge_limits,
    names_of,
)
from agentserver.config.yaml.secrets import Secrets
from agentserver.config.yaml.sources import Sources
from agentserver.core.state.principals import Trust
from agentserver.extras import installed, installing
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from agentserver.completion import LanguageModels
    from agentserver.config.code.editions import Source
    from agentserver.config.code.tools import DeclaredTool, ToolReader
    from agentserver.config.organism import BoundListener, DoorKeys, Handoffs, Otel, PostgresKeys, Provenance
    from agentserver.config.validation import DeclaredListener, Parsed
    from agentserver.config.yaml.document import Document
    from agentserver.core.blueprint import Limits
    from agentserver.guards.base import Guard
    from agentserver.payload.foreign.servers import McpServer


def load(
    path: Path,
    *,
    environ: Mapping[str, str],
    project: Path | None = None,
    policy: Path | None = None,
    afresh: bool = False,
    after: Organism | None = None,
) -> Organism:
    """Read, check and bind an organism. Raises ConfigError with every mistake found.

    Args:
        path: of ``organism.yaml``.
        environ: what ``${NAME}`` refers to.
        project: overrides the project directory (see ``project_directory``).
        policy: a policy file that stands in place of all that ``provenance:`` says; it may lie anywhere.
        afresh: whether all modules of the project are imported into a namespace of their own, beside those that the
            process has of it already, which may be older.
        after: the running organism that this one is to follow. Its modules are kept where neither they nor what they
            import of the project has changed; the others are imported afresh.
    """
    found = inspect(path, environ, project=project, policy=policy, afresh=afresh, after=after)
    organism, findings = found
    if organism is None:
        raise ConfigError(tuple(f for f in findings if f.severity is Severity.ERROR))
    return organism


def forget(organism: Organism) -> None:
    """Drop from the process the modules that loading this organism brought into it.

    For tests, once the organism has stopped: another one whose modules have the same names can then load. A load that
    fails does the same by itself.
    """
    if organism.modules is not None:
        organism.modules.forget()


def inspect(
    path: Path,
    environ: Mapping[str, str],
    *,
    project: Path | None = None,
    policy: Path | None = None,
    afresh: bool = False,
    after: Organism | None = None,
) -> tuple[Organism | None, tuple[ConfigMistake, ...]]:
    """Like ``load``, but give back every finding, warnings too; the organism is None when one is an error."""
    root = project_directory(path) if project is None else Path(os.path.realpath(project))
    home = Project(root, shown_directory(path, root))
    report, since = Mistakes(), time.time()
    sources = Sources(root, environ, report)
    sources.read(path)
    secrets = Secrets.of([*sources.values, *proofs(environ)])
    files = [document.file for document in sources.documents]
    survey = Survey({}, {}, {}) if after is None or after.modules is None else after.modules.survey()
    if not _whole(survey.kept, survey.sources, (home, survey), report):
        return None, report.settle(files, secrets)
    importer = Importer(home, Namespace(root, survey.kept)) if afresh or after is not None else Importer(home)
    organism = None
    try:
        organism = _assemble(importer, sources, (secrets, policy, environ), report)
        organism = None if organism is None else _with_modules(organism, importer, (since, survey), report)
    finally:
        if organism is None:
            importer.forget()
    return organism, report.settle(files, secrets)


def _whole(
    modules: Mapping[str, ModuleType],
    known: Mapping[str, Source],
    looked: tuple[Project, Survey],
    report: Mistakes,
) -> bool:
    """False, and reported, when some of these modules hold something of one that is replaced."""
    project, survey = looked
    found = tuple(split(modules, known, survey))
    for name, file, line, why in found:
        report.error(
            ConfigCode.RELOAD,
            Where(Path(project.show(file)), line),
            f"{name} holds {why}",
            "restart the server",
        )
    return not found


def _with_modules(
    organism: Organism, importer: Importer, looked: tuple[float, Survey], report: Mistakes
) -> Organism | None:
    """The organism with its modules; None, and reported, when one of them has got something of the edition before."""
    (since, survey), namespace = looked, importer.namespace
    if namespace is None:
        return replace(organism, modules=loaded(importer.project, since, importer.brought()))
    modules = staged(importer.project, since, namespace, survey)
    fresh = {name: each for name, each in namespace.modules().items() if name not in survey.kept}
    whole = _whole(fresh, modules.sources, (importer.project, survey), report)
    return replace(organism, modules=modules) if whole else None


def _assemble(
    importer: Importer,
    sources: Sources,
    given: tuple[Secrets, Path | None, Mapping[str, str]],
    report: Mistakes,
) -> Organism | None:
    secrets, policy, environ = given
    home = importer.project
    if not sources.documents or _unfounded(sources.documents[0], policy, report):
        return None
    models = [_main(sources.documents[0])] + [IncludedFile] * (len(sources.documents) - 1)
    files = [parse(*pair, report) for pair in zip(sources.documents, models, strict=True)]
    declared = [item for parsed in files for item in parsed.listeners]
    foreign = _Foreign.of(files[0], home, environ, report)
    _check_declared(files, declared, foreign.declared, report)
    check_places(files[0], home, report)
    limits = merge_limits(files, report)
    binder = Binder(importer, report)
    bound = [item for item in map(binder.bind, declared) if item is not None]
    declared += foreign.declared
    servers = foreign.join(bound)
    bound, language_models = _equipped(declared, files[0], (bound, secrets, limits), binder)
    lifespan, handoffs = binder.lifespan(files[0]), read_handoffs(files[0], bound, binder)
    provenance = _provenance(home, files[0], declared, (bound, handoffs, policy), report)
    _check_bound(importer, files[0], bound, report)
    guards, outward = _guards(files[0], bound, binder), _outward(files, declared, environ, report)
    if report.failed:
        return None
    return Organism(
        files[0].name,
        home.root,
        tuple(bound),
        limits,
        lifespan,
        secrets,
        tuple(sources.files),
        handoffs=handoffs,
        provenance=provenance,
        guards=guards,
        models=language_models,
        mcp=servers,
        journal=files[0].journal,
        **outward,
    )


def _unfounded(main: Document, policy: Path | None, report: Mistakes) -> bool:
    """True, and reported, when origins are to be tracked and what tracks them is not installed."""
    if (policy is None and "provenance" not in main.data) or installed("provenance"):
        return False
    report.error(
        ConfigCode.EXTRA,
        main.where(("provenance",)),
        f"needs the extra provenance: {installing('provenance')}",
    )
    return True


def _provenance(
    home: Project,
    main: Parsed,
    declared: Sequence[DeclaredListener],
    known: tuple[Sequence[BoundListener], Handoffs | None, Path | None],
    report: Mistakes,
) -> Provenance | None:
    bound, handoffs, policy = known
    if policy is None and "provenance" not in main.document.data.keys() - main.faulty:
        return None
    from agentserver.config.lineage import PolicyReader  # with all that it needs, which others do without

    return PolicyReader(home, main.document, declared, report).provenance(bound, handoffs, policy)


@dataclass(slots=True)
class _Foreign:
    """The listeners that are tools of MCP servers; most organisms have none."""

    reader: ToolReader | None = None
    tools: tuple[DeclaredTool, ...] = ()

    @classmethod
    def of(cls, main: Parsed, home: Project, environ: Mapping[str, str], report: Mistakes) -> _Foreign:
        if not main.mcp:
            return cls()
        from agentserver.config.code.tools import ToolReader  # with the mapping of schemas

        reader = ToolReader(main, home.root, environ, report)
        return cls(reader, reader.declared())

    @property
    def declared(self) -> list[DeclaredListener]:
        return [each.declared for each in self.tools]

    def join(self, bound: list[BoundListener]) -> tuple[McpServer, ...]:
        """Add the tools to the listeners; the servers that they are of."""
        if self.reader is None:
            return ()
        listeners, servers = self.reader.bound(self.tools, bound)
        bound += listeners
        return servers


def _main(document: Document) -> type[OrganismFile]:
    """The model of a main file; one without provenance does not wait for what that needs."""
    if "provenance" not in document.data:
        return OrganismFile
    from agentserver.config.lineage import TrustingFile

    return TrustingFile


def _guards(main: Parsed, bound: Sequence[BoundListener], binder: Binder) -> Mapping[str, Guard]:
    if not main.guards:
        return {}
    from agentserver.config.guards import read_guards  # most organisms have none

    return read_guards(main.guards, {item.listener.name: item.listener for item in bound}, binder)


def _equipped(
    declared: Sequence[DeclaredListener],
    main: Parsed,
    given: tuple[list[BoundListener], Secrets, Limits],
    binder: Binder,
) -> tuple[list[BoundListener], LanguageModels | None]:
    """The listeners, agents with their tools, and the models that they may ask."""
    bound, secrets, limits = given
    models = None
    if "llm" in main.document.data.keys() - main.faulty:
        from agentserver.config.code.deadlines import derive_deadlines  # most organisms have none
        from agentserver.config.code.llm import read_models

        models = read_models(main.document, secrets, binder, {item.listener.name for item in bound})
        bound = derive_deadlines(bound, declared, models, binder.report)
    unknown = "llm" in main.faulty
    if unknown or not any(item.agent for item in bound):
        return bound, models
    return equipped(bound, declared, Around(models, limits), binder.report), models


class _Outward(TypedDict):
    serving: McpServing | None
    otel: Otel | None
    door: DoorKeys | None
    engine: PostgresKeys | None


def _outward(
    files: Sequence[Parsed],
    declared: Sequence[DeclaredListener],
    environ: Mapping[str, str],
    report: Mistakes,
) -> _Outward:
    """The parts of an organism that reach out of its process."""
    check_doors(files[0], declared, report)
    otel, main = read_otel(files[0], environ, report), (files[0].document, files[0].faulty)
    door, engine = read_http(*main, report), read_engine(*main, report)
    return {"serving": _serving(files, declared, report), "otel": otel, "door": door, "engine": engine}


def _serving(
    files: Sequence[Parsed], declared: Sequence[DeclaredListener], report: Mistakes
) -> McpServing | None:
    main = files[0]
    if "mcp_server" not in main.document.data.keys() - main.faulty:
        return None
    entry = McpServerEntry.model_validate(main.document.data["mcp_server"])
    known = names_of(files).union(each.entry.name for each in declared)
    for i, name in enumerate(entry.expose):
        where = main.document.where(("mcp_server", "expose", i))
        if name not in known:
            report.error(ConfigCode.NAME, where, f'unknown listener "{name}"', did_you_mean(name, known))
        elif name in entry.expose[:i]:
            report.error(ConfigCode.REPEATED, where, f'"{name}" is exposed already')
    trust, approvals = Trust(entry.trust), entry.approvals or ""
    return McpServing(tuple(entry.expose), trust, approvals, entry.deadline)


def _check_bound(importer: Importer, main: Parsed, bound: Sequence[BoundListener], report: Mistakes) -> None:
    for message in importer.strangers():
        report.error(ConfigCode.IMPORT, Where(main.document.file, 1), message)
    check_roots(bound, report)
    check_xml_names(bound, importer.project, report)


def _check_declared(
    files: Sequence[Parsed],
    declared: Sequence[DeclaredListener],
    tools: Sequence[DeclaredListener],
    report: Mistakes,
) -> None:
    names = names_of(files) | {name for _, server in files[0].mcp for name in server.listeners}
    check_names((*declared, *tools), report)
    check_peers(declared, names, report)
    check_trust(files[0], declared, report)
    check_keys(declared, report)
    if not names and not report.failed:
        report.error(
            ConfigCode.MISSING, files[0].document.where(("listeners",)), "at least one listener is needed"
        )
