"""Host of the guards of programs, which denies if a guard fails.

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
from agentserver.core.messages import SYSTEM_NAMES
from agentserver.core.records.details import GuardNote
from agentserver.core.state.principals import Trust
from agentserver.guards.base import Guard, Message, describe_unfit
from agentserver.guards.builtin import BUILTIN_GUARDS, digest_content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lxml import etree

    from agentserver.core.blueprint import Listener
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Verdict
    from agentserver.core.messages import Delivery
    from agentserver.payload.codec import Codecs

MEMORY = 1 << 16
"""Maximum bytes of JSON that a guard may store for one conversation."""

DEPTH = 100
"""Maximum levels of lists and objects in a guard's memory, so that any JSON reader can parse it."""

FAULT = 400
"""Maximum characters of a guard's exception that are reported."""

_NULL = b"null"
_KEPT, _APPROVED, _BROKEN = "memory", "permitted", "broken"


class _Memory(NamedTuple):
    """Memory of a guard for one conversation.

    Args:
        stored: the guard's own memory, as JSON.
        approved: the texts that a person approved for the rest of the conversation.
        broken: why the guard can no longer be used in it; empty while it can.
    """

    stored: bytes = _NULL
    approved: frozenset[str] = frozenset()
    broken: str = ""


_NOTHING = _Memory()


class HostedGuard:
    """Adapter between a program's guard and the core.

    Args:
        name: the key of its memory.
        guard: the program's guard.
        codecs: the codecs of all payloads.
        listeners: the organism's listeners, by name.
    """

    def __init__(self, name: str, guard: Guard, codecs: Codecs, listeners: Mapping[str, Listener]) -> None:
        self.name = name
        self._guard = guard
        self._codecs = codecs
        self._own = {*listeners, *SYSTEM_NAMES}
        self.passes_answers = guard.passes_answers is True

    def begin(self, trust: Trust) -> object:  # noqa: ARG002 - what a program's guard is shown does not tell it
        """Return the memory of a new conversation."""
        return self._remember(_NOTHING, self._guard.begin)

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:
        """Return the memory after a message was delivered to a listener."""
        known = _recall(memory)
        if known.broken:
            return memory
        about = (delivery.sender, delivery.to, delivery.root, delivery.origin)
        first = delivery.hop == 1  # of a dead letter as a request of its own it is not known who wrote it
        return self._remember(
            known,
            lambda: self._guard.observe(
                self._decode_message(about, element, at, first=first), json.loads(known.stored)
            ),
        )

    def miss(self, memory: object) -> object:
        """Return the memory after a message that could not be observed."""
        known = _recall(memory)
        if known.broken:
            return memory
        return self._remember(known, lambda: self._guard.miss(json.loads(known.stored)))

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:
        """Ask the program's guard for its verdict. A failure counts as a denial."""
        known = _recall(memory)
        if known.broken:
            return self._deny("rest", known.broken)

        about = (proposal.sender.name, proposal.to, proposal.root, proposal.thread)
        first = proposal.route is not Route.REDRIVEN

        def judge_message() -> Verdict:
            message = self._decode_message(about, proposal.element, at, proposal.route, first=first)
            return self._check_verdict(self._guard.judge(message, json.loads(known.stored)), proposal, known)

        verdict, fault = _attempt(judge_message)
        return self._deny("failed", fault) if fault else verdict

    def approve(self, memory: object, about: tuple[str, ...]) -> object:
        """Add content that a person approved for the rest of the conversation."""
        known = _recall(memory)
        return known._replace(approved=known.approved.union(about))

    def dump(self, memory: object) -> Mapping[str, bytes]:
        """Serialise the memory in parts, leaving out empty ones."""
        known = _recall(memory)
        parts = {
            _APPROVED: json.dumps(sorted(known.approved)).encode() if known.approved else b"",
            _BROKEN: known.broken.encode("utf-8", "backslashreplace"),
        }
        return {_KEPT: known.stored, **{name: part for name, part in parts.items() if part}}

    def load(self, parts: Mapping[str, bytes]) -> object:
        """Restore the memory that ``dump`` serialised; no parts mean a conversation older than the guard.

        Raises ValueError for invalid parts.
        """
        if _KEPT not in parts:
            return self.miss(self.begin(Trust.ORDERS))
        state, approved = parts[_KEPT], frozenset(json.loads(parts.get(_APPROVED, b"[]")))
        json.loads(state)
        return _Memory(state, approved, parts.get(_BROKEN, b"").decode())

    # Inside

    def _decode_message(
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

    def _remember(self, known: _Memory, call: Callable[[], Any]) -> object:
        """Store the memory that a method returns; None if there is nothing to store."""
        state, fault = _attempt(lambda: _to_json(call()))
        after = known._replace(broken=fault) if fault else known._replace(stored=state)
        return None if after == _NOTHING else after

    def _check_verdict(self, verdict: object, proposal: Proposal, known: _Memory) -> Verdict:
        """Copy a verdict into plain values under the guard's name; deny if it is no verdict.

        Inspecting a verdict may run the guard's code, so this runs inside the attempt.
        """
        match verdict:
            case None:
                return None
            case DenyVerdict(reason=str(reason)):
                return self._deny("denies", _to_plain_text(reason))
            case NoteVerdict(reason=str(reason)):
                return NoteVerdict(GuardNote(self.name, _to_plain_text(reason), "notes"))
            case NeedsApproval(question=str(question), about=tuple(about)) if all(
                isinstance(each, str) for each in about
            ):
                patterns = tuple(map(_to_plain_text, about)) or (
                    digest_content(proposal.to, proposal.element),
                )
                if sum(map(len, patterns)) > MEMORY:
                    return self._deny("failed", f"it asks about more than {MEMORY} characters")
                return (
                    None
                    if known.approved.issuperset(patterns)
                    else NeedsApproval(_to_plain_text(question), patterns)
                )
        return self._deny("failed", f"it gave a {type(verdict).__name__}, which is no verdict")

    def _deny(self, how: str, reason: str) -> DenyVerdict:
        return DenyVerdict(Code.DENIED, GuardNote(self.name, reason, how))


class UnobservingGuard(HostedGuard):
    """Adapter for a guard that observes no messages."""

    observe = keep_memory


def host_guards(
    guards: Mapping[str, Guard], codecs: Codecs, listeners: Mapping[str, Listener]
) -> tuple[HostedGuard, ...]:
    """Wrap the guards of a program, in order, for the core.

    Raises:
        TypeError: an object cannot be used as a guard.
        ValueError: a name is the server's own, or a guard's settings do not fit the listeners.
    """
    for name, guard in guards.items():
        objection = describe_unfit(type(guard))
        if objection:
            raise TypeError(f"the guard {name}: {objection}")
        if not name or name in BUILTIN_GUARDS:
            taken = ", ".join(sorted(BUILTIN_GUARDS))
            raise ValueError(f'"{name}" is no name for a guard: the server\'s own are {taken}')
        try:
            guard.check(MappingProxyType(dict(listeners)))
        except ValueError as error:
            raise ValueError(f"the guard {name}: {error}") from error
    return tuple(_choose_host_class(guard)(name, guard, codecs, listeners) for name, guard in guards.items())


def _choose_host_class(guard: Guard) -> type[HostedGuard]:
    return UnobservingGuard if type(guard).observe is Guard.observe else HostedGuard


def merge_guards(*groups: Iterable[tuple[str, Guard]]) -> dict[str, Guard]:
    """Merge several groups of guards in order. Raises ValueError for a duplicate name."""
    found: dict[str, Guard] = {}
    for name, guard in (pair for group in groups for pair in group):
        if name in found:
            raise ValueError(f'two guards are called "{name}": each needs a name of its own')
        found[name] = guard
    return found


def _recall(memory: object) -> _Memory:
    return memory if isinstance(memory, _Memory) else _NOTHING


def _to_plain_text(text: str) -> str:
    """Convert a text to class ``str``, whose methods are Python's. Raises TypeError for other values."""
    return str.__str__(text)


def _to_json(value: Any) -> bytes:
    data = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    if len(data) > MEMORY:
        raise ValueError(f"its memory is more than {MEMORY} bytes")
    if data.count(b"[") + data.count(b"{") > DEPTH and _is_deeper(json.loads(data), DEPTH):
        raise ValueError(f"its memory is more than {DEPTH} levels deep")
    return data


def _is_deeper(value: object, maximum: int) -> bool:
    """Check whether lists and objects are nested deeper than these levels."""
    level = [value]
    for _ in range(maximum + 1):
        level = [
            inner
            for each in level
            if isinstance(each, list | dict)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def _catch(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Run a program's code. Returns its result, or None and the exception."""
    try:
        return call(), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a guard that fails in any way denies
        return None, error


def _attempt(call: Callable[[], Any]) -> tuple[Any, str]:
    """Run a program's code. Returns its result and no fault, or None and a description of the fault.

    Formatting an exception runs the program's code as well, and may raise.
    """
    result, error = _catch(call)
    if error is None:
        return result, ""
    description, undescribed = _catch(lambda: _describe_error(error))
    return None, description if undescribed is None else "the text of its exception raised as well"


def _describe_error(error: BaseException) -> str:
    """Describe an exception with the innermost line of its traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    words = "".join(traceback.format_exception_only(error)).strip()
    return f"{words[:FAULT]}{place}"
