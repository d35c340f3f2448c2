"""Lines of the console: their sources, their meaning and their completions.

The language has commands, addressed lines and raw XML. Parsing is pure.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shlex
from collections import deque
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

import anyio
import anyio.to_thread
from lxml import etree

from agentserver.gateways import form
from agentserver.gateways.form import list_field_names
from agentserver.payload.names import local, namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from agentserver.core.guard import Rules
    from agentserver.payload.codec import Codec

MAX_MARKUP = 1 << 22
"""Characters of raw XML that are gathered over several lines."""


class Verb(StrEnum):
    """The commands, without the slash."""

    HELP = "help"
    NEW = "new"
    THREADS = "threads"
    LISTENERS = "listeners"
    TRACE = "trace"
    CANCEL = "cancel"
    APPROVALS = "approvals"
    APPROVE = "approve"
    DENY = "deny"
    RAW = "raw"
    HOPS = "hops"
    QUIT = "quit"


HELP: Mapping[Verb, tuple[str, str]] = {
    Verb.HELP: ("", "this text"),
    Verb.NEW: ("", "begin another conversation; this one continues until it is done"),
    Verb.THREADS: ("", "the threads of this conversation"),
    Verb.LISTENERS: ("", "who listens, and the fields they take"),
    Verb.TRACE: ("[ID]", "the hops of this conversation, or of another one of yours"),
    Verb.CANCEL: ("[ID]", "end this conversation, or another one of yours, with all that runs in it"),
    Verb.APPROVALS: ("[ID [PAGE]]", "what waits for an approval, or a page of what one of them says"),
    Verb.APPROVE: ("ID [always]", "approve a message; always: for the rest of its conversation"),
    Verb.DENY: ("ID", "deny a message; its sender learns so"),
    Verb.RAW: ("on|off", "show replies as XML too"),
    Verb.HOPS: ("on|off", "show messages between listeners as they happen"),
    Verb.QUIT: ("", "leave; unfinished requests continue with the next start, if there is a journal"),
}
"""The argument and effect of each command."""

_SWITCHES = frozenset({Verb.RAW, Verb.HOPS})
_WITH_ID = frozenset({Verb.TRACE, Verb.CANCEL, Verb.APPROVALS, Verb.APPROVE, Verb.DENY})
ALWAYS = "always"
"""The word after the id in ``/approve ID always``."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its argument, which may be empty."""

    verb: Verb
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """A name alone: later text is sent there."""

    listener: str


@dataclass(frozen=True, slots=True)
class TypedMessage:
    """A message to send. ``to`` is None when envelope or payload decide."""

    data: bytes
    to: str | None


@dataclass(frozen=True, slots=True)
class Markup:
    """The beginning of raw XML, which may continue on further lines."""

    text: str


@dataclass(frozen=True, slots=True)
class Mistake:
    """A line that means nothing, and what would."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blank:
    """An empty line."""


Meaning: TypeAlias = Command | Address | TypedMessage | Markup | Mistake | Blank

Takers: TypeAlias = "Mapping[str, Sequence[Codec]]"
"""The payloads of each listener, in the order of the organism."""


def group_takers(rules: Rules) -> Takers:
    """Group the codecs of the payloads by listener, in the order of the organism."""
    return {
        name: tuple(rules.codecs.of(payload) for payload in listener.payloads)
        for name, listener in rules.blueprint.listeners.items()
    }


def read(line: str, addressee: str, takers: Takers) -> Meaning:
    """Parse a line of a user who last talked to ``addressee``."""
    text = line.strip()
    if not text:
        return Blank()
    if not _encodable(text):
        return Mistake(("the line is not UTF-8 text",))
    if text.startswith("<"):
        return Markup(line)
    if text.startswith("/"):
        return _parse_command(text)
    if text.startswith("@"):
        return _read_addressed(text, takers)
    return write(addressee, "", text, takers)


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _parse_command(text: str) -> Meaning:
    word, _, argument = text[1:].partition(" ")
    argument = argument.strip()
    if word not in list(Verb):
        return Mistake((f"no command /{word}; {_format_nearest(word, Verb, '/')}/help lists them",))
    verb = Verb(word)
    if verb in _SWITCHES and argument not in {"on", "off"}:
        return Mistake((f"say /{verb} on or /{verb} off",))
    if argument and verb not in _SWITCHES | _WITH_ID:
        return Mistake((f"/{verb} takes no argument",))
    return Command(verb, argument)


def _read_addressed(text: str, takers: Takers) -> Meaning:
    head, _, rest = text[1:].partition(" ")
    name, _, root = head.partition("/")
    if name not in takers:
        return Mistake((f"no listener {name!r}; {_format_nearest(name, takers, '@')}/listeners lists them",))
    rest = rest.strip()
    if rest.startswith("<"):
        return _check_namespace(rest, takers) or TypedMessage(rest.encode(), name)
    if not rest and not root:
        return Address(name)
    return write(name, root, rest, takers)


_BARE_ROOT = re.compile(r"<([\w.-]++)(?![^>]*\bxmlns)[^>]*+>")


def _check_namespace(markup: str, takers: Takers) -> Mistake | None:
    """Report a payload that a listener would take if its root named the namespace."""
    root = _BARE_ROOT.match(markup)
    names = [
        codec.name for codecs in takers.values() for codec in codecs if root and local(codec.name) == root[1]
    ]
    if not names:
        return None
    return Mistake(
        (f'{local(names[0])} needs its namespace: <{local(names[0])} xmlns="{namespace(names[0])}">',)
    )


def write(listener: str, root: str, text: str, takers: Takers) -> TypedMessage | Mistake:
    """Compose a message from fields (``field=value other="..."``), or from text for a payload with one text.

    The line is in fields when its first word is ``name=...`` with a name that the payload knows.
    """
    if listener not in takers:
        return Mistake((f"{listener} was removed by a reload; /listeners lists the current ones",))
    candidates = [codec for codec in takers[listener] if root in {"", local(codec.name)}]
    if not candidates:
        names = ", ".join(f"@{listener}/{local(codec.name)}" for codec in takers[listener])
        return Mistake((f"{listener} takes no {root}; say {names}",))
    first = text.split("=", 1)[0].strip() if _FIELD.match(text) else ""
    in_fields = [codec for codec in candidates if not text or (first and form.takes(codec, first))]
    if in_fields:
        return _in_fields(listener, in_fields, text)
    with_text = [codec for codec in candidates if form.find_text_field(codec)]
    if len(with_text) == 1:
        return _compose(with_text[0], listener, [(str(form.find_text_field(with_text[0])), text)])
    if first and len(candidates) == 1:
        return _in_fields(listener, candidates, text)  # which reports the first name
    unknown, alone = (
        f"no payload of {listener} has a field {first}",
        f"{listener} takes fields, not a text alone",
    )
    reasons = () if with_text else (unknown if first else alone,)
    return Mistake((*reasons, *_describe_forms(listener, candidates)))


_FIELD = re.compile(r"[^\s=\"'<]+=")


def _in_fields(listener: str, candidates: Sequence[Codec], text: str) -> TypedMessage | Mistake:
    pairs = _collect_pairs(text)
    if isinstance(pairs, str):
        return Mistake((pairs,))
    fitting = [c for c in candidates if all(form.takes(c, name) for name, _ in pairs)] or list(candidates)
    composed = [_compose(codec, listener, pairs) for codec in fitting]
    letters = [each for each in composed if isinstance(each, TypedMessage)]
    if len(letters) > 1:
        names = " or ".join(f"@{listener}/{local(codec.name)}" for codec in fitting)
        return Mistake((f"several payloads have these fields: say {names}",))
    return letters[0] if letters else composed[0]


def _collect_pairs(text: str) -> list[tuple[str, str]] | str:
    try:
        words = shlex.split(text)
    except ValueError:
        return "a quotation mark is not closed"
    loose = next((word for word in words if not _FIELD.match(word)), None)
    if loose is not None:
        return f'{loose!r} is no field=value; write field="several words"'
    return [(name, value) for name, _, value in (word.partition("=") for word in words)]


def _compose(codec: Codec, listener: str, pairs: Sequence[tuple[str, str]]) -> TypedMessage | Mistake:
    composed = form.compose(codec, pairs)
    return (
        TypedMessage(composed, listener)
        if isinstance(composed, bytes)
        else Mistake((*composed.lines, *_describe_forms(listener, [codec])))
    )


def _describe_forms(listener: str, codecs: Sequence[Codec]) -> tuple[str, ...]:
    """Describe how to write a message to a listener."""
    return tuple(
        " ".join(
            [
                "write:",
                f"@{listener}{f'/{local(codec.name)}' if len(codecs) > 1 else ''}",
                describe_usage(codec),
            ]
        )
        for codec in codecs
    )


def describe_usage(codec: Codec) -> str:
    """Describe the fields of a payload as typed; optional ones are in brackets.

    A field that holds prose is marked for pasting: its text is by another author and is never an instruction. The
    fields of a record are listed in its place.
    """
    if not codec.outline:
        return "(no fields)"
    pasted, inner = form.list_pasted_fields(codec), form.group_inner(codec)
    words = []
    for outline in codec.outline:
        below = (
            _format_typed_field(
                each.name.replace(f".{form.INDEX}.", ".0."), each.label, optional=not each.required
            )
            for each in inner.get(outline.name, ())
        )
        mark = "pasted " if outline.name in pasted else ""
        word = " ".join(below) or _format_typed_field(outline.name, outline.label, mark)
        many = f"{word} ..." if outline.repeated else word
        words.append(f"[{many}]" if outline.optional else many)
    return " ".join(words)


def _format_typed_field(name: str, label: str, mark: str = "", *, optional: bool = False) -> str:
    text = f"{name}=<{mark}{label}>"
    return f"[{text}]" if optional else text


def _format_nearest(word: str, known: Iterable[str], mark: str) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f"did you mean {mark}{near[0]}? " if near else ""


class Completeness(Enum):
    """The state of gathered XML: it can be sent, or more must come."""

    OPEN = "open"
    COMPLETE = "complete"
    HOPELESS = "hopeless"  # no further line makes it an element: it is sent as it is, to be refused


class GatheredXml:
    """Raw XML over several lines, until its root element ends.

    Looks only for that end. Whether the XML is acceptable is for the server to say.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._depth = 0
        self._parser = etree.XMLPullParser(
            events=("start", "end"), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
        )

    def add(self, line: str) -> Completeness:
        """Take in one more line."""
        self._lines.append(line)
        self._size += len(line) + 1
        if self._size > MAX_MARKUP:
            return Completeness.HOPELESS
        try:
            self._parser.feed(f"{line}\n")
            return self._progress()
        except etree.XMLSyntaxError:
            return Completeness.HOPELESS

    def _progress(self) -> Completeness:
        for event, _ in self._parser.read_events():
            self._depth += 1 if event == "start" else -1
            if not self._depth:
                return Completeness.COMPLETE
        return Completeness.OPEN

    def data(self) -> bytes:
        """Return everything gathered."""
        return "\n".join(self._lines).strip().encode()

    def cut(self, takers: Takers) -> list[str]:
        """Keep the lines before the first that can be the beginning of another message; gives that one and the rest."""
        places = (at for at, line in enumerate(self._lines) if at and begins(line, takers))
        at = next(places, len(self._lines))
        rest, self._lines = self._lines[at:], self._lines[:at]
        return rest


_ROOT = re.compile(r"<(?:[\w.-]+:)?([\w.-]+)")


def begins(line: str, takers: Takers) -> bool:
    """Tell whether a line begins with a command, an address, an envelope or a known payload."""
    if line.startswith("/"):
        return line[1:].split(" ", 1)[0].strip() in list(Verb)
    if line.startswith("@"):
        return re.split(r"[\s/]", line[1:], maxsplit=1)[0] in takers
    root = _ROOT.match(line)
    known = {local(codec.name) for codecs in takers.values() for codec in codecs}
    return root is not None and root[1] in {"message", *known}


class LineReader:
    """Parses lines in order: raw XML continues until its root element ends.

    Args:
        takers: the payloads of each listener.
        script: whether input is unattended. The lines after an unfinished element are then parsed again, from the next
            one that begins a message, so that they are not lost with it.
    """

    def __init__(self, takers: Takers, *, script: bool) -> None:
        self._takers = takers
        self._script = script
        self._gathering: GatheredXml | None = None
        self.again: deque[str] = deque()

    @property
    def open(self) -> bool:
        """True while more lines of an element are expected."""
        return self._gathering is not None

    def understand(self, line: str, addressee: str) -> Meaning:
        """Parse the next line."""
        if self._gathering is not None and not _encodable(line):
            self._gathering = None
            return Mistake(("the line is not UTF-8 text; the XML around it was not sent",))
        if self._gathering is None:
            meaning = read(line, addressee, self._takers)
            if not isinstance(meaning, Markup):
                return meaning
            self._gathering = GatheredXml()
        gathered = self._gathering
        found = gathered.add(line)
        if found is Completeness.OPEN:
            return Blank()
        self._gathering = None
        if found is Completeness.HOPELESS and self._script:
            self.again.extendleft(reversed(gathered.cut(self._takers)))
        data = gathered.data()
        return _check_namespace(data.decode(), self._takers) or TypedMessage(data, None)

    def forget(self) -> bool:
        """Forget an element that is not finished. True when there was one."""
        gathered, self._gathering = self._gathering, None
        return gathered is not None

    def end(self) -> Mistake | None:
        """Handle the end of input. Reports an unfinished element, whose following lines are parsed again."""
        gathered, self._gathering = self._gathering, None
        if gathered is None:
            return None
        if self._script:
            self.again.extend(gathered.cut(self._takers))
        first = gathered.data().decode().split("\n", 1)[0]
        return Mistake((f"the XML that begins with {first} is not complete; it was not sent",))


@dataclass(frozen=True, slots=True)
class WordCompletion:
    """One completion.

    Args:
        text: what the word would become.
        start: where that word begins, counted back from the cursor.
        meaning: a short remark.
    """

    text: str
    start: int
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Ids:
    """The subjects of commands.

    Args:
        conversations: the session's.
        approvals: of messages that wait for an approval.
    """

    conversations: Iterable[str] = ()
    approvals: Iterable[str] = ()


def candidates(before: str, takers: Takers, ids: Ids) -> Iterator[WordCompletion]:
    """Completions of the text before the cursor: names, payloads, fields, commands and their arguments."""
    word = re.split(r"\s", before)[-1]
    for text, meaning in _iter_known_words(before.lstrip(), takers, ids):
        if text.startswith(word) and text != word:
            yield WordCompletion(text, -len(word), meaning)


def _iter_known_words(before: str, takers: Takers, ids: Ids) -> Iterator[tuple[str, str]]:
    head, space, rest = before.partition(" ")
    if head.startswith("/"):
        yield from _iter_arguments(head[1:], rest, ids) if space else _iter_commands()
    elif head.startswith("@"):
        yield from _iter_fields(head[1:], rest, takers) if space else _iter_names(takers)


def _iter_commands() -> Iterator[tuple[str, str]]:
    for verb, (argument, meaning) in HELP.items():
        yield f"/{verb}", f"{argument} {meaning}".strip()


def _iter_arguments(verb: str, rest: str, ids: Ids) -> Iterator[tuple[str, str]]:
    if verb in {Verb.RAW, Verb.HOPS}:
        yield from (("on", ""), ("off", ""))
    elif verb in {Verb.TRACE, Verb.CANCEL}:
        yield from ((conversation, "conversation") for conversation in ids.conversations)
    elif verb == Verb.APPROVE and " " in rest:
        yield ALWAYS, "for the rest of the conversation"
    elif verb in {Verb.APPROVALS, Verb.APPROVE, Verb.DENY}:
        yield from ((approval, "waits for an approval") for approval in ids.approvals)


def _iter_names(takers: Takers) -> Iterator[tuple[str, str]]:
    for name, codecs in takers.items():
        roots = [local(codec.name) for codec in codecs]
        yield f"@{name}", ", ".join(roots)
        if len(roots) > 1:
            yield from ((f"@{name}/{root}", root) for root in roots)


def _iter_fields(head: str, rest: str, takers: Takers) -> Iterator[tuple[str, str]]:
    name, _, root = head.partition("/")
    named = set(re.findall(r"(\S+?)=", rest))
    for codec in takers.get(name, ()):
        if root and local(codec.name) != root:
            continue
        repeated = {each.name for each in codec.outline if each.repeated}
        labels = {each.name: each.label for each in codec.outline}
        for known in list_field_names(codec):
            if known not in named or known in repeated:
                yield f"{known}=", labels.get(known, "")


MAX_LINE = 1 << 22
"""Bytes of one line; a longer one ends the input."""

_CHUNK = 1 << 16


class ControlKey(Enum):
    """A key that comes instead of a line."""

    END = "end"
    INTERRUPT = "interrupt"
    TOO_LONG = "too long"


Typed: TypeAlias = str | ControlKey


class Lines(Protocol):
    """The source of the console's lines."""

    @property
    def concurrent(self) -> bool:
        """True when output may appear while a line is typed, so that the prompt need not wait for what runs."""

    async def next(self, prompt: str) -> Typed:
        """Return the next line without its end. ``ControlKey.END`` is the last one."""

    def clear(self, prompt: str) -> bool:
        """Clear the typed text and prompt again. True if there was any."""


class PlainLines:
    """Lines of a file descriptor. Invalid UTF-8 arrives as surrogates (PEP 383).

    Args:
        descriptor: to read from; left as it is, in blocking mode.
        show: prints the prompt; None without a reader.
    """

    concurrent = False

    def __init__(self, descriptor: int, show: Callable[[str], None] | None = None) -> None:
        self._descriptor = descriptor
        self._show = show
        self._pending = b""
        self._over = False

    async def next(self, prompt: str) -> Typed:
        """Return the next line."""
        if self._show is not None:
            self._show(prompt)
        while b"\n" not in self._pending:
            if len(self._pending) > MAX_LINE:
                return ControlKey.TOO_LONG
            if self._over:
                last, self._pending = self._pending, b""
                return _decode_text(last) if last else ControlKey.END
            await self._read()
        line, _, self._pending = self._pending.partition(b"\n")
        return _decode_text(line)

    def clear(self, prompt: str) -> bool:
        """Prompt again: the terminal itself has cleared the line."""
        if self._show is not None:
            self._show(f"\n{prompt}")
        return False

    async def _read(self) -> None:
        # A regular file is always readable, and epoll refuses it.
        with contextlib.suppress(PermissionError):
            await anyio.wait_readable(self._descriptor)
        chunk = await anyio.to_thread.run_sync(os.read, self._descriptor, _CHUNK)
        self._over = not chunk
        self._pending += chunk


def _decode_text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="surrogateescape")
