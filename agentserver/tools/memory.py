"""The tools that keep notes and facts beyond conversations, in the engine.

Each note keeps the origin of its words as of its writing, so that any later reader knows a stranger's words as such.
Declare each listener as ``trust: trusted``: a note is worth what its own origin is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Final

from annotated_types import Ge, Gt, Le, MaxLen, MinLen

from agentserver.contract import HandlerMetadata, HandlerResponse, invocation
from agentserver.core.state.principals import find_tenant
from agentserver.notes import (
    Eraser,
    EraserRole,
    Note,
    NoteFilter,
    NoteLimits,
    NoteQuery,
    NoteScope,
    NoteSpan,
    SpanAuthor,
)
from agentserver.payload.xmlify import xmlify
from agentserver.tools import pages, require_settings

if TYPE_CHECKING:
    from agentserver.notes import MessageLineage, NoteAccess

__all__ = [
    "Forget",
    "ForgottenNotes",
    "MemoryProblem",
    "MemorySettings",
    "NoteResult",
    "NoteScope",
    "ReaderGroup",
    "Recall",
    "RecalledNote",
    "RecalledNotes",
    "RecalledSource",
    "RecalledSpan",
    "Remember",
    "SpanAuthor",
    "forget",
    "recall",
    "remember",
]

NAME: Final = 200
"""Characters of a note's name."""

TEXT: Final = 100_000
"""Characters of a note."""

PROJECT: Final = 100
"""Characters of a project's name."""

MOST: Final = 100
"""Notes of one answer."""


class MemoryProblem(StrEnum):
    """Reason for not keeping or not returning notes."""

    FORBIDDEN = "forbidden"  # the settings allow no such scope, or the principal is no member
    FULL = "full"
    SIZE = "size"
    EMPTY = "empty"  # nothing to keep, or no condition that chooses notes


@xmlify(namespace="urn:agentserver-tools:memory")
@dataclass(frozen=True, slots=True)
class Remember:
    """A note that is to be kept.

    Args:
        text: the note.
        name: a key by which it is found exactly; the principal's older note of this name is replaced.
        scope: whose note it is.
        project: name of the project, for its scope.
    """

    text: Annotated[str, MinLen(1), MaxLen(TEXT)]
    name: Annotated[str, MaxLen(NAME)] = ""
    scope: NoteScope = NoteScope.PRINCIPAL
    project: Annotated[str, MaxLen(PROJECT)] = ""


@xmlify(namespace="urn:agentserver-tools:memory")
@dataclass(frozen=True, slots=True)
class NoteResult:
    """The fate of a note that was to be kept."""

    id: Annotated[str, MaxLen(64)] = ""
    problem: MemoryProblem | None = None


@xmlify(namespace="urn:agentserver-tools:memory")
@dataclass(frozen=True, slots=True)
class Forget:
    """Erasure of the principal's own notes. Every condition that is set must hold, and one must be set.

    Args:
        id: of one note.
        name: the exact key.
        source: a listener, a site such as ``https://shop.example``, or its host, whose words a note holds.
    """

    id: Annotated[str, MaxLen(64)] = ""
    name: Annotated[str, MaxLen(NAME)] = ""
    source: Annotated[str, MaxLen(1000)] = ""


@xmlify(namespace="urn:agentserver-tools:memory")
@dataclass(frozen=True, slots=True)
class ForgottenNotes:
    """The number of notes that were erased."""

    count: int = 0
    problem: MemoryProblem | None = None


@xmlify(namespace="urn:agentserver-tools:memory")
@dataclass(frozen=True, slots=True)
class Recall:
    """A search for notes. Every condition that is set must hold.

    Args:
        words: words that must all occur, in any order.
        name: the exact key.
        id: of one note.
        scope: whose notes are wanted.
        project: name of the project, for its scope.
        limit: greatest number of notes.
    """

    words: Annotated[str, MaxLen(1000)] = ""
    name: Annotated[str, MaxLen(NAME)] = ""
    id: Annotated[str, MaxLen(64)] = ""
    scope: NoteScope = NoteScope.PRINCIPAL
    project: Annotated[str, MaxLen(PROJECT)] = ""
    limit: Annotated[int, Ge(1), Le(MOST)] = 20


@dataclass(frozen=True, slots=True)
class RecalledSpan:
    """Part of a note with one author.

    Args:
        field: ``name`` or ``text``.
        text: the words.
        author: the principal, a listener that no untrusted text had reached, or possibly a stranger.
    """

    field: str
    text: str
    author: SpanAuthor


@dataclass(frozen=True, slots=True)
class RecalledSource:
    """Source of a stranger's words: the listener or principal that brought them in, and where from, if known."""

    name: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class ReaderGroup:
    """Alternative entries: one must admit a receiver. A single empty entry admits no receiver."""

    entries: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RecalledNote:
    """Note with its origin.

    Args:
        id: of the note.
        written: when.
        own: whether a conversation of the same principal wrote it. Another principal's note orders nothing.
        principal: of that conversation.
        spans: the words, in order.
        sources: of the spans by strangers.
        readers: who may receive it; anybody if empty.
    """

    id: str
    written: datetime
    own: bool
    principal: str
    spans: list[RecalledSpan] = field(default_factory=list)
    sources: list[RecalledSource] = field(default_factory=list)
    readers: list[ReaderGroup] = field(default_factory=list)


@xmlify(namespace="urn:agentserver-tools:memory")
@dataclass(frozen=True, slots=True)
class RecalledNotes:
    """The notes that were found, those without a stranger's words first, then the newest.

    Args:
        notes: in order.
        more: whether further notes match.
        problem: the reason for having none.
    """

    notes: list[RecalledNote] = field(default_factory=list)
    more: bool = False
    problem: MemoryProblem | None = None


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Scopes and limits of the notes.

    Args:
        scopes: the permitted ones, of ``principal``, ``project`` and ``agent``. The notes of an agent are read in the
            conversations of every principal of a tenant.
        projects: the members of each project, by name: principals, or patterns such as ``oidc:acme/*``.
        notes: greatest number for each principal, project or agent.
        bytes: greatest size of all of them together. Notes with a stranger's words may use half of both.
        size: greatest size of one note, in bytes.
    """

    scopes: list[NoteScope] = field(default_factory=lambda: [NoteScope.PRINCIPAL])
    projects: dict[str, list[str]] = field(default_factory=dict)
    notes: Annotated[int, Gt(0)] = 1000
    bytes: Annotated[int, Gt(0)] = 1_000_000
    size: Annotated[int, Gt(0)] = 20_000

    def __post_init__(self) -> None:
        """Check the projects. Raises ValueError for a project without the scope, or without members."""
        if self.projects and NoteScope.PROJECT not in self.scopes:
            raise ValueError("projects are declared, and scopes does not list project")
        empty = next((name for name, members in self.projects.items() if not members or not name), None)
        if empty is not None:
            raise ValueError(f"the project {empty!r} has no members")

    def find_owner(self, lineage: MessageLineage, scope: NoteScope, project: str) -> str | None:
        """Find whose notes a message means; None if the settings do not permit it."""
        tenant = find_tenant(lineage.principal)
        if scope not in self.scopes or (project and scope is not NoteScope.PROJECT):
            return None
        if scope is NoteScope.PRINCIPAL:
            return lineage.principal
        if scope is NoteScope.AGENT:
            return None if lineage.listener == lineage.principal else f"{tenant}/{lineage.listener}"
        members = self.projects.get(project, [])
        known = any(fnmatchcase(lineage.principal, member) for member in members)
        return f"{tenant}/{project}" if known else None


async def remember(payload: Remember, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - a handler's signature
    """Keep a note with the origin of its words, and answer with its id."""
    settings, notes = require_settings(MemorySettings), _require_notes()
    owner = settings.find_owner(notes.lineage, payload.scope, payload.project)
    if owner is None:
        return HandlerResponse.respond(NoteResult(problem=MemoryProblem.FORBIDDEN))
    note = _make_note(notes, payload, owner)
    if not any(span.field == "text" for span in note.spans):
        return HandlerResponse.respond(NoteResult(problem=MemoryProblem.EMPTY))
    if note.size > settings.size:
        return HandlerResponse.respond(NoteResult(problem=MemoryProblem.SIZE))
    if not await notes.store.add(note, NoteLimits(settings.notes, settings.bytes)):
        return HandlerResponse.respond(NoteResult(problem=MemoryProblem.FULL))
    return HandlerResponse.respond(NoteResult(note.id))


async def recall(payload: Recall, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - as above
    """Answer with the notes that match, each with the origin of its words."""
    settings, notes = require_settings(MemorySettings), _require_notes()
    principal = notes.lineage.principal
    owner = settings.find_owner(notes.lineage, payload.scope, payload.project)
    if owner is None:
        return HandlerResponse.respond(RecalledNotes(problem=MemoryProblem.FORBIDDEN))
    query = NoteQuery(payload.scope, owner, principal, payload.id, payload.name, payload.words, payload.limit)
    found = await notes.store.find(query)
    return HandlerResponse.respond(
        RecalledNotes([_show(note, principal) for note in found.notes], found.more)
    )


async def forget(payload: Forget, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - as above
    """Erase notes of the principal, and answer with their number.

    A sender that untrusted text had reached erases only notes with a stranger's words.
    """
    notes = _require_notes()
    lineage = notes.lineage
    name = f"{lineage.listener} for {lineage.principal}"
    eraser = Eraser(EraserRole.PRINCIPAL, name, lineage.principal, lineage.exposed)
    chosen = NoteFilter(source=payload.source, id=payload.id, name=payload.name)
    if not chosen.has_condition:
        return HandlerResponse.respond(ForgottenNotes(problem=MemoryProblem.EMPTY))
    return HandlerResponse.respond(ForgottenNotes(await notes.store.forget(chosen, eraser, notes.at)))


def _require_notes() -> NoteAccess:
    """Return the notes of the engine. Raises RuntimeError where nothing keeps them or tracks their origins."""
    notes = invocation().notes
    if notes is None:
        raise RuntimeError(
            "notes need provenance: in the organism, and an engine that outlives the process: SQLite or Postgres"
        )
    return notes


def _make_note(notes: NoteAccess, payload: Remember, owner: str) -> Note:
    lineage = notes.lineage
    spans = [span for span in lineage.spans if span.field in ("name", "text")]
    texts = tuple(NoteSpan(span.field, pages.writable(span.text), span.author) for span in spans)
    key = blake2b(f"{notes.conversation}\0{notes.key}".encode(), digest_size=16).hexdigest()
    return Note(
        key,
        payload.scope,
        owner,
        payload.name,
        lineage.principal,
        lineage.listener,
        notes.conversation,
        notes.at,
        texts,
        lineage.sources,
        lineage.readers,
    )


def _show(note: Note, principal: str) -> RecalledNote:
    return RecalledNote(
        note.id,
        datetime.fromtimestamp(note.at, UTC),
        note.principal == principal,
        note.principal,
        [RecalledSpan(*span) for span in note.spans],
        [RecalledSource(*source) for source in note.sources],
        [ReaderGroup(list(group) or [""]) for group in note.readers],
    )
