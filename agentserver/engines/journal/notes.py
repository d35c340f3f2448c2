"""The tables of notes, and the chained log of what was written and erased.

The log has salted digests in place of texts. The salt is a column of the note and is erased with it, so that the chain
still verifies afterwards and no text can be guessed from a digest.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.codec import ValueCodec, ValueStyle
from agentserver.core.encoding.codecs import FORMAT
from agentserver.core.encoding.search import split_words
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.engines.journal import seal
from agentserver.engines.journal.connection import transaction
from agentserver.notes import UNKNOWN_SOURCE, Note, NoteScope, NotesFound, NoteSource, NoteSpan, SpanAuthor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from agentserver.engines.journal.connection import Connection
    from agentserver.notes import Eraser, NoteFilter, NoteLimits, NoteQuery

NOTES: Final[ValueCodec[Note]] = ValueCodec(
    Note,
    {one.__name__: one for one in (NoteScope, NoteSource, NoteSpan, SpanAuthor)},
    ValueStyle(by_name=True),
    FORMAT,
)
"""Notes, by name."""

SALT: Final = 16
"""Bytes of a note's salt."""

ERASED_AT_ONCE: Final = 500
"""Notes that one transaction erases."""

SQLITE_NOTES: Final = "n.number in (select rowid from noteindex where noteindex match {})"
POSTGRES_NOTES: Final = "array_to_tsvector(string_to_array(n.words, ' ')) @@ cast({} as tsquery)"
"""The test for a word, which has letters and digits only."""

_COLUMNS: Final = (
    "n.id, n.scope, n.owner, n.name, n.principal, n.at, n.stranger, n.size, n.salt, n.data, n.seal"
)
_FIRST: Final = "order by n.stranger, n.at desc, n.number desc"
_SUMS: Final = (
    "select count(*), coalesce(sum(size), 0), coalesce(sum(stranger), 0), coalesce(sum(size * stranger), 0)"
    " from note where scope = ? and owner = ?"
)
_REPLACED: Final = (
    "select id, size, stranger from note"
    " where scope = ? and owner = ? and name = ? and principal = ? and stranger >= ?"
)


class NoteEntry(NamedTuple):
    """Entry of the log.

    Args:
        at: in seconds since the epoch.
        action: ``write``, ``import``, ``replace`` or ``erase``.
        note: id of the note.
        by: listener that wrote it, or the name of the one who imported or erased it.
        digest: salted digest of the note.
    """

    at: float
    action: str
    note: str
    by: str
    digest: bytes


class StoredNotes:
    """Notes in the journal of a running engine.

    Args:
        do: runs a function with the connection, in the engine's thread.
        word: the test for a word in this database.
        random: returns so many random bytes.
    """

    def __init__(
        self,
        do: Callable[[Callable[[Connection], Any]], Awaitable[Any]],
        word: str,
        random: Callable[[int], bytes],
    ) -> None:
        self._do, self._word, self._random = do, word, random

    async def add(self, note: Note, limits: NoteLimits) -> bool:
        """Store a note; False if its owner's limits forbid it."""
        salt = self._random(SALT)
        added: bool = await self._do(lambda connection: add_note(connection, note, limits, salt))
        return added

    async def find(self, query: NoteQuery) -> NotesFound:
        """Find notes."""
        found: NotesFound = await self._do(lambda connection: find_notes(connection, query, self._word))
        return found

    async def forget(self, chosen: NoteFilter, eraser: Eraser, at: float) -> int:
        """Erase notes for good. Returns their number."""
        count: int = await self._do(lambda connection: forget_notes(connection, chosen, eraser, at))
        return count


def add_note(connection: Connection, note: Note, limits: NoteLimits, salt: bytes) -> bool:
    """Store a note and log it, unless its owner's limits forbid it. See ``NoteStore.add``."""
    stranger, owner = int(note.has_stranger), (str(note.scope), note.owner)
    with transaction(connection):
        link = _lock_log(connection)
        if connection.execute("select 1 from note where id = ?", (note.id,)).fetchone() is not None:
            return True
        old: list[Any] = []
        if note.name:
            old = connection.execute(_REPLACED, (*owner, note.name, note.principal, stranger)).fetchall()
        sums = list(map(int, connection.execute(_SUMS, owner).fetchone()))
        for _, size, strange in old:
            sums = [sums[0] - 1, sums[1] - size, sums[2] - strange, sums[3] - size * strange]
        if not _fits(sums, note.size, limits, stranger):
            return False
        link = _erase(connection, link, [row[0] for row in old], ("replace", note.listener, note.at))
        _unlock_log(connection, _insert(connection, link, note, salt, ("write", note.listener, note.at)))
    return True


def import_note(connection: Connection, note: Note, salt: bytes, by: str, at: float) -> bool:
    """Store an exported note and log it; False if it is stored already.

    No limit applies, and no note is replaced. Raises ValueError if another note has its id.
    """
    with transaction(connection):
        link = _lock_log(connection)
        row = connection.execute(f"select {_COLUMNS} from note n where n.id = ?", (note.id,)).fetchone()  # noqa: S608 - our own text
        if row is not None:
            if _read(row) != note:
                raise ValueError(f"another note with the id {note.id} is stored; erase it first")
            return False
        _unlock_log(connection, _insert(connection, link, note, salt, ("import", by, at)))
    return True


def _insert(
    connection: Connection, link: bytes, note: Note, salt: bytes, origin: tuple[str, str, float]
) -> bytes:
    """Store a note with its sources, and log it. Returns the last link."""
    (action, by, at), data = origin, NOTES.dump(note)
    owner = (str(note.scope), note.owner, note.name, note.principal)
    columns = (note.id, *owner, note.at, int(note.has_stranger), note.size)
    connection.execute(
        "insert into note (id, scope, owner, name, principal, at, stranger, size, salt, data, words, seal)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*columns, salt, data, _join_words(note), seal.digest(columns, salt, data)),
    )
    connection.executemany(
        "insert into note_source (note, name, place, host) values (?, ?, ?, ?)",
        [(note.id, *source, _find_host(source.place)) for source in dict.fromkeys(note.sources)],
    )
    return _append(connection, link, NoteEntry(at, action, note.id, by, seal.digest((note.id,), salt, data)))


def _fits(sums: Sequence[int], size: int, limits: NoteLimits, stranger: int) -> bool:
    """Check the limits of an owner. A stranger's notes may use half of each."""
    count, total, strange_count, strange_total = sums
    fits = count < limits.notes and total + size <= limits.size
    if not stranger:
        return fits
    return fits and 2 * (strange_count + 1) <= limits.notes and 2 * (strange_total + size) <= limits.size


def find_notes(connection: Connection, query: NoteQuery, word: str) -> NotesFound:
    """Find notes. Raises UnreadableError for one that fails its seal."""
    texts, values = ["n.scope = ?1", "n.owner = ?2"], [str(query.scope), query.owner]
    for column, value in (("id", query.id), ("name", query.name)):
        if value:
            values.append(value)
            texts.append(f"n.{column} = ?{len(values)}")
    words = sorted(split_words(query.words))
    if query.words.strip() and not words:  # signs alone, which no note is found by
        return NotesFound()
    for each in words:
        values.append(each)
        texts.append(word.format(f"?{len(values)}"))
    rows = connection.execute(
        f"select {_COLUMNS} from note n where {' and '.join(texts)} {_FIRST}",  # noqa: S608 - our own text
        values,
    )
    found: list[Note] = []
    for row in rows:
        note = _read(row)
        if note.readers and note.principal != query.principal:
            continue
        if len(found) == query.limit:
            return NotesFound(tuple(found), more=True)
        found.append(note)
    return NotesFound(tuple(found))


def list_notes(connection: Connection, chosen: NoteFilter, after: str = "", limit: int = 50) -> list[Note]:
    """List the notes that an operator chose, the oldest first, after one with this id."""
    where_clause, values = _choose(chosen)
    if after:
        values.append(after)
        where_clause += f" and n.number > (select number from note where id = ?{len(values)})"  # noqa: S608 - our own text
    rows = connection.execute(
        f"select {_COLUMNS} from note n where {where_clause} order by n.number limit {limit:d}",  # noqa: S608 - our own text
        values,
    ).fetchall()
    return list(map(_read, rows))


def forget_notes(connection: Connection, chosen: NoteFilter, eraser: Eraser, at: float) -> int:
    """Erase the chosen notes, and log each. Returns their count. Raises as ``Eraser.restrict`` does."""
    chosen = eraser.restrict(chosen)
    where_clause, values = _choose(chosen)
    statement = f"select n.id from note n where {where_clause} order by n.number limit {ERASED_AT_ONCE:d}"  # noqa: S608 - our own text
    total, unfinished = 0, True
    while unfinished:
        with transaction(connection):
            link = _lock_log(connection)
            keys = [key for (key,) in connection.execute(statement, values).fetchall()]
            _unlock_log(connection, _erase(connection, link, keys, ("erase", eraser.name, at)))
        total, unfinished = total + len(keys), len(keys) == ERASED_AT_ONCE
    return total


def read_log(connection: Connection) -> list[NoteEntry]:
    """Read the log of notes, oldest first."""
    rows = connection.execute("select at, action, note, by, digest from note_log order by number").fetchall()
    return [NoteEntry(*row) for row in rows]


def find_damaged_notes(connection: Connection) -> Iterator[str]:
    """Verify the chain of the log, the seals of notes, and that each note was logged; a line for each fault."""
    link, logged = seal.GENESIS, {}
    rows = connection.execute(
        "select number, at, action, note, by, digest, link from note_log order by number"
    )
    for number, *columns, stored in rows.fetchall():
        entry = NoteEntry(*columns)
        link = _extend(link, entry)
        if bytes(stored) != link:
            yield f"entry {number} of the log of notes does not continue the chain"
            link = bytes(stored)
        if entry.action in ("write", "import"):
            logged[entry.note] = bytes(entry.digest)
        else:
            logged.pop(entry.note, None)
    head = connection.execute("select link from note_head where one = 1").fetchone()
    if bytes(head[0] if head is not None else seal.GENESIS) != link:
        yield "the log of notes lacks its last entries"
    for row in connection.execute(f"select {_COLUMNS} from note n order by n.number").fetchall():  # noqa: S608 - our own text
        key, *_, salt, data, _ = row
        try:
            note = _read(row)
        except UnreadableError as error:
            yield str(error)
            continue
        if logged.pop(key, None) != seal.digest((key,), bytes(salt), bytes(data)):
            yield f"the note {key} is not the one that was logged"
        yield from _compare_terms(connection, note)
    yield from (f"the note {key} was not erased and is missing" for key in logged)
    (stray,) = connection.execute(
        "select count(*) from note_source where note not in (select id from note)"
    ).fetchone()
    if stray:
        yield f"{stray} sources belong to no note"


def _compare_terms(connection: Connection, note: Note) -> Iterator[str]:
    rows = connection.execute(
        "select name, place, host from note_source where note = ?", (note.id,)
    ).fetchall()
    if {tuple(row) for row in rows} != {(*source, _find_host(source.place)) for source in note.sources}:
        yield f"the sources of the note {note.id} do not match it"
    (words,) = connection.execute("select words from note where id = ?", (note.id,)).fetchone()
    if words != _join_words(note):
        yield f"the words of the note {note.id} do not match it"


def _choose(chosen: NoteFilter) -> tuple[str, list[str]]:
    """Return the condition of a filter with its values."""
    texts, values = ["1 = 1"], []
    for column, value in (("id", chosen.id), ("principal", chosen.principal), ("name", chosen.name)):
        if value:
            values.append(value)
            texts.append(f"n.{column} = ?{len(values)}")
    if chosen.stranger:
        texts.append("n.stranger = 1")
    if chosen.source:
        values += [chosen.source, _read_site(chosen.source), UNKNOWN_SOURCE]
        name, site, unknown = (f"?{len(values) - back}" for back in (2, 1, 0))
        texts.append(
            "exists (select 1 from note_source s where s.note = n.id"  # noqa: S608 - our own text
            f" and (s.name in ({name}, {unknown}) or {site} in (s.place, s.host)))"
        )
    return " and ".join(texts), values


def _read_site(source: str) -> str:
    """Read the site of a link, or the host that a text names, in the form in which notes keep them."""
    from agentserver.provenance.confidentiality.origin import find_link_site

    site = find_link_site(source)
    return (site if "://" in source else _find_host(site)) or source


def _read(row: Sequence[Any]) -> Note:
    *columns, salt, data, sealed = row
    if bytes(sealed) != seal.digest(columns, bytes(salt), bytes(data)):
        raise UnreadableError(f"the note {row[0]} fails its seal")
    try:
        note = NOTES.load(bytes(data))
    except ValueError as error:
        raise UnreadableError(f"the note {row[0]} cannot be read: {error}") from error
    fields = (note.id, str(note.scope), note.owner, note.name, note.principal)
    if fields != tuple(columns[:5]):
        raise UnreadableError(f"the note {row[0]} is not the one of its row")
    return note


def _join_words(note: Note) -> str:
    """Join the words that find a note, of its name and all texts."""
    return " ".join(sorted(split_words(" ".join((note.name, *(span.text for span in note.spans))))))


def _find_host(place: str) -> str:
    """Return the host of a place such as ``https://example.org:8080``."""
    authority = place.partition("://")[2] or place
    return authority if authority.startswith("[") else authority.partition(":")[0]


# Log


def _lock_log(connection: Connection) -> bytes:
    """Lock the log for this transaction. Returns the last link."""
    connection.execute(
        "insert into note_head (one, link) values (1, ?) on conflict (one) do nothing", (seal.GENESIS,)
    )
    row = connection.execute("update note_head set link = link where one = 1 returning link").fetchone()
    return bytes(row[0])


def _unlock_log(connection: Connection, link: bytes) -> None:
    connection.execute("update note_head set link = ? where one = 1", (link,))


def _append(connection: Connection, link: bytes, entry: NoteEntry) -> bytes:
    following = _extend(link, entry)
    connection.execute(
        "insert into note_log (at, action, note, by, digest, link) values (?, ?, ?, ?, ?, ?)",
        (*entry, following),
    )
    return following


def _extend(link: bytes, entry: NoteEntry) -> bytes:
    return blake2b(link + seal.digest(entry[:-1], bytes(entry.digest)), digest_size=32).digest()


def _erase(connection: Connection, link: bytes, keys: Sequence[str], origin: tuple[str, str, float]) -> bytes:
    """Delete notes with their sources and salts, and log it. Returns the last link."""
    action, by, at = origin
    for key in keys:
        salt, data = connection.execute("select salt, data from note where id = ?", (key,)).fetchone()
        digest = seal.digest((key,), bytes(salt), bytes(data))
        link = _append(connection, link, NoteEntry(at, action, key, by, digest))
        connection.execute("delete from note_source where note = ?", (key,))
        connection.execute("delete from note where id = ?", (key,))
    return link
