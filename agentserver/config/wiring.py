"""The listeners of an organism taken together.

Owns what only shows when all of them are known: names, peers, shared payload classes, XML names, limits.
Refuses to know how each was read.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from agentserver.config.code.signature import origin
from agentserver.config.findings import Where, did_you_mean
from agentserver.core.blueprint import Limits
from agentserver.core.handoffs import Task
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentserver.config.code.userland import Project
    from agentserver.config.findings import Mistakes
    from agentserver.config.organism import BoundListener
    from agentserver.config.validation import DeclaredListener, Parsed


def names_of(files: Iterable[Parsed]) -> set[str]:
    """Every listener's name, those of faulty entries too."""
    lists = [parsed.document.data.get("listeners") for parsed in files]
    entries = [entry for entries in lists if isinstance(entries, list) for entry in entries]
    names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
    return {name for name in names if isinstance(name, str)}


def check_names(listeners: Iterable[DeclaredListener], report: Mistakes) -> None:
    """Refuse a name that was given before."""
    first: dict[str, Where] = {}
    for declared in listeners:
        where, name = declared.where("name"), declared.entry.name
        if "name" in declared.faulty:
            continue
        if name in first:
            report.error(
                ConfigCode.TWICE,
                where,
                f'duplicate listener "{name}" (first at {first[name].file}:{first[name].line})',
            )
        first.setdefault(name, where)


def check_peers(listeners: Iterable[DeclaredListener], known: set[str], report: Mistakes) -> None:
    """Refuse peers that do not exist; point at agents that say nothing about theirs."""
    for declared in listeners:
        for i, peer in enumerate(declared.entry.peers):
            if peer not in known and not peer.startswith("system."):
                where = declared.where("peers", i)
                report.error(ConfigCode.NAME, where, f'unknown listener "{peer}"', did_you_mean(peer, known))
        if declared.entry.acts and "peers" not in declared.entry.model_fields_set | declared.faulty:
            message = "an agent without peers can only answer its caller"
            report.warning(ConfigCode.PEERS, declared.where(), message, "write peers: [] if that is meant")


def check_trust(main: Parsed, listeners: Iterable[DeclaredListener], report: Mistakes) -> None:
    """Refuse what is said for provenance where no rule asks for it: it would protect nothing."""
    if "provenance" in main.document.data:
        return
    places = [
        declared.where(key)
        for declared in listeners
        for key in ("trust", "memory", "view")
        if getattr(declared.entry, key)
    ]
    if main.lifespan is not None and main.lifespan.carries:
        places.append(main.document.where(("lifespan", "carries")))
    for where in places:
        message = "means nothing without provenance: at the top of the main file"
        report.error(ConfigCode.PROVENANCE, where, message, "add provenance: {mode: audit}")


def check_roots(bound: Sequence[BoundListener], report: Mistakes) -> None:
    """Point at payload classes by which a message that names no listener cannot be routed.

    Tasks are left out: no listener sends one, and a handoff says whom it is for.
    """
    takers: defaultdict[type, list[BoundListener]] = defaultdict(list)
    for item in bound:
        for kind in item.listener.payloads:
            if kind is not Task:
                takers[kind].append(item)
    for kind, items in takers.items():
        if len(items) > 1 and not all(item.listener.broadcast for item in items):
            names = ", ".join(sorted(item.listener.name for item in items))
            message = f"{kind.__qualname__} is accepted by {names}: a message must say which with its to"
            where = Where(items[-1].source.file, items[-1].source.line, "listeners")
            report.warning(ConfigCode.SHARED, where, message, "or all of them say broadcast: true")


def check_xml_names(bound: Iterable[BoundListener], project: Project, report: Mistakes) -> None:
    """Refuse two classes of one XML name: what a document of that name means would be open."""
    owners: dict[str, type] = {}
    told: set[str] = set()
    for item in bound:
        for kind in item.discovered:
            name = str(vars(kind)["__xml_name__"])
            other = owners.setdefault(name, kind)
            if other is not kind and name not in told:
                told.add(name)
                message = f"{_described(other, project)} and {_described(kind, project)} are both {name}"
                where = Where(item.source.file, item.source.line)
                report.error(ConfigCode.TWICE, where, message, "give one of them another name or namespace")


def _described(kind: type, project: Project) -> str:
    return f"{kind.__qualname__} ({project.show(origin(kind))})"


def merge_limits(files: Iterable[Parsed], report: Mistakes) -> Limits:
    """The limits of all files together; each may be set once."""
    values: dict[str, Any] = {}
    first: dict[str, Where] = {}
    for parsed in files:
        for key, value in parsed.limits.items():
            where = parsed.document.where(("limits", key))
            if key in first:
                report.error(
                    ConfigCode.REPEATED, where, f"is already set at {first[key].file}:{first[key].line}"
                )
            first.setdefault(key, where)
            values[key] = value
    return Limits(**values)
