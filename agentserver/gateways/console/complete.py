"""Completions at the cursor of the console.

Owns the candidates for completion. Pure; refuses to know the prompt that offers them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentserver.gateways.console.lines import ALWAYS, HELP, Verb
from agentserver.gateways.form import field_names
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.gateways.console.lines import Takers


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
    for text, meaning in _known(before.lstrip(), takers, ids):
        if text.startswith(word) and text != word:
            yield WordCompletion(text, -len(word), meaning)


def _known(before: str, takers: Takers, ids: Ids) -> Iterator[tuple[str, str]]:
    head, space, rest = before.partition(" ")
    if head.startswith("/"):
        yield from _arguments(head[1:], rest, ids) if space else _commands()
    elif head.startswith("@"):
        yield from _fields(head[1:], rest, takers) if space else _names(takers)


def _commands() -> Iterator[tuple[str, str]]:
    for verb, (argument, meaning) in HELP.items():
        yield f"/{verb}", f"{argument} {meaning}".strip()


def _arguments(verb: str, rest: str, ids: Ids) -> Iterator[tuple[str, str]]:
    if verb in {Verb.RAW, Verb.HOPS}:
        yield from (("on", ""), ("off", ""))
    elif verb in {Verb.TRACE, Verb.CANCEL}:
        yield from ((conversation, "conversation") for conversation in ids.conversations)
    elif verb == Verb.APPROVE and " " in rest:
        yield ALWAYS, "for the rest of the conversation"
    elif verb in {Verb.APPROVALS, Verb.APPROVE, Verb.DENY}:
        yield from ((approval, "waits for an approval") for approval in ids.approvals)


def _names(takers: Takers) -> Iterator[tuple[str, str]]:
    for name, codecs in takers.items():
        roots = [local(codec.name) for codec in codecs]
        yield f"@{name}", ", ".join(roots)
        if len(roots) > 1:
            yield from ((f"@{name}/{root}", root) for root in roots)


def _fields(head: str, rest: str, takers: Takers) -> Iterator[tuple[str, str]]:
    name, _, root = head.partition("/")
    given = set(re.findall(r"(\S+?)=", rest))
    for codec in takers.get(name, ()):
        if root and local(codec.name) != root:
            continue
        repeated = {each.name for each in codec.outline if each.repeated}
        labels = {each.name: each.label for each in codec.outline}
        for known in field_names(codec):
            if known not in given or known in repeated:
                yield f"{known}=", labels.get(known, "")
