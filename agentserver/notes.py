"""Notes that outlive their conversation, each with the origin of its words.

The lineage guard fixes the origin when a note is written (``MessageLineage``), the engine stores it with the text, and
the guard of the conversation that reads the note learns it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN_SOURCE: Final = "an unknown source"
"""Name of a source that is not known. A note with it is erased with every other source."""

SOURCES: Final = 64
"""Maximum sources of a note that are told apart; further ones count as unknown."""


class NoteScope(StrEnum):
    """Owner of a note: the principal of the conversation, a project with members, or the listener that writes."""

    PRINCIPAL = "principal"
    PROJECT = "project"
    AGENT = "agent"


class SpanAuthor(StrEnum):
    """Author of a part of a note.

    ``PRINCIPAL``: verbatim words of the principal. ``LISTENER``: a listener that no untrusted text had reached.
    ``STRANGER``: any sender that untrusted text had reached; the text may be a stranger's.
    """

    PRINCIPAL = "principal"
    LISTENER = "listener"
    STRANGER = "stranger"


class NoteSource(NamedTuple):
    """Source of untrusted words.

    Args:
        name: the listener or principal that brought them into a conversation.
        place: the scheme, host and port that they were fetched from; empty if unknown.
    """

    name: str
    place: str = ""


class NoteSpan(NamedTuple):
    """Part of a note with one author.

    Args:
        field: the field of the note, such as ``text``.
        text: the words.
        author: of the words.
    """

    field: str
    text: str
    author: SpanAuthor


class MessageLineage(NamedTuple):
    """Origin of a message, as of its delivery.

    Args:
        principal: of the conversation.
        listener: the sender of the message; the principal itself if it sent the message.
        spans: the parts of its texts, by path. Empty parts are omitted.
        sources: of the untrusted text that reached the sender; empty for a message without a stranger's words.
        readers: reader groups of the conversation's private content.
        exposed: whether untrusted text had reached the sender, even if it repeats the principal's sentences alone.
    """

    principal: str
    listener: str
    spans: tuple[NoteSpan, ...]
    sources: tuple[NoteSource, ...] = ()
    readers: tuple[tuple[str, ...], ...] = ()
    exposed: bool = True


@dataclass(frozen=True, slots=True)
class Note:
    """Note or fact, immutable once written.

    Args:
        id: derived from the delivery that wrote it, so that a repetition writes nothing.
        scope: the kind of its owner.
        owner: the principal, project or listener, qualified by tenant except for a principal.
        name: exact key; may be empty.
        principal: of the conversation that wrote it.
        listener: that wrote it.
        conversation: that wrote it.
        at: in seconds since the epoch.
        spans: the words, in order.
        sources: of the spans by strangers.
        readers: reader groups; a note with readers is shown to its own principal only.
    """

    id: str
    scope: NoteScope
    owner: str
    name: str
    principal: str
    listener: str
    conversation: str
    at: float
    spans: tuple[NoteSpan, ...]
    sources: tuple[NoteSource, ...] = ()
    readers: tuple[tuple[str, ...], ...] = ()

    @property
    def has_stranger(self) -> bool:
        """True when a stranger may have written a part of it."""
        return any(span.author is SpanAuthor.STRANGER for span in self.spans)

    @property
    def size(self) -> int:
        """Bytes of its texts."""
        return sum(len(span.text.encode("utf-8", "surrogatepass")) for span in self.spans)


class NoteLimits(NamedTuple):
    """Limits of one scope's owner.

    Args:
        notes: maximum number.
        size: maximum bytes of all texts. Notes with a stranger's words may use half of each limit.
    """

    notes: int
    size: int


class NoteQuery(NamedTuple):
    """Search for notes of one owner.

    Args:
        scope: the kind of owner.
        owner: whose notes are wanted.
        principal: who reads: notes of other principals that have readers are left out.
        id: of one note; empty for any.
        name: exact name; empty for any.
        words: words that must all occur; empty for no condition.
        limit: maximum number of notes.
    """

    scope: NoteScope
    owner: str
    principal: str
    id: str = ""
    name: str = ""
    words: str = ""
    limit: int = 20


class NotesFound(NamedTuple):
    """Notes that match, those without a stranger's words first, then the newest.

    Args:
        notes: in order.
        more: whether further notes match.
    """

    notes: Sequence[Note] = ()
    more: bool = False


class NoteFilter(NamedTuple):
    """Choice of notes; every condition that is set must hold.

    Args:
        principal: the writer's principal.
        source: a source's name, its place, or the host of its place.
        id: of one note.
        name: exact name.
        stranger: only notes with a stranger's words.
    """

    principal: str = ""
    source: str = ""
    id: str = ""
    name: str = ""
    stranger: bool = False

    @property
    def has_condition(self) -> bool:
        """True unless it chooses every note, or every note of a stranger."""
        return any(self[:-1])


class EraserRole(StrEnum):
    """Role of one who erases notes."""

    OPERATOR = "operator"
    PRINCIPAL = "principal"


class Eraser(NamedTuple):
    """One who erases notes.

    Args:
        role: an operator may erase any note, a principal the notes of its own conversations.
        name: for the log.
        principal: whose notes may be erased, for a principal.
        exposed: whether untrusted text had reached the sender, which then erases only notes with a stranger's words.
    """

    role: EraserRole
    name: str
    principal: str = ""
    exposed: bool = False

    def restrict(self, chosen: NoteFilter) -> NoteFilter:
        """Restrict a choice to what this one may erase.

        Raises PermissionError for notes of another principal, and ValueError for a choice without a condition.
        """
        if not chosen.has_condition:
            raise ValueError("name a principal, a source or a note")
        if self.role is EraserRole.OPERATOR:
            return chosen
        if not self.principal or chosen.principal not in ("", self.principal):
            raise PermissionError(f"{self.name} may erase only its own notes")
        return chosen._replace(principal=self.principal, stranger=chosen.stranger or self.exposed)


class NoteStore(Protocol):
    """Durable store of notes, shared by all processes of an engine."""

    async def add(self, note: Note, limits: NoteLimits) -> bool:
        """Store a note; False if its owner's limits forbid it.

        A note with an id that is stored changes nothing. A note with a name replaces the notes of the same principal
        under that name, but a stranger's words replace only notes with a stranger's words. Raises EngineError.
        """

    async def find(self, query: NoteQuery) -> NotesFound:
        """Find notes. Raises EngineError, and UnreadableError for a damaged note."""

    async def forget(self, chosen: NoteFilter, eraser: Eraser, at: float) -> int:
        """Erase notes for good. Returns their number. Raises as ``Eraser.restrict`` does, and EngineError."""


@dataclass(frozen=True, slots=True)
class NoteAccess:
    """Access of one invocation to the notes.

    Args:
        store: of the engine.
        lineage: of the message that is handled.
        key: identifies the delivery.
        conversation: of the message.
        at: in seconds since the epoch.
    """

    store: NoteStore
    lineage: MessageLineage
    key: str
    conversation: str
    at: float
