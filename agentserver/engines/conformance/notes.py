"""Checks of notes that outlive conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.engines.conformance.sample import hold
from agentserver.notes import (
    Eraser,
    EraserRole,
    Note,
    NoteFilter,
    NoteLimits,
    NoteQuery,
    NoteScope,
    NoteSource,
    NoteSpan,
    SpanAuthor,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentserver.engines.conformance.sample import Subject

LIMITS = NoteLimits(4, 1000)


def make_note(key: str, author: SpanAuthor, *, name: str = "", owner: str = "ada", text: str = "") -> Note:
    """Make a note of one span, with a source if it is a stranger's."""
    sources = (NoteSource("web", "https://example.org"),) if author is SpanAuthor.STRANGER else ()
    spans = (NoteSpan("text", text or f"the words of {key}", author),)
    return Note(key, NoteScope.PRINCIPAL, owner, name, owner, "desk", "c1", 5.0, spans, sources)


async def a_note_keeps_its_origin(subject: Subject) -> None:
    """Check that notes outlive the engine with their origins, and are found by key, name and words."""
    clean, strange = make_note("1", SpanAuthor.LISTENER), make_note("2", SpanAuthor.STRANGER, name="n")
    own = NoteQuery(NoteScope.PRINCIPAL, "ada", "ada")
    async with subject.open() as engine:
        if engine.notes is None:
            return
        for note in (strange, clean, strange):
            hold(await engine.notes.add(note, LIMITS), "a note is kept, and a repetition too")
    async with subject.open() as engine:
        assert engine.notes is not None
        found = await engine.notes.find(own)
        hold([*found.notes] == [clean, strange], "notes are kept with their origins, clean ones first")
        first = await engine.notes.find(own._replace(limit=1))
        hold((len(first.notes), first.more) == (1, True), "an answer says that there are more")
        for query in (own._replace(id="2"), own._replace(name="n"), own._replace(words="Words 2 OF")):
            hold(
                [*(await engine.notes.find(query)).notes] == [strange], "a note is found by each of its keys"
            )
        other = own._replace(owner="bob", principal="bob")
        hold(not (await engine.notes.find(other)).notes, "another principal's notes are others")


async def a_stranger_crowds_out_no_note(subject: Subject) -> None:
    """Check the limits, and that a stranger's words replace no clean note."""
    own = NoteQuery(NoteScope.PRINCIPAL, "ada", "ada")
    async with subject.open() as engine:
        if engine.notes is None:
            return
        add = engine.notes.add
        hold(await add(make_note("1", SpanAuthor.PRINCIPAL, name="rent"), LIMITS), "a note is kept")
        for key in ("2", "3"):
            hold(await add(make_note(key, SpanAuthor.STRANGER, name="rent" + key), LIMITS), "a note is kept")
        hold(not await add(make_note("4", SpanAuthor.STRANGER), LIMITS), "a stranger has half of the room")
        hold(
            await add(make_note("5", SpanAuthor.STRANGER, name="rent2"), LIMITS), "a stranger's replaces one"
        )
        found = await engine.notes.find(own)
        hold(found.notes[0].id == "1", "and no clean one")
        refused = make_note("8", SpanAuthor.PRINCIPAL, name="rent", text="x" * 1000)
        hold(not await add(refused, LIMITS), "bytes are bounded")
        hold((await engine.notes.find(own)).notes == found.notes, "a refused note replaces none")
        hold(await add(make_note("6", SpanAuthor.LISTENER, name="rent"), LIMITS), "a clean one replaces one")
        remaining = {one.id for one in (await engine.notes.find(own)).notes}
        hold(remaining == {"6", "3", "5"}, "a clean note replaces a clean one")
        hold(not await add(make_note("7", SpanAuthor.LISTENER, text="x" * 1000), LIMITS), "bytes are bounded")


async def a_principal_erases_its_own_notes(subject: Subject) -> None:
    """Check that erased notes stay erased, and that a principal erases no note of another."""
    async with subject.open() as engine:
        if engine.notes is None:
            return
        for note in (make_note("1", SpanAuthor.LISTENER), make_note("2", SpanAuthor.STRANGER, owner="bob")):
            hold(await engine.notes.add(note, LIMITS), "a note is kept")
        ada = Eraser(EraserRole.PRINCIPAL, "ada", "ada")
        hold(not await engine.notes.forget(NoteFilter(id="2"), ada, 6.0), "another's note is not erased")
        hold(await engine.notes.forget(NoteFilter(id="1"), ada, 6.0) == 1, "an own note is erased")
        site = NoteFilter(source="example.org")
        operator = Eraser(EraserRole.OPERATOR, "root")
    async with subject.open() as engine:
        assert engine.notes is not None
        found = [
            [*(await engine.notes.find(NoteQuery(NoteScope.PRINCIPAL, name, name))).notes]
            for name in ("ada", "bob")
        ]
        hold([len(each) for each in found] == [0, 1], "an erased note stays erased")
        hold(await engine.notes.forget(site, operator, 7.0) == 1, "an operator erases by the source's host")


NOTES: tuple[Callable[[Subject], Awaitable[None]], ...] = (
    a_note_keeps_its_origin,
    a_stranger_crowds_out_no_note,
    a_principal_erases_its_own_notes,
)
