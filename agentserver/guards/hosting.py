"""Host of the guards of programs: a guard that fails denies.

A guard gets copies, so that it can change neither messages nor memory.
"""

from __future__ import annotations

import json
import traceback
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from agentserver.contract import Code
from agentserver.core.drafts.routing import Route
from agentserver.core.guard import DenyVerdict, NeedsApproval, NoteVerdict, keep_memory
from agentserver.core.messages import SYSTEM, TODO
from agentserver.core.records.details import GuardNote
from agentserver.core.state.principals import Trust
from agentserver.guards.approval import content
from agentserver.guards.base import Guard, Message, unfit
from agentserver.guards.own import OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lxml import etree

    from agentserver.core.blueprint import Listener
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Verdict
    from agentserver.core.messages import Delivery
    from agentserver.payload.codec import Codecs

MEMORY = 1 << 16
"""Bytes of JSON that a guard may remember of one conversation."""

DEPTH = 100
"""Levels of lists and objects in a guard's memory: what is kept can be read again, however deep the reader's stack."""

FAULT = 400
"""Characters of what a guard raised that are told."""

_NULL = b"null"
_KEPT, _APPROVED, _BROKEN = "memory", "permitted", "broken"


class _Memory(NamedTuple):
    """A guard's memory of one conversation.

    Args:
        kept: the guard's own, as JSON.
        approved: what a person approved for the rest of the conversation.
        broken: why the guard cannot go on in it; empty while it can.
    """

    kept: bytes = _NULL
    approved: frozenset[str] = frozenset()
    broken: str = ""


_NOTHING = _Memory()


class HostedGuard:
    """A program's guard as the core asks it.

    Args:
        name: the key of its memory.
        guard: the program's.
        codecs: of every payload.
        listeners: the organism's, by name.
    """

    def __init__(self, name: str, guard: Guard, codecs: Codecs, listeners: Mapping[str, Listener]) -> None:
        self.name = name
        self._guard = guard
        self._codecs = codecs
        self._own = {*listeners, SYSTEM, TODO}

    def opened(self, trust: Trust) -> object:  # noqa: ARG002 - what a program's guard is shown does not tell it
        """The memory of a conversation that begins."""
        return self._remembered(_NOTHING, self._guard.opened)

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:
        """The memory after a listener was given a message."""
        known = _known(memory)
        if known.broken:
            return memory
        about = (delivery.sender, delivery.to, delivery.root, delivery.origin)
        first = delivery.hop == 1  # of a dead letter as a request of its own it is not known who wrote it
        return self._remembered(
            known,
            lambda: self._guard.observe(
                self._message(about, element, at, first=first), json.loads(known.kept)
            ),
        )

    def missed(self, memory: object) -> object:
        """The memory after a message that could not be observed."""
        known = _known(memory)
        if known.broken:
            return memory
        return self._remembered(known, lambda: self._guard.missed(json.loads(known.kept)))

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:
        """The program's verdict, which can be no milder than none."""
        known = _known(memory)
        if known.broken:
            return self._denied("rest", known.broken)

        about = (proposal.sender.name, proposal.to, proposal.root, proposal.thread)
        first = proposal.route is not Route.REDRIVEN

        def judged() -> Verdict:
            message = self._message(about, proposal.element, at, proposal.route, first=first)
            return self._verdict(self._guard.judge(message, json.loads(known.kept)), proposal, known)

        verdict, fault = _attempted(judged)
        return self._denied("failed", fault) if fault else verdict

    def approve(self, memory: object, about: tuple[str, ...]) -> object:
        """The memory after a person approved something for the rest of the conversation."""
        known = _known(memory)
        return known._replace(approved=known.approved.union(about))

    def dump(self, memory: object) -> Mapping[str, bytes]:
        """The memory in parts, without those that hold nothing."""
        known = _known(memory)
        parts = {
            _APPROVED: json.dumps(sorted(known.approved)).encode() if known.approved else b"",
            _BROKEN: known.broken.encode("utf-8", "backslashreplace"),
        }
        return {_KEPT: known.kept, **{name: part for name, part in parts.items() if part}}

    def load(self, parts: Mapping[str, bytes]) -> object:
        """The memory of which ``dump`` gave these parts; none are of a conversation that is older than the guard.

        Raises ValueError for others.
        """
        if _KEPT not in parts:
            return self.missed(self.opened(Trust.ORDERS))
        kept, approved = parts[_KEPT], frozenset(json.loads(parts.get(_APPROVED, b"[]")))
        json.loads(kept)
        return _Memory(kept, approved, parts.get(_BROKEN, b"").decode())

    # Inside

    def _message(
        self,
        about: tuple[str, str, str, str],
        element: etree._Element,
        at: float,
        route: Route | None = None,
        *,
        first: bool,
    ) -> Message:
        sender, to, root, thread = about

        def decode() -> Any:
            codec = self._codecs.for_root(root)
            if codec is None:
                raise LookupError(f"no class is known for {root}")
            return codec.decode(element)

        return Message(
            sender,
            to,
            datetime.fromtimestamp(at, UTC),
            root,
            thread,
            outside=first and sender not in self._own,
            route=route,
            decode=decode,
        )

    def _remembered(self, known: _Memory, call: Callable[[], Any]) -> object:
        """The memory that a method gives; None for nothing at all, so that nothing is kept of it."""
        kept, fault = _attempted(lambda: _as_json(call()))
        after = known._replace(broken=fault) if fault else known._replace(kept=kept)
        return None if after == _NOTHING else after

    def _verdict(self, verdict: object, proposal: Proposal, known: _Memory) -> Verdict:
        """The verdict with the guard's name, in values that run none of its code; a denial for what is no verdict.

        To look at a verdict may run the guard's code too, so this is part of what is attempted.
        """
        match verdict:
            case None:
                return None
            case DenyVerdict(reason=str(reason)):
                return self._denied("denies", _plain(reason))
            case NoteVerdict(reason=str(reason)):
                return NoteVerdict(GuardNote(self.name, _plain(reason), "notes"))
            case NeedsApproval(question=str(question), about=tuple(about)) if all(
                isinstance(each, str) for each in about
            ):
                asked = tuple(map(_plain, about)) or (content(proposal.to, proposal.element),)
                if sum(map(len, asked)) > MEMORY:
                    return self._denied("failed", f"it asks about more than {MEMORY} characters")
                return None if known.approved.issuperset(asked) else NeedsApproval(_plain(question), asked)
        return self._denied("failed", f"it gave a {type(verdict).__name__}, which is no verdict")

    def _denied(self, how: str, why: str) -> DenyVerdict:
        return DenyVerdict(Code.DENIED, GuardNote(self.name, why, how))


class UnobservingGuard(HostedGuard):
    """A program's guard that remembers nothing of what listeners are given."""

    observe = keep_memory


def hosted(
    guards: Mapping[str, Guard], codecs: Codecs, listeners: Mapping[str, Listener]
) -> tuple[HostedGuard, ...]:
    """The guards of a program by name, in order, as the core asks them.

    Raises:
        TypeError: one is no guard that can be asked.
        ValueError: a name is the server's own, or a guard's settings do not fit the listeners.
    """
    for name, guard in guards.items():
        objection = unfit(type(guard))
        if objection:
            raise TypeError(f"the guard {name}: {objection}")
        if not name or name in OWN:
            taken = ", ".join(sorted(OWN))
            raise ValueError(f'"{name}" is no name for a guard: the server\'s own are {taken}')
        try:
            guard.check(MappingProxyType(dict(listeners)))
        except ValueError as error:
            raise ValueError(f"the guard {name}: {error}") from error
    return tuple(_hosting(guard)(name, guard, codecs, listeners) for name, guard in guards.items())


def _hosting(guard: Guard) -> type[HostedGuard]:
    return UnobservingGuard if type(guard).observe is Guard.observe else HostedGuard


def named(*groups: Iterable[tuple[str, Guard]]) -> dict[str, Guard]:
    """The guards of several groups in order. Raises ValueError for a name that two of them bear."""
    found: dict[str, Guard] = {}
    for name, guard in (pair for group in groups for pair in group):
        if name in found:
            raise ValueError(f'two guards are called "{name}": each needs a name of its own')
        found[name] = guard
    return found


def _known(memory: object) -> _Memory:
    return memory if isinstance(memory, _Memory) else _NOTHING


def _plain(text: str) -> str:
    """The text as one of class ``str``, whose methods are Python's. Raises TypeError for what is no text."""
    return str.__str__(text)


def _as_json(value: Any) -> bytes:
    kept = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    if len(kept) > MEMORY:
        raise ValueError(f"its memory is more than {MEMORY} bytes")
    if kept.count(b"[") + kept.count(b"{") > DEPTH and _deeper(json.loads(kept), DEPTH):
        raise ValueError(f"its memory is more than {DEPTH} levels deep")
    return kept


def _deeper(value: object, most: int) -> bool:
    """True when lists and objects stand in one another by more levels than these."""
    level = [value]
    for _ in range(most + 1):
        level = [
            inner
            for each in level
            if isinstance(each, list | dict)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def _caught(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """The result of a program's code, or None and what it raised."""
    try:
        return call(), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a guard that fails in any way denies
        return None, error


def _attempted(call: Callable[[], Any]) -> tuple[Any, str]:
    """The result of a program's code and no fault, or None and the fault in words.

    The words of an exception are the program's code as well, and may raise another.
    """
    result, error = _caught(call)
    if error is None:
        return result, ""
    told, untold = _caught(lambda: _told(error))
    return None, told if untold is None else "the text of its exception raised as well"


def _told(error: BaseException) -> str:
    """An exception in words, with the innermost line that it passed."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    words = "".join(traceback.format_exception_only(error)).strip()
    return f"{words[:FAULT]}{place}"
