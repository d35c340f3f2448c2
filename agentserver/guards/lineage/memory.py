"""Memory of the lineage guard for a conversation, and its serialised parts.

Untrusted text is bounded by ``Policy.limit`` and TEXTS; beyond, every sink is refused. Content that only authorises
stops growing instead: records beyond RECORDS and trusted words beyond WORDS authorise nothing, requests beyond REQUESTS
threads or ASKED characters count as unknown, approvals beyond APPROVALS are asked for again. Relayed text beyond
``RELAYED`` characters is missing in explanations.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from agentserver.codec import write_json
from agentserver.core.state.principals import Trust
from agentserver.guards.lineage.exposure import UNKNOWN_TEXT, Exposure
from agentserver.guards.lineage.references import References
from agentserver.provenance.copies import change
from agentserver.provenance.endorsements import split_subjects
from agentserver.provenance.evidence.labels import Leaf
from agentserver.provenance.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentserver.guards.lineage.exposure import FirstText, Recall
    from agentserver.guards.lineage.references import InsertedValues, ReferencedValue

TEXTS = 200_000
"""Maximum untrusted texts, including those wrapped in others."""
RECORDS = 20_000
"""Maximum values that the system guarantees."""
WORDS = 1_000_000
"""Maximum characters of trusted words."""
REQUESTS = 64
"""Maximum threads whose latest request is remembered."""
ASKED = 20_000
"""Maximum characters of one thread's latest request."""
APPROVALS = 1000
"""Maximum values that a person approved."""

PIECE = 1 << 15
"""Bytes after which a piece of the log is closed and never rewritten."""

_STATE, _LOG, _THREAD = "state", "log ", "thread "


@dataclass(frozen=True, slots=True)
class Log:
    """Contents of a ledger, as a line of JSON for each step that added something."""

    closed: tuple[bytes, ...] = ()
    lines: tuple[bytes, ...] = ()
    size: int = 0

    def add(self, entry: Mapping[str, list[Any]]) -> Log:
        """Add a line."""
        line = write_json(entry)
        if self.size + len(line) < PIECE:
            return Log(self.closed, (*self.lines, line), self.size + len(line))
        return Log((*self.closed, b"\n".join((*self.lines, line))))

    def list_pieces(self) -> tuple[bytes, ...]:
        """List the pieces of the log. Only the last one can still change."""
        return (*self.closed, b"\n".join(self.lines)) if self.lines else self.closed


class PendingLog:
    """Log of a ledger and an exposure, which is written when somebody asks for it: most memories are never stored.

    The log depends on these alone and on what else was added. All memories that have it have equal ones.

    Args:
        before: the log of their earlier versions.
        ledger: the ledger at that time; None at the beginning.
        exposure: the exposure at that time; None at the beginning.
        added: further entries since then.
    """

    __slots__ = ("_added", "_before", "_exposure", "_ledger", "_written")

    def __init__(
        self,
        before: Log = Log(),
        ledger: Ledger | None = None,
        exposure: Exposure | None = None,
        added: tuple[Mapping[str, list[Any]], ...] = (),
    ) -> None:
        self._before, self._ledger, self._exposure, self._added = before, ledger, exposure, added
        self._written: tuple[Log, Ledger, Exposure] | None = None

    @classmethod
    def begin(cls) -> PendingLog:
        """Begin the log of a new conversation."""
        return cls()

    def extend(self, *added: Mapping[str, list[Any]]) -> PendingLog:
        """Return the log of a ledger and an exposure that grew from these, with further entries."""
        if self._written is not None:
            return PendingLog(*self._written, added)
        return PendingLog(self._before, self._ledger, self._exposure, (*self._added, *added))

    def write(self, ledger: Ledger, exposure: Exposure) -> Log:
        """Write the log of this ledger and this exposure, once."""
        if self._written is None:
            log = self._before
            grown = ledger.additions_since(self._ledger or Ledger())
            grown["exposed"] = exposure.dump_additions_since(self._exposure or Exposure())
            for entry in ({name: rows for name, rows in grown.items() if rows}, *self._added):
                log = log.add(entry) if entry else log
            self._written = log, ledger, exposure
        return self._written[0]


class LastRequest(NamedTuple):
    """Latest request to the listener of a thread.

    Args:
        thread: the listener's thread.
        origin: the thread of the requester. A message from another thread is an answer.
        texts: the texts of the request; None if they were too long.
        data: origin, texts and steps, serialised.
        steps: numbers of the plan's steps that the request is a call of.
        arguments: the texts as arguments of a call; empty if they are unknown.
    """

    thread: str
    origin: str
    texts: tuple[str, ...] | None
    data: bytes
    steps: tuple[int, ...] = ()
    arguments: tuple[Leaf, ...] = ()

    @classmethod
    def create(
        cls, thread: str, origin: str, texts: Iterable[str] | None, steps: Iterable[int] = ()
    ) -> LastRequest:
        """Create a request on a thread, dropping texts that are too long."""
        request = None if texts is None else tuple(texts)
        if request is not None and sum(map(len, request)) > ASKED:
            request = None
        known = tuple(steps)
        data = write_json([origin, request, known] if known else [origin, request])
        arguments = tuple([Leaf("", text) for text in request or ()])
        return cls(thread, origin, request, data, known, arguments)


@dataclass(frozen=True, slots=True)
class Memory:
    """Immutable memory of the guard for one conversation.

    Args:
        ledger: the observed texts and records.
        step: the number of delivered messages.
        requests: the latest request of each thread, in order of time.
        approved: digests of the content that a person approved for the rest of the conversation.
        log: the contents of the ledger, references and exposure, serialised when they are stored.
        exposure: the listeners that untrusted text reached.
        clean: whether nothing untrusted or private was seen and no listener is exposed. It is derived, and cached to
            keep messages of clean conversations cheap.
        references: the references that listeners have seen.
        trust: the trust in the conversation's principal.
    """

    ledger: Ledger = field(default_factory=Ledger)
    step: int = 0
    requests: tuple[LastRequest, ...] = ()
    approved: frozenset[str] = frozenset()
    log: PendingLog = field(default_factory=PendingLog.begin, compare=False, repr=False)
    exposure: Exposure = field(default_factory=Exposure)
    clean: bool = field(default=True, compare=False, repr=False)
    references: References = field(default=References(), repr=False)
    trust: Trust = Trust.ORDERS

    @classmethod
    def unknown(cls) -> Memory:
        """Create the memory of an unknown conversation: over the bound, with every listener exposed."""
        return cls(replace(Ledger(), overflow=True), exposure=Exposure(everyone=UNKNOWN_TEXT), clean=False)

    def next_step(self) -> Memory:
        """Advance to the next step."""
        return Memory(
            self.ledger,
            self.step + 1,
            self.requests,
            self.approved,
            self.log,
            self.exposure,
            self.clean,
            self.references,
            self.trust,
        )

    def add_order(self, words: str) -> Memory:
        """Add words of a trusted principal. The same words to several listeners count once."""
        known = self.ledger.queries
        if words in known or sum(map(len, known)) + len(words) > WORDS:
            return self
        return self.grow(self.ledger.ask(words))

    def grow(self, ledger: Ledger) -> Memory:
        """Replace the ledger by one that grew from it."""
        before = self.ledger
        if ledger is before:
            return self
        ledger = limit_growth(before, ledger)
        clean = self.clean and _is_clean(ledger)
        return change(self, ledger=ledger, log=self.log.extend(), clean=clean)

    def suppose(self, ledger: Ledger) -> Memory:
        """Replace the ledger for one judgement, without storing it."""
        return change(self, ledger=limit_growth(self.ledger, ledger))

    def miss(self) -> Memory:
        """Account for a message whose content is unknown."""
        everybody = self.exposure.everyone or UNKNOWN_TEXT._replace(step=self.step)
        known = change(self, exposure=replace(self.exposure, everyone=everybody))
        return known.grow(replace(self.ledger, overflow=True))

    def expose(self, listener: str, thread: str, recall: Recall, text: FirstText) -> Memory:
        """Record that a listener received untrusted text on a thread."""
        exposure = self.exposure.expose(listener, thread, recall, text)
        return change(self, exposure=exposure, log=self.log.extend(), clean=False)

    def spend_closed(self, bits: float) -> Memory:
        """Add bits that an exposed sender passed on in a closed schema."""
        exposure = replace(self.exposure, bits=self.exposure.bits + bits)
        return change(self, exposure=exposure, ledger=self.ledger.spend(bits))

    def record_request(
        self, thread: str, origin: str, texts: Iterable[str], steps: Iterable[int] = ()
    ) -> Memory:
        """Record a request to a listener's thread. An answer there only renews the thread's request."""
        known = self.find_request(thread)
        others = tuple([request for request in self.requests if request.thread != thread])[1 - REQUESTS :]
        if known is not None and known.origin != origin:
            return change(self, requests=(*others, known))
        return change(self, requests=(*others, LastRequest.create(thread, origin, texts, steps)))

    def find_request(self, thread: str) -> LastRequest | None:
        """Look up the latest request to the listener of a thread, with its texts or without."""
        for request in self.requests:
            if request.thread == thread:
                return request
        return None

    def add_references(self, added: Mapping[str, ReferencedValue]) -> Memory:
        """Add references that a listener saw, up to the bounds."""
        fitting = self.references.select_fitting(added)
        if not fitting:
            return self
        rows = [[name, *each] for name, each in fitting.items()]
        log = self.log.extend({"references": rows})
        return change(self, references=self.references.add(fitting), log=log, clean=False)

    def record_put_in(self, stamped: str, put_in: InsertedValues) -> Memory:
        """Record that references in a message were replaced by their values."""
        if self.references.put_in.get(stamped) == put_in:
            return self
        log = self.log.extend({"put_in": [[stamped, *put_in]]})
        return change(self, references=self.references.record_put_in(stamped, put_in), log=log)

    def approve(self, about: Iterable[str]) -> Memory:
        """Add digests of approved content, and endorsements."""
        digests, subjects = split_subjects(about)
        ledger = self.ledger
        for subject in subjects:
            ledger = ledger.endorse(subject)
        approved = self.approved | frozenset(digests)
        return replace(
            self, ledger=ledger, approved=approved if len(approved) <= APPROVALS else self.approved
        )

    def settle(self, about: Iterable[str], at: float) -> Memory | None:
        """Count a message whose question waits, if endorsements answer it; None if they do not."""
        digests, subjects = split_subjects(about)
        ledger: Ledger | None = None if digests or not subjects else self.ledger
        for subject in subjects:
            ledger = None if ledger is None else ledger.settle_endorsed(subject, at)
        return None if ledger is None else change(self, ledger=ledger)


def limit_growth(before: Ledger, ledger: Ledger) -> Ledger:
    """Undo the growth of a ledger beyond its bounds."""
    if ledger.untrusted.texts.length > TEXTS:
        ledger = replace(before, overflow=True)
    if ledger.records.entries.length > RECORDS:
        ledger = replace(ledger, records=before.records, recorded=before.recorded)
    return ledger


def _is_clean(ledger: Ledger) -> bool:
    """Check that the ledger holds nothing that a message could carry on."""
    private = ledger.private
    return not (ledger.tainted or private.pools or private.overflow)


def dump_memory(memory: Memory) -> dict[str, bytes]:
    """Serialise the memory in parts. A part that a step has not changed keeps its bytes."""
    log = memory.log.write(memory.ledger, memory.exposure)
    parts = {f"{_LOG}{number}": piece for number, piece in enumerate(log.list_pieces())}
    parts.update({f"{_THREAD}{request.thread}": request.data for request in memory.requests})
    order = [request.thread for request in memory.requests]
    exposure = memory.exposure.dump_state()
    trust = () if memory.trust is Trust.ORDERS else (memory.trust,)
    state = [memory.step, order, sorted(memory.approved), memory.ledger.state(), exposure, *trust]
    return {**parts, _STATE: write_json(state)}


def load_memory(parts: Mapping[str, bytes]) -> Memory:
    """Restore the memory that ``dump_memory`` serialised.

    Raises ValueError, LookupError or TypeError for other parts.
    """
    step, order, approved, state, exposed, *trust = json.loads(parts[_STATE])
    pieces = [parts[f"{_LOG}{number}"] for number in range(sum(name.startswith(_LOG) for name in parts))]
    presented = ("references", "put_in")
    names = ("queries", "texts", "records", "relayed", "sayings", "exposed", "private", *presented)
    held: dict[str, list[Any]] = {name: [] for name in names}
    log = Log()
    for line in (line for piece in pieces for line in piece.split(b"\n")):
        entry = json.loads(line)
        log = log.add(entry)
        for name, added in entry.items():
            held[name] += added
    reached = held.pop("exposed")
    references = References.load(held.pop("references"), held.pop("put_in"))
    ledger = Ledger.load({**held, **state})
    exposure = Exposure.load(reached, exposed)
    return Memory(
        ledger,
        step,
        tuple(LastRequest.create(thread, *json.loads(parts[f"{_THREAD}{thread}"])) for thread in order),
        frozenset(approved),
        PendingLog(log, ledger, exposure),
        exposure,
        _is_clean(ledger) and exposure.is_empty and not references.known,
        references,
        *map(Trust, trust),
    )
