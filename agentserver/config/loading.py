"""Loads an organism: from a path to checked values and imported code."""

from __future__ import annotations

import os.path
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import unquote, urlsplit

from agentserver.config.code.agents import AgentDependencies, check_keys, equip_agents
from agentserver.config.code.binding import Binder
from agentserver.config.code.editions import Survey, list_modules_of_later_load, list_modules_of_load, split
from agentserver.config.code.isolated import check_doors
from agentserver.config.code.namespace import Namespace
from agentserver.config.code.signature import find_origin
from agentserver.config.code.userland import Importer, Project
from agentserver.config.findings import (
    ConfigError,
    ConfigMistake,
    Mistakes,
    Severity,
    SourceSpan,
)
from agentserver.config.glimpse import check_places
from agentserver.config.handoffs import read_handoffs
from agentserver.config.keys.endpoints import McpServerEntry, OtelEntry, read_http
from agentserver.config.keys.fields import build_value
from agentserver.config.keys.identity import read_identity
from agentserver.config.keys.mcp import McpEntry
from agentserver.config.keys.models import (
    GuardEntry,
    IncludedFile,
    OrganismFile,
    read_engine,
    read_sound_engine,
)
from agentserver.config.notify import read_notifiers
from agentserver.config.organism import McpServing, Organism, Otel, SourceLine, list_keepers
from agentserver.config.triggers import PayloadFinder, iter_hooks, iter_inboxes, iter_schedules
from agentserver.config.validation import merge_limits, parse
from agentserver.config.yaml.secrets import Secrets
from agentserver.config.yaml.sources import Sources, find_project_directory, find_shown_directory
from agentserver.core.handoffs import Task
from agentserver.core.state.principals import Trust
from agentserver.extras import install_hint, is_installed
from agentserver.payload.conditions import ConditionError, check_windows, fit_conditions
from agentserver.payload.fields.field_table import PayloadType
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import ModuleType

    from agentserver.completion import LanguageModels
    from agentserver.config.code.editions import Source
    from agentserver.config.code.tools import DeclaredTool, ToolReader
    from agentserver.config.keys.endpoints import HttpEntry
    from agentserver.config.keys.models import Postgres
    from agentserver.config.lineage import PolicyText
    from agentserver.config.organism import BoundListener, Handoffs, Provenance
    from agentserver.config.validation import DeclaredListener, ParsedDocument
    from agentserver.config.yaml.document import Document
    from agentserver.core.blueprint import Limits
    from agentserver.guards.base import Guard
    from agentserver.payload.conditions import FieldCondition
    from agentserver.payload.foreign.lock import McpServer
    from agentserver.ports.hooks import Hook, Inbox
    from agentserver.ports.identity import IdentityProvider
    from agentserver.ports.notices import Notifier
    from agentserver.ports.schedules import Schedule


def load(
    path: Path,
    *,
    environ: Mapping[str, str],
    project: Path | None = None,
    separate: bool = False,
    previous: Organism | None = None,
) -> Organism:
    """Load an organism. Raises ConfigError with every mistake.

    Args:
        path: of ``organism.yaml``.
        environ: values of ``${NAME}``.
        project: overrides the project directory (see ``find_project_directory``).
        separate: whether all modules of the project are imported into a separate namespace, next to modules that the
            process has already imported.
        previous: the running organism. Modules are kept when neither they nor their imports from the project have
            changed; all others are imported again.
    """
    found = inspect(path, environ, project=project, separate=separate, previous=previous)
    organism, findings = found
    if organism is None:
        raise ConfigError(tuple(f for f in findings if f.severity is Severity.ERROR))
    return organism


def forget(organism: Organism) -> None:
    """Remove from the process the modules that loading this organism imported.

    For tests, after the organism has stopped: another one with the same module names can then load. A failed load does
    this itself.
    """
    if organism.modules is not None:
        organism.modules.forget()


def inspect(
    path: Path,
    environ: Mapping[str, str],
    *,
    project: Path | None = None,
    separate: bool = False,
    previous: Organism | None = None,
) -> tuple[Organism | None, tuple[ConfigMistake, ...]]:
    """Load an organism like ``load``, but return every finding; the organism is None after an error."""
    root = find_project_directory(path) if project is None else Path(os.path.realpath(project))
    home = Project(root, find_shown_directory(path, root))
    report, since = Mistakes(), time.time()
    sources = Sources(root, environ, report)
    sources.read(path)
    secrets = Secrets.of([*sources.values, *list_proofs(environ)])
    files = [document.file for document in sources.documents]
    survey = (
        Survey({}, {}, {})
        if previous is None or previous.modules is None
        else previous.modules.compare_survey()
    )
    if not _is_consistent(survey.unchanged, survey.sources, (home, survey), report):
        return None, report.settle(files, secrets)
    importer = (
        Importer(home, Namespace(root, survey.unchanged))
        if separate or previous is not None
        else Importer(home)
    )
    organism = None
    try:
        organism = _assemble(importer, sources, (secrets, environ), report)
        organism = None if organism is None else _with_modules(organism, importer, (since, survey), report)
    finally:
        if organism is None:
            importer.forget()
    return organism, report.settle(files, secrets)


def _is_consistent(
    modules: Mapping[str, ModuleType],
    known: Mapping[str, Source],
    looked: tuple[Project, Survey],
    report: Mistakes,
) -> bool:
    """Return False, with findings, when some of these modules refer into a replaced module."""
    project, survey = looked
    found = tuple(split(modules, known, survey))
    for name, file, line, reason in found:
        report.add_error(
            ConfigCode.RELOAD,
            SourceSpan(Path(project.show(file)), line),
            f"{name} holds {reason}",
            "restart the server",
        )
    return not found


def _with_modules(
    organism: Organism, importer: Importer, looked: tuple[float, Survey], report: Mistakes
) -> Organism | None:
    """Add the modules to the organism; None, with findings, when one refers into the previous edition."""
    (since, survey), namespace = looked, importer.namespace
    if namespace is None:
        return replace(
            organism, modules=list_modules_of_load(importer.project, since, importer.list_brought())
        )
    modules = list_modules_of_later_load(importer.project, since, namespace, survey)
    fresh = {name: each for name, each in namespace.modules().items() if name not in survey.unchanged}
    consistent = _is_consistent(fresh, modules.sources, (importer.project, survey), report)
    return replace(organism, modules=modules) if consistent else None


def _assemble(
    importer: Importer,
    sources: Sources,
    inputs: tuple[Secrets, Mapping[str, str]],
    report: Mistakes,
) -> Organism | None:
    (secrets, environ), home = inputs, importer.project
    if not sources.documents or _lacks_extra(sources.documents[0], report):
        return None
    files = _parse_documents(sources, report)
    declared = [item for parsed in files for item in parsed.listeners]
    foreign = _ForeignTools.read_servers(files[0], home, environ, report)
    _check_declared(files, declared, foreign.declared, report)
    check_places(files[0], home, report)
    limits = merge_limits(files, report)
    binder = Binder(importer, report)
    bound = [item for item in map(binder.bind, declared) if item is not None]
    declared += foreign.declared
    servers = foreign.join(bound)
    bound, language_models = _equip_all(declared, files[0], (bound, secrets, limits), binder)
    lifespan, handoffs = binder.import_lifespan(files[0]), read_handoffs(files[0], bound, binder)
    provenance = _find_provenance(home, files[0], declared, (bound, handoffs, None), report)
    _check_bound(importer, files[0], (declared, bound), report)
    guards = _build_guards(files[0], bound, binder)
    outward = _read_network_parts(files, declared, environ, report)
    events = _read_event_parts(files[0], bound, secrets, binder)
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
        **events,
        **outward,
    )


def _parse_documents(sources: Sources, report: Mistakes) -> list[ParsedDocument]:
    models = [_choose_main(sources.documents[0])] + [IncludedFile] * (len(sources.documents) - 1)
    return [parse(*pair, report) for pair in zip(sources.documents, models, strict=True)]


def replace_policy(organism: Organism, policy: PolicyText, environ: Mapping[str, str]) -> Organism:
    """Return an organism under another provenance policy, without importing its code again.

    The listeners' ``trust:`` is read again from the organism's files.

    Args:
        organism: as loaded.
        policy: replaces the keys of ``provenance:``; its file may be outside the project.
        environ: values of ``${NAME}``.

    Raises ConfigError with every mistake, also if the files have other listeners by now.
    """
    path, report = organism.files[0], Mistakes()
    home = Project(organism.project, find_shown_directory(path, organism.project))
    sources = Sources(home.root, environ, report)
    sources.read(path)
    found = None
    if sources.documents and not report.failed:
        files = _parse_documents(sources, report)
        declared = [item for parsed in files for item in parsed.listeners]
        declared += _ForeignTools.read_servers(files[0], home, environ, report).declared
        names = {bound.listener.name for bound in organism.listeners}
        if {one.entry.name for one in declared} != names:
            message = "its listeners have changed since it was loaded"
            report.add_error(ConfigCode.RELOAD, SourceSpan(path, 1), message, "reload the organism")
        else:
            known = (organism.listeners, organism.handoffs, policy)
            found = _find_provenance(home, files[0], declared, known, report)
    if report.failed:
        findings = report.settle([*(document.file for document in sources.documents)], organism.secrets)
        raise ConfigError(tuple(one for one in findings if one.severity is Severity.ERROR))
    return replace(organism, provenance=found)


def read_policy_text(organism: Organism, environ: Mapping[str, str]) -> str:
    """Return the keys of ``provenance:`` as the text of a policy file; empty without any.

    Raises OSError and UnicodeDecodeError for a policy file that cannot be read.
    """
    path = organism.files[0]
    sources = Sources(organism.project, environ, Mistakes())
    sources.read(path)
    keys = dict(sources.documents[0].data.get("provenance") or {}) if sources.documents else {}
    name = keys.pop("policy", "")
    keys.pop("planner", None)
    text = (organism.project / name).read_text("utf-8-sig") if name else ""
    if not keys:
        return text
    import yaml

    return f"{text.rstrip()}\n{yaml.safe_dump(keys, sort_keys=False, allow_unicode=True)}".lstrip()


def _lacks_extra(main: Document, report: Mistakes) -> bool:
    """Return True, with a finding, when provenance is configured and its extra is not installed."""
    if "provenance" not in main.data or is_installed("provenance"):
        return False
    report.add_error(
        ConfigCode.EXTRA,
        main.locate(("provenance",)),
        f"needs the extra provenance: {install_hint('provenance')}",
    )
    return True


def _find_provenance(
    home: Project,
    main: ParsedDocument,
    declared: Sequence[DeclaredListener],
    known: tuple[Sequence[BoundListener], Handoffs | None, PolicyText | None],
    report: Mistakes,
) -> Provenance | None:
    bound, handoffs, policy = known
    keepers = list_keepers(bound)
    for item in (one for one in bound if one.listener.name in keepers and one.isolation is not None):
        message = (
            f'"{item.listener.name}" keeps notes in the server\'s engine, which no other process reaches'
        )
        report.add_error(
            ConfigCode.PROVENANCE,
            SourceSpan(item.source.file, item.source.line),
            message,
            "leave isolation out",
        )
    if policy is None and not main.declares("provenance"):
        for item in (one for one in bound if one.listener.name in keepers):
            message = f'"{item.listener.name}" keeps notes with the origin of their words, which nothing tracks here'
            span = SourceSpan(item.source.file, item.source.line)
            report.add_error(ConfigCode.PROVENANCE, span, message, "declare provenance:")
        return None
    from agentserver.config.lineage import PolicyReader  # with all that it needs, which others do without

    return PolicyReader(home, main.document, declared, report).read_provenance(bound, handoffs, policy)


@dataclass(slots=True)
class _ForeignTools:
    """Listeners that are tools of MCP servers; most organisms have none."""

    reader: ToolReader | None = None
    tools: tuple[DeclaredTool, ...] = ()

    @classmethod
    def read_servers(
        cls, main: ParsedDocument, home: Project, environ: Mapping[str, str], report: Mistakes
    ) -> _ForeignTools:
        if "mcp" not in main.document.data:
            return cls()
        from agentserver.config.code.tools import ToolReader  # with the mapping of schemas

        reader = ToolReader(main, home.root, environ, report)
        return cls(reader, reader.list_declared())

    @property
    def declared(self) -> list[DeclaredListener]:
        return [each.declared for each in self.tools]

    def join(self, bound: list[BoundListener]) -> tuple[McpServer, ...]:
        """Add the tools to the listeners; returns their servers."""
        if self.reader is None:
            return ()
        listeners, servers = self.reader.bind_tools(self.tools, bound)
        bound += listeners
        return servers


def _choose_main(document: Document) -> type[OrganismFile]:
    """Choose the model of a main file; the model with provenance is slow to import."""
    if "provenance" not in document.data:
        return OrganismFile
    from agentserver.config.lineage import TrustingFile

    return TrustingFile


def _build_guards(
    main: ParsedDocument, bound: Sequence[BoundListener], binder: Binder
) -> Mapping[str, Guard]:
    declared = main.list_entries("guards", GuardEntry)
    if not declared:
        return {}
    from agentserver.config.guards import read_guards  # most organisms have none

    return read_guards(declared, {item.listener.name: item.listener for item in bound}, binder)


def _equip_all(
    declared: Sequence[DeclaredListener],
    main: ParsedDocument,
    inputs: tuple[list[BoundListener], Secrets, Limits],
    binder: Binder,
) -> tuple[list[BoundListener], LanguageModels | None]:
    """Return the listeners, agents with their tools, and the models."""
    bound, secrets, limits = inputs
    models = None
    if main.declares("llm"):
        from agentserver.config.code.agents import derive_deadlines  # most organisms have none
        from agentserver.config.code.llm import read_models

        models = read_models(main.document, secrets, binder, {item.listener.name for item in bound})
        bound = derive_deadlines(bound, declared, models, binder.report)
    unknown = "llm" in main.faulty
    if unknown or not any(item.agent for item in bound):
        return bound, models
    return equip_agents(bound, declared, AgentDependencies(models, limits), binder.report), models


class _EventParts(TypedDict):
    hooks: tuple[Hook, ...]
    inboxes: tuple[Inbox, ...]
    notifiers: tuple[Notifier, ...]
    schedules: tuple[Schedule, ...]


def _read_event_parts(
    main: ParsedDocument, bound: Sequence[BoundListener], secrets: Secrets, binder: Binder
) -> _EventParts:
    """Read the parts of an organism that take events, make them and announce them."""
    payloads, report = PayloadFinder(bound, binder), binder.report
    names = [each.listener.name for each in bound]
    return {
        "hooks": tuple(iter_hooks(main, payloads, secrets, report)),
        "inboxes": tuple(iter_inboxes(main, payloads, report)),
        "notifiers": read_notifiers(main, names, secrets, report),
        "schedules": tuple(iter_schedules(main, payloads, report)),
    }


class _NetworkParts(TypedDict):
    serving: McpServing | None
    otel: Otel | None
    door: HttpEntry | None
    engine: Postgres | None
    engine_source: SourceLine | None
    identity: tuple[IdentityProvider, ...]


def _read_network_parts(
    files: Sequence[ParsedDocument],
    declared: Sequence[DeclaredListener],
    environ: Mapping[str, str],
    report: Mistakes,
) -> _NetworkParts:
    """Read the parts of an organism with network access."""
    check_doors(files[0], declared, report)
    otel, main = read_otel(files[0], environ, report), (files[0].document, files[0].faulty)
    door, engine = read_http(*main, report), read_engine(*main, report)
    span = files[0].document.locate(("engine", "postgres"))
    source = None if engine is None else SourceLine(span.file, span.line)
    listeners = list_names(files).union(each.entry.name for each in declared)
    return {
        "identity": read_identity(*main, listeners, report),
        "serving": _read_serving(files, declared, report),
        "otel": otel,
        "door": door,
        "engine": engine,
        "engine_source": source,
    }


def _read_serving(
    files: Sequence[ParsedDocument], declared: Sequence[DeclaredListener], report: Mistakes
) -> McpServing | None:
    main = files[0]
    if not main.declares("mcp_server"):
        return None
    entry = McpServerEntry.model_validate(main.document.data["mcp_server"])
    known = list_names(files).union(each.entry.name for each in declared)
    for i, name in enumerate(entry.expose):
        span = main.document.locate(("mcp_server", "expose", i))
        report.check_listener(span, name, known)
        if name in entry.expose[:i]:
            report.add_error(ConfigCode.REPEATED, span, f'"{name}" is exposed already')
    return build_value(McpServing, entry, trust=Trust(entry.trust), approvals=entry.approvals or "")


def _check_bound(
    importer: Importer,
    main: ParsedDocument,
    listeners: tuple[Sequence[DeclaredListener], Sequence[BoundListener]],
    report: Mistakes,
) -> None:
    declared, bound = listeners
    for message in importer.report_strangers():
        report.add_error(ConfigCode.IMPORT, SourceSpan(main.document.file, 1), message)
    check_roots(bound, report)
    check_xml_names(bound, importer.project, report)
    check_conditions(declared, bound, report, _find_retention(main))


def _find_retention(main: ParsedDocument) -> float:
    """Find for how long finished conversations are stored; infinite if that is not known, or nothing is stored."""
    engine = None if "engine" in main.faulty else read_sound_engine(main.document)
    storage = main.journal or engine
    return inf if storage is None else storage.retention


def _check_declared(
    files: Sequence[ParsedDocument],
    declared: Sequence[DeclaredListener],
    tools: Sequence[DeclaredListener],
    report: Mistakes,
) -> None:
    names = list_names(files) | {
        name for one in files[0].list_entries("mcp", McpEntry) for name in one.entry.listeners
    }
    check_names((*declared, *tools), report)
    check_peers(declared, names, report)
    check_trust(files[0], declared, report)
    check_keys(declared, report)
    if not names and not report.failed:
        report.add_error(
            ConfigCode.MISSING, files[0].document.locate(("listeners",)), "at least one listener is needed"
        )


def list_names(files: Iterable[ParsedDocument]) -> set[str]:
    """List the names of all listeners, including faulty entries."""
    lists = [parsed.document.data.get("listeners") for parsed in files]
    entries = [entry for entries in lists if isinstance(entries, list) for entry in entries]
    names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
    return {name for name in names if isinstance(name, str)}


def check_names(listeners: Iterable[DeclaredListener], report: Mistakes) -> None:
    """Refuse repeated names."""
    first: dict[str, SourceSpan] = {}
    for declared in listeners:
        span, name = declared.locate("name"), declared.entry.name
        if "name" in declared.faulty:
            continue
        if name in first:
            report.add_error(
                ConfigCode.TWICE,
                span,
                f'duplicate listener "{name}" (first at {first[name].file}:{first[name].line})',
            )
        first.setdefault(name, span)


def check_peers(listeners: Iterable[DeclaredListener], known: set[str], report: Mistakes) -> None:
    """Refuse unknown peers; warn of agents without ``peers``."""
    for declared in listeners:
        for i, peer in enumerate(declared.entry.peers):
            if not peer.startswith("system."):
                report.check_listener(declared.locate("peers", i), peer, known)
        if declared.entry.acts and "peers" not in declared.entry.model_fields_set | declared.faulty:
            message = "an agent without peers can only answer its caller"
            report.add_warning(ConfigCode.PEERS, declared.locate(), message, "write peers: [] if intended")


def check_trust(main: ParsedDocument, listeners: Iterable[DeclaredListener], report: Mistakes) -> None:
    """Refuse keys of provenance in an organism without ``provenance:``, where they have no effect."""
    if "provenance" in main.document.data:
        return
    places = [
        declared.locate(key)
        for declared in listeners
        for key in ("trust", "memory", "view")
        if getattr(declared.entry, key)
    ]
    if main.lifespan is not None and main.lifespan.carries:
        places.append(main.document.locate(("lifespan", "carries")))
    for span in places:
        message = "has no effect without provenance: in the main file"
        report.add_error(ConfigCode.PROVENANCE, span, message, "add provenance: {mode: audit}")


def check_roots(bound: Sequence[BoundListener], report: Mistakes) -> None:
    """Warn of payload classes that several listeners accept, so that a message needs ``to``.

    Tasks are left out: no listener sends one, and a handoff names its target.
    """
    takers: defaultdict[type, list[BoundListener]] = defaultdict(list)
    for item in bound:
        for kind in item.listener.payloads:
            if kind is not Task:
                takers[kind].append(item)
    for kind, items in takers.items():
        if len(items) > 1 and not all(item.listener.broadcast for item in items):
            names = ", ".join(sorted(item.listener.name for item in items))
            message = f"{kind.__qualname__} is accepted by {names}: a message must select one with its to"
            span = SourceSpan(items[-1].source.file, items[-1].source.line, "listeners")
            report.add_warning(ConfigCode.SHARED, span, message, "or set broadcast: true on all of them")


def check_xml_names(bound: Iterable[BoundListener], project: Project, report: Mistakes) -> None:
    """Refuse two classes with the same XML name: documents with it would be ambiguous."""
    owners: dict[str, type] = {}
    reported: set[str] = set()
    seen: set[type] = set()  # listeners of one module have all of its classes
    for item in bound:
        for kind in item.discovered:
            if kind in seen:
                continue
            seen.add(kind)
            name = str(vars(kind)["__xml_name__"])
            other = owners.setdefault(name, kind)
            if other is not kind and name not in reported:
                reported.add(name)
                message = (
                    f"{_describe_class(other, project)} and {_describe_class(kind, project)} are both {name}"
                )
                span = SourceSpan(item.source.file, item.source.line)
                report.add_error(
                    ConfigCode.TWICE, span, message, "give one of them another name or namespace"
                )


def _describe_class(kind: type, project: Project) -> str:
    return f"{kind.__qualname__} ({project.show(find_origin(kind))})"


BASE, WHOLE = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
CERTIFICATES = ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE")
TRACES = "/v1/traces"


def read_otel(main: ParsedDocument, environ: Mapping[str, str], report: Mistakes) -> Otel | None:
    """Read the settings of OpenTelemetry; None when neither the file nor the environment has any."""
    data = main.document.data
    if "otel" in main.faulty or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    is_declared = "otel" in data
    entry = OtelEntry.model_validate(data["otel"] or {}) if is_declared else OtelEntry()
    url = _find_url(entry, environ)
    if not url:
        if is_declared:
            message = f"has no endpoint, and the environment has no {BASE}"
            report.add_error(
                ConfigCode.MISSING,
                main.document.locate(("otel",)),
                message,
                "endpoint: http://localhost:4318",
            )
        return None
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        if is_declared:
            report.add_error(
                ConfigCode.VALUE, main.document.locate(("otel",)), f"{BASE} is no address of HTTP"
            )
        return None
    headers = dict(pair for name in HEADERS for pair in _parse_pairs(environ.get(name, "")))
    resource = dict(_parse_pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", "")))
    resource["service.name"] = environ.get("OTEL_SERVICE_NAME") or resource.get("service.name") or main.name
    certificate = next(filter(None, map(environ.get, CERTIFICATES)), "") or ""
    return build_value(
        Otel,
        entry,
        url=url,
        headers=headers,
        certificate=certificate,
        resource=resource,
        declared=is_declared,
        metrics=_find_signal_address(entry, environ, "METRICS"),
        events=_find_signal_address(entry, environ, "LOGS") if entry.events else "",
    )


def list_proofs(environ: Mapping[str, str]) -> list[str]:
    """List the secret header values in the environment."""
    return [value for name in HEADERS for _, value in _parse_pairs(environ.get(name, ""))]


def _find_url(entry: OtelEntry, environ: Mapping[str, str]) -> str:
    if entry.endpoint is None and environ.get(WHOLE):
        return environ[WHOLE]
    base = entry.endpoint or environ.get(BASE, "")
    return base and base.rstrip("/") + TRACES


def _find_signal_address(entry: OtelEntry, environ: Mapping[str, str], signal: str) -> str:
    """Return the address for metrics or logs.

    Empty when the environment disables them or has an address for spans only.
    """
    if environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() == "none":
        return ""
    full_url = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    if entry.endpoint is None and full_url:
        return full_url
    base = entry.endpoint or environ.get(BASE, "")
    return base and f"{base.rstrip('/')}/v1/{signal.lower()}"


def _parse_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Parse ``name=value,name=value`` with percent-encoded values; malformed pairs are skipped."""
    for each in text.split(","):
        name, equals, value = each.partition("=")
        if equals and name.strip() and (name + value).isprintable():
            yield name.strip(), unquote(value.strip())


def _refuse_sums(conditions: Iterable[FieldCondition]) -> None:
    """Raise ConditionError for a sum under ``deny:`` of a listener whose messages a person may approve."""
    if any(one.total is not None for one in conditions):
        message = "a sum cannot be under deny: of a listener with approval:, where a person could pass it"
        raise ConditionError(message, "put the sum under approval.when")


def check_conditions(
    declared: Sequence[DeclaredListener],
    bound: Iterable[BoundListener],
    report: Mistakes,
    retention: float = inf,
) -> None:
    """Report conditions that do not fit the payloads of their listener."""
    known = {item.entry.name: item for item in declared}
    for item in bound:
        rule = item.listener.approval
        approval_conditions = () if rule is None else rule.when
        for keys, conditions in (
            (("approval", "when"), approval_conditions),
            (("deny",), item.listener.deny),
        ):
            if not conditions:
                continue
            payload_types = [
                None if item.schema else vars(kind).get("__payload__") for kind in item.listener.payloads
            ]
            try:
                fit_conditions(
                    [each if isinstance(each, PayloadType) else None for each in payload_types], conditions
                )
                check_windows(conditions, retention)
                _refuse_sums(conditions if rule is not None and conditions is item.listener.deny else ())
            except ConditionError as error:
                span = known[item.listener.name].locate(*keys)
                report.add_error(ConfigCode.CONDITION, span, str(error), error.suggestion)
